// CRC-32C (Castagnoli), which processors compute.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgi::mover::link {

// Goes on from `sum`, which is 0 at the beginning.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t sum, void const* data, std::size_t bytes);

}  // namespace mgi::mover::link
