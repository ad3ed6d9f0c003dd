// Channels over processes: all rows, once; processes that die, stop and fork.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <thread>

#include "process/exchange.hpp"
#include "runtime/channel_impl.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"
#include "support/random.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kDeadline = 40s;

// A member in a process of its own. It dies with this object at the latest.
class Child {
public:
    Child(Exchange const& exchange, int part) {
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
        output_ = ends[0];
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions, part, kPartDescriptor);
        std::vector<std::string> arguments = exchange.arguments();
        arguments.insert(arguments.begin(), MGI_TEST_MEMBER);
        std::vector<char*> raw;
        for (auto& argument : arguments) raw.push_back(argument.data());
        raw.push_back(nullptr);
        int const code =
            posix_spawn(&pid_, MGI_TEST_MEMBER, &actions, nullptr, raw.data(), environ);
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        if (code != 0) throw std::runtime_error("cannot start " MGI_TEST_MEMBER);
    }
    ~Child() {
        if (!over_) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        close(output_);
    }
    Child(Child const&) = delete;
    Child& operator=(Child const&) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    void signal(int number) const { kill(pid_, number); }
    // How it ended; -1 if it has not by the deadline.
    int wait() {
        auto const deadline = Clock::now() + kDeadline;
        int status = 0;
        while (waitpid(pid_, &status, WNOHANG) != pid_) {
            if (Clock::now() > deadline) return -1;
            std::this_thread::sleep_for(2ms);
        }
        over_ = true;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    // What it has printed, once it has ended.
    [[nodiscard]] std::string output() const {
        std::array<char, 8192> text{};
        ssize_t const length = read(output_, text.data(), text.size());
        return {text.data(), std::size_t(std::max<ssize_t>(length, 0))};
    }

private:
    pid_t pid_ = -1;
    int output_ = -1;
    bool over_ = false;
};

int open_parts() {
    int parts = 0;
    DIR* const folder = opendir("/proc/self/fd");
    while (dirent const* entry = readdir(folder)) {
        std::array<char, 256> target{};
        ssize_t const length =
            readlinkat(dirfd(folder), entry->d_name, target.data(), target.size() - 1);
        if (length > 0 && std::string(target.data()).find("memfd:mgi") != std::string::npos)
            ++parts;
    }
    closedir(folder);
    return parts;
}

class ProcessTest : public ::testing::TestWithParam<bool> {
protected:
    void SetUp() override {
#if defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "what another process orders ThreadSanitizer does not see";
#endif
        exchange_.members = 3;
        exchange_.by_reference = GetParam();
    }
    void TearDown() override {
        children_.clear();
        member_.reset();
        EXPECT_EQ(open_parts(), 0);
    }
    // Member 0 is here, the others are there and have come.
    void start() {
        exchange_.me = 0;
        member_ = std::make_unique<Member>(exchange_);
        int const part = member_->make();
        for (exchange_.me = 1; exchange_.me < exchange_.members; ++exchange_.me) {
            children_.push_back(std::make_unique<Child>(exchange_, part));
        }
        auto const deadline = Clock::now() + kDeadline;
        Part const& words = *member_->channel().impl()->part();
        for (std::uint32_t m = 1; m < exchange_.members; ++m) {
            while (words.presence(m) != Part::Presence::Joined) {
                ASSERT_LT(Clock::now(), deadline) << "member " << m << " has not come";
                std::this_thread::sleep_for(1ms);
            }
        }
    }
    Child& child(std::uint32_t member) { return *children_[member - 1]; }

    // All that was sent has arrived, in sum.
    void expect_all(Arrived arrived) {
        for (auto& child : children_) {
            EXPECT_EQ(child->wait(), 0);
            unsigned long long rows = 0;
            unsigned long long sum = 0;
            std::string const text = child->output();
            ASSERT_EQ(std::sscanf(text.c_str(), "%llu %llu", &rows, &sum), 2) << text;
            arrived.rows += rows;
            arrived.sum += sum;
        }
        std::uint64_t const all = exchange_.members * exchange_.rows;
        EXPECT_EQ(arrived.rows, all);
        EXPECT_EQ(arrived.sum, all * (all - 1) / 2);
    }

    Exchange exchange_;
    std::unique_ptr<Member> member_;
    std::vector<std::unique_ptr<Child>> children_;
};

TEST_P(ProcessTest, EveryRowArrivesOnce) {
    exchange_.rows = 30'000;
    start();
    expect_all(member_->run());
}

TEST_P(ProcessTest, WithoutRowsTheyLeaveAtOnce) {
    for (int round = 0; round < 3; ++round) {
        exchange_.rows = std::uint64_t(round % 2);
        start();
        expect_all(member_->run());
        children_.clear();
    }
}

TEST_P(ProcessTest, AChildThatExecutesNothingDoesNoHarm) {
    exchange_.rows = 30'000;
    exchange_.forks = true;
    start();
    expect_all(member_->run());
}

TEST_P(ProcessTest, KillingOneIsAnErrorForTheOthers) {
    Random random(GetParam() ? 1 : 2);
    exchange_.gone_limit_ms = 700;
    for (int round = 0; round < 4; ++round) {
        start();
        std::jthread killer([&, pause = std::chrono::milliseconds(random.below(60))] {
            std::this_thread::sleep_for(pause);
            child(1).signal(SIGKILL);
        });
        std::string const dead = "process 1 (pid " + std::to_string(child(1).pid()) + ")";
        expect_error(ErrorCode::Stalled, {"sales", dead, "gone_limit"}, [&] { member_->run(); });
        killer.join();
        EXPECT_EQ(child(2).wait(), 3);
        std::string const text = child(2).output();
        EXPECT_NE(text.find(dead), std::string::npos) << text;
        EXPECT_EQ(child(1).wait(), 1000 + SIGKILL);
        children_.clear();
    }
}

TEST_P(ProcessTest, AShortStopIsSurvived) {
    exchange_.rows = 200'000;
    exchange_.gone_limit_ms = 4000;
    start();
    std::jthread stopper([&] {
        child(1).signal(SIGSTOP);
        std::this_thread::sleep_for(1s);
        child(1).signal(SIGCONT);
    });
    Arrived const arrived = member_->run();
    stopper.join();
    expect_all(arrived);
}

TEST_P(ProcessTest, AStopForEverIsAnError) {
    exchange_.gone_limit_ms = 700;
    start();
    child(1).signal(SIGSTOP);
    expect_error(ErrorCode::Stalled, {"sales", "process 1", "no sign of life"},
                 [&] { member_->run(); });
    EXPECT_EQ(child(2).wait(), 3);
    // It hears of it when it goes on.
    child(1).signal(SIGCONT);
    EXPECT_EQ(child(1).wait(), 3);
    EXPECT_NE(child(1).output().find("no sign of life"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Transfer, ProcessTest, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
