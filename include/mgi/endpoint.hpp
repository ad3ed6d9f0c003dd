/// \file
/// Endpoints: uniquely numbered producers and consumers on devices (paper section 3.1).
#pragma once

#include <cstdint>

namespace mgi {

/// Names an endpoint; a plain value.
struct Endpoint {
    /// The device of an endpoint that is another process'.
    static constexpr std::uint32_t kElsewhere = UINT32_MAX - 1;

    std::uint32_t id = 0;      ///< unique in the runtime, or in its cluster; never used twice
    std::uint32_t device = 0;  ///< index of its device, or kElsewhere

    friend bool operator==(Endpoint const&, Endpoint const&) = default;
};

}  // namespace mgi
