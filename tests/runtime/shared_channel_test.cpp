// A channel over several runtimes and one part: coming, leaving, failing. That every row arrives once is
// property_test's; tests/process has real processes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "runtime/channel_impl.hpp"
#include "runtime/runtime_impl.hpp"
#include "support/expect_error.hpp"
#include "support/flow.hpp"
#include "support/hang_guard.hpp"
#include "support/shared_channel.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Status;

// How segments get to another member: in place, by copy within a server, or over links between two.
enum class Carried { ByReference, ByCopy, Links };

// Members 0 and 1 have a source and a destination each.
class SharedChannel : public ::testing::TestWithParam<Carried> {
protected:
    static bool by_reference() { return GetParam() == Carried::ByReference; }
    static std::uint32_t servers() { return GetParam() == Carried::Links ? 2 : 1; }
    void SetUp() override {
        spec_.schema = numbered_schema();
        spec_.routing = Routing::partition("key");
        spec_.options.name = "sales";
        spec_.options.by_reference = by_reference();
        spec_.options.segment_rows = 16;
        spec_.options.slots = spec_.options.credits = 2;
        spec_.options.max_groups = 2;
        for (std::uint32_t m = 0; m < 2; ++m) {
            ends_.push_back(members_.create_endpoint(m));
        }
    }
    std::vector<Channel> open() { return members_.open(spec_, ends_, ends_); }
    [[nodiscard]] Endpoint end(std::uint32_t member) const { return ends_[member].endpoint; }

    // Receives everything that comes to a member; how many rows.
    static std::int64_t receive_all(Channel const& channel, Endpoint endpoint) {
        Receiver receiver = channel.receiver(endpoint);
        std::int64_t rows = 0;
        while (auto const batch = receiver.recv(kPatience)) rows += batch->rows;
        return rows;
    }
    static void send_all(Channel const& channel, Endpoint endpoint, std::size_t rows) {
        Sender sender = channel.sender(endpoint);
        if (rows != 0)
            sender.send(make_batch(numbered_schema(), numbered_rows(rows, 97)), kPatience);
        sender.flush(kPatience);
    }
    static void wait_until_failed(Channel const& channel) {
        while (!channel.impl()->failed()) std::this_thread::sleep_for(1ms);
    }

    Members members_{2, {}, servers()};
    std::vector<Owned> ends_;
    ChannelSpec spec_;
};

TEST_P(SharedChannel, OnlyTheOwnerUsesAnEndpoint) {
    auto const channels = open();
    Endpoint const other{end(1).id, Endpoint::kElsewhere};
    for (auto const& call : std::vector<std::function<void()>>{
             [&] { (void)channels[0].on(other); }, [&] { (void)channels[0].sender(other); },
             [&] { (void)channels[0].receiver(other); }}) {
        expect_error(ErrorCode::InvalidArgument, {"sales", "another process"}, call);
    }
    EXPECT_TRUE(channels[0].impl()->is_own_source(0));
    EXPECT_FALSE(channels[0].impl()->is_own_source(1));
    EXPECT_EQ(channels[0].plan().pool_bytes, channels[1].plan().pool_bytes);
    EXPECT_EQ(channels[1].plan().transfer,
              by_reference() ? Transfer::ByReference : Transfer::ByCopy);
}

TEST_P(SharedChannel, SendToOthersByName) {
    for (Routing const& routing : {Routing::direct(), Routing::broadcast()}) {
        spec_.routing = routing;
        auto const channels = open();
        Sender sender = channels[0].sender(end(0));
        sender.send_to({end(1).id, Endpoint::kElsewhere},
                       make_batch(numbered_schema(), numbered_rows(20, 3)));
        std::jthread flushing([&] { sender.flush(kPatience); });
        std::jthread other([&] { send_all(channels[1], end(1), 0); });
        std::int64_t here = 0;
        std::jthread receiving([&] { here = receive_all(channels[0], end(0)); });
        EXPECT_EQ(receive_all(channels[1], end(1)), 20);
        receiving.join();
        EXPECT_EQ(here, 0);
    }
}

