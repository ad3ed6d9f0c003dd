// Runtimes that make channels together, over an agent's and a controller's real sockets. Here they are in
// one process, where sanitizers see all of them.
#include <barrier>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "control/agent/agent_process.hpp"
#include "support/expect_error.hpp"

namespace mgi::control::test {
namespace {

using mgi::test::expect_error;

struct Row {
    std::int64_t key;
    std::int64_t rank;
};
constexpr std::int64_t kRows = 3000;

class TogetherRuntimes : public AgentProcess {
protected:
    void SetUp() override { start(); }

    Runtime connect(std::uint32_t rank, std::uint32_t size,
                    std::chrono::milliseconds timeout = std::chrono::milliseconds(30'000)) const {
        ClusterOptions options = client();
        options.job = Job{"job", rank, size, rank, size, "node1", "test"};
        options.timeout = timeout;
        return Runtime::connect(options);
    }
    /// Each rank's work in a thread of its own; what it throws is thrown here.
    static void run(std::uint32_t size, std::function<void(std::uint32_t)> const& work) {
        std::vector<std::future<void>> ranks;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            ranks.push_back(std::async(std::launch::async, work, rank));
        }
        for (auto& rank : ranks) rank.wait();
        for (auto& rank : ranks) rank.get();
    }
    static mgi::ChannelSpec spec(std::vector<Endpoint> const& ends, Routing const& routing,
                                 bool by_reference) {
        mgi::ChannelSpec made;
        made.sources = ends;
        made.destinations = ends;
        made.schema = Schema{{"key", int64()}, {"rank", int64()}};
        made.routing = routing;
        made.options.name = "rows";
        made.options.by_reference = by_reference;
        return made;
    }
    /// Sends and receives until the end; how many rows came from which rank.
    static std::map<std::int64_t, std::int64_t> exchange(Channel& channel, Endpoint mine,
                                                         std::int64_t rank) {
        std::vector<Row> rows;
        for (std::int64_t i = 0; i < kRows; ++i) rows.push_back({i, rank});
        auto sender = channel.sender(mine);
        auto receiver = channel.receiver(mine);
        std::map<std::int64_t, std::int64_t> found;
        std::int64_t sent = 0;
        bool flushed = false;
        for (;;) {
            if (sent < kRows) {
                sent += sender.try_send_rows(&rows[std::size_t(sent)], sizeof(Row), kRows - sent);
            } else if (!flushed) {
                flushed = sender.try_flush();
            }
            RecordBatch batch;
            device::Status const status = receiver.try_recv(batch);
            if (status == device::Status::End && flushed) return found;
            if (status != device::Status::Ok) {
                std::this_thread::yield();
                continue;
            }
            auto const* const ranks = batch.values<std::int64_t>(1);
            for (std::int64_t i = 0; i < batch.rows; ++i) ++found[ranks[i]];
        }
    }
    std::barrier<> all_waited_{3};
    std::barrier<> both_done_{2};
    [[nodiscard]] std::string state_of(std::uint32_t channel) const {
        for (auto const& view : controller_->snapshot().channels) {
            if (view.id == channel) return view.state;
        }
        return "none";
    }
};

TEST_F(TogetherRuntimes, EveryoneKnowsEverybodysEndpoints) {
    std::vector<std::vector<Endpoint>> all(3);
    run(3, [&](std::uint32_t rank) {
        Runtime runtime = connect(rank, 3);
        std::vector<Endpoint> mine;
        for (std::uint32_t i = 0; i < rank; ++i) mine.push_back(runtime.create_endpoint("cpu"));
        all[rank] = runtime.gather_endpoints(mine);
        ASSERT_EQ(all[rank].size(), 3u);
        for (std::size_t i = 0; i < 3; ++i) {
            bool const own = (i == 0) == (rank == 1) && rank != 0;
            EXPECT_EQ(all[rank][i].device != Endpoint::kElsewhere, own) << rank << " " << i;
        }
        // Again, with nothing.
        EXPECT_TRUE(runtime.gather_endpoints({}).empty());
    });
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(all[0][i].id, all[1][i].id);
        EXPECT_EQ(all[0][i].id, all[2][i].id);
    }
}

TEST_F(TogetherRuntimes, RowsMoveAndEachLeavesWhenItHasDone) {
    constexpr std::uint32_t kRanks = 3;
    std::mutex mutex;
    std::map<std::string, std::map<std::int64_t, std::int64_t>> found;
    std::uint32_t last = 0;
    run(kRanks, [&](std::uint32_t rank) {
        Runtime runtime = connect(rank, kRanks);
        Endpoint const mine = runtime.create_endpoint("cpu");
        auto const all = runtime.gather_endpoints({mine});
        std::pair<char const*, Routing> const routings[] = {
            {"partition", Routing::partition("key")},
            {"broadcast", Routing::broadcast()},
            {"balance", Routing::balance()}};
        for (auto const& [name, routing] : routings) {
            for (bool const by_reference : {true, false}) {
                Channel channel = runtime.create_channel(spec(all, routing, by_reference));
                auto const rows = exchange(channel, mine, rank);
                std::lock_guard const lock(mutex);
                for (auto const& [from, count] : rows) {
                    found[std::string(name) + (by_reference ? "" : " by copy")][from] += count;
                }
                last = std::max(last, channel.id());
                runtime.delete_channel(channel);
            }
        }
        runtime.delete_endpoint(mine);
    });
    EXPECT_EQ(found.size(), 6u);
    for (auto const& [name, rows] : found) {
        std::int64_t const times = name.starts_with("broadcast") ? kRanks : 1;
        for (std::int64_t rank = 0; rank < kRanks; ++rank) {
            EXPECT_EQ(rows.at(rank), times * kRows) << name;
        }
    }
    EXPECT_TRUE(eventually([&] { return state_of(last) == "deleted"; })) << state_of(last);
}

// Only those with endpoints in it take part; the channel of one process needs nobody.
TEST_F(TogetherRuntimes, SomeOfTheProcessesMakeAChannel) {
    run(3, [&](std::uint32_t rank) {
        Runtime runtime = connect(rank, 3);
        Endpoint const mine = runtime.create_endpoint("cpu");
        auto const all = runtime.gather_endpoints({mine});
        if (rank == 1) {
            mgi::ChannelSpec const others = spec({all[0], all[2]}, Routing::broadcast(), true);
            expect_error(ErrorCode::InvalidArgument, {"none of the endpoints", "'rows'"},
                         [&] { (void)runtime.create_channel(others); });
            Channel own = runtime.create_channel(spec({all[1]}, Routing::broadcast(), true));
            EXPECT_EQ(exchange(own, mine, rank).at(rank), kRows);
        } else {
            Channel both =
                runtime.create_channel(spec({all[2], all[0]}, Routing::broadcast(), true));
            auto const rows = exchange(both, mine, rank);
            EXPECT_EQ(rows.at(0) + rows.at(2), 2 * kRows);
        }
        runtime.gather_endpoints({mine});  // nobody ends before all have done
    });
}

TEST_F(TogetherRuntimes, WhoDoesNotComeIsNamedByItsRank) {
    run(3, [&](std::uint32_t rank) {
        Runtime runtime = connect(
            rank, 3,
            rank == 1 ? std::chrono::milliseconds(1000) : std::chrono::milliseconds(30'000));
        Endpoint const mine = runtime.create_endpoint("cpu");
        auto const all = runtime.gather_endpoints({mine});
        if (rank == 1) {
            expect_error(ErrorCode::Timeout, {"'rows'", "has not come", "the job's ranks 1, 2"},
                         [&] {
                             (void)runtime.create_channel(
                                 spec({all[1], all[2]}, Routing::broadcast(), true));
                         });
        }
        all_waited_.arrive_and_wait();
        // Later they may.
        if (rank == 0) return;
        Channel channel =
            runtime.create_channel(spec({all[1], all[2]}, Routing::broadcast(), true));
        EXPECT_EQ(exchange(channel, mine, rank).size(), 2u);
        both_done_.arrive_and_wait();
    });
}

TEST_F(TogetherRuntimes, AnErrorInOneIsAnErrorInAll) {
    run(2, [&](std::uint32_t rank) {
        Runtime runtime = connect(rank, 2);
        Endpoint const mine = runtime.create_endpoint("cpu");
        auto const all = runtime.gather_endpoints({mine});
        mgi::ChannelSpec asked = spec(all, Routing::partition("key"), true);
        if (rank == 1) asked.options.slots = 4;
        expect_error(ErrorCode::InvalidArgument, {"slots is '0' for rank 0 and '4' for rank 1"},
                     [&] { (void)runtime.create_channel(asked); });
        asked = spec(all, Routing::partition(rank == 1 ? "nothing" : "key"), true);
        expect_error(ErrorCode::InvalidArgument, {"rank 1: ", "nothing"},
                     [&] { (void)runtime.create_channel(asked); });
        Channel channel = runtime.create_channel(spec(all, Routing::broadcast(), true));
        EXPECT_EQ(exchange(channel, mine, rank).size(), 2u);
        runtime.gather_endpoints({mine});
    });
    EXPECT_TRUE(eventually([&] { return controller_->snapshot().endpoints.empty(); }));
    for (auto const& view : controller_->snapshot().channels) EXPECT_NE(view.state, "running");
}

TEST_F(TogetherRuntimes, WhoEndsTooEarlyFailsItForAll) {
    run(2, [&](std::uint32_t rank) {
        Runtime runtime = connect(rank, 2);
        Endpoint const mine = runtime.create_endpoint("cpu");
        auto const all = runtime.gather_endpoints({mine});
        Channel channel = runtime.create_channel(spec(all, Routing::broadcast(), true));
        if (rank == 1) return;
        auto receiver = channel.receiver(mine);
        expect_error(ErrorCode::Deleted, {"rank 1"},
                     [&] { (void)receiver.recv(std::chrono::milliseconds(30'000)); });
    });
}

TEST_F(TogetherRuntimes, EndpointsOfOtherProcessesAreNotOnesOwn) {
    run(2, [&](std::uint32_t rank) {
        Runtime runtime = connect(rank, 2);
        Endpoint const mine = runtime.create_endpoint("cpu");
        auto const all = runtime.gather_endpoints({mine});
        Endpoint const other = all[1 - rank];
        expect_error(ErrorCode::NotFound, {"does not exist in this runtime"},
                     [&] { runtime.delete_endpoint(other); });
        expect_error(ErrorCode::InvalidArgument, {"a process' own endpoints"},
                     [&] { (void)runtime.gather_endpoints({other}); });
        mgi::ChannelSpec const unknown = spec({mine, {4711, 0}}, Routing::broadcast(), true);
        expect_error(ErrorCode::NotFound, {"4711", "gather_endpoints"},
                     [&] { (void)runtime.create_channel(unknown); });
        runtime.gather_endpoints({mine});
    });
}

}  // namespace
}  // namespace mgi::control::test
