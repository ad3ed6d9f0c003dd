// Keys as words: what hash tables store and compare. One source for g++ and nvcc.
#pragma once

#include "operators/gpu/columns.hpp"

namespace mgi::operators::on_gpu {

inline constexpr u32 kMostKeys = 16;
inline constexpr u32 kMostWords = 2 * kMostKeys;

// A word that no key of a table of one word has, and what stands in it until a key does.
inline constexpr u64 kNoKey = ~u64{0};

// One key column, and where it lies in the words.
struct KeyPart {
    u32 column = 0;  // among the columns of a row
    ValueKind value;
    u8 bits = 64;  // that it takes in its word
    u8 word = 0;
    u8 shift = 0;
    u8 null_word = 0;  // where a bit says that it is null
    u8 null_shift = 0;
    bool nullable = false;
    // Of a join whose sides differ in signedness: a value with its top bit set is none of the other's.
    bool drop_top_bit = false;
    // The only key, of 64 bits: a null has an entry of its own in place of a bit.
    bool null_apart = false;
};

struct KeyCode {
    KeyPart parts[kMostKeys];
    u32 count = 0;
    u32 words = 1;
    // The last words say where the characters of texts are: keys are equal if the words before are, and the characters.
    u32 texts = 0;
    u8 text_words[kMostKeys] = {};  // by text: its word among those before

    [[nodiscard]] MGI_HD u32 compared() const { return words - texts; }
};

// Which entry a key belongs to.
enum class Special : u32 {
    None = 0,     // by its hash
    AllOnes = 1,  // its word is kNoKey
    Null = 2,     // of `null_apart`
    Dropped = 3,  // matches nothing
};

MGI_HD inline u64 low_bits(u32 bits) {
    return bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
}

// A key of one word.
MGI_HD inline Special encode_key(KeyCode const& code, ColumnView const* views, u64 row,
                                 bool drop_nulls, u64& word) {
    word = 0;
    for (u32 k = 0; k < code.count; ++k) {
        KeyPart const part = code.parts[k];
        ColumnView const& view = views[part.column];
        if (part.nullable && !is_valid(view, row)) {
            if (drop_nulls) return Special::Dropped;
            if (part.null_apart) return Special::Null;
            word |= u64{1} << part.null_shift;
            continue;
        }
        u64 const value = load_word(view, part.value, row);
        if (part.drop_top_bit && value >> 63 != 0) return Special::Dropped;
        word |= (value & low_bits(part.bits)) << part.shift;
    }
    return word == kNoKey ? Special::AllOnes : Special::None;
}

// A key of several words.
MGI_HD inline Special encode_key_words(KeyCode const& code, ColumnView const* views, u64 row,
                                       bool drop_nulls, u64* words) {
    for (u32 w = 0; w < code.words; ++w) words[w] = 0;
    for (u32 k = 0; k < code.count; ++k) {
        KeyPart const part = code.parts[k];
        ColumnView const& view = views[part.column];
        if (part.nullable && !is_valid(view, row)) {
            if (drop_nulls) return Special::Dropped;
            words[part.null_word] |= u64{1} << part.null_shift;
            continue;
        }
        u64 const value = load_any_word(view, part.value, row);
        if (part.drop_top_bit && value >> 63 != 0) return Special::Dropped;
        words[part.word] |= (value & low_bits(part.bits)) << part.shift;
    }
    return Special::None;
}

// Whether the characters of keys are equal whose other words are.
MGI_HD inline bool same_texts(KeyCode const& code, u64 const* a, u64 const* b) {
    for (u32 t = 0; t < code.texts; ++t) {
        u64 const x = a[code.compared() + t];
        u64 const y = b[code.compared() + t];
        if (x == y) continue;
        u32 const size = size_of_text(a[code.text_words[t]]);
        if (!same_bytes(reinterpret_cast<char const*>(x), reinterpret_cast<char const*>(y), size)) {
            return false;
        }
    }
    return true;
}

// The half that routing does not use chooses the entry, see device::destination_of_hash.
MGI_HD inline u32 hash_of_words(u64 const* words, u32 count) {
    u64 hash = device::murmur3_mix(words[0]);
    for (u32 w = 1; w < count; ++w) hash = device::hash_combine(hash, words[w]);
    return u32(hash);
}

}  // namespace mgi::operators::on_gpu
