#include "control/agent/hello.hpp"

#include <utility>

#include "control/agent/core.hpp"
#include "control/local/words.hpp"

namespace mgi::control {

namespace {

/// The field of that name, a list. Throws Error(Refused) for one with more than an application has.
Json const& list_in(Json const& message, char const* field) {
    static Json const none = Json::array();
    if (!has(message, field)) return none;
    if (message[field].size() <= AgentCore::kMostEndpointsEach) return message[field];
    throw Error(ErrorCode::Refused, "a hello with more than " +
                                        std::to_string(AgentCore::kMostEndpointsEach) + " " +
                                        field + ", the most that an application has");
}

}  // namespace

std::vector<HelloEndpoint> endpoints_in_hello(Json const& message) {
    std::vector<HelloEndpoint> endpoints;
    for (Json const& held : list_in(message, "endpoints")) {
        endpoints.push_back({number32_in(held, "endpoint"), number32_in(held, "vertex"),
                             bytes_or_none_in(held, "ticket")});
    }
    return endpoints;
}

std::vector<HelloChannel> channels_in_hello(Json const& message) {
    std::vector<HelloChannel> channels;
    std::size_t named = 0;
    for (Json const& held : list_in(message, "channels")) {
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
        channels.push_back({std::move(plan), flag_in(held, "created"),
                            bytes_or_none_in(held, "ticket"),
                            bytes_or_none_in(held, "creator_ticket"), held});
    }
    return channels;
}

}  // namespace mgi::control
