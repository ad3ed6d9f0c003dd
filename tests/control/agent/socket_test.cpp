// Where an agent listens: its own place, and nobody else's.
#include "control/local/socket.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "support/expect_error.hpp"
#include "support/fake_agent.hpp"

namespace mgi::control {
namespace {

using mgi::test::expect_error;

class AgentsSocket : public ::testing::Test {
protected:
    mgi::test::TemporaryFolder folder_;
};

// The lock says so although nobody answers at the socket, as in an agent that starts or is frozen.
TEST_F(AgentsSocket, AnAgentsLockKeepsAnotherOut) {
    std::string const path = folder_.file("agent.sock");
    Listener const first = listen_for_applications(path);
    std::filesystem::remove(path);
    expect_error(ErrorCode::Refused, {"another agent listens", path + ".lock", "--socket"},
                 [&] { (void)listen_for_applications(path); });
}

TEST_F(AgentsSocket, ADeadAgentsSocketIsReplacedAndNothingElse) {
    std::string const path = folder_.file("agent.sock");
    std::optional<Listener> agent = listen_for_applications(path);
    agent.reset();
    ASSERT_TRUE(std::filesystem::exists(path));
    agent = listen_for_applications(path);
    EXPECT_TRUE(connect_to_agent(path));
    // It listens, and its lock was removed by hand.
    std::filesystem::remove(path + ".lock");
    expect_error(ErrorCode::Refused, {"another agent listens", "--socket"},
                 [&] { (void)listen_for_applications(path); });
    EXPECT_TRUE(connect_to_agent(path));
    std::ofstream(folder_.file("text")) << "no socket";
    expect_error(ErrorCode::Refused, {"no socket", "--socket"},
                 [&] { (void)listen_for_applications(folder_.file("text")); });
    EXPECT_TRUE(std::filesystem::exists(folder_.file("text")));
}

}  // namespace
}  // namespace mgi::control
