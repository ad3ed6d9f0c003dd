// Where the rows of a join's built side lie, by hash.
#pragma once

#include <bit>
#include <deque>
#include <vector>

#include "operators/text.hpp"

namespace mgi::operators {

// Rows of a table in the order of their hashes' slots, and for each slot where they end. Made to be
// looked at in any order: a slot has two bytes, 8 tag bits that tell most hashes without a row, and the
// end of its rows, counted from where the rows of 16 slots (a line) start. A line of more rows than
// that can count has its ends elsewhere.
//
// Filled in steps: rows are counted, then laid out, then each takes the next place of its slot. Parts
// are independent of each other; groups may fill one each. After that it is only read.
class JoinDirectory {
    static constexpr u32 kTagBits = 8;
    static constexpr u32 kOne = 1u << kTagBits;
    static constexpr u32 kFull = 255u << kTagBits;
    static constexpr u64 kLine = 16;

    struct Overflow {
        u64 first = 0;
        u64 ends[kLine] = {};
    };

    // A line is its first row * 2, or where its ends are, + 1.
    static Overflow* overflow(u64 line) {
        return (line & 1) != 0 ? std::bit_cast<Overflow*>(line - 1) : nullptr;
    }

public:
    // Memory for so many rows.
    static u64 bytes(u64 rows);
    // Throws Error(OutOfMemory).
    void allocate(u64 rows, u32 parts);

    [[nodiscard]] u64 slot_of(u32 hash) const { return hash >> shift_; }
    void prefetch_tags(u64 slot) const { __builtin_prefetch(entries() + slot); }
    void prefetch_line(u64 slot) const { __builtin_prefetch(lines_.as<u64>() + slot / kLine); }
    void prefetch(u64 slot) const {
        prefetch_tags(slot);
        prefetch_line(slot);
    }

    class Part {
    public:
        Part(JoinDirectory& directory, u32 part);

        [[nodiscard]] bool has(u64 slot) const { return slot >= first_ && slot < last_; }
        void count(u64 slot, u32 hash) {
            u16& entry = entries_[slot];
            u32 const counted = entry < kFull ? kOne : 0;
            entry = u16((entry + counted) | 1u << hash % kTagBits);
        }
        // After that: whether there are lines with too many rows, which are to be counted again.
        [[nodiscard]] bool overflows();
        void count_again(u64 slot) {
            if (Overflow* const line = overflow(lines_[slot / kLine])) ++line->ends[slot % kLine];
        }
        // Rows counted.
        [[nodiscard]] u64 rows() const;
        // Says where the part's first row lies; its others follow.
        void lay_out(u64 row);
        // Where the slot's next row goes.
        u64 next(u64 slot) {
            u64 const line = lines_[slot / kLine];
            if (Overflow* const ends = overflow(line)) return ends->ends[slot % kLine]++;
            u64 const row = (line >> 1) + (entries_[slot] >> kTagBits);
            entries_[slot] = u16(entries_[slot] + kOne);
            return row;
        }

    private:
        u64 rows_of(u64 line) const;

        u64 first_;
        u64 last_;
        u16* entries_;
        u64* lines_;
        std::deque<Overflow>* overflows_;
    };

    // Whether a row of the hash's slot can have the hash.
    [[nodiscard]] bool may_have(u32 hash) const {
        return (entries()[slot_of(hash)] >> hash % kTagBits & 1) != 0;
    }
    // Rows of the hash's slot: [first, last).
    struct Rows {
        u64 first;
        u64 last;
    };
    [[nodiscard]] Rows find(u32 hash) const {
        u64 const slot = slot_of(hash);
        u64 const in_line = slot % kLine;
        u64 const line = lines_.as<u64>()[slot / kLine];
        u16 const* const entry = entries() + slot;
        if (Overflow const* const ends = overflow(line)) [[unlikely]] {
            return {in_line == 0 ? ends->first : ends->ends[in_line - 1], ends->ends[in_line]};
        }
        u64 const before = u64(entry[-1]) >> kTagBits;
        return {(line >> 1) + (in_line == 0 ? 0 : before), (line >> 1) + (u64(*entry) >> kTagBits)};
    }

private:
    // One entry more stands before the first.
    [[nodiscard]] u16* entries() const { return entries_.as<u16>() + kLine; }

    u32 shift_ = 0;
    u64 slots_ = 0;
    u32 parts_ = 0;
    Buffer entries_;
    Buffer lines_;
    std::vector<std::deque<Overflow>> overflows_;  // by part
};

}  // namespace mgi::operators
