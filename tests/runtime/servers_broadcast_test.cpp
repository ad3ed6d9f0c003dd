// A broadcast over several servers: destinations on its source's server read each segment in place, links
// bring it to all others, and the last of both frees it.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "runtime/channel_impl.hpp"
#include "runtime/crossing.hpp"
#include "support/expect_error.hpp"
#include "support/shared_channel.hpp"
#include "support/tables.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Status;

// Members 0 and 2 are on server 0, member 1 is on server 1; an endpoint each. The source is member 0's.
class ServersBroadcast : public ::testing::Test {
protected:
    ServersBroadcast() {
        spec_.schema = numbered_schema();
        spec_.routing = Routing::broadcast();
        spec_.options.name = "sales";
        spec_.options.segment_rows = 16;
        spec_.options.slots = 4;  // for all that a test sends before somebody receives
        for (std::uint32_t m = 0; m < 3; ++m) ends_.push_back(members_.create_endpoint(m));
    }
    void make_small() {
        spec_.options.slots = spec_.options.credits = 1;
        spec_.options.tile_rows = 4;
        spec_.options.segment_rows = 4;
    }
    std::vector<Channel> open() { return members_.open(spec_, {ends_[0]}, ends_); }
    [[nodiscard]] Endpoint here(std::uint32_t member) const { return ends_[member].endpoint; }
    static RecordBatch rows(std::size_t count) {
        return make_batch(numbered_schema(), numbered_rows(count, 5));
    }
    // What a destination receives until the end.
    static std::vector<std::string> drain(Receiver& receiver) {
        std::vector<std::string> got;
        while (auto const batch = receiver.recv(kPatience)) add(*batch, got);
        return got;
    }
    static void add(RecordBatch const& batch, std::vector<std::string>& got) {
        for (std::int64_t i = 0; i < batch.rows; ++i) got.push_back(encode_row(batch, i));
    }

    Members members_{3, {}, 2};
    std::vector<Owned> ends_;
    ChannelSpec spec_;
};

TEST_F(ServersBroadcast, IsReadInPlaceOnItsSourcesServer) {
    auto const channels = open();
    State const& state = channels[0].impl()->state();
    EXPECT_EQ(channels[0].plan().transfer, Transfer::Mixed);
    auto const& lane = state.sources[0].lanes[0];
    EXPECT_EQ(lane.reader_count, 2U);
    EXPECT_EQ(lane.moves, 1U);
    EXPECT_EQ(state.destinations[0].rings[0].slots, lane.slots);
    EXPECT_EQ(state.destinations[2].rings[0].slots, lane.slots);
    EXPECT_NE(channels[1].impl()->state().destinations[1].rings[0].slots, nullptr);
    // By copy, if that is what the user wants: with receive rings for all.
    spec_.options.by_reference = false;
    auto const copied = open();
    EXPECT_EQ(copied[0].plan().transfer, Transfer::ByCopy);
    EXPECT_EQ(copied[0].impl()->state().sources[0].lanes[0].reader_count, 0U);
    EXPECT_EQ(copied[0].impl()->state().sources[0].lanes[0].moves, 3U);
    EXPECT_GT(copied[0].plan().pool_bytes, channels[0].plan().pool_bytes);
}

// Also of a server to which no segment of its sources has to be brought.
TEST_F(ServersBroadcast, WithoutDestinationsElsewhereNothingIsMoved) {
    auto const channels = members_.open(spec_, {ends_[0], ends_[1]}, {ends_[0], ends_[2]});
    EXPECT_EQ(channels[0].impl()->state().sources[0].lanes[0].moves, 0U);
    EXPECT_EQ(channels[1].impl()->state().sources[1].lanes[0].moves, 2U);
    std::jthread sending([&] {
        for (std::uint32_t const m : {0U, 1U}) {
            Sender sender = channels[m].sender(here(m));
            sender.send(rows(40), kPatience);
            sender.flush(kPatience);
        }
    });
    for (std::uint32_t const m : {0U, 2U}) {
        Receiver receiver = channels[m].receiver(here(m));
        EXPECT_EQ(drain(receiver).size(), 80U);
    }
    EXPECT_EQ(channels[0].impl()->state().sources[0].lanes[0].delivered.load(device::relaxed), 0U);
}

// Rows are there to be read at once where they were sent; flush waits for the other server.
TEST_F(ServersBroadcast, FlushIsDoneWhenTheRowsStandInAllQueues) {
    auto const channels = members_.open_only(spec_, {ends_[0]}, ends_);
    Sender sender = channels[0].sender(here(0));
    sender.send(rows(20), kPatience);
    EXPECT_FALSE(sender.try_flush());
    std::vector<Receiver> receivers;
    for (std::uint32_t m = 0; m < 3; ++m) receivers.push_back(channels[m].receiver(here(m)));
    EXPECT_EQ(drain(receivers[0]).size(), 20U) << "with its end, before any link has begun";
    EXPECT_EQ(drain(receivers[2]).size(), 20U);
    EXPECT_FALSE(sender.try_flush());
    EXPECT_EQ(channels[1].stats().queues.at(0).segments, 0U);
    for (Channel const& channel : channels) channel.impl()->crossing()->begin();
    sender.flush(kPatience);
    EXPECT_EQ(channels[1].stats().queues.at(0).segments, 2U);
    EXPECT_EQ(drain(receivers[1]).size(), 20U);
}

