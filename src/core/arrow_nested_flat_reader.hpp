/// \file
/// Arrays that grow by sequences of nested values, their parts aside.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <mgi/device/batch_view.hpp>

#include "core/arrow_export.hpp"
#include "core/arrow_nested.hpp"
#include "core/arrow_nested_bytes.hpp"
#include "core/arrow_nested_parts.hpp"
#include "core/arrow_nested_pattern.hpp"
#include "core/arrow_read_column.hpp"

namespace mgi::arrow {

/// Reads validity, and values that have no parts.
class FlatReader {
protected:
    using Kind = Nested::Kind;
    using Offsets = Nested::Offsets;

    FlatReader(Nested const& type, std::string const& name) : type_(type), name_(name) {
        bool const text = type.kind == Kind::Text && type.offsets < Offsets::Views;
        if (text || type.kind == Kind::List) offsets_.begin(type.is_narrow());
    }

    [[nodiscard]] bool fills_nulls() const {
        return type_.nullable || type_.kind == Kind::Dictionary;
    }

    /// Of so many values of fixed width.
    [[nodiscard]] std::size_t bytes_of(std::int64_t values) const {
        auto const width = std::int64_t(type_.width);
        if (width != 0 && values > kMostRows / width) too_many("bytes than there can be");
        return std::size_t(values) * type_.width;
    }

    /// Bytes do not bound how many there are.
    void add_of_no_bytes(std::int64_t count) {
        if (count > kMostOfNoBytes - count_) too_many("values that take no bytes than 2^31 - 1");
        count_ += count;
    }

