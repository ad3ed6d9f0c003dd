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

}  // namespace

void AgentCore::application_came(ApplicationId id, std::uint32_t pid, std::uint32_t uid, Time now) {
    now_ = now;
    Application application;
    application.pid = pid;
    application.uid = uid;
    application.user = control::owner_of(uid, "");
    application.since = now;
    std::string const full = applications_of_.refusal(application.user);
    if (!full.empty()) {
        ports_.tell(id, {{"id", 0u}, {"error", error_value(ErrorCode::Refused, full)}});
        ports_.dismiss(id);
        return;
    }
    applications_of_.add(application.user);
    applications_.emplace(id, std::move(application));
}

void AgentCore::application_said(ApplicationId id, Json const& message, Time now, Fd fd) {
    now_ = now;
    auto const found = applications_.find(id);
    if (found == applications_.end()) return;
    Application& application = found->second;
    std::uint64_t request = 0;
    std::uint64_t const next = next_request_;
    try {
        request = number_in(message, "id", UINT64_MAX);
        said(id, application, message, now, std::move(fd));
    } catch (Error const& error) {
        ports_.tell(id, {{"id", request}, {"error", error_value(error.code(), error.what())}});
        if (application.name.empty()) {  // a hello that was no hello
            ports_.dismiss(id);
            applications_of_.remove(application.user);
            applications_.erase(found);
        }
    }
    dispatch(now, next);  // what others asked for waits for other events
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
    Request request;
    request.application = id;
    request.user = application.user;
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
        StatusRequest asked;
        if (!sees_all(application)) asked.set_owner(application.owner);
        request.message = std::move(asked);
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
    std::string const owner = owner_in(application, message);
    auto const endpoints = endpoints_in_hello(message);
    auto const channels = channels_in_hello(message);
    application.owner = owner;
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
    std::size_t unproven = 0;
    for (HelloEndpoint const& claim : endpoints) unproven += take_endpoint(id, claim) ? 0 : 1;
    for (HelloChannel const& claim : channels) unproven += take_channel(id, claim) ? 0 : 1;
    if (unproven > 0) {
        unproven_log_.warn(
            "application " + application.name + " (process " + std::to_string(application.pid) +
                ", user " + std::to_string(application.uid) + ") says that it holds " +
                std::to_string(unproven) + " endpoints and channels without proof: refused",
            now_);
    }
    announce();
    if (!session_.joined()) {
        ports_.tell(id, {{"notice", "controller"}, {"reached", false}, {"why", session_.away()}});
    }
}

// What others do is for those who could read it anyway.
bool AgentCore::sees_all(Application const& application) const {
    std::uint32_t const uid = application.uid;
    return uid == 0 || (uid == options_.operator_uid && uid != options_.nobody);
}

// Whoever has a job's secret acts for that job, on whatever server and as whatever user.
std::string AgentCore::owner_in(Application const& application, Json const& message) const {
    std::string const secret =
        has(message, "job_secret") ? text_in(message, "job_secret", 1024) : "";
    if (secret.empty() && application.uid == options_.nobody) {
        throw Error(ErrorCode::Refused,
                    "this agent sees this process' user as " + std::to_string(application.uid) +
                        ", as it sees all who have no number in its user namespace; give the "
                        "job's processes a secret of their own (MGI_JOB_SECRET)");
    }
    return control::owner_of(application.uid, secret);
}

// What an application says that it holds, it holds where this agent, in this life or an earlier one, has
// given it to the same owner.
bool AgentCore::take_endpoint(ApplicationId id, HelloEndpoint const& claim) {
    Application const& application = applications_.at(id);
    std::string const ticket =
        tickets_.of_endpoint(application.owner, claim.endpoint, claim.vertex);
    auto const held = holdings_.endpoints().find(claim.endpoint);
    bool const others = held != holdings_.endpoints().end() && held->second.application != id;
    bool const known = claim.vertex < std::uint32_t(graph_.vertices_size()) &&
                       is_device(graph_.vertices(static_cast<int>(claim.vertex)));
    bool const proven = is_same_ticket(ticket, claim.ticket);
    if (proven && !others && known) {
        holdings_.add_endpoint(claim.endpoint, {claim.vertex, id, false, application.owner});
        return true;
    }
    ports_.tell(id, {{"notice", "endpoint_lost"},
                     {"endpoint", claim.endpoint},
                     {"why", !proven  ? "nothing proves that it was given to this application"
                             : others ? "another application holds it"
                                      : "this server has no such device any more"}});
    return proven;
}

bool AgentCore::take_channel(ApplicationId id, HelloChannel const& claim) {
    Application const& application = applications_.at(id);
    std::string const& owner = application.owner;
    std::uint32_t const channel = claim.plan.channel;
    bool const proven = is_same_ticket(tickets_.of_plan(owner, claim.plan), claim.ticket) &&
                        (!claim.created ||
                         is_same_ticket(tickets_.of_creator(owner, channel), claim.creator_ticket));
    std::string why = "nothing proves that this application has a part in it";
    if (proven) why = holdings_.announce(claim.plan, claim.created ? id : 0, owner);
    if (why.empty()) {
        take_left(id, channel, claim.message);
        return true;
    }
    ports_.tell(
        id, {{"notice", "channel_ended"}, {"channel", channel}, {"failed", true}, {"why", why}});
    return proven;
}

void AgentCore::application_left(ApplicationId id, std::string const& why, Time now) {
    now_ = now;
    auto const found = applications_.find(id);
    if (found == applications_.end()) return;
    std::string const name = found->second.name;
    std::string const board = board_of(found->second);
    std::string const user = found->second.user;
    applications_of_.remove(user);
    applications_.erase(found);
    forget_board(board);
    for (auto at = requests_.begin(); at != requests_.end();) {
        auto const request = at++;
        if (request->second.application != id) continue;
        if (is_gather(request->second) &&
            !is_failure(request->second)) {  // the others are not to count on it
            drop(request);
            continue;
        }
        request->second.application = 0;  // what it makes, or has made, is undone
        bool const may_have_made = request->second.session != 0 && makes(request->second.message);
        if (may_have_made && request->second.made == 0) {
            request->second.deadline = std::max(request->second.deadline, now + kGiveBackLimit);
        } else if (request->second.call == 0 && request->second.made == 0) {
            forget(request);
        }
    }
    requests_of_.remove(user, std::erase_if(part_waits_, [&](PartWait const& wait) {
                            return wait.application == id;
                        }));
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
    asked.set_owner(owner_of(request.application));
    request.message = std::move(asked);
    ask(std::move(request));
}

void AgentCore::delete_endpoint(Request request, Json const& message) {
    std::uint32_t const id = number32_in(message, "endpoint");
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
    asked.set_owner(owner_of(request.application));
    request.message = std::move(asked);
    ask(std::move(request));
}

void AgentCore::delete_channel(Request request, Json const& message) {
    std::uint32_t const id = number32_in(message, "channel");
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
