/// \file
/// Rows of a column by their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mgi/batch.hpp>

#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// Numbers of rows, as a dictionary's indices lie: integers of 1, 2, 4 or 8 bytes.
struct RowNumbers {
    void const* values = nullptr;
    std::size_t width = 8;
    std::int64_t count = 0;
    std::int64_t offset = 0;                 ///< first of them, in both
    std::uint8_t const* validity = nullptr;  ///< whose bit is 0 names no row: a null

    static RowNumbers of(std::vector<std::int64_t> const& rows) {
        return {rows.data(), sizeof(std::int64_t), std::int64_t(rows.size())};
    }
};

/// The first of the numbers, counted from 0, that is no row of `rows`; -1: all that are valid are some.
std::int64_t first_beyond(RowNumbers const& numbers, std::int64_t rows);

/// The rows that `from` has at these numbers, by up to 8 threads. Text lies as Views,
/// and its characters are not copied.
Column take(Column const& from, Type const& type, RowNumbers const& numbers, Room& room);

}  // namespace mgi::arrow
