/// \file
/// Endpoints: uniquely numbered producers and consumers on devices (paper section 3.1).
#pragma once

#include <cstdint>

namespace mgi {

/// Names an endpoint; a plain value.
struct Endpoint {
    std::uint32_t id = 0;      ///< unique in the runtime, never used twice
    std::uint32_t device = 0;  ///< index of its device

    friend bool operator==(Endpoint const&, Endpoint const&) = default;
};

}  // namespace mgi
