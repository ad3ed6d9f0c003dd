/// \file
/// Fixed-width values that Arrow stores narrower or wider than they lie here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/arrow_format.hpp"
#include "core/arrow_room.hpp"

namespace mgi::arrow {

/// Bytes of a value that is stored so.
std::size_t stored_width(Stored stored);

/// Values [first, first + count) as they lie here.
void const* typed_values(Stored stored, void const* from, std::int64_t first, std::int64_t count,
                         Room& room);

/// The other way. What does not fit loses its upper digits: only values that came from there fit.
void const* stored_values(Stored stored, void const* from, std::int64_t first, std::int64_t count,
                          Room& room);

}  // namespace mgi::arrow
