/// \file
/// Arrays without parts, as nested values are written.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include <mgi/arrow_abi.hpp>
#include <mgi/device/batch_view.hpp>
#include <mgi/device/layout.hpp>
#include <mgi/error.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_nested_spans.hpp"
#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// A value's bytes.
inline constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();

/// Writes the bodies of bools, fixed widths and text; what `Writer` knows of its array.
class FlatWriter {
    using StringView16 = device::StringView16;

public:
    FlatWriter(Nested const& type, std::string const& name, ArrowArray const& array)
        : type_(type), name_(name), array_(array), offset_(array.offset) {
        check_nested_array(type, name, array);
        if (nested_has_validity(type.kind) && array.null_count != 0 &&
            array.buffers[0] != nullptr) {
            validity_ = static_cast<std::uint8_t const*>(array.buffers[0]);
        }
    }

    [[nodiscard]] bool is_valid(std::int64_t i) const {
        return validity_ == nullptr || device::bit_at(validity_, std::uint64_t(offset_ + i));
    }
    /// Whether values [first, first + count) are valid.
    [[nodiscard]] bool are_valid(std::int64_t first, std::int64_t count) const {
        if (validity_ == nullptr) return true;
        bool all = true;
        for (std::int64_t i = 0; i < count; i += kBitsOfWord) {
            std::int64_t const few = std::min(kBitsOfWord, count - i);
            all &= bits_at(validity_, std::uint64_t(offset_ + first + i), few) == ones(few);
        }
        return all;
    }

protected:
    using Kind = Nested::Kind;
    using Offsets = Nested::Offsets;

    [[noreturn]] void malformed(std::string const& what) const {
        throw Error(ErrorCode::InvalidArgument, "column '" + name_ + "': the Arrow array " + what);
    }

    /// Null where an array of no rows lacks the buffer.
    template <class T>
    [[nodiscard]] T const* values(std::int64_t buffer) const {
        auto const* const first = static_cast<T const*>(array_.buffers[buffer]);
        return first == nullptr ? nullptr : first + offset_;
    }
    [[nodiscard]] std::byte const* fixed_values() const {
        auto const* const first = static_cast<std::byte const*>(array_.buffers[1]);
        return first == nullptr ? nullptr : first + std::size_t(offset_) * type_.width;
    }
    [[nodiscard]] std::byte const* characters() const {
        return static_cast<std::byte const*>(array_.buffers[2]);
    }

    /// Calls `call(offsets)` with those of lists or text that have no views.
    template <class Call>
    void with_offsets(Call const& call) const {
        type_.is_narrow() ? call(values<std::int32_t>(1)) : call(values<std::int64_t>(1));
    }

    [[nodiscard]] std::uint32_t length_of(std::int64_t count) const {
        if (count > std::int64_t(kMostBytes)) malformed("has a value of 2 GiB or more");
        return std::uint32_t(count);
    }

    /// Adds to each row's size the bytes of its body, besides those that it returns, which every row has.
    std::size_t measure_flat(Spans const& values, std::size_t* sizes) const {
        switch (type_.kind) {
            case Kind::Bool: return measure_bools(values, sizes);
            case Kind::Fixed: return measure_fixed(values, sizes);
            default: return measure_texts(values, sizes);
        }
    }
    /// Writes what was measured to where each row's is, and moves those places behind it.
    void write_flat(Spans const& values, std::byte** to) const {
        switch (type_.kind) {
            case Kind::Bool: return write_bools(values, to);
            case Kind::Fixed: return write_fixed(values, to);
            default: return write_texts(values, to);
        }
    }

