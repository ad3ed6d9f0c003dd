// The hash table of a join whose key is one text. An entry has the text's word and where its characters lie; a thread that comes to
// a word like its own compares those. One source for g++ and nvcc.
//
// Nothing here acquires: that empties a GPU's first-level cache, where a warp's neighbours in the characters are. An entry is
// claimed by its word, and where the characters lie is a single word, too, which says for itself that it has come.
#pragma once

#include "operators/gpu/hash_table.hpp"

namespace mgi::operators::on_gpu {

// A row's key; none where it is null.
struct TextKey {
    bool there = false;
    u64 word = 0;
    char const* characters = nullptr;
};

// Calls `use(load)`, where `load(row)` is a valid row's text, without a branch on how they lie for each row.
template <class Use>
MGI_HD void with_texts_of(ColumnView const& view, Use&& use) {
    using device::InputEncoding;
    ColumnView known = view;
    switch (view.encoding) {
        case InputEncoding::Offsets32:
            known.encoding = InputEncoding::Offsets32;
            return use([known](u64 row) { return device::view_text(known, row); });
        case InputEncoding::Spans:
            known.encoding = InputEncoding::Spans;
            return use([known](u64 row) { return device::view_text(known, row); });
        default: return use([known](u64 row) { return device::view_text(known, row); });
    }
}

// Rows whose loads a thread has on their way together.
inline constexpr u32 kTextsAtOnce = 4;

// So many rows' keys.
struct TextKeys {
    u64 rows[kTextsAtOnce];
    TextKey keys[kTextsAtOnce];