// What no destination but one has rows of is over all the same for those that have long had theirs.
TEST_P(SharedChannel, ABroadcastMayEndWithRowsForOne) {
    spec_.routing = Routing::broadcast();
    auto const channels = open();
    std::int64_t got[2] = {0, 0};
    {
        std::vector<std::jthread> threads;
        for (std::uint32_t m = 0; m < 2; ++m) {
            threads.emplace_back([&, m] { got[m] = receive_all(channels[m], end(m)); });
            threads.emplace_back([&, m] {
                Sender sender = channels[m].sender(end(m));
                auto const rows = make_batch(numbered_schema(), numbered_rows(100, 3));
                sender.send(rows, kPatience);
                Endpoint const to = m == 0 ? end(0) : Endpoint{end(0).id, Endpoint::kElsewhere};
                for (int i = 0; i < 5; ++i) sender.send_to(to, rows.slice(0, 3), kPatience);
                sender.flush(kPatience);
            });
        }
    }
    EXPECT_EQ(got[0], 230);
    EXPECT_EQ(got[1], 200);
    for (std::uint32_t m = 0; m < 2; ++m) EXPECT_TRUE(channels[m].impl()->ended(m));
}

TEST_P(SharedChannel, OthersSpecificationsAreRefused) {
    if (servers() > 1) GTEST_SKIP() << "each has a part of its own";
    auto const made = members_.runtime(0).impl()->make_part(
        3, Members::seen_from(0, spec_, ends_, ends_), members_.members_of(0, ends_, ends_));
    auto const open = [&](std::uint32_t id) {
        return members_.runtime(1).impl()->open_part(id, Members::seen_from(1, spec_, ends_, ends_),
                                                     members_.members_of(1, ends_, ends_),
                                                     made.descriptor);
    };
    expect_error(ErrorCode::InvalidArgument, {"channel 4"}, [&] { (void)open(4); });
    ChannelSpec const original = spec_;
    spec_.schema = Schema{{"key", int64()}, {"value", int64()}, {"more", int64()}};
    expect_error(ErrorCode::InvalidArgument, {"same"}, [&] { (void)open(3); });
    spec_ = original;
    spec_.routing = Routing::broadcast();
    expect_error(ErrorCode::InvalidArgument, {"sales", "same"}, [&] { (void)open(3); });
    spec_ = original;
    EXPECT_TRUE(open(3).has_value());
    EXPECT_NO_THROW(made.channel.check());
}

