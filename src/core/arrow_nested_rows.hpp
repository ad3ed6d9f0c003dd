/// \file
/// Nested values as rows of a Binary column.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/device/layout.hpp>
#include <mgi/error.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_nested_flat.hpp"
#include "core/arrow_nested_plain.hpp"
#include "core/arrow_nested_spans.hpp"
#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// Rows as views of data buffers that one thread fills.
template <class Writer>
class RowWriter {
public:
    /// `Writer` writes the bodies of a block's rows; `rows` are about those that this one gets, and
    /// `buffers` counts data buffers of all threads.
    RowWriter(Nested const& type, std::string const& name, ArrowArray const& array,
              std::int64_t rows, device::StringView16* views, std::atomic<std::uint32_t>& buffers)
        : writer_(type, name, array),
          name_(name),
          views_(views),
          buffers_(buffers),
          most_rows_(rows) {}

    /// Rows [first, end), of which 0 is `skip` behind the array's first.
    void write(std::int64_t skip, std::int64_t first, std::int64_t end) {
        while (first < end) {
            std::int64_t const next = std::min(end, first + rows_of_block(longest_));
            write_block(skip, first, next);
            first = next;
        }
    }

    /// Makes what was written data buffers of the column, which the room keeps.
    void finish(Column& column, Room& room) {
        end_buffer();
        for (Filled& filled : filled_) {
            column.buffers[filled.number] = filled.bytes.data();
            column.buffer_sizes[filled.number] = std::int64_t(filled.bytes.size());
            room.keep(std::move(filled.bytes).take());
        }
    }

private:
    /// A buffer ends behind the row that makes it longer.
    static constexpr std::size_t kBuffer = std::size_t{4} << 20;

    struct Filled {
        std::uint32_t number;
        Bytes bytes;
    };

    void write_block(std::int64_t skip, std::int64_t first, std::int64_t end) {
        PlainParts const& plain = writer_.plain_fields();
        bool const all = writer_.are_valid(skip + first, end - first);
        if (all && plain.size() > device::StringView16::kInline && plain.size() <= kLongRow) {
            return write_plain(plain, skip, first, std::size_t(end - first));
        }
        rows_.clear();
        for (std::int64_t row = first; row < end; ++row) {
            if (!all && !writer_.is_valid(skip + row)) {
                views_[row] = device::StringView16();
                continue;
            }
            numbers_[rows_.rows()] = row;
            rows_.add_row(skip + row, 1);
        }
        std::size_t const count = rows_.rows();
        std::fill_n(sizes_, count, std::size_t{0});
        std::size_t const each = writer_.measure_body(rows_, sizes_);
        std::size_t longest = 0;
        for (std::size_t i = 0; i < count; ++i) {
            sizes_[i] += each;
            longest = std::max(longest, sizes_[i]);
        }
        if (longest > kMostBytes) refuse();
        longest_ = longest;
        for (std::size_t i = 0; i < count;) i = make_room(i, longest);
        std::byte* ends[kBlockRows];
        std::copy_n(values_, count, ends);
        writer_.write_body(ends);
        for (std::size_t i = 0; i < count; ++i) end_view(views_[numbers_[i]], i);
    }

    void write_plain(PlainParts const& plain, std::int64_t skip, std::int64_t first,
                     std::size_t count) {
        open_buffer(plain.size());
        auto offset = std::uint32_t(bytes_.size());
        auto const size = std::uint32_t(plain.size());
        std::byte* value = bytes_.add(count * size);
        plain.write_together(skip + first, count, value);
        for (std::size_t i = 0; i < count; ++i, offset += size, value += size) {
            device::StringView16& view = views_[first + std::int64_t(i)];
            view.length = size;
            std::memcpy(view.ref.prefix, value, sizeof view.ref.prefix);
            view.ref.buffer = number_;
            view.ref.offset = offset;
        }
    }

    [[noreturn]] void refuse() const {
        std::size_t i = 0;
        while (sizes_[i] <= kMostBytes) ++i;
        throw Error(ErrorCode::InvalidArgument,
                    "column '" + name_ + "': row " + std::to_string(numbers_[i]) + " takes " +
                        std::to_string(sizes_[i]) + " bytes; a value has less than 2 GiB");
    }

    /// For rows of about so many bytes.
    void open_buffer(std::size_t each) {
        if (bytes_.size() > kBuffer) end_buffer();
        if (open_) return;
        bytes_.reserve(std::min(kBuffer, each * std::size_t(most_rows_)) * 9 / 8);
        number_ = buffers_.fetch_add(1, std::memory_order_relaxed);
        open_ = true;
    }

    /// For the values of the block's rows from `first` on that one buffer has; returns the row behind them.
    std::size_t make_room(std::size_t first, std::size_t longest) {
        open_buffer(longest);
        std::size_t const begin = bytes_.size();
        std::size_t size = 0;
        std::size_t end = first;
        bool const few = longest <= kLongRow;
        while (end < rows_.rows() && (few || begin + size <= kBuffer)) size += sizes_[end++];
        std::byte* value = bytes_.add(size);
        auto offset = std::uint32_t(begin);
        for (std::size_t i = first; i < end; ++i) {
            values_[i] = value;
            device::StringView16& view = views_[numbers_[i]];
            view.length = std::uint32_t(sizes_[i]);
            view.ref.buffer = number_;
            view.ref.offset = offset;
            value += sizes_[i];
            offset += view.length;
        }
        return end;
    }

    /// Now that the value is written.
    void end_view(device::StringView16& view, std::size_t i) const {
        if (view.length <= device::StringView16::kInline) {
            std::memset(view.text, 0, sizeof view.text);
            if (view.length != 0) std::memcpy(view.text, values_[i], view.length);
        } else {
            std::memcpy(view.ref.prefix, values_[i], sizeof view.ref.prefix);
        }
    }

    void end_buffer() {
        if (open_) filled_.push_back({number_, std::move(bytes_)});
        bytes_ = Bytes();
        open_ = false;
    }

    Writer writer_;
    std::string const& name_;
    device::StringView16* const views_;
    std::atomic<std::uint32_t>& buffers_;
    std::int64_t const most_rows_;
    // Of a block: its rows that are valid, their numbers, and their values' bytes.
    Spans rows_;
    std::int64_t numbers_[kBlockRows];
    std::size_t sizes_[kBlockRows];
    std::byte* values_[kBlockRows];
    std::size_t longest_ = 0;  ///< of the last block's rows, in bytes
    Bytes bytes_;
    bool open_ = false;
    std::uint32_t number_ = 0;
    std::vector<Filled> filled_;
};

}  // namespace mgi::arrow
