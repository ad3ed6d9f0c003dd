#include "load.hpp"

#include <algorithm>
#include <future>
#include <utility>

#include <mgi/graph.hpp>

#include "control/state/settings.hpp"

namespace mgi::control::bench {
namespace {

constexpr std::uint32_t kGpus = 8;

void link(ServerGraph& graph, std::uint32_t a, std::uint32_t b, double gbps, char const* kind) {
    for (bool const there : {true, false}) {
        Link& made = *graph.add_links();
        made.set_from(there ? a : b);
        made.set_to(there ? b : a);
        made.set_gbps(gbps);
        made.set_kind(kind);
    }
}

std::uint32_t vertex(ServerGraph& graph, std::string const& name, VertexKind kind) {
    Vertex& made = *graph.add_vertices();
    made.set_name(name);
    made.set_kind(static_cast<std::uint32_t>(kind));
    return static_cast<std::uint32_t>(graph.vertices_size() - 1);
}

/// GPUs at an NVSwitch, each with a NIC of its own: vertices 0 to 7 are the GPUs.
ServerGraph server_graph() {
    ServerGraph graph;
    for (std::uint32_t i = 0; i < kGpus; ++i) {
        vertex(graph, "gpu" + std::to_string(i), VertexKind::Gpu);
    }
    std::uint32_t const cpu = vertex(graph, "cpu0", VertexKind::Cpu);
    std::uint32_t const nvswitch = vertex(graph, "nvswitch", VertexKind::Switch);
    std::uint32_t const network = vertex(graph, "network", VertexKind::Network);
    for (std::uint32_t i = 0; i < kGpus; ++i) {
        std::uint32_t const pcie = vertex(graph, "pcie" + std::to_string(i), VertexKind::Switch);
        std::uint32_t const nic = vertex(graph, "nic" + std::to_string(i), VertexKind::Nic);
        link(graph, i, nvswitch, 450, "nvlink");
        link(graph, i, pcie, 50, "pcie");
        link(graph, nic, pcie, 50, "pcie");
        link(graph, pcie, cpu, 50, "pcie");
        link(graph, nic, network, 50, "network");
    }
    return graph;
}

}  // namespace

std::vector<double> Latencies::take() {
    std::lock_guard const lock(mutex_);
    std::vector<double> all = std::exchange(taken_, {});
    std::sort(all.begin(), all.end());
    return all;
}

LoadAgent::LoadAgent(std::string name, Latencies& beats) : name_(std::move(name)), beats_(beats) {
    sender_.set_protocol(kProtocol);
}

void LoadAgent::start(net::Client& client, std::string const& address,
                      std::shared_ptr<Security const> const& security) {
    side_ = ClientSide::open(client, address, security,
                             {[this](ControllerMessage const& message) { heard(message); },
                              [this](Outcome const& why) { over(why.text()); }});
    AgentMessage message;
    Register& word = *message.mutable_register_();
    word.set_name(name_);
    word.set_instance("instance of " + name_);
    *word.mutable_graph() = server_graph();
    say(std::move(message));
}

bool LoadAgent::wait_registered(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return registered_ || over_; });
    return registered_;
}

void LoadAgent::heard(ControllerMessage const& message) {
    if (message.has_heartbeat_ack()) {
        Clock::time_point sent;
        {
            std::lock_guard const lock(mutex_);
            sent = beat_at_;
        }
        beats_.add(sent);
    } else if (message.has_prepare_plan()) {
        AgentMessage accepted;
        accepted.mutable_plan_ack()->set_channel(message.prepare_plan().channel());
        accepted.mutable_plan_ack()->set_generation(message.prepare_plan().generation());
        accepted.mutable_plan_ack()->set_accepted(true);
        say(std::move(accepted));
    } else if (message.has_registered()) {
        std::lock_guard const lock(mutex_);
        sender_.set_agent(message.registered().agent());
        sender_.set_incarnation(message.registered().incarnation());
        sender_.set_epoch(message.epoch());
        registered_ = true;
        changed_.notify_all();
    } else if (message.has_refused()) {
        std::lock_guard const lock(mutex_);
        refused_ = message.refused().text();
    }
}

void LoadAgent::say(AgentMessage message) {
    {
        std::lock_guard const lock(mutex_);
        *message.mutable_sender() = sender_;
    }
    side_->say(message);
}

void LoadAgent::over(std::string const& why) {
    std::lock_guard const lock(mutex_);
    if (refused_.empty()) refused_ = why;
    over_ = true;
    changed_.notify_all();
}

void LoadAgent::heartbeat() {
    AgentMessage message;
    Heartbeat& beat = *message.mutable_heartbeat();
    for (std::uint32_t i = 0; i < kGpus; ++i) {
        LinkUse& use = *beat.add_links();
        use.set_from(i);
        use.set_to(kGpus + 1);
        use.set_gbps(123.4);
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
        ChannelUse& use = *beat.add_channels();
        use.set_channel(i + 1);
        use.set_rows(123'456'789);
        use.set_bytes(123'456'789'000);
    }
    {
        std::lock_guard const lock(mutex_);
        beat.set_sequence(++sequence_);
        beat_at_ = Clock::now();
    }
    say(std::move(message));
}

std::string LoadAgent::request_name() {
    return name_ + " request " + std::to_string(++requests_);
}

CallRequest LoadAgent::next_call() {
    CallRequest call;
    call.set_number(++calls_);
    return call;
}

bool LoadAgent::create_endpoint() {
    CallRequest call = next_call();
    CreateEndpointRequest& request = *call.mutable_create_endpoint();
    *request.mutable_sender() = sender_;
    request.set_request(request_name());
    request.set_application("bench");
    std::promise<std::uint32_t> made;
    side_->call(call, kCallLimit, [&](Outcome const&, CallAnswer const& answer) {
        made.set_value(answer.create_endpoint().endpoint());
    });
    endpoint_ = made.get_future().get();
    return endpoint_ != 0;
}

void LoadAgent::create_channel(std::uint32_t destination, std::function<void(std::uint32_t)> done) {
    CallRequest call = next_call();
    CreateChannelRequest& request = *call.mutable_create_channel();
    *request.mutable_sender() = sender_;
    request.set_request(request_name());
    ChannelSpec& spec = *request.mutable_spec();
    spec.set_name("bench");
    spec.add_sources(endpoint_);
    spec.add_destinations(destination);
    spec.set_relay_gpus(true);
    spec.set_relay_host(true);
    spec.set_schema(std::string(200, 's'));
    side_->call(call, kCallLimit,
                [done = std::move(done)](Outcome const&, CallAnswer const& answer) {
                    done(answer.create_channel().channel());
                });
}

void LoadAgent::delete_channel(std::uint32_t channel, std::function<void(bool)> done) {
    CallRequest call = next_call();
    *call.mutable_delete_channel()->mutable_sender() = sender_;
    call.mutable_delete_channel()->set_channel(channel);
    side_->call(call, kCallLimit, [done = std::move(done)](Outcome const& how, CallAnswer const&) {
        done(how.code() == Outcome::OK);
    });
}

void LoadAgent::stop() {
    side_->close();
}

}  // namespace mgi::control::bench
