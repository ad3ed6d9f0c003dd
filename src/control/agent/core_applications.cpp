// The agent and its server's applications: what they ask for, and what becomes of what they held.
#include <algorithm>
#include <set>
#include <utility>

#include <mgi/graph.hpp>

#include "control/agent/core.hpp"
#include "control/local/use_words.hpp"
#include "control/local/words.hpp"
#include "core/log.hpp"
#include "core/text.hpp"

namespace mgi::control {

namespace {

bool is_device(Vertex const& vertex) {
    return vertex.kind() == static_cast<std::uint32_t>(VertexKind::Cpu) ||
           vertex.kind() == static_cast<std::uint32_t>(VertexKind::Gpu);
}

bool is_gpu(Vertex const& vertex) {
    return vertex.kind() == static_cast<std::uint32_t>(VertexKind::Gpu);
}

std::uint32_t id_in(Json const& message, char const* field) {
    return static_cast<std::uint32_t>(number_in(message, field, UINT32_MAX));
}

}  // namespace

void AgentCore::application_came(ApplicationId id, std::uint32_t pid, std::uint32_t uid, Time now) {
    now_ = now;
    if (applications_.size() >= kMostApplications) {
        ports_.tell(id,
                    {{"id", 0u},
                     {"error", error_value(ErrorCode::Refused,
                                           "this agent has " + std::to_string(kMostApplications) +
                                               " applications already, its most")}});
        ports_.dismiss(id);
        return;
    }
    Application application;
    application.pid = pid;
    application.uid = uid;
    application.since = now;
    applications_.emplace(id, std::move(application));
}

void AgentCore::application_said(ApplicationId id, Json const& message, Time now, Fd fd) {
    now_ = now;
    auto const found = applications_.find(id);
    if (found == applications_.end()) return;
    Application& application = found->second;
    std::uint64_t request = 0;
    try {
        request = number_in(message, "id", UINT64_MAX);
        said(id, application, message, now, std::move(fd));
    } catch (Error const& error) {
        ports_.tell(id, {{"id", request}, {"error", error_value(error.code(), error.what())}});
        if (application.name.empty()) {  // a hello that was no hello
            ports_.dismiss(id);
            applications_.erase(found);
        }
    }
    dispatch(now);
}

void AgentCore::said(ApplicationId id, Application& application, Json const& message, Time now,
                     Fd fd) {
    std::string const op = text_in(message, "op");
    if (op == "hello") return hello(id, application, message);
    if (application.name.empty()) {
        throw Error(ErrorCode::Refused,
                    "'" + op + "' before a hello: a connection begins with one");
    }
    if (op == "use") return use(id, message);
    if (application.requests >= kMostRequests) {
        throw Error(ErrorCode::Refused, op + ": " + std::to_string(kMostRequests) +
                                            " requests of this application wait already, the most");
    }
    Request request;
    request.application = id;
    request.id = number_in(message, "id", UINT64_MAX);
    request.op = op;
    auto const limit = has(message, "timeout_ms")
                           ? Milliseconds(std::min(number_in(message, "timeout_ms", UINT64_MAX),
                                                   std::uint64_t(kLongestLimit.count())))
                           : kDefaultLimit;
    request.deadline = now + limit;
    if (op == "create_endpoint") return create_endpoint(std::move(request), message);
    if (op == "delete_endpoint") return delete_endpoint(std::move(request), message);
    if (op == "create_channel") return create_channel(std::move(request), message);
    if (op == "delete_channel") return delete_channel(std::move(request), message);
    if (op == "leave_channel") return leave_channel(request, message);
    if (op == "put_part") return put_part(request, message, std::move(fd));
    if (op == "get_part") return get_part(request, message);
    if (op == "share_board") return share_board(request, message, std::move(fd));
    if (op == "gather") return gather(std::move(request), message);
    if (op == "status") {
        request.message = StatusRequest();
        return ask(std::move(request));
    }
    throw Error(ErrorCode::InvalidArgument,
                "there is no '" + op +
                    "'; there are: hello, create_endpoint, delete_endpoint, "
                    "create_channel, delete_channel, leave_channel, put_part, get_part, "
                    "share_board, gather, status, use");
}

void AgentCore::hello(ApplicationId id, Application& application, Json const& message) {
    if (!application.name.empty()) throw Error(ErrorCode::Refused, "a second hello");
    auto const protocol = number_in(message, "protocol", UINT32_MAX);
    if (protocol != kSocketProtocol) {
        throw Error(ErrorCode::Refused,
                    "the application speaks version " + std::to_string(protocol) +
                        " of the agent's protocol, this agent (MGI " + options_.version +
                        ") version " + std::to_string(kSocketProtocol) +
                        "; update the older of the two");
    }
    std::string const name = without_controls(text_in(message, "name", 255));
    struct Announced {
        std::uint32_t endpoint;
        std::uint32_t vertex;
    };
    std::vector<Announced> endpoints;
    struct AnnouncedChannel {
        ClusterPlan plan;
        bool created;
        Json const& message;
    };
    std::vector<AnnouncedChannel> channels;
    if (has(message, "endpoints")) {
        if (message["endpoints"].size() > kMostEndpointsEach) {
            throw Error(ErrorCode::Refused, "a hello with more than " +
                                                std::to_string(kMostEndpointsEach) +
                                                " endpoints, the most that an application has");
        }
        for (Json const& held : message["endpoints"]) {
            endpoints.push_back({id_in(held, "endpoint"), id_in(held, "vertex")});
        }
    }
    if (has(message, "channels")) {
        std::size_t named = 0;
        for (Json const& held : message["channels"]) {
            ClusterPlan plan;
            plan.channel = id_in(held, "channel");
            plan.generation = number_in(held, "generation", UINT64_MAX);
            plan.spec = spec_in(held);
            plan.request = text_in(held, "request");
            named += plan.spec.sources.size() + plan.spec.destinations.size();
            if (named > kMostNamed) {
                throw Error(ErrorCode::Refused, "a hello whose channels name more than " +
                                                    std::to_string(kMostNamed) + " endpoints");
            }
            channels.push_back({std::move(plan), flag_in(held, "created"), held});
        }
    }
    application.name = name.empty() ? "process " + std::to_string(application.pid) : name;
    Json devices = Json::array();
    for (int v = 0; v < graph_.vertices_size(); ++v) {
        Vertex const& vertex = graph_.vertices(v);
        if (!is_device(vertex)) continue;
        devices.push_back({{"vertex", static_cast<std::uint32_t>(v)},
                           {"name", vertex.name()},
                           {"gpu", is_gpu(vertex)}});
    }
    log::info("application {} (process {}) came, with {} endpoints and {} channels",
              application.name, application.pid, endpoints.size(), channels.size());
    ports_.tell(id, {{"id", number_in(message, "id", UINT64_MAX)},
                     {"ok", true},
                     {"protocol", kSocketProtocol},
                     {"agent", session_.sender().agent()},
                     {"server", options_.name},
                     {"devices", std::move(devices)}});
    for (auto const& [endpoint, vertex] : endpoints) {
        auto const held = holdings_.endpoints().find(endpoint);
        bool const others = held != holdings_.endpoints().end() && held->second.application != id;
        bool const known = vertex < std::uint32_t(graph_.vertices_size()) &&
                           is_device(graph_.vertices(static_cast<int>(vertex)));
        if (!others && known) {
            holdings_.add_endpoint(endpoint, {vertex, id, false});
            continue;
        }
        ports_.tell(id, {{"notice", "endpoint_lost"},
                         {"endpoint", endpoint},
                         {"why", others ? "another application holds it"
                                        : "this server has no such device any more"}});
    }
    for (auto& [plan, created, held] : channels) {
        std::uint32_t const channel = plan.channel;
        std::string const why = holdings_.announce(std::move(plan), created ? id : 0);
        if (why.empty()) {
            take_left(id, channel, held);
            continue;
        }
        ports_.tell(
            id,
            {{"notice", "channel_ended"}, {"channel", channel}, {"failed", true}, {"why", why}});
    }
    announce();
    if (!session_.joined()) {
        ports_.tell(id, {{"notice", "controller"}, {"reached", false}, {"why", session_.away()}});
    }
}

void AgentCore::application_left(ApplicationId id, std::string const& why, Time now) {
    now_ = now;
    auto const found = applications_.find(id);
    if (found == applications_.end()) return;
    std::string const name = found->second.name;
    std::uint32_t const uid = found->second.uid;
    applications_.erase(found);
    forget_board(uid);
    for (auto at = requests_.begin(); at != requests_.end();) {
        auto const request = at++;
        if (request->second.application != id) continue;
        if (is_gather(request->second)) {  // the others are not to count on it
            drop(request);
            continue;
        }
        request->second.application = 0;  // what it makes, or has made, is undone
        bool const may_have_made = request->second.session != 0 && makes(request->second.message);
        if (may_have_made && request->second.made == 0) {
            request->second.deadline = std::max(request->second.deadline, now + kGiveBackLimit);
        } else if (request->second.call == 0 && request->second.made == 0) {
            requests_.erase(request);
        }
    }
    std::erase_if(part_waits_, [&](PartWait const& wait) { return wait.application == id; });
    usage_.application_left(id);
    auto const endpoints = holdings_.endpoints_of(id);
    for (std::uint32_t const channel : holdings_.created_by(id)) {
        DeleteChannelRequest undo;
        undo.set_channel(channel);
        bool const gone = !holdings_.endpoints_in(*holdings_.channel(channel), id).empty();
        give_back(std::move(undo), gone ? now + kAfterEndpoints : now);
        holdings_.creator_ended(channel);
    }
    if (!name.empty()) {
        log::info("application {} left: {}; it had {} endpoints", name, why, endpoints.size());
    }
    if (endpoints.empty()) return dispatch(now);
    AgentMessage message;
    for (std::uint32_t const endpoint : endpoints) {
        holdings_.remove_endpoint(endpoint);
        message.mutable_endpoints_gone()->add_endpoints(endpoint);
    }
    message.mutable_endpoints_gone()->set_why("application " + name + " of server " +
                                              options_.name + " has ended: " + why);
    report(std::move(message));
    dispatch(now);
}

std::string AgentCore::device_names() const {
    std::string names;
    for (Vertex const& vertex : graph_.vertices()) {
        if (is_device(vertex)) names += (names.empty() ? "" : ", ") + vertex.name();
    }
    return names;
}

// The device of that name; without one the device with the fewest endpoints, GPUs first.
std::uint32_t AgentCore::place_for(std::string const& device) const {
    std::vector<std::size_t> load(std::size_t(graph_.vertices_size()), 0);
    for (auto const& [id, place] : holdings_.endpoints()) ++load[place.vertex];
    for (auto const& [number, request] : requests_) {
        if (auto const* asked = std::get_if<CreateEndpointRequest>(&request.message)) {
            ++load[asked->vertex()];
        }
    }
    std::optional<std::uint32_t> best;
    for (std::uint32_t v = 0; v < load.size(); ++v) {
        Vertex const& vertex = graph_.vertices(static_cast<int>(v));
        if (!is_device(vertex)) continue;
        if (!device.empty()) {
            if (vertex.name() == device) return v;
            continue;
        }
        auto const rank = [&](std::uint32_t of) {
            return std::pair(!is_gpu(graph_.vertices(static_cast<int>(of))), load[of]);
        };
        if (!best || rank(v) < rank(*best)) best = v;
    }
    if (best) return *best;
    throw Error(ErrorCode::NotFound,
                device.empty() ? "server " + options_.name + " has no CPU and no GPU in its graph"
                               : "there is no device '" + device + "' on server " + options_.name +
                                     "; it has " + device_names());
}

void AgentCore::create_endpoint(Request request, Json const& message) {
    if (holdings_.endpoints_of(request.application).size() >= kMostEndpointsEach) {
        throw Error(ErrorCode::Refused, "this application has " +
                                            std::to_string(kMostEndpointsEach) +
                                            " endpoints already, its most");
    }
    CreateEndpointRequest asked;
    asked.set_vertex(place_for(has(message, "device") ? text_in(message, "device", 255) : ""));
    asked.set_request(text_in(message, "request", 128));
    asked.set_application(name_of(request.application));
    request.message = std::move(asked);
    ask(std::move(request));
}

void AgentCore::delete_endpoint(Request request, Json const& message) {
    std::uint32_t const id = id_in(message, "endpoint");
    auto const found = holdings_.endpoints().find(id);
    if (found == holdings_.endpoints().end() || found->second.application != request.application) {
        throw Error(ErrorCode::NotFound, "endpoint " + std::to_string(id) +
                                             " does not exist, or is not this application's");
    }
    DeleteEndpointRequest asked;
    asked.set_endpoint(id);
    for (auto const& [channel, held] : holdings_.channels()) {
        if (held.left.contains(id)) asked.add_left(channel);
    }
    request.message = std::move(asked);
    ask(std::move(request));
}

void AgentCore::create_channel(Request request, Json const& message) {
    CreateChannelRequest asked;
    *asked.mutable_spec() = proto_of(spec_in(message));
    asked.set_request(text_in(message, "request", 128));
    request.message = std::move(asked);
    ask(std::move(request));
}

void AgentCore::delete_channel(Request request, Json const& message) {
    std::uint32_t const id = id_in(message, "channel");
    HeldPlans const* const held = holdings_.channel(id);
    if (held == nullptr || !holdings_.parties(*held).contains(request.application)) {
        throw Error(ErrorCode::NotFound, "channel " + std::to_string(id) +
                                             " does not exist, or is not this application's");
    }
    DeleteChannelRequest asked;
    asked.set_channel(id);
    request.message = std::move(asked);
    ask(std::move(request));
}

// What an application does with its channels, for the next heartbeat. It has no answer.
void AgentCore::use(ApplicationId id, Json const& message) {
    if (!has(message, "channels")) return;
    for (Json const& figures : message["channels"]) {
        ClusterUse use = use_in(figures);
        HeldPlans const* const held = holdings_.channel(use.channel);
        // It may not know yet that the channel has ended. Who has left a channel is counted already.
        if (held == nullptr || holdings_.endpoints_in(*held, id).empty()) continue;
        usage_.take(id, std::move(use));
    }
}

}  // namespace mgi::control
