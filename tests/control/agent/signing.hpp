/// \file
/// Tickets for what a test's application says that it holds, as an agent with that key has given them.
#pragma once

#include <string>

#include "control/agent/hello.hpp"
#include "control/agent/owner.hpp"

namespace mgi::control::test {

/// What has a ticket keeps it.
inline Json with_tickets(Json hello, std::string const& key, std::string const& owner) {
    Tickets const tickets{key};
    std::size_t next = 0;
    for (HelloEndpoint const& claim : endpoints_in_hello(hello)) {
        Json& endpoint = hello["endpoints"][next++];
        if (endpoint.contains("ticket")) continue;
        endpoint["ticket"] = bytes_value(tickets.of_endpoint(owner, claim.endpoint, claim.vertex));
    }
    next = 0;
    Json const said = hello;
    for (HelloChannel const& claim : channels_in_hello(said)) {
        Json& channel = hello["channels"][next++];
        if (channel.contains("ticket")) continue;
        channel["ticket"] = bytes_value(tickets.of_plan(owner, claim.plan));
        channel["creator_ticket"] = bytes_value(tickets.of_creator(owner, claim.plan.channel));
    }
    return hello;
}

}  // namespace mgi::control::test
