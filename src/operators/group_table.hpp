// The hash table of group-by: open addressing over 8-byte slots, and the groups themselves row by row
// behind each other, keys first, then the states of their aggregates.
#pragma once

#include <vector>

#include "operators/budget.hpp"
#include "operators/keys.hpp"

namespace mgi::operators {

// What a group's row looks like. `states` is the part behind the keys as a new group has it.
struct GroupLayout {
    u32 key_words = 1;
    std::vector<u32> text_words;
    std::vector<char> states;

    [[nodiscard]] u32 row_bytes() const { return key_words * 8 + static_cast<u32>(states.size()); }
};

// Groups by key. A slot holds 32 bits of the hash, which also say where it belongs, and the number of
// a row: 8 slots a cache line, and growing moves them in order, without a look at the keys. Lookups
// come in vectors, so that the misses of a vector overlap. Not thread-safe.
//
// Rows that come in the order of their hashes, as another table's groups do, would crowd the slots of a table that grows
// meanwhile. So slots go by the hash times an odd number, `scatter`, which is another one for each call and for each table
// that is filled out of others: the *scattered* hash, which no two hashes share.
class GroupTable {
public:
    // `own_texts`: characters of keys are copied in; otherwise they outlive the table anyhow. What the
    // table takes counts against `budget`.
    GroupTable(GroupLayout layout, bool own_texts, Budget& budget, u32 scatter = 1);

    // The row of each key, in `rows`, for up to kVector keys; new ones get the layout's states. Rows stay where they are
    // until the next call. Throws Error(OutOfMemory).
    void find_or_insert(u64 const* words, u32 const* hashes, u32 count, char** rows);

    [[nodiscard]] u32 size() const { return size_; }
    [[nodiscard]] char* row(u32 number) const { return rows_.data() + u64{number} * row_bytes_; }
    [[nodiscard]] TextArena& texts() { return texts_; }
    // Bytes that `groups` groups take.
    [[nodiscard]] u64 bytes_for(u64 groups) const { return groups * (row_bytes_ + 16); }
    // Forgets the groups, keeps the memory.
    void clear();

    // Calls `visit(scattered, row)` for the groups with a scattered hash in [first, last), 0 <= first <= last <= 2^32, in
    // about their order.
    template <class Visit>
    void visit_range(u64 first, u64 last, Visit&& visit) const {
        if (size_ == 0 || first >= last) return;
        // A probe run may have carried slots of the range past its end, or round to the start.
        u64 const slots = u64{1} << (32 - shift_);
        for (u64 i = 0, at = first >> shift_; i < slots; ++i, ++at) {
            u64 const slot = slots_.as<u64>()[at & (slots - 1)];
            if (at > (last - 1) >> shift_ && slot == 0) break;
            if (slot == 0) continue;
            u64 const hash = slot >> 32;
            if (hash >= first && hash < last) visit(u32(hash), row(u32(slot) - 1));
        }
    }

private:
    static constexpr u32 kFirstShift = 32 - 13;
    // Lookups in flight at once: enough for their misses to overlap, few enough for their slots, and
    // then their rows, to fit the first-level cache.
    static constexpr u32 kInFlight = 128;
    struct Lookups;

    template <u32 Words>
    void find_runs(u64 const* words, u32 const* hashes, u32 count, char** rows);
    template <u32 Words>
    void find(u64 const* words, u32 const* hashes, u32 count, char** rows);
    template <u32 Words>
    void find_some(u64 const* words, u32 const* hashes, u32 count, char** rows);
    template <u32 Words>
    void look_near(u64 const* words, u32 const* hashes, u32 count, char** rows,
                   Lookups& lookups) const;
    void settle(u64 const* words, u32 stride, u32 const* hashes, char** rows, Lookups& lookups);
    template <u32 Words>
    [[nodiscard]] bool equal(char const* row, u64 const* words) const;
    char* insert(u64 const* words);
    char* find_slowly(u64 const* words, u32 hash);
    void reserve(u32 more);
    void grow_slots(u32 shift);
    void grow_rows(u64 rows);

    GroupLayout const layout_;
    u32 const row_bytes_;
    bool const own_texts_;
    u32 const scatter_;
    std::vector<u64> state_words_;  // of a new group
    Charge charge_;
    u32 shift_ = kFirstShift;  // slot of a scattered hash: its upper 32 - shift_ bits
    Buffer slots_;             // scattered hash << 32 | row + 1; 0: empty
    Buffer rows_;
    u64 row_room_ = 0;
    u32 size_ = 0;
    TextArena texts_;
};

}  // namespace mgi::operators
