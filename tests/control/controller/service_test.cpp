// The controller over gRPC: sessions, calls, their deadlines and limits, and standing by.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "control/controller/served.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

CreateChannelRequest channel_request(WireAgent const& agent, std::uint32_t from, std::uint32_t to,
                                     std::string const& name = "request-1") {
    CreateChannelRequest request;
    *request.mutable_sender() = agent.sender;
    request.set_request(name);
    request.mutable_spec()->set_name("orders");
    request.mutable_spec()->set_relay_gpus(true);
    request.mutable_spec()->set_relay_host(true);
    request.mutable_spec()->add_sources(from);
    request.mutable_spec()->add_destinations(to);
    return request;
}

TEST(ControlService, AChannelOverTheWire) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    std::uint32_t const from = a.endpoint(1);
    std::uint32_t const to = a.endpoint(2);
    CreateChannelReply reply;
    grpc::ClientContext context;
    auto created = std::async(std::launch::async, [&] {
        return a.stub().CreateChannel(&context, channel_request(a, from, to), &reply);
    });
    ControllerMessage const prepare = a.hear(Kind::kPreparePlan);
    EXPECT_FALSE(prepare.prepare_plan().table().empty());
    EXPECT_FALSE(prepare.prepare_plan().directory().empty());
    a.accept(prepare);
    EXPECT_EQ(a.hear(Kind::kCommitPlan).commit_plan().generation(), 1u);
    grpc::Status const status = created.get();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(reply.channel(), prepare.prepare_plan().channel());
    EXPECT_NE(served.service().status().find("\"state\":\"running\""), std::string::npos);

    DeleteChannelRequest over;
    *over.mutable_sender() = a.sender;
    over.set_channel(reply.channel());
    grpc::ClientContext second;
    DeleteReply deleted;
    EXPECT_TRUE(a.stub().DeleteChannel(&second, over, &deleted).ok());
    EXPECT_EQ(a.hear(Kind::kChannelEnded).channel_ended().channel(), reply.channel());
}

TEST(ControlService, ACallEndsAtItsDeadlineAndAtItsCallersEnd) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    std::uint32_t const from = a.endpoint(1);
    CreateChannelRequest request = channel_request(a, from, from);
    request.set_deadline_ms(100);
    CreateChannelReply reply;
    grpc::ClientContext context;
    grpc::Status status = a.stub().CreateChannel(&context, request, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_NE(status.error_message().find("not accepted in time by a"), std::string::npos)
        << status.error_message();

    grpc::ClientContext gone;
    auto call = std::async(std::launch::async, [&] {
        return a.stub().CreateChannel(&gone, channel_request(a, from, from, "request-2"), &reply);
    });
    a.hear(Kind::kPreparePlan);
    gone.TryCancel();
    EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(ControlService, ARequestThatIsTooLargeIsCutOff) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    CreateChannelRequest request = channel_request(a, 1, 1);
    request.mutable_spec()->set_schema(std::string(kLargestRequest + 1, 'x'));
    CreateChannelReply reply;
    grpc::ClientContext context;
    EXPECT_EQ(a.stub().CreateChannel(&context, request, &reply).error_code(),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
    AgentMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_sequence(9);
    a.say(heartbeat);
    EXPECT_EQ(a.hear(Kind::kHeartbeatAck).heartbeat_ack().sequence(), 9u);
}

TEST(ControlService, AnotherVersionIsRefusedByName) {
    Served served;
    WireAgent a(served, "a");
    a.sender.set_protocol(7);
    EXPECT_FALSE(a.join());
    StatusRequest request;
    request.set_protocol(7);
    StatusReply reply;
    grpc::ClientContext context;
    grpc::Status const status = a.stub().Status(&context, request, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_NE(status.error_message().find("this controller speaks " + std::to_string(kProtocol)),
              std::string::npos);
}

TEST(ControlService, ASessionThatBreaksIsNoticed) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    {
        WireAgent b(served, "b");
        ASSERT_TRUE(b.join());
    }
    EXPECT_EQ(a.hear(Kind::kServerNotice).server_notice().state(), ServerNotice::AWAY);
}

TEST(ControlService, OnStandbyItSaysWhoLeads) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    std::uint32_t const from = a.endpoint(1);
    CreateChannelReply reply;
    grpc::ClientContext context;
    auto call = std::async(std::launch::async, [&] {
        return a.stub().CreateChannel(&context, channel_request(a, from, from), &reply);
    });
    a.hear(Kind::kPreparePlan);
    served.service().stand_by("other:7");
    EXPECT_EQ(a.hear(Kind::kRefused).refused().leader(), "other:7");
    EXPECT_EQ(call.get().error_message(), "not the leader; ask other:7");
    WireAgent b(served, "b");
    EXPECT_FALSE(b.join());
    EXPECT_NE(served.service().status().find("\"leader\":false"), std::string::npos);
}

TEST(ControlService, AfterARestartItLearnsFromItsAgents) {
    Served served;
    std::uint32_t id = 0;
    std::uint32_t end = 0;
    Sender before;
    {
        WireAgent a(served, "a");
        ASSERT_TRUE(a.join());
        end = a.endpoint(1);
        id = a.sender.agent();
        before = a.sender;
        served.restart();
    }
    WireAgent a(served, "a");
    a.sender = before;
    Register held;
    *held.add_endpoints() = held_endpoint(end);
    ASSERT_TRUE(a.join(held));
    EXPECT_EQ(a.sender.agent(), id);
    EXPECT_EQ(a.sender.epoch(), 2u);
    Snapshot const shown = *served.service().snapshot();
    ASSERT_EQ(shown.endpoints.size(), 1u);
    EXPECT_EQ(shown.endpoints[0].id, end);
    // The old sender is stale, wherever it speaks.
    CreateEndpointRequest request;
    *request.mutable_sender() = before;
    request.set_request("endpoint-late");
    request.set_vertex(1);
    CreateEndpointReply reply;
    grpc::ClientContext context;
    grpc::Status const status = a.stub().CreateEndpoint(&context, request, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(status.error_message().rfind("stale sender", 0), 0u) << status.error_message();
}

TEST(ControlService, ManyAtOnceAndShutDownInTheMiddle) {
    std::vector<std::thread> threads;
    {
        Served served;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&served, i] {
                WireAgent agent(served, "node" + std::to_string(i));
                if (!agent.join()) return;
                for (int n = 0; n < 50; ++n) {
                    AgentMessage heartbeat;
                    heartbeat.mutable_heartbeat()->set_sequence(static_cast<std::uint64_t>(n));
                    agent.say(heartbeat);
                    if (!agent.hear(Kind::kHeartbeatAck).has_heartbeat_ack()) return;
                }
            });
        }
        for (int i = 0; i < 3; ++i) served.restart();
        for (std::thread& thread : threads) thread.join();
    }
}

}  // namespace
}  // namespace mgi::control::test