    /// Reads the validity of sequences: of the pattern those that are valid, and the others filled in.
    Pattern const& valid_ones(Pattern const& rows, Cursor* in) {
        bool all = true;
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            valid_bits_[row] = in[row].validity(rows.taken(row));
            all = all && valid_bits_[row] == nullptr;
        }
        if (all) {
            rows.each_run([&](bool taken, std::int64_t count) {
                validity_.add(taken || !fills_nulls(), count);
            });
            return rows;
        }
        valid_.clear();
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::uint64_t at = 0;
            for (Pattern::Run const& run : rows.row(row)) {
                if (valid_bits_[row] == nullptr) {
                    validity_.add(true, run.take);
                    valid_.take(run.take);
                } else {
                    add_valid(valid_bits_[row], at, run.take);
                    at += std::uint64_t(run.take);
                }
                validity_.add(!fills_nulls(), run.fill);
                valid_.fill(run.fill);
            }
            valid_.end_row();
        }
        return valid_;
    }
    void add_valid(std::uint8_t const* bits, std::uint64_t at, std::int64_t count) {
        std::int64_t const nulls = validity_.nulls();
        for (std::int64_t i = 0; i < count; i += kBitsOfWord) {
            std::int64_t const few = std::min(kBitsOfWord, count - i);
            validity_.add_word(bits_at(bits, at + std::uint64_t(i), few), few);
        }
        if (!type_.nullable && validity_.nulls() != nulls) Cursor::refuse();
        std::int64_t end = 0;
        each_run(bits, at, count, [&](std::int64_t first, std::int64_t valid) {
            valid_.fill(first - end);
            valid_.take(valid);
            end = first + valid;
        });
        valid_.fill(count - end);
    }

    /// Out of sequences of one value each.
    void fixed_each(Pattern const& rows, Cursor* in) {
        std::byte* const to = room_for(rows);
        std::uint64_t valid = 0;
        with_width(type_.width, [&](auto width) { valid = take_each(rows, width, in, to); });
        bool const all = std::size_t(std::popcount(valid)) == rows.rows();
        if (!all && !type_.nullable) Cursor::refuse();
        count_ += rows.values();
        if (all && rows.few_each()) return add_valid_each(rows);
        if (rows.filled() == 0) return validity_.add_few(valid, rows.values());
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            validity_.add((valid >> row & 1) != 0, 1);
            validity_.add(!fills_nulls(), rows.all()[row].fill);
        }
    }
    /// Of rows' values, all that are taken.
    void add_valid_each(Pattern const& rows) {
        if (rows.filled() == 0 || !fills_nulls()) return validity_.add(true, rows.values());
        validity_.add_few(rows.taken_bits(), rows.values());
    }
    /// The only values of rows, from `offset` on behind these addresses.
    void copy_each(Pattern const& rows, std::byte const* const* from, std::size_t offset) {
        std::byte* const room = room_for(rows);
        // Copies of its own: bytes that are written could be anything's.
        with_width(type_.width, [=, count = rows.rows(), runs = rows.all(), fills = rows.filled() != 0](auto width) {
            std::byte* to = room;
            for (std::size_t row = 0; row < count; ++row, to += width) {
                std::memcpy(to, from[row] + offset, width);
                if (fills) to += std::size_t(runs[row].fill) * width;
            }
        });
    }
    /// For values of one each; zeros where others are filled in.
    [[nodiscard]] std::byte* room_for(Pattern const& rows) {
        std::size_t const bytes = bytes_of(rows.values());
        std::byte* const to = values_.add(bytes);
        if (rows.filled() != 0) std::memset(to, 0, bytes);
        return to;
    }
    /// Returns which are valid.
    template <class Width>
    static std::uint64_t take_each(Pattern const& rows, Width width, Cursor* in, std::byte* to) {
        static constexpr std::byte none[16] = {};
        Pattern::Run const* const runs = rows.all();
        std::size_t const count = rows.rows();
        std::uint64_t valid = 0;
        for (std::size_t row = 0; row < count; ++row) {
            std::byte const* const value = in[row].one(width, none);
            if constexpr (!std::is_same_v<Width, std::size_t>) {
                std::memcpy(to, value, width);
            } else if (value != none) {
                std::memcpy(to, value, width);
            } else {
                std::memset(to, 0, width);
            }
            valid |= std::uint64_t{value != none} << row;
            to += std::size_t(1 + runs[row].fill) * width;
        }
        return valid;
    }

    void bools(Pattern const& rows, Cursor* in) {
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::uint8_t const* const bits = in[row].bits(rows.taken(row));
            std::uint64_t at = 0;
            rows.each(row, [&](bool taken) {
                bits_.add(taken && device::bit_at(bits, at), 1);
                if (taken) ++at;
            });
        }
    }

    void fixed(Pattern const& rows, Cursor* in) {
        auto const width = std::int64_t(type_.width);
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            for (Pattern::Run const& run : rows.row(row)) {
                std::byte const* const from = in[row].values(run.take, width);
                values_.add(from, bytes_of(run.take));
                values_.add_zeros(bytes_of(run.fill));
            }
        }
    }

    void texts(Pattern const& rows, Cursor* in) {
        bool const views = type_.offsets >= Offsets::Views;
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::int64_t const count = rows.taken(row);
            std::byte const* const lengths = in[row].values(count, 4);
            std::int64_t bytes = 0;
            for (std::int64_t i = 0; i < count; ++i) bytes += length_at(lengths, i);
            std::byte const* text = in[row].values(bytes, 1);
            if (!views) values_.add(text, std::size_t(bytes));
            std::int64_t at = 0;
            rows.each(row, [&](bool taken) {
                std::uint32_t const length = taken ? length_at(lengths, at++) : 0;
                if (!views) return add_offset(length);
                views_.add(text, length);
                text += length;
            });
        }
    }

    void add_text(std::byte const* text, std::uint32_t length) {
        if (type_.offsets >= Offsets::Views) return views_.add(text, length);
        values_.add(text, length);
        add_offset(length);
    }

    /// Of so many elements behind the others.
    void add_offset(std::int64_t elements) {
        if (type_.is_narrow() &&
            offsets_.end() + elements > std::numeric_limits<std::int32_t>::max()) {
            too_many("elements or characters than 32-bit offsets count; wider ones can do it");
        }
        offsets_.add(elements);
    }

    [[noreturn]] void too_many(std::string const& what) const {
        throw TooManyRows("column '" + name_ + "': its nested values have more " + what +
                          ". A table comes in pieces, or give it another type");
    }

    void add_flat(std::string_view value) {
        validity_.add(true, 1);
        auto const* const bytes = reinterpret_cast<std::byte const*>(value.data());
        switch (type_.kind) {
            case Kind::Bool: bits_.add(value == "1", 1); break;
            case Kind::Text: add_text(bytes, std::uint32_t(value.size())); break;
            default: values_.add(bytes, value.size());
        }
        ++count_;
    }

    /// Values that no bytes bound, and those of them that take memory.
    static constexpr std::int64_t kMostOfNoBytes = std::numeric_limits<std::int32_t>::max();
    static constexpr std::int64_t kMostInvented = std::int64_t{1} << 22;

    Nested const& type_;
    std::string const& name_;
    std::int64_t count_ = 0;
    GrowingValidity validity_;
    GrowingBits bits_;        ///< of bools
    Bytes values_;            ///< fixed ones, text, indices, a union's codes
    GrowingOffsets offsets_;  ///< of lists and text
    GrowingViews views_;
    // Scratch.
    std::array<std::uint8_t const*, kBlockRows> valid_bits_;
    Pattern valid_;
};

}  // namespace mgi::arrow
