#include "operators/group_table.hpp"

#include <algorithm>

#include <mgi/error.hpp>

namespace mgi::operators {

namespace {

// Lookups in flight at once: enough for their misses to overlap, few enough for their slots, and then
// their rows, to fit the first-level cache.
constexpr u32 kInFlight = 128;
constexpr u64 kMostGroups = u64{1} << 31;

}  // namespace

GroupTable::GroupTable(GroupLayout layout, bool own_texts)
    : layout_(std::move(layout)), row_bytes_(layout_.row_bytes()), own_texts_(own_texts) {
    slots_ = Buffer((u64{8} << (32 - shift_)), true);
}

void GroupTable::clear() {
    std::memset(slots_.data(), 0, slots_.bytes());
    size_ = 0;
    texts_.clear();
}

void GroupTable::find_or_insert(u64 const* words, u32 const* hashes, u32 count, char** rows) {
    reserve(count);
    for (u32 first = 0; first < count; first += kInFlight) {
        u32 const some = std::min(kInFlight, count - first);
        u64 const* const at = words + u64{first} * layout_.key_words;
        switch (layout_.text_words.empty() ? layout_.key_words : 0) {
            case 1: find<1>(at, hashes + first, some, rows + first); break;
            case 2: find<2>(at, hashes + first, some, rows + first); break;
            default: find<0>(at, hashes + first, some, rows + first); break;
        }
    }
}

template <u32 Words>
bool GroupTable::equal(char const* row, u64 const* words) const {
    auto const* const key = reinterpret_cast<u64 const*>(row);
    if constexpr (Words != 0) {
        bool same = key[0] == words[0];
        if constexpr (Words == 2) same = same && key[1] == words[1];
        return same;
    } else {
        return equal_keys(key, words, layout_.key_words, layout_.text_words);
    }
}

// Words: of a key, 0 if that is only known now, or if texts are among them.
template <u32 Words>
void GroupTable::find(u64 const* words, u32 const* hashes, u32 count, char** rows) {
    u32 const stride = Words == 0 ? layout_.key_words : Words;
    u64* const slots = slots_.as<u64>();
    u32 const mask = u32((u64{1} << (32 - shift_)) - 1);
    for (u32 i = 0; i < count; ++i) __builtin_prefetch(slots + (hashes[i] >> shift_));
    for (u32 i = 0; i < count; ++i) {
        u32 const hash = hashes[i];
        u32 at = hash >> shift_;
        u32 number;
        for (;;) {
            u64 const slot = slots[at];
            if (slot == 0) {
                number = insert(words + u64{i} * stride);
                slots[at] = u64{hash} << 32 | (number + 1);
                break;
            }
            if (u32(slot >> 32) == hash) {
                number = u32(slot) - 1;
                break;
            }
            at = (at + 1) & mask;
        }
        rows[i] = row(number);
        __builtin_prefetch(rows[i], 1);
        __builtin_prefetch(rows[i] + row_bytes_ - 1, 1);
    }
    // An equal hash nearly always means an equal key.
    for (u32 i = 0; i < count; ++i) {
        u64 const* const key = words + u64{i} * stride;
        if (!equal<Words>(rows[i], key)) rows[i] = find_slowly(key, hashes[i]);
    }
}

char* GroupTable::find_slowly(u64 const* words, u32 hash) {
    u64* const slots = slots_.as<u64>();
    u32 const mask = u32((u64{1} << (32 - shift_)) - 1);
    for (u32 at = hash >> shift_;; at = (at + 1) & mask) {
        u64 const slot = slots[at];
        if (slot == 0) {
            u32 const number = insert(words);
            slots[at] = u64{hash} << 32 | (number + 1);
            return row(number);
        }
        if (u32(slot >> 32) != hash) continue;
        char* const found = row(u32(slot) - 1);
        if (equal<0>(found, words)) return found;
    }
}

// Appends a group; `reserve` has seen to its room.
u32 GroupTable::insert(u64 const* words) {
    char* const at = row(size_);
    u32 const key_bytes = layout_.key_words * 8;
    std::memcpy(at, words, key_bytes);
    if (!layout_.states.empty()) {
        std::memcpy(at + key_bytes, layout_.states.data(), layout_.states.size());
    }
    if (own_texts_) {
        for (u32 const word : layout_.text_words) {
            RowText text = RowText::at(at + u64{word} * 8);
            texts_.adopt(text);
            text.store(at + u64{word} * 8);
        }
    }
    return size_++;
}

void GroupTable::reserve(u32 more) {
    u64 const groups = u64{size_} + more;
    if (groups > kMostGroups) {
        throw Error(ErrorCode::OutOfMemory,
                    "more than 2^31 groups at one endpoint; spread them over more endpoints");
    }
    if (groups > row_room_) grow_rows(groups);
    u32 shift = shift_;
    while (groups * 2 > u64{1} << (32 - shift)) shift = shift > 32 - 17 ? shift - 2 : shift - 1;
    if (shift != shift_) grow_slots(shift);
}

void GroupTable::grow_rows(u64 rows) {
    row_room_ = std::max({rows, row_room_ * 2, u64{1024}});
    Buffer grown(row_room_ * row_bytes_, false);
    if (size_ != 0) std::memcpy(grown.data(), rows_.data(), u64{size_} * row_bytes_);
    rows_ = std::move(grown);
}

void GroupTable::grow_slots(u32 shift) {
    Buffer grown(u64{8} << (32 - shift), true);
    u64* const to = grown.as<u64>();
    u32 const mask = u32((u64{1} << (32 - shift)) - 1);
    u64 const old = u64{1} << (32 - shift_);
    for (u64 first = 0; first < old; first += kVector) {
        // Whether a slot is used cannot be foretold, so they are gathered without a branch.
        u64 const* const from = slots_.as<u64>() + first;
        u64 used[kVector];
        u32 count = 0;
        for (u32 i = 0; i < kVector; ++i) {
            used[count] = from[i];
            count += from[i] != 0 ? 1 : 0;
        }
        for (u32 i = 0; i < count; ++i) {
            u32 at = u32(used[i] >> 32) >> shift;
            while (to[at] != 0) at = (at + 1) & mask;
            to[at] = used[i];
        }
    }
    slots_ = std::move(grown);
    shift_ = shift;
}

}  // namespace mgi::operators
