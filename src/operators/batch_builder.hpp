// Batches that operators make row after row, column by column.
#pragma once

#include <vector>

#include <mgi/batch.hpp>

#include "operators/columns.hpp"

namespace mgi::operators {

// Rows of a result's batches: such that they fill huge pages.
u32 result_batch_rows(Schema const& schema);

// A batch of a fixed capacity. Writers fill the next rows of every column, then `advance` counts them.
// Texts are Arrow views with characters of the batch's own. Not thread-safe.
class BatchBuilder {
public:
    // `valid_bits`: the columns that get validity bits; the others have no null.
    BatchBuilder(Schema schema, std::vector<bool> valid_bits, u32 capacity);

    [[nodiscard]] u32 rows() const { return rows_; }
    [[nodiscard]] u32 room() const { return capacity_ - rows_; }
    // Memory it holds.
    [[nodiscard]] u64 bytes() const { return memory_.bytes() + text_bytes_; }

    // Where the next rows' values go, of fixed-width columns.
    [[nodiscard]] char* next(u32 column) const {
        Out const& out = columns_[column];
        return memory_.data() + out.values + u64{rows_} * out.width;
    }
    [[nodiscard]] bool has_valid_bits(u32 column) const { return columns_[column].valid_bits; }
    // Bits of Bool values and validity are 0 until they are set. `row` counts from the next one.
    void set_bit(u32 column, u32 row) { set(columns_[column].values, row); }
    void set_valid(u32 column, u32 row) { set(columns_[column].validity, row); }
    void set_all_valid(u32 column, u32 rows) {
        for (u32 i = 0; i < rows; ++i) set_valid(column, i);
    }
    void put_row_text(u32 column, u32 row, RowText const& text) {
        char* const to = next(column) + u64{row} * sizeof(RowText);
        // A short text is what Arrow calls a view already.
        if (!text.is_long()) return text.store(to);
        put_long_text(columns_[column], to, text);
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
        std::vector<Buffer> blocks;  // characters
        std::vector<char const*> addresses;
        u64 used = 0;  // of the last block
    };

    void set(u64 bits, u32 row) {
        u32 const at = rows_ + row;
        memory_.data()[bits + at / 8] |= char(1u << (at % 8));
    }
    void put_long_text(Out& out, char* to, RowText const& text);
    char* room_for_text(Out& out, u32 size);
    void clear_bits();

    Schema schema_;
    u32 capacity_;
    u32 rows_ = 0;
    std::vector<Out> columns_;
    Buffer memory_;
    u64 text_bytes_ = 0;
};

}  // namespace mgi::operators
