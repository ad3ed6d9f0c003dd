/// \file
/// Values of host columns as they lie in a GPU's memory: one after the other, texts by offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <mgi/gpu_copies.hpp>

#include "gpu/pinned_copies.hpp"

namespace mgi::gpu {

/// Rows [begin, end) of some, of one column.
struct ColumnRows {
    HostRows const& rows;
    Column const& column;
    std::int64_t begin = 0;
    std::int64_t end = 0;

    /// Calls `visit(row)` with each one's place in the column's buffers.
    template <class Visit>
    void each(Visit const& visit) const {
        std::int64_t const base = column.offset + rows.first;
        if (rows.numbers == nullptr) {
            for (std::int64_t i = begin; i < end; ++i) visit(base + i);
        } else {
            for (std::int64_t i = begin; i < end; ++i) visit(base + rows.numbers[i]);
        }
    }
    /// Of the first one.
    [[nodiscard]] std::int64_t place() const {
        return column.offset + rows.first + (rows.numbers != nullptr ? rows.numbers[begin] : begin);
    }
    [[nodiscard]] std::int64_t count() const { return end - begin; }
    [[nodiscard]] bool consecutive() const { return rows.numbers == nullptr; }
};

/// Of rows with numbers. They lie apart, so those that come later are fetched ahead.
template <std::size_t kWidth>
void put_some(char* to, ColumnRows const& from, char const* values) {
    constexpr std::int64_t kAhead = 32;
    char const* const base = values + std::size_t(from.column.offset + from.rows.first) * kWidth;
    std::uint16_t const* const numbers = from.rows.numbers;
    for (std::int64_t i = from.begin; i < from.end; ++i) {
        if (i + kAhead < from.end) __builtin_prefetch(base + numbers[i + kAhead] * kWidth);
        std::memcpy(to, base + numbers[i] * kWidth, kWidth);
        to += kWidth;
    }
}

/// Values of a fixed width.
inline void put_values(char* to, ColumnRows const& from, std::size_t width) {
    auto const* const values = static_cast<char const*>(from.column.values);
    if (from.consecutive()) {
        std::memcpy(to, values + std::size_t(from.place()) * width,
                    std::size_t(from.count()) * width);
        return;
    }
    switch (width) {
        case 1: return put_some<1>(to, from, values);
        case 2: return put_some<2>(to, from, values);
        case 4: return put_some<4>(to, from, values);
        case 8: return put_some<8>(to, from, values);
        case 16: return put_some<16>(to, from, values);
        default:
            from.each([&](std::int64_t row) {
                std::memcpy(to, values + std::size_t(row) * width, width);
                to += width;
            });
    }
}

/// Sets bits of `to`, which are 0, from number `at` on, to those of `bits`; null: all of them.
inline void put_bits(std::uint8_t* to, std::size_t at, ColumnRows const& from,
                     std::uint8_t const* bits) {
    if (from.consecutive() && at % 8 == 0 && (bits == nullptr || from.place() % 8 == 0)) {
        std::size_t const whole = std::size_t(from.count()) / 8;
        if (bits == nullptr) {
            std::memset(to + at / 8, 0xff, whole);
        } else {
            std::memcpy(to + at / 8, bits + from.place() / 8, whole);
        }
        for (std::size_t i = 8 * whole; i < std::size_t(from.count()); ++i) {
            std::size_t const row = std::size_t(from.place()) + i;
            bool const one = bits == nullptr || (bits[row / 8] >> (row % 8) & 1) != 0;
            to[(at + i) / 8] |= std::uint8_t(unsigned(one) << ((at + i) % 8));
        }
        return;
    }
    from.each([&](std::int64_t row) {
        bool const one = bits == nullptr || (bits[row / 8] >> (row % 8) & 1) != 0;
        to[at / 8] |= std::uint8_t(unsigned(one) << (at % 8));
        ++at;
    });
}

/// The characters of a column's rows. Those of nulls count where texts lie by offsets, so that rows that follow each
/// other are copied together.
class Texts {
public:
    explicit Texts(ColumnRows const& from) : from_(from), column_(from.column) {}

    /// Calls `visit(text)` for each row.
    template <class Visit>
    void each(Visit const& visit) const {
        switch (column_.encoding) {
            case Encoding::Offsets32: each_between<std::int32_t>(visit); break;
            case Encoding::Offsets64: each_between<std::int64_t>(visit); break;
            default: each_view(visit);
        }
    }
    [[nodiscard]] std::size_t bytes() const {
        if (is_one_piece()) return piece().size();
        std::size_t sum = 0;
        each([&](std::string_view text) { sum += text.size(); });
        return sum;
    }
    /// Whether all of them follow each other.
    [[nodiscard]] bool is_one_piece() const {
        return from_.consecutive() &&
               (column_.encoding == Encoding::Offsets32 || column_.encoding == Encoding::Offsets64);
    }
    [[nodiscard]] std::string_view piece() const {
        return column_.encoding == Encoding::Offsets32 ? between<std::int32_t>()
                                                       : between<std::int64_t>();
    }

private:
    [[nodiscard]] char const* characters() const {
        return reinterpret_cast<char const*>(column_.bytes);
    }
    template <class Offset>
    [[nodiscard]] std::string_view between() const {
        if (from_.count() == 0) return {};
        auto const* const at = static_cast<Offset const*>(column_.values) + from_.place();
        return {characters() + at[0], std::size_t(at[from_.count()] - at[0])};
    }
    template <class Offset, class Visit>
    void each_between(Visit const& visit) const {
        auto const* const offsets = static_cast<Offset const*>(column_.values);
        from_.each([&](std::int64_t row) {
            auto const* const at = offsets + row;
            visit(std::string_view(characters() + at[0], std::size_t(at[1] - at[0])));
        });
    }
    template <class Visit>
    void each_view(Visit const& visit) const {
        RecordBatch const& batch = *from_.rows.batch;
        std::size_t const c = std::size_t(&column_ - batch.columns.data());
        from_.each([&](std::int64_t row) { visit(batch.string_at(c, row - column_.offset)); });
    }

    ColumnRows const& from_;
    Column const& column_;
};

/// Bytes of any number that are put behind each other, a piece at a time.
class PieceStream {
public:
    PieceStream(PieceWriter& writer, char* to) : writer_(writer), to_(to) {}

    void put(char const* from, std::size_t bytes) {
        while (bytes != 0) {
            if (room_ == nullptr) room_ = writer_.room();
            std::size_t const some = bytes < kPieceBytes - used_ ? bytes : kPieceBytes - used_;
            std::memcpy(room_ + used_, from, some);
            used_ += some;
            from += some;
            bytes -= some;
            if (used_ == kPieceBytes) send();
        }
    }
    void send() {
        if (used_ == 0) return;
        writer_.send(to_, used_);
        to_ += used_;
        used_ = 0;
        room_ = nullptr;
    }

private:
    PieceWriter& writer_;
    char* to_;
    char* room_ = nullptr;
    std::size_t used_ = 0;
};

}  // namespace mgi::gpu
