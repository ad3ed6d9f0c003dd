// Launches: who the groups are, what they get, how they end.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <mgi/runtime.hpp>

#include "support/expect_error.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Group;
using device::Shared;

class Launches : public ::testing::Test {
protected:
    static LaunchOptions shape(std::uint32_t groups, std::uint32_t threads) {
        LaunchOptions options;
        options.groups = groups;
        options.threads = threads;
        return options;
    }
    Runtime runtime_ = Runtime::local();
    Endpoint end_ = runtime_.create_endpoint("cpu");
};

TEST_F(Launches, EveryThreadOfEveryGroupRunsOnce) {
    std::mutex mutex;
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    std::set<std::uint64_t> numbers;
    runtime_
        .launch(
            end_, shape(8, 3),
            [&](Group const& group, Shared& shared, int first, std::string const& second) {
                EXPECT_EQ(group.blocks, 8U);
                EXPECT_EQ(group.threads, 3U);
                EXPECT_EQ(first, 7);
                EXPECT_EQ(second, "seven");
                EXPECT_NE(shared.data, nullptr);
                std::lock_guard const lock(mutex);
                EXPECT_TRUE(seen.insert({group.block, group.thread}).second);
                numbers.insert(group.launch);
            },
            7, std::string("seven"))
        .wait(30s);
    EXPECT_EQ(seen.size(), 24U);
    EXPECT_EQ(numbers.size(), 8U) << "each group has a number of its own";
}

TEST_F(Launches, GroupsShareScratchAndMeetAtBarriers) {
    LaunchOptions options = shape(4, 2);
    options.shared_bytes = 1024;
    runtime_
        .launch(end_, options,
                [&](Group const& group, Shared& shared) {
                    auto* const words = shared.take<std::uint32_t>(256);
                    ASSERT_NE(words, nullptr);
                    for (std::uint32_t round = 0; round < 100; ++round) {
                        words[group.thread] = round;
                        group.sync();
                        ASSERT_EQ(words[1 - group.thread], round);
                        group.sync();
                    }
                })
        .wait(30s);
}

TEST_F(Launches, AllGroupsAreResident) {
    // Each group waits for all others: less than all at once would never end.
    std::atomic<std::uint32_t> arrived{0};
    runtime_
        .launch(end_, shape(40, 1),
                [&](Group const& group, Shared&) {
                    ++arrived;
                    for (device::u32 round = 0; arrived.load() < group.blocks; ++round) {
                        device::backoff(round);
                    }
                })
        .wait(30s);
}

TEST_F(Launches, WaitRethrowsTheKernelsException) {
    struct Mine {
        int value;
    };
    Launch launch = runtime_.launch(end_, shape(3, 2), [](Group const& group, Shared&) {
        if (group.block == 1 && group.thread == 1) throw Mine{42};
        group.sync();
    });
    for (int i = 0; i < 2; ++i) {
        try {
            launch.wait(30s);
            FAIL() << "threw nothing";
        } catch (Mine const& mine) {
            EXPECT_EQ(mine.value, 42);
        }
    }
    EXPECT_TRUE(launch.done());
}

TEST_F(Launches, WaitTimesOutAndLeavesThemRunning) {
    std::atomic<bool> go{false};
    Launch launch = runtime_.launch(end_, shape(2, 1), [&](Group const&, Shared&) {
        while (!go.load()) std::this_thread::sleep_for(1ms);
    });
    expect_error(ErrorCode::Timeout, {"2 of 2", std::to_string(end_.id)},
                 [&] { launch.wait(20ms); });
    EXPECT_FALSE(launch.done());
    go = true;
    launch.wait(30s);
    EXPECT_TRUE(launch.done());
}

TEST_F(Launches, SeveralAtOnceOnOneEndpoint) {
    std::atomic<int> count{0};
    std::vector<Launch> launches;
    for (int i = 0; i < 5; ++i) {
        launches.push_back(
            runtime_.launch(end_, shape(2, 2), [&](Group const&, Shared&) { ++count; }));
    }
    for (Launch& launch : launches) launch.wait(30s);
    EXPECT_EQ(count.load(), 20);
}

TEST_F(Launches, PinnedToTheCoresOfTheirDevice) {
    RuntimeOptions options;
    options.cpu_devices = 2;
    Runtime runtime = Runtime::local(options);
    for (Device const& device : runtime.devices()) {
        Endpoint const end = runtime.create_endpoint(device.name);
        runtime
            .launch(end, shape(2, 1),
                    [&](Group const&, Shared&) {
                        if (device.cores.empty()) return;
                        int const core = sched_getcpu();
                        EXPECT_NE(std::find(device.cores.begin(), device.cores.end(), core),
                                  device.cores.end());
                    })
            .wait(30s);
    }
}

TEST_F(Launches, OutliveTheirHandles) {
    std::atomic<int> count{0};
    {
        Runtime runtime = Runtime::local();
        Endpoint const end = runtime.create_endpoint("cpu");
        runtime.launch(end, shape(4, 1), [&](Group const&, Shared&) {
            std::this_thread::sleep_for(20ms);
            ++count;
        });
    }
    EXPECT_EQ(count.load(), 4) << "the runtime's end waits for its groups";
}

}  // namespace
}  // namespace mgi::test
