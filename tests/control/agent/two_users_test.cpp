// A process of another user that may open the agent's socket, beside an honest application.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "control/agent/agent_process.hpp"
#include "control/local/words.hpp"
#include "support/as_nobody.hpp"

namespace mgi::control::test {
namespace {

class TwoUsers : public AgentProcess {
protected:
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "only root makes processes of other users";
        start();
        // He may come in, as a member of the socket's group may.
        std::string const socket = folder_.file("agent.sock");
        ASSERT_EQ(chmod(socket.substr(0, socket.rfind('/')).c_str(), 0755), 0);
        ASSERT_EQ(chmod(socket.c_str(), 0666), 0);
    }
    /// What the agent answers to another user's words.
    std::string answers_to_nobody(std::string const& words) const {
        std::string const path = folder_.file("agent.sock");
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        return mgi::test::answer_to_nobody(reinterpret_cast<sockaddr const*>(&address),
                                           sizeof address, words);
    }
    static std::string hello(ClusterPlan const& plan, std::uint32_t endpoint) {
        Json channel = {{"channel", plan.channel},
                        {"generation", plan.generation + 1},
                        {"request", plan.request},
                        {"created", true}};
        ClusterChannelSpec spec = plan.spec;
        spec.sources = {endpoint};
        add_spec(channel, spec);
        return frame_of({{"op", "hello"},
                         {"id", 0u},
                         {"protocol", kSocketProtocol},
                         {"name", "stranger"},
                         {"endpoints", {{{"endpoint", endpoint}, {"vertex", 0u}}}},
                         {"channels", Json::array({channel})}});
    }
};

TEST_F(TwoUsers, NamingAChannelGivesNothingOfIt) {
    ClusterClient one(client());
    ClusterEndpoint const source = one.create_endpoint();
    ClusterEndpoint const destination = one.create_endpoint();
    ClusterPlan const plan = one.create_channel(flow(source, destination));
    Fd const part(memfd_create("part", MFD_CLOEXEC));
    one.put_part(plan.channel, part.get());
    for (std::uint32_t const endpoint : {source.id, 999u}) {
        std::string const answers = answers_to_nobody(
            hello(plan, endpoint) +
            frame_of(
                {{"op", "get_part"}, {"id", 1u}, {"timeout_ms", 200u}, {"channel", plan.channel}}) +
            frame_of({{"op", "delete_channel"}, {"id", 2u}, {"channel", plan.channel}}));
        EXPECT_NE(answers.find("endpoint_lost"), std::string::npos) << answers;
        EXPECT_NE(answers.find("nothing proves"), std::string::npos) << answers;
        EXPECT_NE(answers.find("has no endpoint of this application"), std::string::npos)
            << answers;
        EXPECT_NE(answers.find("or is not this application's"), std::string::npos) << answers;
    }
    // And whose it is goes on: a plan that comes is accepted, and the part is there.
    one.check_channel(plan.channel);
    ClusterClient two(client());
    ClusterEndpoint const third = two.create_endpoint();
    ClusterPlan const second = two.create_channel(flow(source, third));
    EXPECT_TRUE(eventually([&] {
        try {
            Fd const got(one.get_part(plan.channel));
            return bool(got);
        } catch (Error const&) {
            return false;
        }
    }));
    two.delete_channel(second.channel);
    EXPECT_EQ(controller_->snapshot().channels.front().state, "running");
}

TEST_F(TwoUsers, AnothersEndpointsAndMeetingsAreNone) {
    ClusterClient one(client());
    ClusterEndpoint const source = one.create_endpoint();
    ClusterEndpoint const destination = one.create_endpoint();
    ClusterPlan const plan = one.create_channel(flow(source, destination));
    Json const plain = {
        {"op", "hello"}, {"id", 0u}, {"protocol", kSocketProtocol}, {"name", "stranger"}};
    Json request = {{"op", "create_channel"}, {"id", 1u}, {"request", "strangers-request"}};
    add_spec(request, plan.spec);
    std::thread meets([&] {
        auto const all = one.gather("key", 0, 2, "mine", std::chrono::seconds(20));
        EXPECT_EQ(all, (std::vector<std::string>{"mine", "ours"}));
    });
    std::string const answers = answers_to_nobody(frame_of(plain) + frame_of(request) +
                                                  frame_of({{"op", "gather"},
                                                            {"id", 2u},
                                                            {"request", "strangers-gather"},
                                                            {"key", "key"},
                                                            {"rank", 1u},
                                                            {"size", 2u},
                                                            {"timeout_ms", 300u},
                                                            {"data", bytes_value("stranger")}}) +
                                                  frame_of({{"op", "status"}, {"id", 3u}}));
    EXPECT_NE(answers.find("there is no endpoint"), std::string::npos) << answers;
    EXPECT_EQ(answers.find("mine"), std::string::npos) << answers;
    EXPECT_EQ(answers.find("\"flow\""), std::string::npos) << answers;
    ClusterClient two(client());
    EXPECT_EQ(two.gather("key", 1, 2, "ours", std::chrono::seconds(20)),
              (std::vector<std::string>{"mine", "ours"}));
    meets.join();
}

}  // namespace
}  // namespace mgi::control::test
