/// \file
/// A controller that serves on a port of this machine, and agents that speak gRPC to it.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "control/controller/plans.hpp"
#include "control/controller/service.hpp"
#include "control/rpc/limits.hpp"
#include "control/state/rig.hpp"

namespace mgi::control::test {

/// Outlives restarts: the engine before may still be asking while the next one begins.
class MemoryStorage final : public Storage {
public:
    [[nodiscard]] std::uint64_t epoch() const override { return epoch_; }
    IdBlock reserve(IdKind kind, std::uint32_t count) override {
        std::lock_guard const lock(mutex_);
        std::uint32_t& next = next_.at(static_cast<std::size_t>(kind));
        IdBlock const block{next, count};
        next += count;
        return block;
    }
    void begin() { ++epoch_; }

private:
    std::atomic<std::uint64_t> epoch_ = 1;
    std::mutex mutex_;
    std::array<std::uint32_t, kIdKinds> next_{1, 1, 1};
};

class Served {
public:
    explicit Served(Settings settings = {}) : settings_(settings), service_(security_, "here:1") {
        grpc::ServerBuilder builder;
        prepare_server(builder, "127.0.0.1:0", security_, &port_);
        builder.RegisterService(&service_);
        server_ = builder.BuildAndStart();
        lead();
    }
    ~Served() {
        service_.retire();
        server_->Shutdown();
    }
    void lead() {
        service_.lead(std::make_shared<Engine>(settings_, storage_, make_plans(), service_));
    }
    void restart() {
        storage_.begin();
        lead();
    }
    [[nodiscard]] ControlService& service() { return service_; }
    [[nodiscard]] std::unique_ptr<Control::Stub> stub() const {
        return Control::NewStub(make_channel("127.0.0.1:" + std::to_string(port_), security_));
    }

private:
    Settings const settings_;
    Security const security_{SecurityOptions{}};
    MemoryStorage storage_;
    ControlService service_;
    int port_ = 0;
    std::unique_ptr<grpc::Server> server_;
};

/// An agent of one thread: it reads when it is told to.
class WireAgent {
public:
    WireAgent(Served const& served, std::string name)
        : name_(std::move(name)), stub_(served.stub()) {
        context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
        stream_ = stub_->Session(&context_);
        sender.set_protocol(kProtocol);
    }
    ~WireAgent() {
        context_.TryCancel();
        ControllerMessage message;
        while (stream_->Read(&message)) {
        }
        stream_->Finish();
    }
    void say(AgentMessage message) {
        *message.mutable_sender() = sender;
        stream_->Write(message);
    }
    /// The next message of a kind; others before it are passed over. Empty when the session ended.
    ControllerMessage hear(ControllerMessage::MessageCase kind) {
        ControllerMessage message;
        while (stream_->Read(&message)) {
            if (message.message_case() == kind) return message;
        }
        return {};
    }
    bool join(Register held = {}) {
        AgentMessage message;
        *message.mutable_register_() = std::move(held);
        message.mutable_register_()->set_name(name_);
        message.mutable_register_()->set_instance("instance-" + name_);
        *message.mutable_register_()->mutable_graph() = server_graph();
        say(message);
        ControllerMessage reply;
        if (!stream_->Read(&reply) || !reply.has_registered()) return false;
        sender.set_agent(reply.registered().agent());
        sender.set_incarnation(reply.registered().incarnation());
        sender.set_epoch(reply.epoch());
        return true;
    }
    std::uint32_t endpoint(std::uint32_t vertex) {
        grpc::ClientContext context;
        CreateEndpointRequest request;
        *request.mutable_sender() = sender;
        request.set_request("endpoint-" + name_ + std::to_string(vertex));
        request.set_vertex(vertex);
        CreateEndpointReply reply;
        auto const status = stub_->CreateEndpoint(&context, request, &reply);
        EXPECT_TRUE(status.ok()) << status.error_message();
        return reply.endpoint();
    }
    void accept(ControllerMessage const& prepare) {
        AgentMessage message;
        message.mutable_plan_ack()->set_channel(prepare.prepare_plan().channel());
        message.mutable_plan_ack()->set_generation(prepare.prepare_plan().generation());
        message.mutable_plan_ack()->set_accepted(true);
        say(message);
    }
    [[nodiscard]] Control::Stub& stub() { return *stub_; }

    Sender sender;

private:
    std::string const name_;
    std::unique_ptr<Control::Stub> stub_;
    grpc::ClientContext context_;
    std::unique_ptr<grpc::ClientReaderWriter<AgentMessage, ControllerMessage>> stream_;
};

}  // namespace mgi::control::test
