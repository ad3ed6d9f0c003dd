// The controller over its connections: sessions, calls, their deadlines and limits, and standing by.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "control/controller/served.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

CallRequest channel_request(WireAgent const& agent, std::uint32_t from, std::uint32_t to,
                            std::string const& name = "request-1") {
    CallRequest call;
    CreateChannelRequest& request = *call.mutable_create_channel();
    *request.mutable_sender() = agent.sender;
    request.set_request(name);
    request.mutable_spec()->set_name("orders");
    request.mutable_spec()->set_relay_gpus(true);
    request.mutable_spec()->set_relay_host(true);
    request.mutable_spec()->add_sources(from);
    request.mutable_spec()->add_destinations(to);
    return call;
}

TEST(ControlService, AChannelOverTheWire) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    std::uint32_t const from = a.endpoint(1);
    std::uint32_t const to = a.endpoint(2);
    auto created = a.begin(channel_request(a, from, to));
    ControllerMessage const prepare = a.hear(Kind::kPreparePlan);
    EXPECT_FALSE(prepare.prepare_plan().table().empty());
    EXPECT_FALSE(prepare.prepare_plan().directory().empty());
    a.accept(prepare);
    EXPECT_EQ(a.hear(Kind::kCommitPlan).commit_plan().generation(), 1u);
    Ended const ended = created.get();
    EXPECT_TRUE(ended.ok()) << ended.text();
    std::uint32_t const channel = ended.answer.create_channel().channel();
    EXPECT_EQ(channel, prepare.prepare_plan().channel());
    EXPECT_NE(served.service().status().find("\"state\":\"running\""), std::string::npos);

    CallRequest over;
    *over.mutable_delete_channel()->mutable_sender() = a.sender;
    over.mutable_delete_channel()->set_channel(channel);
    EXPECT_TRUE(a.call(over).ok());
    EXPECT_EQ(a.hear(Kind::kChannelEnded).channel_ended().channel(), channel);
}

TEST(ControlService, ACallEndsAtItsDeadlineAndAtItsCallersEnd) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    std::uint32_t const from = a.endpoint(1);
    CallRequest request = channel_request(a, from, from);
    request.mutable_create_channel()->set_deadline_ms(100);
    Ended const late = a.call(request);
    EXPECT_EQ(late.code(), Outcome::DEADLINE_EXCEEDED);
    EXPECT_NE(late.text().find("not accepted in time by a"), std::string::npos) << late.text();

    auto call = a.begin(channel_request(a, from, from, "request-2"));
    a.hear(Kind::kPreparePlan);
    a.cancel_last();
    EXPECT_EQ(call.get().code(), Outcome::CANCELLED);
    // The caller's own limit, which the controller does not know.
    EXPECT_EQ(
        a.call(channel_request(a, from, from, "request-3"), std::chrono::milliseconds(50)).code(),
        Outcome::DEADLINE_EXCEEDED);
}

TEST(ControlService, ARequestThatIsTooLargeIsNotSent) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    CallRequest request = channel_request(a, 1, 1);
    request.mutable_create_channel()->mutable_spec()->set_schema(
        std::string(kLargestRequest + 1, 'x'));
    EXPECT_EQ(a.call(request).code(), Outcome::RESOURCE_EXHAUSTED);
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
    WireAgent caller(served, "b");
    CallRequest request;
    request.mutable_status()->set_protocol(7);
    Ended const ended = caller.call(request);
    EXPECT_EQ(ended.code(), Outcome::UNIMPLEMENTED);
    EXPECT_NE(ended.text().find("this controller speaks " + std::to_string(kProtocol)),
              std::string::npos);
    EXPECT_EQ(caller.call({}).code(), Outcome::UNIMPLEMENTED);  // a call of a kind unknown here
}

TEST(ControlService, CallsEndWithTheirConnection) {
    Served served;
    auto a = std::make_unique<WireAgent>(served, "a");
    ASSERT_TRUE(a->join());
    std::uint32_t const from = a->endpoint(1);
    auto call = a->begin(channel_request(*a, from, from));
    a->hear(Kind::kPreparePlan);
    a.reset();
    EXPECT_EQ(call.get().code(), Outcome::CANCELLED);
}

TEST(ControlService, NobodyCallsAsAnAgentOfAnotherConnection) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    std::uint32_t const from = a.endpoint(1);
    WireAgent stranger(served, "stranger");
    ASSERT_TRUE(stranger.join());
    stranger.sender = a.sender;
    Ended const ended = stranger.call(channel_request(stranger, from, from));
    EXPECT_EQ(ended.code(), Outcome::FAILED_PRECONDITION);
    EXPECT_TRUE(ended.text().starts_with("stale sender")) << ended.text();
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
    auto call = a.begin(channel_request(a, from, from));
    a.hear(Kind::kPreparePlan);
    served.service().stand_by("other:7");
    EXPECT_EQ(a.hear(Kind::kRefused).refused().leader(), "other:7");
    EXPECT_EQ(call.get().text(), "not the leader; ask other:7");
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
    CallRequest request;
    *request.mutable_create_endpoint()->mutable_sender() = before;
    request.mutable_create_endpoint()->set_request("endpoint-late");
    request.mutable_create_endpoint()->set_vertex(1);
    Ended const ended = a.call(request);
    EXPECT_EQ(ended.code(), Outcome::FAILED_PRECONDITION);
    EXPECT_EQ(ended.text().rfind("stale sender", 0), 0u) << ended.text();
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
