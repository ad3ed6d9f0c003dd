#include "operators/group_table.hpp"

#include <algorithm>

#include <mgi/error.hpp>

namespace mgi::operators {

namespace {

// Tables up to this size are in the second-level cache, where nothing need be fetched ahead.
constexpr u64 kNearBytes = u64{256} << 10;
constexpr u64 kFewRows = u64{1} << 16;
constexpr u64 kMuchBytes = u64{1} << 30;
constexpr u64 kMostGroups = u64{1} << 31;

}  // namespace

GroupTable::GroupTable(GroupLayout layout, bool own_texts, Budget& budget, u32 scatter)
    : layout_(std::move(layout)),
      row_bytes_(layout_.row_bytes()),
      own_texts_(own_texts),
      scatter_(scatter),
      charge_(budget) {
    state_words_.resize(layout_.states.size() / sizeof(u64));
    if (!state_words_.empty()) {
        std::memcpy(state_words_.data(), layout_.states.data(), layout_.states.size());
    }
    slots_ = Buffer((u64{8} << (32 - shift_)), true);
}

void GroupTable::clear() {
    std::memset(slots_.data(), 0, slots_.bytes());
    size_ = 0;
    texts_.clear();
}

void GroupTable::find_or_insert(u64 const* words, u32 const* hashes, u32 count, char** rows) {
    reserve(count);
    u32 scattered[kVector];
    for (u32 i = 0; i < count; ++i) scattered[i] = hashes[i] * scatter_;
    switch (layout_.text_words.empty() ? layout_.key_words : 0) {
        case 1: return find_runs<1>(words, scattered, count, rows);
        case 2: return find_runs<2>(words, scattered, count, rows);
        default: return find<0>(words, scattered, count, rows);
    }
}

// Where neighbours are often equal, as in rows that lie by key, each run of them is looked up once.
template <u32 Words>
void GroupTable::find_runs(u64 const* words, u32 const* hashes, u32 count, char** rows) {
    // Equal hashes do for a guess; one key's words are compared below.
    u32 repeats = 0;
    for (u32 i = 1; i < count; ++i) repeats += hashes[i] == hashes[i - 1] ? 1 : 0;
    if (repeats < count / 4) return find<Words>(words, hashes, count, rows);
    u64 run_words[kVector * Words];
    u32 run_hashes[kVector];
    char* run_rows[kVector];
    u16 run_of[kVector];
    u32 runs = 0;
    for (u32 i = 0; i < count; ++i) {
        u64 const* const at = words + i * Words;
        runs += i == 0 || std::memcmp(at, at - Words, Words * 8) != 0 ? 1 : 0;
        std::memcpy(run_words + (runs - 1) * Words, at, Words * 8);
        run_hashes[runs - 1] = hashes[i];
        run_of[i] = u16(runs - 1);
    }
    find<Words>(run_words, run_hashes, runs, run_rows);
    for (u32 i = 0; i < count; ++i) rows[i] = run_rows[run_of[i]];
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
    for (u32 first = 0; first < count; first += kInFlight) {
        find_some<Words>(words + u64{first} * stride, hashes + first,
                         std::min(kInFlight, count - first), rows + first);
    }
}

// Lookups on their way. Whether a slot is empty, holds the hash or another one cannot be foretold, so
// nothing branches on it: keys that are not done stay in a list for the next round.
struct GroupTable::Lookups {
    u32 at[kInFlight];     // by key: the slot to look at
    u16 open[kInFlight];   // keys that are not done
    u16 check[kInFlight];  // keys whose row was found by their hash alone
    u32 open_count = 0;
    u32 check_count = 0;
};

template <u32 Words>
void GroupTable::find_some(u64 const* words, u32 const* hashes, u32 count, char** rows) {
    Lookups lookups;
    bool const near = slots_.bytes() + u64{size_} * row_bytes_ <= kNearBytes;
    if (near && Words != 0) {
        look_near<Words>(words, hashes, count, rows, lookups);
    } else {
        for (u32 i = 0; i < count; ++i) {
            lookups.at[i] = hashes[i] >> shift_;
            lookups.open[i] = lookups.check[i] = u16(i);
            __builtin_prefetch(slots_.as<u64>() + lookups.at[i]);
        }
        lookups.open_count = lookups.check_count = count;
    }
    u32 const stride = Words == 0 ? layout_.key_words : Words;
    settle(words, stride, hashes, rows, lookups);
    // An equal hash nearly always means an equal key.
    for (u32 k = 0; k < lookups.check_count; ++k) {
        u32 const i = lookups.check[k];
        u64 const* const key = words + u64{i} * stride;
        if (!equal<Words>(rows[i], key)) rows[i] = find_slowly(key, hashes[i]);
    }
}

// A table that is in the cache: slot and row are looked at together.
template <u32 Words>
void GroupTable::look_near(u64 const* words, u32 const* hashes, u32 count, char** rows,
                           Lookups& lookups) const {
    u64 const* const slots = slots_.as<u64>();
    char* const base = rows_.data();
    u64 const row_bytes = row_bytes_;
    u32 open = 0;
    for (u32 i = 0; i < count; ++i) {
        u32 const at = hashes[i] >> shift_;
        u64 const slot = slots[at];
        // Of an empty slot any row does: its key is not compared alone.
        rows[i] = base + u64{u32(slot) - (slot == 0 ? 0 : 1)} * row_bytes;
        bool const found = (slot != 0) & equal<Words>(rows[i], words + u64{i} * Words);
        lookups.at[i] = at;
        lookups.open[open] = u16(i);
        open += found ? 0 : 1;
    }
    std::copy_n(lookups.open, open, lookups.check);
    lookups.open_count = lookups.check_count = open;
}

// Finds a row with each open key's hash, or appends one.
void GroupTable::settle(u64 const* words, u32 stride, u32 const* hashes, char** rows,
                        Lookups& lookups) {
    u64* const slots = slots_.as<u64>();
    u32 const mask = u32((u64{1} << (32 - shift_)) - 1);
    char* const base = rows_.data();
    u64 const row_bytes = row_bytes_;
    u16 fresh[kInFlight];
    for (u32 left = lookups.open_count; left != 0;) {
        u32 next = 0;
        u32 empties = 0;
        for (u32 k = 0; k < left; ++k) {
            u32 const i = lookups.open[k];
            u64 const slot = slots[lookups.at[i]];
            bool const empty = slot == 0;
            bool const other = !empty & (u32(slot >> 32) != hashes[i]);
            // Of an empty slot it is a row that is replaced below.
            rows[i] = base + u64{u32(slot) - (empty ? 0 : 1)} * row_bytes;
            __builtin_prefetch(rows[i], 1);
            __builtin_prefetch(rows[i] + row_bytes - 1, 1);
            fresh[empties] = u16(i);
            empties += empty ? 1 : 0;
            lookups.at[i] = (lookups.at[i] + (other ? 1 : 0)) & mask;
            lookups.open[next] = u16(i);
            next += other ? 1 : 0;
        }
        for (u32 k = 0; k < empties; ++k) {
            u32 const i = fresh[k];
            u64& slot = slots[lookups.at[i]];
            if (slot != 0) {  // filled in this very round
                lookups.open[next++] = u16(i);
                continue;
            }
            slot = u64{hashes[i]} << 32 | (size_ + 1);
            rows[i] = insert(words + u64{i} * stride);
        }
        left = next;
    }
}

char* GroupTable::find_slowly(u64 const* words, u32 hash) {
    u64* const slots = slots_.as<u64>();
    u32 const mask = u32((u64{1} << (32 - shift_)) - 1);
    for (u32 at = hash >> shift_;; at = (at + 1) & mask) {
        u64 const slot = slots[at];
        if (slot == 0) {
            slots[at] = u64{hash} << 32 | (size_ + 1);
            return insert(words);
        }
        if (u32(slot >> 32) != hash) continue;
        char* const found = row(u32(slot) - 1);
        if (equal<0>(found, words)) return found;
    }
}

// Appends a group; `reserve` has seen to its room.
char* GroupTable::insert(u64 const* words) {
    char* const at = row(size_);
    auto* const to = reinterpret_cast<u64*>(at);
    u32 const key_words = layout_.key_words;
    for (u32 w = 0; w < key_words; ++w) to[w] = words[w];
    for (u32 s = 0; s < state_words_.size(); ++s) to[key_words + s] = state_words_[s];
    if (own_texts_) {
        for (u32 const word : layout_.text_words) {
            RowText text = RowText::at(at + u64{word} * 8);
            texts_.adopt(text);
            text.store(at + u64{word} * 8);
        }
    }
    ++size_;
    return at;
}

void GroupTable::reserve(u32 more) {
    u64 const groups = u64{size_} + more;
    if (groups > kMostGroups) {
        throw Error(ErrorCode::OutOfMemory,
                    "more than 2^31 groups at one endpoint; spread them over more endpoints");
    }
    u32 shift = shift_;
    while (groups * 2 > u64{1} << (32 - shift)) shift = shift > 32 - 17 ? shift - 2 : shift - 1;
    // Rows that may come, not their room: its pages cost nothing until they are touched.
    charge_.hold((u64{8} << (32 - shift)) + groups * row_bytes_ + texts_.bytes());
    if (groups > row_room_) grow_rows(groups);
    if (shift != shift_) grow_slots(shift);
}

void GroupTable::grow_rows(u64 rows) {
    // By much at once while that is little memory: pages that are never touched cost nothing, moved
    // rows do.
    bool const by_much = row_room_ >= kFewRows && row_room_ * row_bytes_ < kMuchBytes;
    u64 const room = std::max({rows, row_room_ * (by_much ? 4 : 2), u64{1024}});
    Buffer grown(room * row_bytes_, false);
    if (size_ != 0) std::memcpy(grown.data(), rows_.data(), u64{size_} * row_bytes_);
    rows_ = std::move(grown);
    row_room_ = room;
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
