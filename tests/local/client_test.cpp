#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <mgi/cluster.hpp>

#include "support/expect_error.hpp"
#include "support/fake_agent.hpp"

namespace mgi {
namespace {

using control::Json;
using std::chrono::milliseconds;
using test::expect_error;
using test::FakeAgent;
using test::Giving;
using test::TemporaryFolder;

class Notes : public ClusterListener {
public:
    void plan_changed(ClusterPlan const& plan) override {
        note("plan " + std::to_string(plan.generation));
    }
    void channel_ended(std::uint32_t channel, bool failed, std::string const& why) override {
        note("channel " + std::to_string(channel) + (failed ? " failed: " : " ended: ") + why);
    }
    void endpoint_lost(std::uint32_t endpoint, std::string const& why) override {
        note("endpoint " + std::to_string(endpoint) + ": " + why);
    }
    void server_changed(std::string const& server, std::string const& state) override {
        note(server + " " + state);
    }
    void controller_changed(bool reached, std::string const& why) override {
        note(reached ? "controller" : "no controller: " + why);
    }
    void agent_changed(bool reached, std::string const&) override {
        note(reached ? "agent" : "no agent");
    }

    bool wait_for(std::string const& text) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(30),
                                 [&] { return notes_.contains(text); });
    }

private:
    void note(std::string text) {
        std::lock_guard const lock(mutex_);
        notes_.insert(std::move(text));
        changed_.notify_all();
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::set<std::string> notes_;
};

class Client : public ::testing::Test {
protected:
    ClusterOptions options(milliseconds timeout = milliseconds(20'000)) const {
        ClusterOptions made;
        made.agent = folder_.file("agent.sock");
        made.name = "test";
        made.timeout = timeout;
        return made;
    }
    ClusterChannelSpec spec() const {
        ClusterChannelSpec made;
        made.name = "flow";
        made.sources = {5};
        made.destinations = {6};
        return made;
    }
    TemporaryFolder folder_;
};

TEST_F(Client, AsksAndIsAnswered) {
    FakeAgent agent(folder_.file("agent.sock"), Giving());
    ClusterClient client(options());
    EXPECT_EQ(client.server(), "node1");
    ASSERT_EQ(client.devices().size(), 2u);
    EXPECT_TRUE(client.devices()[1].gpu);
    ClusterEndpoint const source = client.create_endpoint("gpu0");
    EXPECT_EQ(source.id, 5u);
    EXPECT_EQ(source.device, "gpu0");
    EXPECT_EQ(client.create_endpoint().id, 6u);
    ClusterPlan const plan = client.create_channel(spec());
    EXPECT_EQ(plan.channel, 77u);
    EXPECT_EQ(plan.table, "table");
    client.check_channel(77);
    EXPECT_EQ(client.status(), "{}");
    client.delete_channel(77);
    client.delete_endpoint(5);
    EXPECT_EQ(agent.heard(7).back()["op"], "delete_endpoint");
    client.close();
    expect_error(ErrorCode::Deleted, {"closed"}, [&] { client.status(); });
}

TEST_F(Client, WithoutAnAgentSaysWhereItLooked) {
    expect_error(ErrorCode::NotFound, {folder_.file("agent.sock"), "mgi agent", "MGI_AGENT"},
                 [&] { ClusterClient client(options()); });
    ClusterOptions far = options();
    far.agent = std::string(200, 'x');
    expect_error(ErrorCode::InvalidArgument, {"at most 107 bytes"},
                 [&] { ClusterClient client(far); });
    far.timeout = milliseconds(0);
    expect_error(ErrorCode::InvalidArgument, {"timeout"}, [&] { ClusterClient client(far); });
}

TEST_F(Client, IsRefusedWithTheAgentsWords) {
    FakeAgent agent(folder_.file("agent.sock"), [](Json const& message) -> std::vector<Json> {
        return {{{"id", message["id"]},
                 {"error", control::error_value(ErrorCode::Refused, "update the older one")}}};
    });
    expect_error(ErrorCode::Refused, {"update the older one"},
                 [&] { ClusterClient client(options()); });
}

TEST_F(Client, AnAgentThatSaysNothingIsATimeout) {
    FakeAgent agent(folder_.file("agent.sock"), [](Json const& message) -> std::vector<Json> {
        if (message["op"] == "hello") return {FakeAgent::hello(message)};
        return {};
    });
    ClusterClient client(options(milliseconds(30)));
    expect_error(ErrorCode::Timeout, {"status had no answer for 30 ms", "agent.sock"},
                 [&] { client.status(); });
}

TEST_F(Client, WhatComesTooLateIsGivenBack) {
    std::atomic<bool> hold = true;
    std::optional<Json> held;
    Giving giving;
    FakeAgent agent(folder_.file("agent.sock"), [&](Json const& message) -> std::vector<Json> {
        if (message["op"] == "create_channel" && hold) {
            held = giving(message)[0];
            return {};
        }
        return giving(message);
    });
    ClusterClient client(options(milliseconds(30)));
    expect_error(ErrorCode::Timeout, {"create_channel"}, [&] { client.create_channel(spec()); });
    agent.heard(2);
    agent.say(*held);
    auto const last = agent.heard(3).back();
    EXPECT_EQ(last["op"], "delete_channel");
    EXPECT_EQ(last["channel"], 77u);
}

TEST_F(Client, TextThatIsNotUtf8IsRefusedBeforeItIsSent) {
    FakeAgent agent(folder_.file("agent.sock"), Giving());
    ClusterClient client(options());
    expect_error(ErrorCode::InvalidArgument, {"UTF-8"},
                 [&] { (void)client.create_endpoint("gpu\xff"); });
    EXPECT_EQ(client.status(), "{}");
    EXPECT_EQ(agent.heard(2).size(), 2u);
}

TEST_F(Client, HearsNotices) {
    FakeAgent agent(folder_.file("agent.sock"), Giving());
    auto const notes = std::make_shared<Notes>();
    ClusterClient client(options(), notes);
    ClusterPlan plan = client.create_channel(spec());
    plan.generation = 2;
    Json notice = control::json_of(plan);
    notice["notice"] = "plan";
    agent.say(notice);
    EXPECT_TRUE(notes->wait_for("plan 2"));
    agent.say({{"notice", "endpoint_lost"}, {"endpoint", 5u}, {"why", "gone"}});
    EXPECT_TRUE(notes->wait_for("endpoint 5: gone"));
    agent.say({{"notice", "server"}, {"server", "node2"}, {"state", "away"}});
    EXPECT_TRUE(notes->wait_for("node2 away"));
    agent.say({{"notice", "controller"}, {"reached", false}, {"why", "refused"}});
    EXPECT_TRUE(notes->wait_for("no controller: refused"));
    agent.say({{"notice", "what a newer agent says"}});
    agent.say(
        {{"notice", "channel_ended"}, {"channel", 77u}, {"failed", true}, {"why", "node2 died"}});
    EXPECT_TRUE(notes->wait_for("channel 77 failed: node2 died"));
    expect_error(ErrorCode::GroupFailed, {"channel 77", "node2 died"},
                 [&] { client.check_channel(77); });
}

TEST_F(Client, ComesBackAfterTheAgentWithWhatItHolds) {
    auto agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    auto const notes = std::make_shared<Notes>();
    ClusterClient client(options(), notes);
    client.create_endpoint();
    client.create_channel(spec());
    agent = nullptr;
    EXPECT_TRUE(notes->wait_for("no agent"));
    // A call of that time waits for the next agent.
    std::thread caller([&] { EXPECT_EQ(client.status(), "{}"); });
    agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    caller.join();
    EXPECT_TRUE(notes->wait_for("agent"));
    Json const hello = agent->heard(1).front();
    ASSERT_EQ(hello["endpoints"].size(), 1u);
    EXPECT_EQ(hello["endpoints"][0]["endpoint"], 5u);
    ASSERT_EQ(hello["channels"].size(), 1u);
    EXPECT_EQ(hello["channels"][0]["channel"], 77u);
    EXPECT_EQ(hello["channels"][0]["created"], true);
    EXPECT_EQ(hello["channels"][0]["generation"], 1u);
}

// A channel that is not deleted yet has its creator: the next agent must hear so.
TEST_F(Client, AChannelIsItsCreatorsUntilItsDeletionIsAnswered) {
    auto agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    auto const notes = std::make_shared<Notes>();
    ClusterClient client(options(), notes);
    client.create_channel(spec());
    agent = nullptr;
    EXPECT_TRUE(notes->wait_for("no agent"));
    client.release_channel(77);
    agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    auto const heard = agent->heard(2);
    ASSERT_EQ(heard.size(), 2u);
    ASSERT_EQ(heard[0]["channels"].size(), 1u);
    EXPECT_EQ(heard[0]["channels"][0]["created"], true);
    EXPECT_EQ(heard[1]["op"], "delete_channel");
    EXPECT_EQ(client.status(), "{}");  // its answer comes behind that of the deletion
    agent = nullptr;
    agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    EXPECT_TRUE(agent->heard(1).front()["channels"].empty());
}

TEST_F(Client, ARequestAgainIsTheSameRequest) {
    auto agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"),
                                             [](Json const& message) -> std::vector<Json> {
                                                 if (message["op"] == "hello")
                                                     return {FakeAgent::hello(message)};
                                                 return {};
                                             });
    ClusterClient client(options());
    std::thread caller([&] { EXPECT_EQ(client.create_endpoint().id, 5u); });
    Json const first = agent->heard(2)[1];
    agent = nullptr;
    agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    caller.join();
    Json const second = agent->heard(2)[1];
    EXPECT_EQ(first["request"], second["request"]);
    EXPECT_EQ(first["id"], second["id"]);
}

TEST_F(Client, LeavesAnAgentThatSpeaksNonsense) {
    for (std::string const& bytes :
         {std::string("\xff\xff\xff\xff"), std::string("\4\0\0\0\xa1\x61k\x81", 8),
          std::string("\1\0\0\0\xa0", 5), std::string("\3\0\0\0\1\2\3", 7)}) {
        auto const notes = std::make_shared<Notes>();
        FakeAgent agent(folder_.file("agent.sock"), Giving());
        ClusterClient client(options(), notes);
        agent.say_bytes(bytes);
        EXPECT_TRUE(notes->wait_for("no agent"));
        EXPECT_TRUE(notes->wait_for("agent"));
        EXPECT_EQ(client.status(), "{}");
    }
}

TEST_F(Client, AListenerMayNotCallItsClient) {
    struct Caller : ClusterListener {
        void server_changed(std::string const&, std::string const&) override {
            try {
                client.load()->status();
            } catch (Error const& error) {
                refused = error.code() == ErrorCode::Refused;
            }
            done = true;
            done.notify_all();
        }
        std::atomic<ClusterClient*> client = nullptr;
        std::atomic<bool> refused = false;
        std::atomic<bool> done = false;
    };
    FakeAgent agent(folder_.file("agent.sock"), Giving());
    auto const listener = std::make_shared<Caller>();
    ClusterClient client(options(), listener);
    listener->client = &client;
    agent.say({{"notice", "server"}, {"server", "node2"}, {"state", "away"}});
    listener->done.wait(false);
    EXPECT_TRUE(listener->refused);
}

TEST_F(Client, ManyThreadsAsk) {
    FakeAgent agent(folder_.file("agent.sock"), Giving());
    ClusterClient client(options());
    std::mutex mutex;
    std::set<std::uint32_t> ids;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 25; ++i) {
                auto const endpoint = client.create_endpoint();
                std::lock_guard const lock(mutex);
                ids.insert(endpoint.id);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(ids.size(), 100u);
}

TEST_F(Client, ClosesWhileOthersWait) {
    FakeAgent agent(folder_.file("agent.sock"), [](Json const& message) -> std::vector<Json> {
        if (message["op"] == "hello") return {FakeAgent::hello(message)};
        return {};
    });
    ClusterClient client(options());
    std::thread caller(
        [&] { expect_error(ErrorCode::Deleted, {"closed"}, [&] { client.status(); }); });
    agent.heard(2);
    client.close();
    caller.join();
}

TEST_F(Client, ASecondAgentAtTheSamePlaceIsRefused) {
    FakeAgent agent(folder_.file("agent.sock"), Giving());
    expect_error(ErrorCode::Refused, {"another agent listens", "--socket"},
                 [&] { (void)control::listen_for_applications(folder_.file("agent.sock")); });
}

// The agent may be killed before it has told the controller, so the next one hears of it, too.
TEST_F(Client, WhatItHasLeftIsSaidUntilItsEndIsHeard) {
    auto agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    auto const notes = std::make_shared<Notes>();
    ClusterClient client(options(), notes);
    client.create_endpoint();
    client.create_channel(spec());
    client.leave_channel(77);
    client.check_channel(77);  // no more its own
    agent = nullptr;
    EXPECT_TRUE(notes->wait_for("no agent"));
    agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    Json const held = agent->heard(1).front()["channels"];
    ASSERT_EQ(held.size(), 1u);
    EXPECT_EQ(held[0]["created"], false);
    EXPECT_EQ(held[0]["creator_left"], true);
    EXPECT_EQ(held[0]["gone"], true);
    EXPECT_EQ(held[0]["left"], (Json{5u, 1u}));
    agent->say({{"notice", "channel_ended"}, {"channel", 77u}, {"failed", false}, {"why", "left"}});
    EXPECT_TRUE(notes->wait_for("channel 77 ended: left"));
    agent = nullptr;
    agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    EXPECT_TRUE(agent->heard(1).front()["channels"].empty());
}

TEST_F(Client, WhoElseHasLeftIsSaidToTheNextAgent) {
    auto agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    auto const notes = std::make_shared<Notes>();
    ClusterClient client(options(), notes);
    client.create_channel(spec());
    agent->say({{"notice", "channel_left"}, {"channel", 77u}, {"endpoints", {6u, 1u}}});
    agent->say({{"notice", "server"}, {"server", "node2"}, {"state", "away"}});
    EXPECT_TRUE(notes->wait_for("node2 away"));
    agent = nullptr;
    agent = std::make_unique<FakeAgent>(folder_.file("agent.sock"), Giving());
    Json const held = agent->heard(1).front()["channels"];
    EXPECT_EQ(held[0]["left"], (Json{6u, 1u}));
    EXPECT_EQ(held[0]["gone"], false);
}

}  // namespace
}  // namespace mgi