    /// The same for sequences of fixed width, nulls among them: `nulls_` then says which rows have some.
    std::size_t measure_nullable(Spans const& values, std::size_t* sizes) {
        std::size_t const width = type_.width;
        nulls_ = 0;
        if (values.one_each()) {
            find_null_rows(values);
            if (nulls_ == 0) return 1 + width;
            check_nullable();
            for (std::size_t row = 0; row < values.rows(); ++row) {
                sizes[row] += is_null_row(row) ? 1 : width;
            }
            return 1;
        }
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::int64_t const count = values.count(row);
            std::int64_t valid = 0;
            each_word(values.row(row),
                      [&](std::int64_t, std::uint64_t word) { valid += std::popcount(word); });
            sizes[row] += length_of(std::int64_t(length_of(valid) * width));
            if (valid == count) continue;
            check_nullable();
            set_null_row(row);
            sizes[row] += bytes_of_bits(count);
        }
        return 1;
    }
    void write_nullable(Spans const& values, std::byte** to) const {
        with_width(type_.width, [&](auto width) {
            if (values.one_each()) return write_one_each(values, width, to);
            for (std::size_t row = 0; row < values.rows(); ++row) {
                *to[row]++ = std::byte(is_null_row(row));
                if (!is_null_row(row)) {
                    copy_fixed(values.row(row), to[row]);
                } else {
                    to[row] = write_bits(values, row, to[row]);
                    to[row] = write_valid_ones(values.row(row), width, to[row]);
                }
            }
        });
    }
    void check_nullable() const {
        if (!type_.nullable) malformed("has nulls in a part that is not nullable");
    }

    [[nodiscard]] bool is_null_row(std::size_t row) const { return (nulls_ >> row & 1) != 0; }
    void set_null_row(std::size_t row) { nulls_ |= std::uint64_t{1} << row; }
    /// Sets `nulls_` of rows of one value each.
    void find_null_rows(Spans const& values) {
        nulls_ = 0;
        if (values.rows() == 0) return;
        auto const first = std::uint64_t(offset_ + values.all()[0].first);
        auto const count = std::int64_t(values.rows());
        if (values.together()) {
            std::int64_t const few = std::min(kBitsOfWord, count);
            nulls_ = ~bits_at(validity_, first, few) & ones(few);
            if (count == few) return;
            std::uint64_t const more = bits_at(validity_, first + std::uint64_t(few), count - few);
            nulls_ |= (~more & ones(count - few)) << few;
            return;
        }
        for (std::size_t row = 0; row < values.rows(); ++row) {
            nulls_ |= std::uint64_t{!is_valid(values.all()[row].first)} << row;
        }
    }

    /// The validity of a row's values; returns what is behind it.
    std::byte* write_bits(Spans const& values, std::size_t row, std::byte* to) const {
        auto* const bits = reinterpret_cast<std::uint8_t*>(to);
        std::size_t const bytes = bytes_of_bits(values.count(row));
        Spans::Row const spans = values.row(row);
        if (spans.end() - spans.begin() == 1) {
            each_word(spans, [&](std::int64_t i, std::uint64_t word) {
                std::size_t const at = std::size_t(i - spans.begin()->first) / 8;
                std::memcpy(bits + at, &word, std::min(bytes - at, std::size_t(kBitsOfWord) / 8));
            });
            return to + bytes;
        }
        std::memset(to, 0, bytes);
        std::size_t at = 0;
        values.each(row, [&](std::int64_t i) {
            if (is_valid(i)) set_bit(bits, at);
            ++at;
        });
        return to + bytes;
    }

    static std::byte* put_length(std::byte* to, std::int64_t length) {
        auto const narrow = std::uint32_t(length);
        std::memcpy(to, &narrow, sizeof narrow);
        return to + sizeof narrow;
    }

    /// Those of so many lists or texts.
    template <class Offset>
    static std::byte* put_differences(std::byte* to, Offset const* offsets, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
            to = put_length(
                to, std::int64_t(load_at(offsets, i + 1)) - std::int64_t(load_at(offsets, i)));
        }
        return to;
    }
    /// As `measure` does.
    static std::size_t add_lengths(Spans const& values, std::size_t* sizes) {
        if (values.one_each()) return sizeof(std::uint32_t);
        for (std::size_t row = 0; row < values.rows(); ++row) {
            sizes[row] += sizeof(std::uint32_t) * std::size_t(values.count(row));
        }
        return 0;
    }

