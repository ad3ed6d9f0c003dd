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

#include <mgi/device/batch_view.hpp>
#include <mgi/device/config.hpp>

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
    template <class Width>
    [[nodiscard]] std::size_t bytes_of(std::int64_t values, Width width) const {
        bool const many = width != 0 && values > kMostRows / std::int64_t(std::size_t(width));
        if (many) too_many("bytes than there can be");
        return std::size_t(values) * width;
    }

    /// Bytes do not bound how many there are.
    void add_of_no_bytes(std::int64_t count) {
        if (count > kMostOfNoBytes - count_) too_many(kTooMany);
        count_ += count;
    }

    /// Reads the validity of sequences: of the pattern those that are valid, and the others filled in. Where all
    /// are it is the same pattern.
    Pattern const* valid_ones(Pattern const& rows, Cursor* in) {
        bool all = true;
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::int64_t const count = rows.taken(row);
            valid_bits_[row] = in[row].validity(count);
            if (valid_bits_[row] != nullptr) {
                all = false;
            } else if (std::size_t(count) / 8 > in[row].left()) {
                check_few(count);
            }
        }
        if (all) {
            add_taken(rows);
            return &rows;
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
        return &valid_;
    }
    /// Validity takes no more memory than bytes that are there: those of values have a bit for each at least.
    MGI_COLD void check_few(std::int64_t count) const {
        if (takes_bytes_) Cursor::refuse();
        if (count > kMostOfNoBytes - count_) too_many(kTooMany);
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

    /// Out of sequences.
    void fixed(Pattern const& rows, Cursor* in) {
        with_width(type_.width, [&](auto width) {
            rows.one_each() ? fixed_each(rows, width, in) : fixed_many(rows, width, in);
        });
        count_ += rows.values();
    }
    template <class Width>
    void fixed_many(Pattern const& rows, Width width, Cursor* in) {
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::int64_t const count = rows.taken(row);
            std::uint8_t const* const bits = in[row].validity(count);
            std::int64_t const valid = bits == nullptr ? count : count_ones(bits, count);
            if (valid != count && !type_.nullable) Cursor::refuse();
            std::byte const* value = in[row].values(valid, std::int64_t(std::size_t(width)));
            std::uint64_t at = 0;
            for (Pattern::Run const& run : rows.row(row)) {
                std::byte* const to = values_.add(bytes_of(run.take + run.fill, width));
                std::size_t const bytes = std::size_t(run.take) * width;
                if (bits == nullptr) {
                    if (bytes != 0) std::memcpy(to, value, bytes);
                    value += bytes;
                    validity_.add(true, run.take);
                } else {
                    value = spread(bits, at, run.take, width, value, to);
                    at += std::uint64_t(run.take);
                }
                if (run.fill == 0) continue;
                std::memset(to + bytes, 0, std::size_t(run.fill) * width);
                validity_.add(!fills_nulls(), run.fill);
            }
        }
    }
    /// Values of which those that are valid come one behind another; returns what is behind them.
    template <class Width>
    std::byte const* spread(std::uint8_t const* bits, std::uint64_t at, std::int64_t count,
                            Width width, std::byte const* value, std::byte* to) {
        for (std::int64_t first = 0; first < count; first += kBitsOfWord) {
            std::int64_t const few = std::min(kBitsOfWord, count - first);
            std::uint64_t const word = bits_at(bits, at + std::uint64_t(first), few);
            validity_.add_word(word, few);
            // What stands behind the last valid one may be no value.
            auto const last = std::int64_t(std::bit_width(word));
            for (std::int64_t i = 0; i < last; ++i, to += width) {
                bool const valid = (word >> i & 1) != 0;
                copy_or_zero(to, value, valid, width);
                value += valid ? std::size_t(width) : 0;
            }
            std::memset(to, 0, std::size_t(few - last) * width);
            to += std::size_t(few - last) * width;
        }
        return value;
    }
    /// Without a branch for usual widths.
    template <class Width>
    static void copy_or_zero(std::byte* to, std::byte const* value, bool valid, Width width) {
        static constexpr std::byte none[16] = {};
        if constexpr (!std::is_same_v<Width, std::size_t>) {
            std::memcpy(to, valid ? value : none, width);
        } else if (valid) {
            std::memcpy(to, value, width);
        } else {
            std::memset(to, 0, width);
        }
    }

    template <class Width>
    void fixed_each(Pattern const& rows, Width width, Cursor* in) {
        std::byte* to = room_for(rows, width);
        Pattern::Run const* const runs = rows.all();
        std::size_t const count = rows.rows();
        std::uint64_t valid = 0;
        for (std::size_t row = 0; row < count; ++row) {
            std::byte const* const value = in[row].one(width);
            copy_or_zero(to, value, value != nullptr, width);
            valid |= std::uint64_t{value != nullptr} << row;
            to += std::size_t(1 + runs[row].fill) * width;
        }
        bool const all = std::size_t(std::popcount(valid)) == count;
        if (!all && !type_.nullable) Cursor::refuse();
        if (all) return add_taken(rows);
        if (rows.filled() == 0) return validity_.add_few(valid, rows.values());
        if (rows.few_each()) return validity_.add_few(among_filled(rows, valid), rows.values());
        for (std::size_t row = 0; row < count; ++row) {
            validity_.add((valid >> row & 1) != 0, 1);
            validity_.add(!fills_nulls(), runs[row].fill);
        }
    }
    /// Bits of rows' values, of which these are those that are taken.
    [[nodiscard]] std::uint64_t among_filled(Pattern const& rows, std::uint64_t valid) const {
        std::uint64_t bits = fills_nulls() ? 0 : ~rows.taken_bits();
        std::int64_t at = 0;
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            bits |= (valid >> row & 1) << at;
            at += 1 + rows.all()[row].fill;
        }
        return bits;
    }
    /// The validity of rows' values, where all that are taken are valid.
    void add_taken(Pattern const& rows) {
        if (rows.filled() == 0 || !fills_nulls()) return validity_.add(true, rows.values());
        if (rows.few_each()) return validity_.add_few(rows.taken_bits(), rows.values());
        rows.each_run([&](bool taken, std::int64_t count) { validity_.add(taken, count); });
    }
    /// The only values of rows, from `offset` on behind these addresses.
    void copy_each(Pattern const& rows, std::byte const* const* from, std::size_t offset) {
        with_width(type_.width, [&](auto width) {
            std::byte* to = room_for(rows, width);
            // Copies of its own: bytes that are written could be anything's.
            std::byte const* const* const values = from;
            std::size_t const behind = offset;
            Pattern::Run const* const runs = rows.all();
            std::size_t const count = rows.rows();
            if (rows.filled() == 0) {
                for (std::size_t row = 0; row < count; ++row, to += width) {
                    std::memcpy(to, values[row] + behind, width);
                }
                return;
            }
            for (std::size_t row = 0; row < count; ++row) {
                std::memcpy(to, values[row] + behind, width);
                to += std::size_t(1 + runs[row].fill) * width;
            }
        });
    }
    /// For values of one each; zeros where others are filled in.
    template <class Width>
    [[nodiscard]] std::byte* room_for(Pattern const& rows, Width width) {
        std::size_t const bytes = bytes_of(rows.values(), width);
        std::byte* const to = values_.add(bytes);
        if (rows.filled() != 0) std::memset(to, 0, bytes);
        return to;
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

    void texts(Pattern const& rows, Cursor* in) {
        if (type_.offsets >= Offsets::Views) return views(rows, in);
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::int64_t const bytes = read_lengths(rows, row, in[row]);
            values_.add(in[row].values(bytes, 1), std::size_t(bytes));
        }
        check_offsets();
    }
    void views(Pattern const& rows, Cursor* in) {
        for (std::size_t row = 0; row < rows.rows(); ++row) {
            std::byte const* const lengths = in[row].values(rows.taken(row), 4);
            std::int64_t at = 0;
            rows.each(row, [&](bool taken) {
                std::uint32_t const length = taken ? length_at(lengths, at++) : 0;
                views_.add(in[row].values(length, 1), length);
            });
        }
    }

    /// Of a row's lists or texts, whose lengths come first; returns how many elements or characters they have.
    std::int64_t read_lengths(Pattern const& rows, std::size_t row, Cursor& in) {
        if (!rows.one_each()) return read_many_lengths(rows, row, in);
        std::uint32_t const length = length_at(in.values(1, 4), 0);
        offsets_.add(length);
        for (std::int64_t i = rows.all()[row].fill; i > 0; --i) offsets_.add(0);
        return length;
    }
    [[gnu::noinline]] std::int64_t read_many_lengths(Pattern const& rows, std::size_t row,
                                                     Cursor& in) {
        std::byte const* lengths = in.values(rows.taken(row), 4);
        std::int64_t const first = offsets_.end();
        for (Pattern::Run const& run : rows.row(row)) {
            offsets_.add_lengths(lengths, run.take);
            lengths += 4 * run.take;
            for (std::int64_t i = 0; i < run.fill; ++i) offsets_.add(0);
        }
        return offsets_.end() - first;
    }
    /// Of what was added before.
    void check_offsets() const {
        if (type_.is_narrow() && offsets_.end() > std::numeric_limits<std::int32_t>::max()) {
            too_many("elements or characters than 32-bit offsets count; wider ones can do it");
        }
    }

    void add_text(std::byte const* text, std::uint32_t length) {
        if (type_.offsets >= Offsets::Views) return views_.add(text, length);
        values_.add(text, length);
        add_offset(length);
    }

    /// Of so many elements behind the others.
    void add_offset(std::int64_t elements) {
        offsets_.add(elements);
        check_offsets();
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
    static constexpr char const* kTooMany = "values that take no bytes than 2^31 - 1";
    static constexpr std::int64_t kMostInvented = std::int64_t{1} << 22;

    Nested const& type_;
    std::string const& name_;
    bool takes_bytes_ = true;  ///< a value does
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
