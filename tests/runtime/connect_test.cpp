// A runtime in a cluster: ids and ends come from elsewhere, rows move as ever.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include <mgi/runtime.hpp>

#include "support/expect_error.hpp"
#include "support/fake_agent.hpp"

namespace mgi {
namespace {

using control::Json;
using test::expect_error;
using test::FakeAgent;
using test::Giving;
using test::TemporaryFolder;

class Connected : public ::testing::Test {
protected:
    ClusterOptions cluster() const {
        ClusterOptions options;
        options.agent = folder_.file("agent.sock");
        options.name = "query";
        options.timeout = std::chrono::milliseconds(20'000);
        return options;
    }
    void start() { agent_ = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving()); }

    static Channel channel(Runtime& runtime, Endpoint from, Endpoint to,
                           ChannelOptions const& options = {}) {
        ChannelSpec spec;
        spec.sources = {from};
        spec.destinations = {to};
        spec.routing = Routing::broadcast();
        spec.options = options;
        spec.options.name = "flow";
        return runtime.create_channel(spec);
    }
    static bool carries(Channel const& channel, Endpoint from, Endpoint to) {
        Sender sender = channel.sender(from);
        if (!sender.try_send_bytes("hello", 5)) return false;
        sender.push();
        return channel.receiver(to).recv(std::chrono::seconds(30)).has_value();
    }
    /// The last message of that kind that the agent has heard.
    Json heard(std::string const& op) {
        for (std::size_t count = 1;; ++count) {
            auto const all = agent_->heard(count);
            if (all.size() < count) return {};
            if (all[count - 1]["op"] == op) return all[count - 1];
        }
    }

    TemporaryFolder folder_;
    std::unique_ptr<FakeAgent> agent_;
};

TEST_F(Connected, IdsAreTheClustersAndRowsMove) {
    start();
    Runtime runtime = Runtime::connect(cluster());
    Endpoint const from = runtime.create_endpoint("cpu");
    Endpoint const to = runtime.create_endpoint("cpu");
    EXPECT_EQ(from.id, 5u);
    EXPECT_EQ(to.id, 6u);
    EXPECT_EQ(heard("create_endpoint")["device"], "cpu0");
    Channel const made = channel(runtime, from, to);
    EXPECT_EQ(made.id(), 77u);
    Json const asked = heard("create_channel");
    EXPECT_EQ(asked["name"], "flow");
    EXPECT_EQ(asked["sources"], Json({5u, 1u}));
    EXPECT_TRUE(carries(made, from, to));
    Json const use = heard("use");
    EXPECT_EQ(use["channels"][0]["channel"], 77u);
    EXPECT_EQ(use["channels"][0]["paths"][0]["source"], 5u);
    EXPECT_EQ(use["channels"][0]["paths"][0]["destination"], 6u);
    runtime.delete_channel(made);
    EXPECT_EQ(heard("delete_channel")["channel"], 77u);
    runtime.delete_endpoint(to);
    EXPECT_EQ(heard("delete_endpoint")["endpoint"], 6u);
}

TEST_F(Connected, AChannelThatEndsElsewhereFailsWithTheReason) {
    start();
    Runtime runtime = Runtime::connect(cluster());
    Endpoint const from = runtime.create_endpoint("cpu");
    Endpoint const to = runtime.create_endpoint("cpu");
    Channel const made = channel(runtime, from, to);
    Channel const other = channel(runtime, from, to);
    agent_->say(
        {{"notice", "channel_ended"}, {"channel", 77u}, {"failed", true}, {"why", "node2 died"}});
    expect_error(ErrorCode::GroupFailed, {"flow", "node2 died"},
                 [&] { made.receiver(to).recv(std::chrono::seconds(30)); });
    EXPECT_TRUE(carries(other, from, to));
    agent_->say({{"notice", "channel_ended"}, {"channel", 78u}, {"failed", false}, {"why", "x"}});
    expect_error(ErrorCode::Deleted, {"flow"},
                 [&] { other.receiver(to).recv(std::chrono::seconds(30)); });
}

TEST_F(Connected, ChannelsGoOnWhileTheAgentIsAway) {
    start();
    Runtime runtime = Runtime::connect(cluster());
    Endpoint const from = runtime.create_endpoint("cpu");
    Endpoint const to = runtime.create_endpoint("cpu");
    Channel const made = channel(runtime, from, to);
    agent_ = nullptr;
    EXPECT_TRUE(carries(made, from, to));
    start();
    Json const hello = heard("hello");
    EXPECT_EQ(hello["endpoints"].size(), 2u);
    EXPECT_EQ(hello["channels"][0]["channel"], 77u);
    EXPECT_TRUE(carries(made, from, to));
    runtime.delete_channel(made);
    EXPECT_EQ(heard("delete_channel")["channel"], 77u);
}

TEST_F(Connected, WhatCannotBeMadeHereIsGivenBack) {
    start();
    RuntimeOptions small;
    small.memory_limit = 1u << 16;
    Runtime runtime = Runtime::connect(cluster(), small);
    Endpoint const from = runtime.create_endpoint("cpu");
    Endpoint const to = runtime.create_endpoint("cpu");
    ChannelOptions large;
    large.segment_bytes = 1u << 24;
    expect_error(ErrorCode::InvalidArgument, {"flow", "memory limit"},
                 [&] { (void)channel(runtime, from, to, large); });
    EXPECT_EQ(heard("delete_channel")["channel"], 77u);
}

TEST_F(Connected, EndpointsOfOtherProcessesAreRefusedByName) {
    start();
    Runtime runtime = Runtime::connect(cluster());
    Endpoint const from = runtime.create_endpoint("cpu");
    expect_error(ErrorCode::NotFound, {"endpoint 900", "another process", "gather_endpoints"},
                 [&] { (void)channel(runtime, from, Endpoint{900, 0}); });
}

TEST_F(Connected, StagesOfSortersHaveNumbersOfTheirOwn) {
    start();
    Runtime runtime = Runtime::connect(cluster());
    Endpoint const from = runtime.create_endpoint("cpu");
    Endpoint const to = runtime.create_endpoint("cpu");
    ChannelOptions sorted;
    sorted.sorters = 1;
    Channel const one = channel(runtime, from, to, sorted);
    Channel const two = channel(runtime, from, to, sorted);
    EXPECT_EQ(one.id(), 77u);
    EXPECT_EQ(two.id(), 78u);
}

TEST_F(Connected, WithoutAnAgentOrACpuItSaysSo) {
    expect_error(ErrorCode::NotFound, {"mgi agent"}, [&] { (void)Runtime::connect(cluster()); });
    FakeAgent const agent(folder_.file("agent.sock"), [](Json const& message) -> std::vector<Json> {
        Json hello = FakeAgent::hello(message);
        hello["devices"] = Json::array();
        return {hello};
    });
    expect_error(ErrorCode::NotFound, {"node1", "no CPU"},
                 [&] { (void)Runtime::connect(cluster()); });
}

}  // namespace
}  // namespace mgi