private:
    /// Calls `each(first, bits)` with the validity of values from `first` on, at most kBitsOfWord of them.
    template <class Each>
    void each_word(Spans::Row spans, Each const& each) const {
        for (Span const& span : spans) {
            for (std::int64_t i = 0; i < span.count; i += kBitsOfWord) {
                std::int64_t const first = span.first + i;
                each(first, bits_at(validity_, std::uint64_t(offset_ + first),
                                    std::min(kBitsOfWord, span.count - i)));
            }
        }
    }

    /// Without a branch that depends on validity, which may be anyhow.
    template <class Width>
    void write_one_each(Spans const& values, Width width, std::byte** to) const {
        std::byte const* const from = fixed_values();
        std::byte unused[16];
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::byte* const at = to[row];
            std::byte const* const value = from + std::size_t(values.all()[row].first) * width;
            std::size_t const null = is_null_row(row) ? 1 : 0;
            at[null] = std::byte(0);
            at[0] = std::byte(null);
            if constexpr (!std::is_same_v<Width, std::size_t>) {
                std::memcpy(null != 0 ? unused : at + 1, value, width);
            } else if (null == 0) {
                std::memcpy(at + 1, value, width);
            }
            to[row] = at + (null != 0 ? 2 : 1 + width);
        }
    }
    /// Likewise: what is written of a null one the next valid one overwrites.
    template <class Width>
    std::byte* write_valid_ones(Spans::Row spans, Width width, std::byte* to) const {
        std::byte const* const from = fixed_values();
        each_word(spans, [&](std::int64_t first, std::uint64_t word) {
            std::byte const* value = from + std::size_t(first) * width;
            for (; word != 0; word >>= 1, value += width) {
                std::memcpy(to, value, width);
                to += (word & 1) != 0 ? std::size_t(width) : 0;
            }
        });
        return to;
    }

    static std::size_t measure_bools(Spans const& values, std::size_t* sizes) {
        if (values.one_each()) return 1;
        for (std::size_t row = 0; row < values.rows(); ++row) {
            sizes[row] += bytes_of_bits(values.count(row));
        }
        return 0;
    }
    void write_bools(Spans const& values, std::byte** to) const {
        auto const* const from = static_cast<std::uint8_t const*>(array_.buffers[1]);
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::size_t const bytes = bytes_of_bits(values.count(row));
            auto* const bits = reinterpret_cast<std::uint8_t*>(to[row]);
            std::memset(bits, 0, bytes);
            std::size_t at = 0;
            values.each(row, [&](std::int64_t i) {
                if (device::bit_at(from, std::uint64_t(offset_ + i))) set_bit(bits, at);
                ++at;
            });
            to[row] += bytes;
        }
    }

    std::size_t measure_fixed(Spans const& values, std::size_t* sizes) const {
        if (values.one_each()) return type_.width;
        for (std::size_t row = 0; row < values.rows(); ++row) {
            for (Span const& span : values.row(row)) {
                std::size_t const bytes = length_of(span.count) * type_.width;
                sizes[row] += length_of(std::int64_t(bytes));
            }
        }
        return 0;
    }
    void write_fixed(Spans const& values, std::byte** to) const {
        for (std::size_t row = 0; row < values.rows(); ++row) copy_fixed(values.row(row), to[row]);
    }
    void copy_fixed(Spans::Row spans, std::byte*& to) const {
        std::byte const* const from = fixed_values();
        for (Span const& span : spans) {
            std::size_t const bytes = std::size_t(span.count) * type_.width;
            std::memcpy(to, from + std::size_t(span.first) * type_.width, bytes);
            to += bytes;
        }
    }

    std::size_t measure_texts(Spans const& values, std::size_t* sizes) const {
        if (type_.offsets >= Offsets::Views) {
            measure_views(values, sizes);
        } else {
            with_offsets([&](auto const* offsets) { measure_behind(offsets, values, sizes); });
        }
        return add_lengths(values, sizes);
    }
    template <class Offset>
    void measure_behind(Offset const* offsets, Spans const& values, std::size_t* sizes) const {
        bool rising = true;
        std::int64_t most = 0;
        for (std::size_t row = 0; row < values.rows(); ++row) {
            for (Span const& span : values.row(row)) {
                Offset const* const own = offsets + span.first;
                auto const begin = std::int64_t(load_at(own, 0));
                std::int64_t const bytes = difference(load_at(own, span.count), begin);
                rising &= begin >= 0;
                for (std::int64_t i = 0; i < span.count; ++i) {
                    rising &= load_at(own, i) <= load_at(own, i + 1);
                }
                most = std::max(most, bytes);
                sizes[row] += std::size_t(bytes);
            }
        }
        if (!rising) malformed("has offsets that decrease");
        if (most != 0 && characters() == nullptr) malformed("has no characters");
        static_cast<void>(length_of(most));
    }
    void measure_views(Spans const& values, std::size_t* sizes) const {
        auto const* const views = this->values<StringView16>(1);
        // Validity, views, data buffers, and their sizes.
        std::int64_t const buffers = array_.n_buffers - 3;
        auto const* const ends = static_cast<std::int64_t const*>(array_.buffers[buffers + 2]);
        std::uint32_t most = 0;
        for (std::size_t row = 0; row < values.rows(); ++row) {
            values.each(row, [&](std::int64_t i) {
                StringView16 const view = load_at(views, i);
                sizes[row] += view.length;
                most = std::max(most, view.length);
                if (view.length <= StringView16::kInline) return;
                if (view.ref.buffer >= buffers) {
                    malformed("has a view into a data buffer that it has not");
                }
                if (view.ref.offset + std::int64_t{view.length} > load_at(ends, view.ref.buffer)) {
                    malformed("has a view of characters that it has not");
                }
            });
        }
        static_cast<void>(length_of(most));
    }
    void write_texts(Spans const& values, std::byte** to) const {
        if (type_.offsets >= Offsets::Views) return write_views(values, to);
        with_offsets([&](auto const* offsets) { write_behind(offsets, values, to); });
    }
    template <class Offset>
    void write_behind(Offset const* offsets, Spans const& values, std::byte** to) const {
        std::byte const* const text = characters();
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::byte* at = to[row];
            for (Span const& span : values.row(row)) {
                at = put_differences(at, offsets + span.first, span.count);
            }
            for (Span const& span : values.row(row)) {
                auto const begin = std::size_t(load_at(offsets, span.first));
                std::size_t const bytes =
                    std::size_t(load_at(offsets, span.first + span.count)) - begin;
                if (bytes != 0) std::memcpy(at, text + begin, bytes);
                at += bytes;
            }
            to[row] = at;
        }
    }
    void write_views(Spans const& values, std::byte** to) const {
        auto const* const views = this->values<StringView16>(1);
        for (std::size_t row = 0; row < values.rows(); ++row) {
            std::byte* at = to[row];
            values.each(row,
                        [&](std::int64_t i) { at = put_length(at, load_at(views, i).length); });
            values.each(row, [&](std::int64_t i) {
                StringView16 const view = load_at(views, i);
                std::byte const* from =
                    reinterpret_cast<std::byte const*>(views + i) + offsetof(StringView16, text);
                if (view.length > StringView16::kInline) {
                    from = static_cast<std::byte const*>(array_.buffers[2 + view.ref.buffer]) +
                           view.ref.offset;
                }
                std::memcpy(at, from, view.length);
                at += view.length;
            });
            to[row] = at;
        }
    }

protected:
    Nested const& type_;
    std::string const& name_;
    ArrowArray const& array_;
    std::int64_t const offset_;
    std::uint8_t const* validity_ = nullptr;
    std::uint64_t nulls_ = 0;  ///< scratch: which rows of a block have nulls
};

}  // namespace mgi::arrow
