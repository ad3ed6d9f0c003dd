#include "control/agent/hello.hpp"

#include <utility>

#include "control/agent/core.hpp"
#include "control/local/words.hpp"

namespace mgi::control {

namespace {

std::string ticket_in(Json const& message, char const* field) {
    return has(message, field) ? bytes_in(message, field) : std::string();
}

std::uint32_t number32_in(Json const& message, char const* field) {
    return static_cast<std::uint32_t>(number_in(message, field, UINT32_MAX));
}

}  // namespace

std::vector<HelloEndpoint> endpoints_in_hello(Json const& message) {
    std::vector<HelloEndpoint> endpoints;
    if (!has(message, "endpoints")) return endpoints;
    if (message["endpoints"].size() > AgentCore::kMostEndpointsEach) {
        throw Error(ErrorCode::Refused, "a hello with more than " +
                                            std::to_string(AgentCore::kMostEndpointsEach) +
                                            " endpoints, the most that an application has");
    }
    for (Json const& held : message["endpoints"]) {
        endpoints.push_back({number32_in(held, "endpoint"), number32_in(held, "vertex"),
                             ticket_in(held, "ticket")});
    }
    return endpoints;
}

std::vector<HelloChannel> channels_in_hello(Json const& message) {
    std::vector<HelloChannel> channels;
    if (!has(message, "channels")) return channels;
    if (message["channels"].size() > AgentCore::kMostEndpointsEach) {
        throw Error(ErrorCode::Refused, "a hello with more than " +
                                            std::to_string(AgentCore::kMostEndpointsEach) +
                                            " channels");
    }
    std::size_t named = 0;
    for (Json const& held : message["channels"]) {
        ClusterPlan plan;
        plan.channel = number32_in(held, "channel");
        plan.generation = number_in(held, "generation", UINT64_MAX);
        plan.spec = spec_in(held);
        plan.request = text_in(held, "request");
        named += plan.spec.sources.size() + plan.spec.destinations.size();
        if (named > AgentCore::kMostNamed) {
            throw Error(ErrorCode::Refused, "a hello whose channels name more than " +
                                                std::to_string(AgentCore::kMostNamed) +
                                                " endpoints");
        }
        channels.push_back({std::move(plan), flag_in(held, "created"), ticket_in(held, "ticket"),
                            ticket_in(held, "creator_ticket"), held});
    }
    return channels;
}

}  // namespace mgi::control
