// Endpoints: on whose device, and what ends with them.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "control/state/cluster.hpp"
#include "control/state/validation.hpp"
#include "core/log.hpp"

namespace mgi::control {

void Cluster::create_endpoint(CallId call, CreateEndpointRequest const& request, Now now,
                              Effects& effects) {
    advance(now, effects);
    ++counters_.calls;
    ServerRecord* const server = sender_of(call, request.sender(), effects);
    if (server == nullptr) return;
    std::string const wrong = wrong_token("the request's name", request.request());
    if (!wrong.empty()) return answer(call, {Problem::InvalidArgument, wrong}, effects);
    std::string const owner = wrong_owner(request.owner());
    if (!owner.empty()) return answer(call, {Problem::InvalidArgument, owner}, effects);
    auto const known = endpoint_requests_.find(request.request());
    if (known != endpoint_requests_.end()) {
        EndpointRecord const& endpoint = endpoints_.at(known->second);
        if (endpoint.server != server->id || endpoint.owner != request.owner()) {
            return answer(call, {Problem::InvalidArgument, "somebody else used this request"},
                          effects);
        }
        if (server->unnamed_endpoints.contains(known->second)) {
            return answer(call, {Problem::Unavailable, kInParts}, effects);
        }
        server->unclaimed_endpoints.erase(known->second);  // whoever knows the request holds it
        effects.emplace_back(Answer{call, Problem::None, {}, known->second, 0});
        return;
    }
    if (over_endpoints_.contains(request.request())) {
        return answer(call,
                      {Problem::Aborted,
                       "the endpoint of this request is gone again, by its agent's own word"},
                      effects);
    }
    if (!carries_endpoints(*server->graph, request.vertex())) {
        return answer(call,
                      {Problem::InvalidArgument,
                       fmt::format("vertex {} of server {} is no CPU or GPU: endpoints live on "
                                   "those",
                                   request.vertex(), server->name)},
                      effects);
    }
    std::string const full = endpoints_of_.refusal(request.owner());
    if (!full.empty()) return answer(call, {Problem::ResourceExhausted, full}, effects);
    auto const id = ids_.take(IdKind::Endpoint, effects);
    if (!id) {
        return answer(call, {Problem::Unavailable, "ids are being reserved: repeat"}, effects);
    }
    EndpointRecord& endpoint = endpoints_[*id];
    endpoint.server = server->id;
    endpoint.vertex = request.vertex();
    endpoint.application = clean_text(request.application(), settings_.limits.text);
    endpoint.owner = request.owner();
    endpoint.request = request.request();
    endpoints_of_.add(endpoint.owner);
    endpoint_requests_.emplace(request.request(), *id);
    server->endpoints.insert(*id);
    log::info("controller: endpoint {} on vertex {} of server {}", *id, request.vertex(),
              server->name);
    effects.emplace_back(Answer{call, Problem::None, {}, *id, 0});
}

void Cluster::delete_endpoint(CallId call, DeleteEndpointRequest const& request, Now now,
                              Effects& effects) {
    advance(now, effects);
    ++counters_.calls;
    ServerRecord const* const server = sender_of(call, request.sender(), effects);
    if (server == nullptr) return;
    std::uint32_t const id = request.endpoint();
    auto const found = endpoints_.find(id);
    bool const gone = found == endpoints_.end() && ids_.given(IdKind::Endpoint, id);
    if (gone) {
        // Perhaps by this very call, whose answer got lost; or it stands in a later part of what this
        // server registers.
        if (ids_.earlier(IdKind::Endpoint, id)) {
            note_ended(ended_earlier_endpoints_, settings_.limits.endpoints, id);
        }
        return answer(call, {}, effects);
    }
    if (found == endpoints_.end() || found->second.server != server->id) {
        return answer(
            call,
            {Problem::NotFound, fmt::format("server {} has no endpoint {}", server->name, id)},
            effects);
    }
    for (std::uint32_t left : request.left()) {
        auto const channel = channels_.find(left);
        if (channel != channels_.end()) leave(channel->second, {id}, effects);
    }
    if (!found->second.channels.empty()) {
        return answer(call,
                      {Problem::FailedPrecondition,
                       fmt::format("endpoint {} is in use by channel {}: delete that first", id,
                                   *found->second.channels.begin())},
                      effects);
    }
    give_up_endpoint(id, "deleted", effects);
    answer(call, {}, effects);
}

// Its agent knows that it was made, so it asks for it no more: what comes of that request was sent before
// its answer, and would make an endpoint of nobody.
void Cluster::give_up_endpoint(std::uint32_t id, std::string const& why, Effects& effects) {
    auto const [owner, request] = std::pair(endpoints_.at(id).owner, endpoints_.at(id).request);
    remove_endpoint(id, why, effects);
    if (request.empty() || !over_endpoints_.insert(request).second) return;
    over_endpoints_kept_.add(owner, request);
    if (over_endpoints_kept_.size() <= settings_.limits.remembered) return;
    over_endpoints_.erase(over_endpoints_kept_.drop_of_largest());
}

void Cluster::remove_endpoint(std::uint32_t id, std::string const& why, Effects& effects) {
    auto const found = endpoints_.find(id);
    if (found == endpoints_.end()) return;
    std::set<std::uint32_t> const channels = found->second.channels;
    for (std::uint32_t channel : channels) {
        end(channels_.at(channel), true, Problem::Aborted,
            fmt::format("endpoint {} is gone: {}", id, why), effects);
    }
    ServerRecord& server = servers_.at(found->second.server);
    server.endpoints.erase(id);
    server.unclaimed_endpoints.erase(id);
    server.unnamed_endpoints.erase(id);
    endpoint_requests_.erase(found->second.request);
    if (ids_.earlier(IdKind::Endpoint, id)) {
        note_ended(ended_earlier_endpoints_, settings_.limits.endpoints, id);
    }
    endpoints_of_.remove(found->second.owner);
    endpoints_.erase(found);
    gathers_.endpoint_gone(id, why, timers_, effects);
    log::info("controller: endpoint {} is gone: {}", id, why);
}

}  // namespace mgi::control