TEST_P(SharedChannel, ATakenAddressIsNoError) {
    if (servers() > 1) GTEST_SKIP() << "each has a part of its own";
    auto made = members_.runtime(0).impl()->make_part(3, Members::seen_from(0, spec_, ends_, ends_),
                                                      members_.members_of(0, ends_, ends_));
    int const descriptor = dup(made.descriptor);
    std::uint64_t const address = made.address;
    members_.runtime(0).impl()->leave(*made.channel.impl());
    made.channel = Channel();
    auto* const wanted = reinterpret_cast<void*>(address);
    void* const there =
        mmap(wanted, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(there, wanted);
    EXPECT_FALSE(
        members_.runtime(1).impl()->open_part(3, Members::seen_from(1, spec_, ends_, ends_),
                                              members_.members_of(1, ends_, ends_), descriptor));
    munmap(there, 4096);
    close(descriptor);
    // The same number again.
    EXPECT_NO_THROW(members_.runtime(0).impl()->make_part(
        3, Members::seen_from(0, spec_, ends_, ends_), members_.members_of(0, ends_, ends_)));
}

// Each in turn leaves as soon as it has flushed, whoever still works: nobody may fail for that.
TEST_P(SharedChannel, EmptySourcesLeaveAtOnce) {
    int const rounds = kSanitized ? 20 : 100;
    Members members(3, {}, servers());
    std::vector<Owned> sources;
    for (std::uint32_t m = 0; m < 3; ++m) sources.push_back(members.create_endpoint(m));
    std::vector<Owned> const destinations{members.create_endpoint(2)};
    for (int round = 0; round < rounds; ++round) {
        spec_.routing = round % 2 == 0 ? Routing::partition("key") : Routing::broadcast();
        spec_.options.ordered = servers() == 1 && round % 4 == 1;
        auto channels = members.open(spec_, sources, destinations);
        auto const leave_after = [&](std::uint32_t m, std::size_t rows) {
            send_all(channels[m], sources[m].endpoint, rows);
            EXPECT_NO_THROW(members.runtime(m).delete_channel(channels[m]));
        };
        std::jthread first([&] { leave_after(0, round % 3 == 0 ? 40 : 0); });
        std::jthread second([&] { leave_after(1, 0); });
        std::jthread third([&] { send_all(channels[2], sources[2].endpoint, 100); });
        EXPECT_EQ(receive_all(channels[2], destinations[0].endpoint), round % 3 == 0 ? 140 : 100);
        third.join();
        EXPECT_NO_THROW(members.runtime(2).delete_channel(channels[2]));
    }
}

TEST_P(SharedChannel, WhoLeavesBeforeTheEndFailsIt) {
    auto const channels = open();
    expect_error(ErrorCode::NotFound, {}, [&] { members_.runtime(0).delete_channel(channels[1]); });
    members_.runtime(0).delete_channel(channels[0]);
    wait_until_failed(channels[1]);
    std::string const source = "source " + std::to_string(end(0).id);
    expect_error(ErrorCode::Deleted, {"sales", "process 0", "left", source, "flushed"},
                 [&] { channels[1].check(); });
    expect_error(ErrorCode::Deleted, {}, [&] { channels[0].check(); });
    expect_error(ErrorCode::NotFound, {}, [&] { members_.runtime(0).delete_channel(channels[0]); });
    members_.runtime(1).delete_channel(channels[1]);
}

TEST_P(SharedChannel, WhoLeavesWhatItHasNotTakenFailsIt) {
    auto const channels = open();
    std::jthread first([&] { send_all(channels[0], end(0), 20); });
    std::jthread second([&] { send_all(channels[1], end(1), 20); });
    first.join();
    second.join();
    EXPECT_GT(receive_all(channels[0], end(0)), 0);
    members_.runtime(0).delete_channel(channels[0]);
    EXPECT_NO_THROW(channels[1].check());
    members_.runtime(1).delete_channel(channels[1]);
    expect_error(ErrorCode::Deleted,
                 {"process 1", "destination " + std::to_string(end(1).id), "taken"},
                 [&] { channels[1].check(); });
}

TEST_P(SharedChannel, ADyingRuntimeLeaves) {
    for (bool const finished : {true, false}) {
        Members members(2, {}, servers());
        std::vector<Owned> const sources{members.create_endpoint(0)};
        std::vector<Owned> const destinations{members.create_endpoint(1)};
        auto channels = members.open(spec_, sources, destinations);
        std::jthread sending([&] {
            if (finished) send_all(channels[0], sources[0].endpoint, 200);
            channels[0] = Channel();
            members.end(0);
        });
        if (finished) {
            EXPECT_EQ(receive_all(channels[1], destinations[0].endpoint), 200);
        } else {
            wait_until_failed(channels[1]);
            expect_error(ErrorCode::Deleted, {"process 0", "runtime ended", "source"},
                         [&] { channels[1].check(); });
        }
        sending.join();
        EXPECT_EQ(channels[1].impl()->failed(), !finished);
    }
}

TEST_P(SharedChannel, OneFailureIsEverybodys) {
    auto const channels = open();
    Launch const failing = members_.runtime(1).launch(
        end(1), {},
        [](device::Group const&, device::Shared&, device::Channel const&) {
            throw std::runtime_error("the disk is full");
        },
        channels[1].on(end(1)));
    expect_error(ErrorCode::GroupFailed, {"sales", "process 1", "the disk is full"},
                 [&] { (void)channels[0].receiver(end(0)).recv(kPatience); });
    EXPECT_THROW(channels[1].check(), Error);
    channels[0].fail(ErrorCode::Interrupted, "too late");
    expect_error(ErrorCode::GroupFailed, {"the disk is full"}, [&] { channels[0].check(); });
}

TEST_P(SharedChannel, NobodyAtAnothersDestinationIsNoticed) {
    spec_.options.gone_limit = 600ms;
    auto const channels = open();
    std::jthread sending([&] { EXPECT_THROW(send_all(channels[0], end(0), 5000), Error); });
    std::jthread receiving([&] { EXPECT_THROW(receive_all(channels[0], end(0)), Error); });
    sending.join();
    receiving.join();
    expect_error(ErrorCode::Stalled,
                 {"nobody receives at endpoint " + std::to_string(end(1).id),
                  servers() == 1 ? "process 1 (pid " : "to process 1: "},
                 [&] { channels[0].check(); });
    wait_until_failed(channels[1]);
}

TEST_P(SharedChannel, ASenderThatIsGoneIsNoticed) {
    spec_.options.gone_limit = 600ms;
    auto const channels = open();
    {
        Sender sender = channels[1].sender(end(1));
        sender.send(make_batch(numbered_schema(), numbered_rows(3, 3)), kPatience);
    }
    expect_error(ErrorCode::Stalled, {"endpoint " + std::to_string(end(1).id), "flushed"},
                 [&] { (void)receive_all(channels[0], end(0)); });
}

// A receiver that does nothing, and a sender that does nothing, are there all the same.
TEST_P(SharedChannel, WhoIsSlowIsNotGone) {
    spec_.options.gone_limit = 500ms;
    auto const channels = open();
    std::jthread sending([&] { send_all(channels[0], end(0), 500); });
    std::jthread receiving([&] { (void)receive_all(channels[0], end(0)); });
    {
        Sender sender = channels[1].sender(end(1));
        Receiver receiver = channels[1].receiver(end(1));
        std::this_thread::sleep_for(1500ms);
        EXPECT_NO_THROW(channels[0].check());
        sender.flush(kPatience);
        while (receiver.recv(kPatience)) {
        }
    }
    sending.join();
    receiving.join();
    EXPECT_NO_THROW(channels[0].check());
}

TEST_P(SharedChannel, KeptBatchesOutliveEverybody) {
    spec_.options.receive_limit = 64 << 10;
    spec_.routing = Routing::broadcast();
    auto const rows = numbered_rows(300, 97);
    std::vector<RecordBatch> kept[2];
    {
        auto const channels = open();
        std::vector<std::jthread> threads;
        for (std::uint32_t m = 0; m < 2; ++m) {
            threads.emplace_back([&, m] { send_all(channels[m], end(m), m == 0 ? 300 : 0); });
            threads.emplace_back([&, m] {
                Receiver receiver = channels[m].receiver(end(m));
                while (auto const batch = receiver.recv(kPatience)) kept[m].push_back(*batch);
            });
        }
        for (auto& thread : threads) thread.join();
        for (std::uint32_t m = 0; m < 2; ++m) {
            EXPECT_GT(channels[m].stats().detached_bytes, 0U);
            members_.runtime(m).delete_channel(channels[m]);
        }
    }
    members_.end(0);
    members_.end(1);
    for (auto const& batches : kept) {
        std::vector<std::string> got;
        for (auto const& batch : batches) {
            for (std::int64_t i = 0; i < batch.rows; ++i) got.push_back(encode_row(batch, i));
        }
        EXPECT_TRUE(same_rows(got, encode_all(rows)));
    }
}

// What one keeps and gives back another uses again, and each has a limit of its own.
TEST_P(SharedChannel, EachMayKeepAsMuch) {
    spec_.routing = Routing::direct();
    auto const probe = open();
    std::uint64_t const segment = probe[0].plan().segment_bytes;
    spec_.options.receive_limit = 3 * segment;
    auto const channels = open();
    std::vector<std::jthread> threads;
    std::int64_t got[2] = {0, 0};
    for (std::uint32_t m = 0; m < 2; ++m) {
        threads.emplace_back([&, m] {
            Sender sender = channels[m].sender(end(m));
            auto const batch = make_batch(numbered_schema(), numbered_rows(400, 5));
            Endpoint const other{end(1 - m).id, Endpoint::kElsewhere};
            for (int i = 0; i < 10; ++i) sender.send_to(other, batch, kPatience);
            sender.flush(kPatience);
        });
        threads.emplace_back([&, m] {
            Receiver receiver = channels[m].receiver(end(m));
            std::vector<RecordBatch> held;
            while (true) {
                try {
                    auto const batch = receiver.recv(kPatience);
                    if (!batch) break;
                    got[m] += batch->rows;
                    held.push_back(*batch);
                } catch (Error const& error) {
                    ASSERT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
                    ASSERT_EQ(held.size(), 3U);
                    held.clear();
                }
            }
        });
    }
    threads.clear();
    EXPECT_EQ(got[0], 4000);
    EXPECT_EQ(got[1], 4000);
}

TEST_P(SharedChannel, EachIsChargedItsShare) {
    if (servers() > 1) GTEST_SKIP() << "each has a part of its own";
    std::uint64_t const before[]{members_.runtime(0).memory_left(),
                                 members_.runtime(1).memory_left()};
    {
        auto const channels = open();
        for (std::uint32_t m = 0; m < 2; ++m) {
            std::uint64_t const charged = before[m] - members_.runtime(m).memory_left();
            EXPECT_GE(2 * charged, channels[0].plan().pool_bytes);
            EXPECT_LE(charged, channels[0].plan().pool_bytes);
            members_.runtime(m).delete_channel(channels[m]);
        }
    }
    for (std::uint32_t m = 0; m < 2; ++m) EXPECT_EQ(members_.runtime(m).memory_left(), before[m]);
}

// One order at all destinations, of sources in several processes.
TEST_P(SharedChannel, AnOrderedBroadcastHasOneOrder) {
    FlowSetup flow;
    flow.processes = 3;
    flow.servers = servers();
    flow.loopback = servers() == 1;
    flow.sources = servers() == 1 ? 3 : 1;  // on one server
    flow.destinations = 3;
    flow.routing = Routing::broadcast();
    flow.options = spec_.options;
    flow.options.ordered = true;
    flow.yields = 20;
    flow.fill(300);
    auto const result = run_flow(flow);
    check_flow(flow, result);
    EXPECT_EQ(result.at[0], result.at[1]);
    EXPECT_EQ(result.at[0], result.at[2]);
}

TEST_P(SharedChannel, SortersWorkInEachProcess) {
    for (std::uint32_t processes = 2; processes < 4; ++processes) {
        FlowSetup flow;
        flow.processes = processes;
        flow.servers = servers();
        flow.sources = flow.destinations = 2;
        flow.loopback = processes == 2;  // else member 2 has a destination alone
        flow.options = spec_.options;
        flow.options.sorters = 1 + processes % 2;
        flow.groups = 2;
        flow.fill(500);
        run_and_check(flow);
    }
}

char const* name_of(Carried way) {
    switch (way) {
        case Carried::ByReference: return "ByReference";
        case Carried::ByCopy: return "ByCopy";
        case Carried::Links: break;
    }
    return "Links";
}

INSTANTIATE_TEST_SUITE_P(Transfer, SharedChannel,
                         ::testing::Values(Carried::ByReference, Carried::ByCopy, Carried::Links),
                         [](auto const& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace mgi::test
