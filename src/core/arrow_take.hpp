/// \file
/// Rows of a column by their numbers.
#pragma once

#include <cstdint>
#include <vector>

#include <mgi/batch.hpp>

#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// No row: a null.
inline constexpr std::int64_t kNoRow = -1;

/// The rows that `from` has at these numbers, each one of the column's or kNoRow. Text lies as Views, and
/// its characters are not copied.
Column take(Column const& from, Type const& type, std::vector<std::int64_t> const& rows,
            Room& room);

}  // namespace mgi::arrow