// One slot, one credit: each destination in turn is the last that gives the segment back.
TEST_F(ServersBroadcast, WhoeverIsSlowHoldsTheSource) {
    make_small();
    for (std::uint32_t slow = 0; slow < 3; ++slow) {
        auto const channels = open();
        Sender sender = channels[0].sender(here(0));
        auto const batch = rows(60);
        std::vector<Receiver> receivers;
        for (std::uint32_t m = 0; m < 3; ++m) receivers.push_back(channels[m].receiver(here(m)));
        std::int64_t sent = 0;
        std::vector<std::vector<std::string>> got(3);
        RecordBatch part;
        for (int in_vain = 0; in_vain < 100;) {
            std::int64_t const now = sender.try_send(batch, sent);
            sent += now;
            in_vain = now == 0 ? in_vain + 1 : 0;
            for (std::uint32_t m = 0; m < 3; ++m) {
                if (m == slow) continue;
                while (receivers[m].try_recv(part) == Status::Ok) add(part, got[m]);
                part = {};
            }
            std::this_thread::sleep_for(1ms);
        }
        EXPECT_LT(sent, 60) << "destination " << slow << " has taken nothing";
        std::jthread sending([&] {
            sender.send(batch.slice(sent, 60 - sent), kPatience);
            sender.flush(kPatience);
        });
        std::vector<std::jthread> draining;
        for (std::uint32_t m = 0; m < 3; ++m) {
            draining.emplace_back([&, m] {
                auto const more = drain(receivers[m]);
                got[m].insert(got[m].end(), more.begin(), more.end());
            });
        }
        draining.clear();
        auto const all = encode_all(numbered_rows(60, 5));
        for (auto const& at : got) EXPECT_TRUE(same_rows(at, all));
    }
}

// What is kept holds nobody: its rows are copied out of a segment that others read, and the mover.
TEST_F(ServersBroadcast, BatchesMayBeKept) {
    make_small();
    spec_.options.receive_limit = 8 << 20;
    auto const channels = open();
    std::jthread sending([&] {
        Sender sender = channels[0].sender(here(0));
        sender.send(rows(200), kPatience);
        sender.flush(kPatience);
    });
    std::vector<std::vector<RecordBatch>> kept(3);
    std::vector<std::jthread> receiving;
    for (std::uint32_t m = 0; m < 3; ++m) {
        receiving.emplace_back([&, m] {
            Receiver receiver = channels[m].receiver(here(m));
            while (auto const batch = receiver.recv(kPatience)) kept[m].push_back(*batch);
        });
    }
    receiving.clear();
    auto const all = encode_all(numbered_rows(200, 5));
    for (auto const& batches : kept) {
        std::vector<std::string> got;
        for (RecordBatch const& batch : batches) add(batch, got);
        EXPECT_TRUE(same_rows(got, all));
    }
}

// The order of one source is its lane's, wherever its rows are read; that of several is the mover's.
TEST_F(ServersBroadcast, OneSourcesOrderNeedsNoMover) {
    spec_.options.ordered = true;
    auto const channels = open();
    EXPECT_EQ(channels[0].plan().transfer, Transfer::Mixed);
    std::jthread sending([&] {
        Sender sender = channels[0].sender(here(0));
        sender.send(rows(500), kPatience);
        sender.flush(kPatience);
    });
    auto const all = encode_all(numbered_rows(500, 5));
    std::vector<std::jthread> receiving;
    for (std::uint32_t m = 0; m < 3; ++m) {
        receiving.emplace_back([&, m] {
            Receiver receiver = channels[m].receiver(here(m));
            EXPECT_EQ(drain(receiver), all);
        });
    }
    receiving.clear();
    auto const several = members_.open(spec_, {ends_[0], ends_[2]}, ends_);
    EXPECT_EQ(several[0].plan().transfer, Transfer::ByCopy);
}

// A destination that is gone is noticed, near or far, although the others are well.
TEST_F(ServersBroadcast, AGoneDestinationIsNoticed) {
    make_small();
    spec_.options.gone_limit = 600ms;
    for (std::uint32_t gone = 0; gone < 3; ++gone) {
        auto const channels = open();
        std::vector<std::jthread> receiving;
        for (std::uint32_t m = 0; m < 3; ++m) {
            if (m == gone) continue;
            receiving.emplace_back([&, m] {
                Receiver receiver = channels[m].receiver(here(m));
                EXPECT_THROW((void)drain(receiver), Error);
            });
        }
        Sender sender = channels[0].sender(here(0));
        expect_error(ErrorCode::Stalled,
                     {"nobody receives at endpoint " + std::to_string(here(gone).id)}, [&] {
                         sender.send(rows(1000), kPatience);
                         sender.flush(kPatience);
                     });
    }
}

}  // namespace
}  // namespace mgi::test
