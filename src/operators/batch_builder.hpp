// Batches that operators make row after row, column by column.
#pragma once

#include <vector>

#include <mgi/batch.hpp>

#include "operators/budget.hpp"
#include "operators/columns.hpp"

namespace mgi::operators {

// What a batch has room for.
struct BatchRoom {
    u32 rows = 0;
    u64 characters = 0;  // of long texts; more of them get blocks of their own
};
// The first batch of a result is small, since many results are.
inline constexpr BatchRoom kFirstRoom{1u << 12, 0};

// A batch of a fixed capacity. Writers fill the next rows of every column, then `advance` counts them.
// Texts are Arrow views; the batch's columns share the blocks that the characters lie in. Not
// thread-safe.
class BatchBuilder {
public:
    // `valid_bits`: the columns that get validity bits; the others have no null.
    // `budget`, where there is one, counts the memory before it is taken.
    BatchBuilder(Schema schema, std::vector<bool> valid_bits, BatchRoom capacity,
                 Budget* budget = nullptr);

    [[nodiscard]] u32 rows() const { return rows_; }
    [[nodiscard]] u32 room() const { return capacity_ - rows_; }
    // Memory it holds.
    [[nodiscard]] u64 bytes() const { return memory_.bytes() + block_bytes_; }
    // Room for the batch after this one: whole huge pages, if its texts are as long as these.
    [[nodiscard]] BatchRoom next_room() const;

    // Where the next rows' values go, of fixed-width columns.
    [[nodiscard]] char* next(u32 column) const {
        Out const& out = columns_[column];
        return memory_.data() + out.values + u64{rows_} * out.width;
    }
    [[nodiscard]] bool has_valid_bits(u32 column) const { return columns_[column].valid_bits; }
    // Bits of Bool values and validity are 0 until they are set. `row` counts from the next one.
    void set_bit(u32 column, u32 row) { set(columns_[column].values, row); }
    void set_valid(u32 column, u32 row) { set(columns_[column].validity, row); }
    void put_row_text(u32 column, u32 row, RowText const& text) {
        char* const to = next(column) + u64{row} * sizeof(RowText);
        // A short text is what Arrow calls a view already.
        if (text.is_long()) return put_long_text(to, text);
        text.store(to);
    }
    void put_text(u32 column, u32 row, Text text) { put_row_text(column, row, RowText(text)); }

    void advance(u32 rows) { rows_ += rows; }

    // The rows so far as columns to send; valid until the next call that changes the builder.
    [[nodiscard]] std::vector<ColumnView> views() const;
    // Starts again with the same memory.
    void clear();
    // Hands the rows out; the builder is used up.
    [[nodiscard]] RecordBatch finish();

private:
    struct Out {
        u64 values = 0;    // offset in memory_
        u64 validity = 0;  // if valid_bits
        u32 width = 0;     // 0: bits
        bool valid_bits = false;
        bool is_text = false;
    };

    void set(u64 bits, u32 row) {
        u32 const at = rows_ + row;
        memory_.data()[bits + at / 8] |= char(1u << (at % 8));
    }
    void put_long_text(char* to, RowText const& text) {
        u32 const size = text.size();
        if (size > u64(text_end_ - text_next_)) add_block(size);
        char* const at = text_next_;
        text_next_ += size;
        copy_long(at, text.data(), size);
        u64 const block = text_addresses_.size() - 1;
        u64 const offset = u64(at - text_addresses_.back());
        u64 const words[] = {text.head(), offset << 32 | block};
        std::memcpy(to, words, sizeof(words));
    }
    void add_block(u32 least);
    void fill_from(char* room, u64 bytes);
    void clear_bits();

    [[nodiscard]] Buffer counted(u64 bytes) const;

    Schema schema_;
    u32 capacity_;
    Budget* budget_;
    u32 rows_ = 0;
    std::vector<Out> columns_;
    Buffer memory_;
    u64 fixed_bytes_ = 0;  // of memory_; characters follow
    std::vector<Buffer> blocks_;
    u64 block_bytes_ = 0;
    // The rooms for characters so far; the last one is being filled.
    std::vector<char const*> text_addresses_;
    std::vector<i64> text_sizes_;
    u64 filled_ = 0;  // characters in the rooms before it
    char* text_next_ = nullptr;
    char* text_end_ = nullptr;
};

}  // namespace mgi::operators
