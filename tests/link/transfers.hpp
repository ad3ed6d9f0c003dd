// Transfers for tests of a link's parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mover/link/types.hpp"

namespace mgi::mover::link {

inline std::array<char, 1000> some_bytes;

inline Transfer transfer_of(std::uint64_t channel, std::uint64_t sequence, std::size_t bytes) {
    Transfer transfer;
    transfer.key = {channel, 1, 2, sequence};
    transfer.pieces = {{some_bytes.data(), bytes}};
    transfer.token = sequence;
    return transfer;
}

}  // namespace mgi::mover::link
