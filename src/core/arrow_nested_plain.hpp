/// \file
/// Parts of nested values that are nothing but fixed widths without nulls: they are copied without a look at a value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_nested_spans.hpp"

namespace mgi::arrow {

/// Parts of fixed width, whose sequences stand one behind another: those of structs too.
class PlainParts {
public:
    PlainParts() = default;
    /// Of one part.
    PlainParts(std::byte const* from, std::size_t width)
        : parts_({{from, width, 1}}), flags_(1), width_(width) {}

    [[nodiscard]] bool any() const { return !parts_.empty(); }
    /// Of a sequence, besides those of its values.
    [[nodiscard]] std::size_t flags() const { return flags_; }
    /// Of a value.
    [[nodiscard]] std::size_t width() const { return width_; }
    /// Of a sequence of one value.
    [[nodiscard]] std::size_t size() const { return flags_ + width_; }

    /// Those of a struct's next fields.
    void add(PlainParts const& next) {
        parts_.insert(parts_.end(), next.parts_.begin(), next.parts_.end());
        flags_ += next.flags_;
        width_ += next.width_;
    }
    /// As those of fields of a struct, whose first value is `offset` behind theirs.
    [[nodiscard]] PlainParts behind(std::int64_t offset) const {
        PlainParts moved = *this;
        for (Part& part : moved.parts_) {
            if (part.from != nullptr) part.from += std::size_t(offset) * part.width;
        }
        return moved;
    }
    /// As sequences of such structs.
    [[nodiscard]] PlainParts with_flag() const {
        PlainParts wrapped = *this;
        if (any()) ++wrapped.parts_.front().flags;
        if (any()) ++wrapped.flags_;
        return wrapped;
    }

    /// Writes sequences of the values to where each row's is, and moves those places behind it.
    void write(Spans const& values, std::byte** to) const {
        for (std::size_t row = 0; !values.one_each() && row < values.rows(); ++row) {
            to[row] = write_sequence(values.row(row), to[row]);
        }
        if (!values.one_each()) return;
        for (std::size_t row = 0; row < values.rows(); row += kFewRows) {
            std::size_t const few = std::min(kFewRows, values.rows() - row);
            Span const* const of = values.all() + row;
            bool together = values.together();
            for (std::size_t i = 1; together && i < few; ++i) {
                together = to[row + i] == to[row] + i * size();
            }
            together ? write_few(of[0].first, few, to[row]) : write_apart(of, few, to + row);
        }
        for (std::size_t row = 0; row < values.rows(); ++row) to[row] += size();
    }
    /// A sequence of such values; returns what is behind it.
    std::byte* write_sequence(Spans::Row values, std::byte* to) const {
        for (Part const& part : parts_) {
            std::memset(to, 0, part.flags);
            to += part.flags;
            for (Span const& span : values) {
                std::size_t const bytes = std::size_t(span.count) * part.width;
                if (bytes == 0) continue;
                std::memcpy(to, part.from + std::size_t(span.first) * part.width, bytes);
                to += bytes;
            }
        }
        return to;
    }
    /// The sequences of so many values one behind another, from `first` on, of one value each.
    void write_together(std::int64_t first, std::size_t count, std::byte* to) const {
        for (std::size_t row = 0; row < count; row += kFewRows) {
            write_few(first + std::int64_t(row), std::min(kFewRows, count - row),
                      to + row * size());
        }
    }

private:
    /// So many zero bytes stand before its values: they say that these are valid, and the structs that begin with them.
    struct Part {
        std::byte const* from;
        std::size_t width;
        std::size_t flags;
    };

    /// Of so many rows each part is written before the next one: what is written stays in the nearest cache.
    static constexpr std::size_t kFewRows = 16;

    void write_few(std::int64_t first, std::size_t rows, std::byte* to) const {
        std::size_t const size = this->size();
        std::memset(to, 0, rows * size);
        for (Part const& part : parts_) {
            to += part.flags;
            with_width(part.width, [=, from = part.from](auto width) {
                std::byte* at = to;
                std::byte const* value = from + std::size_t(first) * width;
                for (std::size_t row = 0; row < rows; ++row, at += size, value += width) {
                    std::memcpy(at, value, width);
                }
            });
            to += part.width;
        }
    }
    void write_apart(Span const* values, std::size_t rows, std::byte** to) const {
        std::size_t at = 0;
        for (Part const& part : parts_) {
            for (std::size_t flag = 1; flag < part.flags; ++flag, ++at) {
                for (std::size_t row = 0; row < rows; ++row) to[row][at] = std::byte(0);
            }
            with_width(part.width, [=, from = part.from](auto width) {
                for (std::size_t row = 0; row < rows; ++row) {
                    std::byte* const value = to[row] + at;
                    *value = std::byte(0);
                    std::memcpy(value + 1, from + std::size_t(values[row].first) * width, width);
                }
            });
            at += 1 + part.width;
        }
    }

    std::vector<Part> parts_;
    std::size_t flags_ = 0;
    std::size_t width_ = 0;
};

}  // namespace mgi::arrow
