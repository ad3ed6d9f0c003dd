/// \file
/// Nested values as rows of a Binary column.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/device/layout.hpp>
#include <mgi/error.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_nested_plain.hpp"
#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// A value's bytes.
inline constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();

/// Rows as views of data buffers that one thread fills.
template <class Writer>
class RowWriter {
public:
    /// `Writer` writes a value's body; `buffers` counts data buffers of all threads.
    RowWriter(Nested const& type, std::string const& name, ArrowArray const& array,
              device::StringView16* views, std::atomic<std::uint32_t>& buffers)
        : writer_(type, name, array),
          plain_(writer_.plain()),
          name_(name),
          views_(views),
          buffers_(buffers) {}

    /// Rows [first, end), of which 0 is `skip` behind the array's first.
    void write(std::int64_t skip, std::int64_t first, std::int64_t end) {
        bool const may_be_plain = plain_ > device::StringView16::kInline && plain_ <= kMostPlain;
        for (std::int64_t row = first; row < end; row += kPlainBlock) {
            std::int64_t const count = std::min(kPlainBlock, end - row);
            if (may_be_plain && writer_.are_valid(skip + row, count)) {
                write_plain(skip, row, count);
                continue;
            }
            for (std::int64_t i = row; i < row + count; ++i) {
                views_[i] = device::StringView16();
                if (writer_.is_valid(skip + i)) views_[i] = write(skip, i);
            }
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

    void open_buffer() {
        if (bytes_.size() > kBuffer) {
            end_buffer();
            bytes_.reserve(kBuffer + kBuffer / 8);
        }
        if (open_) return;
        number_ = buffers_.fetch_add(1, std::memory_order_relaxed);
        open_ = true;
    }

    void write_plain(std::int64_t skip, std::int64_t row, std::int64_t count) {
        open_buffer();
        std::size_t const begin = bytes_.size();
        std::byte* const to = bytes_.add(std::size_t(count) * plain_);
        parts_.clear();
        writer_.add_parts(skip + row, 0, parts_);
        put_together(parts_, plain_, count, to);
        for (std::int64_t i = 0; i < count; ++i) {
            views_[row + i] = view_of(begin + std::size_t(i) * plain_, plain_);
        }
    }

    device::StringView16 write(std::int64_t skip, std::int64_t row) {
        open_buffer();
        std::size_t const begin = bytes_.size();
        row_.clear();
        row_.add(skip + row, 1);
        writer_.body(row_, bytes_);
        std::size_t const size = bytes_.size() - begin;
        if (size > kMostBytes) {
            throw Error(ErrorCode::InvalidArgument,
                        "column '" + name_ + "': row " + std::to_string(row) + " takes " +
                            std::to_string(size) + " bytes; a value has less than 2 GiB");
        }
        return view_of(begin, size);
    }

    [[nodiscard]] device::StringView16 view_of(std::size_t begin, std::size_t size) const {
        std::byte const* const value = bytes_.data() + begin;
        device::StringView16 view;
        view.length = std::uint32_t(size);
        if (size <= device::StringView16::kInline) {
            if (size != 0) std::memcpy(view.text, value, size);
            return view;
        }
        std::memcpy(view.ref.prefix, value, sizeof(view.ref.prefix));
        view.ref.buffer = number_;
        view.ref.offset = std::uint32_t(begin);
        return view;
    }

    void end_buffer() {
        if (open_) filled_.push_back({number_, std::move(bytes_)});
        bytes_ = Bytes();
        open_ = false;
    }

    Writer writer_;
    std::size_t const plain_;
    std::string const& name_;
    device::StringView16* const views_;
    std::atomic<std::uint32_t>& buffers_;
    Spans row_;
    std::vector<PlainPart> parts_;
    Bytes bytes_;
    bool open_ = false;
    std::uint32_t number_ = 0;
    std::vector<Filled> filled_;
};

}  // namespace mgi::arrow
