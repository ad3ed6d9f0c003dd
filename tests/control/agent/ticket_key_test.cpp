// The file with the key of an agent's tickets.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "control/agent/owner.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace mgi::control {
namespace {

using mgi::test::expect_error;

TEST(TicketKey, IsTheSameWhenTheAgentIsStartedAgain) {
    mgi::test::TemporaryFolder const folder;
    std::string const file = folder.file("agent.sock.key");
    mode_t const before = umask(0);
    std::string const key = ticket_key(file);
    umask(before);
    EXPECT_EQ(key.size(), 32u);
    EXPECT_EQ(ticket_key(file), key);
    struct stat found{};
    ASSERT_EQ(stat(file.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
    EXPECT_NE(ticket_key(folder.file("other.key")), key);
}

TEST(TicketKey, IsAnotherOneWhereOthersMayHaveReadIt) {
    mgi::test::TemporaryFolder const folder;
    std::string const file = folder.file("key");
    std::string const key = ticket_key(file);
    ASSERT_EQ(chmod(file.c_str(), 0644), 0);
    std::string const next = ticket_key(file);
    EXPECT_NE(next, key);
    EXPECT_EQ(ticket_key(file), next);
}

TEST(TicketKey, ThatIsHalfWrittenIsMadeAnew) {
    mgi::test::TemporaryFolder const folder;
    std::string const file = folder.file("key");
    (void)ticket_key(file);
    ASSERT_EQ(truncate(file.c_str(), 5), 0);
    EXPECT_EQ(ticket_key(file).size(), 32u);
    EXPECT_EQ(ticket_key(file), ticket_key(file));
}

TEST(TicketKey, IsNoLinkOfOthers) {
    mgi::test::TemporaryFolder const folder;
    std::ofstream(folder.file("victim")) << "precious";
    ASSERT_EQ(symlink(folder.file("victim").c_str(), folder.file("key").c_str()), 0);
    expect_error(ErrorCode::Refused, {"key"}, [&] { (void)ticket_key(folder.file("key")); });
    std::string kept;
    std::ifstream(folder.file("victim")) >> kept;
    EXPECT_EQ(kept, "precious");
}

}  // namespace
}  // namespace mgi::control
