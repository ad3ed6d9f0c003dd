#include "control/agent/agent.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <random>
#include <utility>

#include "control/local/words.hpp"
#include "core/log.hpp"
#include "core/private_files.hpp"

namespace mgi::control {

namespace {

constexpr Milliseconds kStatusAge{200};
constexpr Milliseconds kFarewell{500};  // for the controller to end the session

std::string host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "server";
}

AgentOptions completed(AgentOptions options) {
    if (options.name.empty()) options.name = host_name();
    if (options.socket.empty()) options.socket = own_socket();
    if (options.controllers.empty()) {
        throw Error(ErrorCode::InvalidArgument,
                    "an agent needs a controller's address: --controller HOST:PORT");
    }
    return options;
}

CoreOptions core_options(AgentOptions const& options) {
    std::random_device device;
    CoreOptions core;
    core.name = options.name;
    core.version = MGI_VERSION;
    core.graph = message_of(options.graph);
    for (topology::LocalNic const& nic : options.nics) {
        for (topology::PortNames const& ports : nic.ports) {
            for (std::string const& port : ports.interfaces) core.nics[port] = nic.name;
        }
    }
    core.session.controllers = options.controllers;
    core.session.seed = std::uint64_t(device()) << 32 | device();
    core.instance = std::to_string(core.session.seed) + "-" + std::to_string(getpid());
    core.ticket_key = ticket_key(options.socket + ".key");
    core.nobody = user_without_number();
    core.operator_uid = geteuid();
    return core;
}

}  // namespace

ServerGraph message_of(topology::Infrastructure const& infrastructure) {
    if (infrastructure.servers != 1) {
        throw Error(ErrorCode::InvalidArgument,
                    "an agent speaks for one server, and this topology has " +
                        std::to_string(infrastructure.servers));
    }
    ServerGraph graph;
    for (mgi::Vertex const& vertex : infrastructure.graph.vertices) {
        topology::Site const& site = infrastructure.sites[vertex.id];
        Vertex& made = *graph.add_vertices();
        made.set_name(vertex.name);
        made.set_kind(static_cast<std::uint32_t>(vertex.kind));
        made.set_parent(site.parent == topology::kNoVertex ? 0 : site.parent + 1);
        made.set_note(site.note);
        made.set_nic_direct(site.nic_direct);
        bool const spans = site.server == topology::kEveryServer;
        if (spans && vertex.kind == VertexKind::Switch) made.set_domain(vertex.name);
    }
    for (Edge const& edge : infrastructure.graph.edges) {
        Link& link = *graph.add_links();
        link.set_from(edge.from);
        link.set_to(edge.to);
        link.set_gbps(edge.gbps);
        link.set_kind(edge.kind);
    }
    return graph;
}

Agent::Agent(AgentOptions options) : options_(completed(std::move(options))) {
    auto const security = std::make_shared<Security const>(options_.security);
    auto const now = [] { return std::chrono::steady_clock::now(); };
    applications_ = std::make_unique<ApplicationServer>(
        options_.socket, ApplicationServer::Events{
                             [this, now](ApplicationId id, std::uint32_t pid, std::uint32_t uid) {
                                 core_->application_came(id, pid, uid, now());
                             },
                             [this, now](ApplicationId id, Json const& message, Fd fd) {
                                 core_->application_said(id, message, now(), std::move(fd));
                             },
                             [this, now](ApplicationId id, std::string const& why) {
                                 core_->application_left(id, why, now());
                             }});
    // Behind it: whoever has the socket has its key.
    core_ = std::make_unique<AgentCore>(core_options(options_), static_cast<AgentPorts&>(*this));
    link_ = std::make_unique<ControllerLink>(
        security, inbox_,
        LinkEvents{[this, now](std::uint64_t session, ControllerMessage const& message) {
                       core_->session_received(session, message, now());
                   },
                   [this, now](std::uint64_t session, std::string const& why) {
                       core_->session_broken(session, why, now());
                   },
                   [this, now](CallNumber number, CallOutcome outcome) {
                       core_->call_ended(number, std::move(outcome), now());
                   }});
    watch_nics();
    publish_status(now());
    log::info("agent of {}: applications' socket {}", options_.name, options_.socket);
}

Agent::~Agent() = default;

void Agent::watch_nics() {
    if (options_.nics.empty()) return;
    nics_ = std::make_unique<NicWatch>(message_of(options_.graph), options_.nics);
    topology::NicReader reader(options_.nics, options_.sys);
    nics_read(reader.read(true), std::chrono::steady_clock::now());
    poll_ =
        std::make_unique<NicPoll>(std::move(reader), inbox_,
                                  [this](auto const& states, Time now) { nics_read(states, now); });
    for (topology::LocalNic const& nic : options_.nics) log::info("watches {}", nic.name);
}

void Agent::nics_read(std::vector<topology::NicState> const& states, Time now) {
    for (NicWatch::Change const& change : nics_->take(states, now)) {
        log::warn("{}", change.what);
        for (auto const& link : change.links) core_->link_changed(link.from, link.to, link.gbps);
    }
    std::vector<LinkUse> uses;
    for (auto const& used : nics_->uses()) {
        LinkUse& use = uses.emplace_back();
        use.set_from(used.from);
        use.set_to(used.to);
        use.set_gbps(used.gbps);
    }
    core_->links_used(std::move(uses));
}

void Agent::open_session(std::uint64_t session, std::string const& controller) {
    link_->open(session, controller);
}

std::int64_t Agent::wall_ms() const {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<Milliseconds>(now).count() + options_.clock_shift_ms;
}

void Agent::stop() noexcept {
    stop_.store(true);
    inbox_->wake();
}

void Agent::run() {
    while (!stop_.load()) serve_once();
    // Applications that hold something are waited for: another agent may take over within the grace.
    if (!core_->leave("the agent was stopped")) return;
    auto const limit = std::chrono::steady_clock::now() + kFarewell;
    while (core_->joined() && std::chrono::steady_clock::now() < limit) serve_once();
}

void Agent::serve_once() {
    try {
        auto const now = std::chrono::steady_clock::now();
        core_->tick(now);
        publish_status(now);
        auto const left = std::chrono::ceil<Milliseconds>(core_->next() - now);
        auto const limit = std::clamp<std::int64_t>(left.count(), 0, kStatusAge.count());
        pollfd polled[2] = {{inbox_->fd(), POLLIN, 0}, {applications_->fd(), POLLIN, 0}};
        poll(polled, 2, static_cast<int>(limit));
        for (auto const& event : inbox_->take()) event();
        applications_->serve();
    } catch (std::exception const& error) {
        log::error("agent: {}", error.what());
    }
}

void Agent::publish_status(Time now) {
    if (now - status_time_ < kStatusAge) return;
    status_time_ = now;
    std::string text =
        core_->status().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::lock_guard const lock(status_mutex_);
    status_ = std::move(text);
}

std::string Agent::status_json() const {
    std::lock_guard const lock(status_mutex_);
    return status_;
}

}  // namespace mgi::control
