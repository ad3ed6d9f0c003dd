/// \file
/// What an application says in its hello that it holds: it comes to an agent that was started again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/cluster.hpp>

#include "control/local/cbor.hpp"

namespace mgi::control {

struct HelloEndpoint {
    std::uint32_t endpoint = 0;
    std::uint32_t vertex = 0;
    std::string ticket;  ///< as Tickets give them; without one, empty
};

struct HelloChannel {
    ClusterPlan plan;
    bool created = false;
    std::string ticket;
    std::string creator_ticket;
    Json const& message;  ///< all of it; the hello's own
};

/// Throw Error(InvalidArgument) for what is no such list, Error(Refused) for more than one application has.
std::vector<HelloEndpoint> endpoints_in_hello(Json const& message);
std::vector<HelloChannel> channels_in_hello(Json const& message);

}  // namespace mgi::control
