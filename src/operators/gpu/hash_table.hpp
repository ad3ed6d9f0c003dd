// An open-addressing hash table that all groups of a place insert into: entries of a key and of words that
// belong to it. Keys are compared in full. One source for g++ and nvcc.
//
// With keys of one word an entry is claimed by writing the key. With longer ones a word before the key says
// whether it is empty, being written, or complete, and has bits of the hash; who finds it being written
// waits, which ends, since a writer waits for nobody.
#pragma once

#include "operators/gpu/keys.hpp"

namespace mgi::operators::on_gpu {

struct HashTable {
    static constexpr u32 kSpecials = 2;  // entries behind the others, see Special
    static constexpr u64 kEmpty = 0;
    static constexpr u64 kBusy = 1;
    static constexpr u64 kReady = 2;

    char* entries = nullptr;
    u32 capacity = 0;      // entries, without the special ones
    u32 stride = 0;        // bytes of an entry
    u32 value_offset = 0;  // bytes to what belongs to the key
    u32 most_probes = 0;   // past it the table is too full

    [[nodiscard]] MGI_HD char* entry(u64 index) const { return entries + index * stride; }
    [[nodiscard]] MGI_HD u64* values(u64 index) const {
        return reinterpret_cast<u64*>(entry(index) + value_offset);
    }
    [[nodiscard]] MGI_HD u64* key_words(u64 index, bool wide) const {
        return reinterpret_cast<u64*>(entry(index)) + (wide ? 1 : 0);
    }
    // Once nobody inserts any more.
    [[nodiscard]] MGI_HD bool is_used(u64 index, bool wide) const {
        u64 const word = *reinterpret_cast<u64 const*>(entry(index));
        return wide ? word != kEmpty : word != kNoKey;
    }
    [[nodiscard]] MGI_HD u64 home(u32 hash) const { return (u64{hash} * capacity) >> 32; }
};

inline constexpr u64 kNotThere = ~u64{0};  // of an index

// Index of the entry of a key of one word, which is put there if nobody has; `added` counts those.
// kNotThere if the table is too full.
MGI_HD inline u64 insert_key(HashTable const& table, u64 key, Special special, u32& added) {
    if (special != Special::None) {
        u64 const index = table.capacity + u32(special) - 1;
        auto word = shared_word(reinterpret_cast<u64*>(table.entry(index)));
        u64 found = word.load(device::relaxed);
        if (found == kNoKey && word.compare_exchange_strong(found, 0, device::relaxed)) ++added;
        return index;
    }
    u64 index = table.home(u32(device::murmur3_mix(key)));
    for (u32 probe = 0; probe < table.most_probes; ++probe) {
        auto word = shared_word(reinterpret_cast<u64*>(table.entry(index)));
        u64 found = word.load(device::relaxed);
        if (found == key) return index;
        if (found == kNoKey) {
            if (word.compare_exchange_strong(found, key, device::relaxed)) {
                ++added;
                return index;
            }
            if (found == key) return index;
        }
        if (++index == table.capacity) index = 0;
    }
    return kNotThere;
}

// Memory for the characters of keys, for rows that do not stay where they are.
struct KeyTexts {
    char* at = nullptr;  // null: they stay
    u64* next = nullptr;
    u64 end = 0;  // no key gets behind it: all rows' characters have room
};

// Brings the characters of a key's texts there.
MGI_HD inline void keep_texts(KeyTexts const& texts, KeyCode const& code, u64* key) {
    for (u32 t = 0; t < code.texts && texts.at != nullptr; ++t) {
        u64& begin = key[code.compared() + t];
        u32 const size = size_of_text(key[code.text_words[t]]);
        u64 const place = shared_word(texts.next).fetch_add(u64{size}, device::relaxed);
        if (place + size > texts.end) continue;
        char* const to = texts.at + place;
        for (u32 i = 0; i < size; ++i) to[i] = reinterpret_cast<char const*>(begin)[i];
        begin = reinterpret_cast<u64>(to);
    }
}

// The same of a key of several words.
MGI_HD inline u64 insert_words(HashTable const& table, u64 const* key, KeyCode const& code,
                               u32& added, KeyTexts const& texts = {}) {
    u32 const words = code.compared();
    u32 const hash = hash_of_words(key, words);
    u64 const ready = HashTable::kReady | u64{hash} << 32;
    u64 index = table.home(hash);
    for (u32 probe = 0; probe < table.most_probes; ++probe) {
        u64* const at = reinterpret_cast<u64*>(table.entry(index));
        auto state = shared_word(at);
        u64 found = state.load(device::relaxed);
        if (found == HashTable::kEmpty &&
            state.compare_exchange_strong(found, HashTable::kBusy, device::relaxed)) {
            for (u32 w = 0; w < code.words; ++w) at[1 + w] = key[w];
            keep_texts(texts, code, at + 1);
            // release: the words come before whoever compares them.
            state.store(ready, device::release);
            ++added;
            return index;
        }
        while (found == HashTable::kBusy) found = state.load(device::relaxed);
        // acquire, where the words are looked at: it empties the first-level cache.
        bool same = found == ready && state.load(device::acquire) == ready;
        for (u32 w = 0; w < words && same; ++w) same = at[1 + w] == key[w];
        if (same && same_texts(code, at + 1, key)) return index;
        if (++index == table.capacity) index = 0;
    }
    return kNotThere;
}

// Index of a key, once nobody inserts any more; kNotThere.
MGI_HD inline u64 find_key(HashTable const& table, u64 key, Special special) {
    if (special != Special::None) {
        u64 const index = table.capacity + u32(special) - 1;
        return table.is_used(index, false) ? index : kNotThere;
    }
    u64 index = table.home(u32(device::murmur3_mix(key)));
    for (u32 probe = 0; probe < table.most_probes; ++probe) {
        u64 const found = *reinterpret_cast<u64 const*>(table.entry(index));
        if (found == key) return index;
        if (found == kNoKey) return kNotThere;
        if (++index == table.capacity) index = 0;
    }
    return kNotThere;
}

MGI_HD inline u64 find_words(HashTable const& table, u64 const* key, KeyCode const& code) {
    u32 const words = code.compared();
    u32 const hash = hash_of_words(key, words);
    u64 const ready = HashTable::kReady | u64{hash} << 32;
    u64 index = table.home(hash);
    for (u32 probe = 0; probe < table.most_probes; ++probe) {
        u64 const* const at = reinterpret_cast<u64 const*>(table.entry(index));
        if (at[0] == HashTable::kEmpty) return kNotThere;
        bool same = at[0] == ready;
        for (u32 w = 0; w < words && same; ++w) same = at[1 + w] == key[w];
        if (same && same_texts(code, at + 1, key)) return index;
        if (++index == table.capacity) index = 0;
    }
    return kNotThere;
}

// The entry of a row's key in a table that has room; kNotThere of a key that matches nothing. Words of long keys are
// in the thread's own memory.
template <bool kWide>
MGI_HD u64 insert_row(HashTable const& table, KeyCode const& code, ColumnView const* views,
                      u64 row) {
    u32 added = 0;
    if constexpr (kWide) {
        u64 words[kMostWords];
        if (encode_key_words(code, views, row, true, words) == Special::Dropped) return kNotThere;
        return insert_words(table, words, code, added);
    } else {
        u64 word;
        Special const special = encode_key(code, views, row, true, word);
        return special == Special::Dropped ? kNotThere : insert_key(table, word, special, added);
    }
}

template <bool kWide>
MGI_HD u64 find_row(HashTable const& table, KeyCode const& code, ColumnView const* views, u64 row) {
    if constexpr (kWide) {
        u64 words[kMostWords];
        if (encode_key_words(code, views, row, true, words) == Special::Dropped) return kNotThere;
        return find_words(table, words, code);
    } else {
        u64 word;
        Special const special = encode_key(code, views, row, true, word);
        return special == Special::Dropped ? kNotThere : find_key(table, word, special);
    }
}

// Makes every entry as `pattern` is, word by word.
struct FillEntries {
    MGI_HD void operator()(device::Group const& group, device::Shared&, u64* words, u64 count,
                           u64 const* pattern, u32 length) const {
        u64 const step = u64{group.threads} * group.blocks;
        u64 i = u64{group.block} * group.threads + group.thread;
        // Which word of the pattern comes next, without a division for each.
        u32 which = u32(i % length);
        u32 const turn = u32(step % length);
        for (; i < count; i += step) {
            words[i] = pattern[which];
            which += turn;
            if (which >= length) which -= length;
        }
    }
};

}  // namespace mgi::operators::on_gpu
