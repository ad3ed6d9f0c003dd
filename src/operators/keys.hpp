// Key columns as words: what hash tables store and compare, whatever the types.
#pragma once

#include <vector>

#include <mgi/schema.hpp>

#include "operators/columns.hpp"

namespace mgi::operators {

// A key column: where it is among the columns, and what it holds.
struct KeyColumn {
    u32 column = 0;
    Type type;
    bool nullable = false;
};

enum class NullKeys : u8 {
    Equal,  // one group, as GROUP BY has it
    Drop,   // match nothing, as JOIN has it
};

// Keys of up to kVector rows. Words lie row by row and may be the column's own values.
struct EncodedKeys {
    u64 const* words = nullptr;
    u32 rows = 0;
    u32 hashes[kVector];    // the half of the hash that routing does not use
    u16 selected[kVector];  // rows that are not dropped, ascending
    u32 selected_count = 0;
    bool all_selected = true;

    std::vector<u64> storage;
    u64 wide_hashes[kVector];
};

// Turns keys into words such that keys are equal exactly if their words are, but for the characters
// behind long texts. Integers are extended to 64 bits, so that the sides of a join may differ in
// width; floats become doubles with one NaN and one zero. Thread-safe.
class KeyEncoder {
public:
    // With Drop, `drop_top_bit` drops integer keys whose 64th bit is set: values that one side of a
    // join has and the other, of other signedness, cannot have.
    KeyEncoder(std::vector<KeyColumn> keys, NullKeys nulls, std::vector<bool> drop_top_bit = {});

    // Words of a key.
    [[nodiscard]] u32 words() const { return words_; }
    // Positions of the first words of texts.
    [[nodiscard]] std::vector<u32> const& text_words() const { return text_words_; }
    [[nodiscard]] std::vector<KeyColumn> const& columns() const { return keys_; }
    // Position of key `k`'s first word.
    [[nodiscard]] u32 word_of(u32 k) const { return word_of_[k]; }
    // Whether key `k` of an encoded row is null.
    [[nodiscard]] bool is_null(u32 k, u64 const* words) const {
        return has_flags_ && (words[k / 64] >> (k % 64) & 1) != 0;
    }

    // Encodes the first `rows` <= kVector rows of the columns.
    void encode(ColumnView const* columns, u32 rows, EncodedKeys& out) const;

private:
    void encode_column(u32 k, ColumnView const& view, u32 rows, u64* to) const;
    void hash(EncodedKeys& out) const;
    void select(ColumnView const* columns, EncodedKeys& out) const;
    [[nodiscard]] bool drops_rows(ColumnView const* columns) const;

    std::vector<KeyColumn> keys_;
    NullKeys nulls_;
    std::vector<bool> drop_top_bit_;
    std::vector<u32> word_of_;
    std::vector<u32> text_words_;
    std::vector<bool> is_text_word_;
    u32 words_ = 0;
    bool has_flags_ = false;
};

// Whether keys of the same row layout are equal.
inline bool equal_keys(u64 const* a, u64 const* b, u32 words, std::vector<u32> const& text_words) {
    u32 w = 0;
    for (u32 const text : text_words) {
        for (; w < text; ++w) {
            if (a[w] != b[w]) return false;
        }
        if (a[w] != b[w]) return false;  // size and first characters
        if (a[w + 1] != b[w + 1]) {
            RowText const x = RowText::at(a + w);
            RowText const y = RowText::at(b + w);
            if (!x.is_long() || std::memcmp(x.data(), y.data(), x.size()) != 0) return false;
        }
        w += 2;
    }
    for (; w < words; ++w) {
        if (a[w] != b[w]) return false;
    }
    return true;
}

}  // namespace mgi::operators