    [[nodiscard]] MGI_HD u32 size(u32 k) const { return size_of_text(keys[k].word); }
};

// Calls `each(w, words)` for each w below the most words of some texts, with word w of all of them.
template <class Each>
MGI_HD void each_word_of(char const* const (&texts)[kTextsAtOnce], u32 const (&sizes)[kTextsAtOnce],
                         Each&& each) {
    u32 most = 0;
    for (u32 k = 0; k < kTextsAtOnce; ++k) most = device::max_of(most, words_of(sizes[k]));
    for (u32 w = 0; w < most; ++w) {
        u64 words[kTextsAtOnce];
        for (u32 k = 0; k < kTextsAtOnce; ++k) words[k] = load_word_of(texts[k], sizes[k], w);
        each(w, words);
    }
}

// Calls `use(keys)` for the keys of rows first, first + step, ... before `end`, so many at a time; `rows` of those behind the
// end are `end`. A warp's threads go through all of their texts together.
template <class Use>
MGI_HD void each_text_key(ColumnView const& view, u64 first, u64 step, u64 end, Use&& use) {
    with_texts_of(view, [&](auto const& load) {
        for (u64 i = first; i < end; i += kTextsAtOnce * step) {
            TextKeys at_once;
            char const* texts[kTextsAtOnce];
            u32 sizes[kTextsAtOnce];
            u64 hashes[kTextsAtOnce];
            for (u32 k = 0; k < kTextsAtOnce; ++k) {
                u64 const row = device::min_of(i + k * step, end);
                bool const there = row != end && is_valid(view, row);
                device::Text const text = there ? load(row) : device::Text();
                at_once.rows[k] = row;
                at_once.keys[k].there = there;
                texts[k] = text.data;
                sizes[k] = text.size;
                hashes[k] = text.size;
            }
            each_word_of(texts, sizes, [&](u32 w, u64 const(&words)[kTextsAtOnce]) {
                for (u32 k = 0; k < kTextsAtOnce; ++k) {
                    u64 const mixed = (hashes[k] ^ words[k]) * 0x9fb21c651e98df25ULL;
                    if (w < words_of(sizes[k])) hashes[k] = mixed ^ mixed >> 32;
                }
            });
            for (u32 k = 0; k < kTextsAtOnce; ++k) {
                at_once.keys[k].word = text_word(device::murmur3_mix(hashes[k]), sizes[k]);
                at_once.keys[k].characters = texts[k];
            }
            use(at_once);
        }
    });
}

struct TextEntry {
    u64 word;   // kNoKey: none; no text is so long
    u64 begin;  // 0: not there yet
};

MGI_HD inline TextEntry* text_entry(HashTable const& table, u64 index) {
    return reinterpret_cast<TextEntry*>(table.entry(index));
}
MGI_HD inline u64 home_of_text(HashTable const& table, u64 word) {
    return table.home(u32(device::murmur3_mix(word)));
}
MGI_HD inline void go_on(HashTable const& table, u64& index) {
    if (++index == table.capacity) index = 0;
}

// The entry of a key, which is put there if nobody has, in a table that has room.
MGI_HD inline u64 insert_text(HashTable const& table, TextKey const& key) {
    u32 const size = size_of_text(key.word);
    for (u64 index = home_of_text(table, key.word);; go_on(table, index)) {
        TextEntry* const entry = text_entry(table, index);
        auto word = shared_word(&entry->word);
        auto begin = shared_word(&entry->begin);
        u64 found = word.load(device::relaxed);
        if (found == kNoKey && word.compare_exchange_strong(found, key.word, device::relaxed)) {
            begin.store(reinterpret_cast<u64>(key.characters), device::relaxed);
            return index;
        }
        if (found != key.word) continue;
        if (size == 0) return index;
        // The thread that has claimed it waits for nobody.
        u64 at = 0;
        while (at == 0) at = begin.load(device::relaxed);
        if (same_bytes(key.characters, reinterpret_cast<char const*>(at), size)) return index;
    }
}

// The entries of keys, once nobody inserts any more; kNotThere.
MGI_HD inline void find_texts(HashTable const& table, TextKeys const& at_once,
                              u64 (&index)[kTextsAtOnce]) {
    TextEntry entries[kTextsAtOnce];
    for (u32 k = 0; k < kTextsAtOnce; ++k) {
        index[k] = home_of_text(table, at_once.keys[k].word);
        entries[k] = *text_entry(table, index[k]);
    }
    for (bool goes_on = true; goes_on;) {
        // To the next entry of the same word, or of none. Those that are there load theirs again: without a branch.
        for (bool moved = true; moved;) {
            moved = false;
            for (u32 k = 0; k < kTextsAtOnce; ++k) {
                u64 const word = entries[k].word;
                u64 next = index[k];
                go_on(table, next);
                bool const moves = word != kNoKey && word != at_once.keys[k].word;
                index[k] = moves ? next : index[k];
                entries[k] = *text_entry(table, index[k]);
                moved = moved || moves;
            }
        }
        char const* own[kTextsAtOnce];
        char const* found[kTextsAtOnce];
        u32 sizes[kTextsAtOnce];
        u64 differ[kTextsAtOnce];
        for (u32 k = 0; k < kTextsAtOnce; ++k) {
            own[k] = at_once.keys[k].characters;
            found[k] = reinterpret_cast<char const*>(entries[k].begin);
            sizes[k] = entries[k].word == kNoKey ? 0 : at_once.size(k);
            differ[k] = 0;
        }
        each_word_of(found, sizes, [&](u32 w, u64 const(&words)[kTextsAtOnce]) {
            for (u32 k = 0; k < kTextsAtOnce; ++k) {
                differ[k] |= words[k] ^ load_word_of(own[k], sizes[k], w);
            }
        });
        goes_on = false;
        for (u32 k = 0; k < kTextsAtOnce; ++k) {
            if (differ[k] == 0) continue;
            go_on(table, index[k]);
            entries[k] = *text_entry(table, index[k]);
            goes_on = true;
        }
    }
    for (u32 k = 0; k < kTextsAtOnce; ++k) {
        if (entries[k].word == kNoKey || !at_once.keys[k].there) index[k] = kNotThere;
    }
}

}  // namespace mgi::operators::on_gpu
