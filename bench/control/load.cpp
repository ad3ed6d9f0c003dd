#include "load.hpp"

#include <algorithm>
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

LoadAgent::LoadAgent(std::string name, std::shared_ptr<grpc::Channel> const& channel,
                     Latencies& beats)
    : name_(std::move(name)), stub_(Control::NewStub(channel)), beats_(beats) {
    sender_.set_protocol(kProtocol);
}

void LoadAgent::start() {
    context_.set_wait_for_ready(true);
    stub_->async()->Session(&context_, this);
    AddHold();  // words come from other threads than the stream's
    StartRead(&read_);
    StartCall();
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

void LoadAgent::OnReadDone(bool ok) {
    if (!ok) return;
    if (read_.has_heartbeat_ack()) {
        Clock::time_point sent;
        {
            std::lock_guard const lock(mutex_);
            sent = beat_at_;
        }
        beats_.add(sent);
    } else if (read_.has_prepare_plan()) {
        AgentMessage message;
        message.mutable_plan_ack()->set_channel(read_.prepare_plan().channel());
        message.mutable_plan_ack()->set_generation(read_.prepare_plan().generation());
        message.mutable_plan_ack()->set_accepted(true);
        say(std::move(message));
    } else if (read_.has_registered()) {
        std::lock_guard const lock(mutex_);
        sender_.set_agent(read_.registered().agent());
        sender_.set_incarnation(read_.registered().incarnation());
        sender_.set_epoch(read_.epoch());
        registered_ = true;
        changed_.notify_all();
    } else if (read_.has_refused()) {
        std::lock_guard const lock(mutex_);
        refused_ = read_.refused().text();
    }
    StartRead(&read_);
}

void LoadAgent::say(AgentMessage message) {
    {
        std::lock_guard const lock(mutex_);
        *message.mutable_sender() = sender_;
        queue_.push_back(std::move(message));
    }
    write_next();
}

void LoadAgent::write_next() {
    {
        std::lock_guard const lock(mutex_);
        if (writing_ || queue_.empty()) return;
        writing_ = true;
        written_ = std::move(queue_.front());
        queue_.pop_front();
    }
    StartWrite(&written_);
}

void LoadAgent::OnWriteDone(bool ok) {
    {
        std::lock_guard const lock(mutex_);
        writing_ = false;
        if (!ok) queue_.clear();
    }
    write_next();
}

void LoadAgent::OnDone(grpc::Status const& status) {
    std::lock_guard const lock(mutex_);
    if (refused_.empty() && !status.ok()) refused_ = status.error_message();
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

bool LoadAgent::create_endpoint() {
    CreateEndpointRequest request;
    *request.mutable_sender() = sender_;
    request.set_request(request_name());
    request.set_application("bench");
    CreateEndpointReply reply;
    grpc::ClientContext context;
    bool const made = stub_->CreateEndpoint(&context, request, &reply).ok();
    endpoint_ = reply.endpoint();
    return made;
}

namespace {

template <class Request, class Reply>
struct Asked {
    grpc::ClientContext context;
    Request request;
    Reply reply;
};

}  // namespace

void LoadAgent::create_channel(std::uint32_t destination, std::function<void(std::uint32_t)> done) {
    auto const asked = std::make_shared<Asked<CreateChannelRequest, CreateChannelReply>>();
    *asked->request.mutable_sender() = sender_;
    asked->request.set_request(request_name());
    ChannelSpec& spec = *asked->request.mutable_spec();
    spec.set_name("bench");
    spec.add_sources(endpoint_);
    spec.add_destinations(destination);
    spec.set_relay_gpus(true);
    spec.set_relay_host(true);
    spec.set_schema(std::string(200, 's'));
    stub_->async()->CreateChannel(&asked->context, &asked->request, &asked->reply,
                                  [asked, done = std::move(done)](grpc::Status const& status) {
                                      done(status.ok() ? asked->reply.channel() : 0);
                                  });
}

void LoadAgent::delete_channel(std::uint32_t channel, std::function<void(bool)> done) {
    auto const asked = std::make_shared<Asked<DeleteChannelRequest, DeleteReply>>();
    *asked->request.mutable_sender() = sender_;
    asked->request.set_channel(channel);
    stub_->async()->DeleteChannel(
        &asked->context, &asked->request, &asked->reply,
        [asked, done = std::move(done)](grpc::Status const& status) { done(status.ok()); });
}

void LoadAgent::stop() {
    context_.TryCancel();
    RemoveHold();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
}

}  // namespace mgi::control::bench
