// A channel's links in any order of events, and what they refuse.
#include <gtest/gtest.h>

#include <optional>

#include "mover/two_servers.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

using device::Status;
using mover::ChannelWord;

ChannelSpec spec_of(Routing routing, std::uint32_t credits = 2) {
    ChannelSpec spec;
    spec.schema = numbered_schema();
    spec.routing = std::move(routing);
    spec.options.name = "sales";
    spec.options.by_reference = false;
    spec.options.segment_rows = 8;
    spec.options.slots = 2;
    spec.options.credits = credits;
    spec.options.max_groups = 1;
    return spec;
}

class Flows : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Flows, EveryRowArrivesOnceInAnyOrderOfEvents) {
    constexpr std::uint32_t kEach = 2;
    constexpr std::int64_t kRows = 150;
    std::uint64_t const seed = GetParam();
    Random choice(seed);
    Routing const routings[]{Routing::partition("key"), Routing::broadcast(), Routing::balance()};
    Routing const routing = routings[seed % 3];
    ChannelSpec spec = spec_of(routing, std::uint32_t(1 + choice.below(5)));
    spec.options.by_reference = choice.one_in(2);
    TwoServers servers(std::move(spec), kEach, seed);
    Parties parties(servers, routing, 2 * kEach, kRows);
    for (int step = 0; !parties.over(); ++step) {
        ASSERT_LT(step, 2'000'000) << "nothing moves any more, seed " << seed;
        if (choice.one_in(3)) {
            parties.act(choice);
        } else {
            (void)servers.step();
        }
    }
    // What only the ends say may still be on its way.
    for (int step = 0; step < 1000; ++step) (void)servers.step();
    parties.check();
    for (auto const& server : servers.servers) {
        EXPECT_EQ(server.heard.why, "");
        EXPECT_TRUE(server.moves->done());
        EXPECT_TRUE(server.links->all_is_here());
        EXPECT_TRUE(server.channel->complete());
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Flows, ::testing::Range(std::uint64_t{0}, std::uint64_t{60}));

class ChannelLinks : public ::testing::Test {
protected:
    ChannelLinks() : servers_(spec_of(Routing::partition("key")), 1, 1) {}

    // Server 0's mover sends a segment for server 1, which does not arrive yet.
    mover::link::Transfer one_segment() {
        Channel const channel(servers_.servers[0].channel);
        sender_.emplace(channel.sender(servers_.endpoint(0)));
        EXPECT_EQ(sender_->try_send(make_batch(numbered_schema(), numbered_rows(8, 8))), 8);
        sender_->push();
        for (int i = 0; i < 4; ++i) (void)servers_.servers[0].moves->step();
        auto const& transfers = servers_.servers[0].out->transfers;
        EXPECT_EQ(transfers.size(), 1U);
        return transfers.at(0);
    }
    mover::link::LinkOwner& far() { return servers_.owner(1); }
    void target(mover::link::Transfer const& transfer, std::uint64_t bytes) {
        std::vector<iovec> pieces;
        (void)far().target(transfer.key, transfer.tag, bytes, pieces);
    }
    void expect_refused(std::string const& what, mover::link::Transfer const& transfer) {
        expect_error(ErrorCode::Internal, {"broke the protocol", what},
                     [&] { target(transfer, transfer.bytes()); });
    }
    void expect_refused(mover::link::Word const& word) {
        expect_error(ErrorCode::Internal, {"broke the protocol"}, [&] { far().word(word); });
    }

    TwoServers servers_;
    std::optional<Sender> sender_;
};

TEST_F(ChannelLinks, SegmentsThatNobodyMaySendAreRefused) {
    auto const good = one_segment();
    auto bad = good;
    bad.key.sequence = 5;
    expect_refused("without a credit", bad);
    bad = good;
    bad.key.source = 1;
    expect_refused("not for this link", bad);
    bad = good;
    bad.key.destination = 77;
    expect_refused("not for this link", bad);
    bad = good;
    bad.key.channel = 8;
    expect_refused("channel 8", bad);
    bad = good;
    bad.tag = 0;
    expect_refused("0 rows", bad);
    bad.tag = 9;
    expect_refused("9 rows", bad);
    bad.tag = good.tag | std::uint64_t{1} << 32;
    expect_refused("1 units", bad);
    expect_error(ErrorCode::Internal, {"its rows need"}, [&] { target(good, good.bytes() + 1); });
    target(good, good.bytes());
    far().arrived(good.key, good.tag);
    expect_refused("twice", good);
}

TEST_F(ChannelLinks, WordsThatMeanNothingAreRefused) {
    auto const word = [](ChannelWord kind, std::uint32_t source, std::uint32_t destination,
                         std::uint64_t value) {
        return mover::link::Word{7, std::uint32_t(kind), source, destination, value, {}};
    };
    expect_refused(word(ChannelWord(99), 0, 0, 1));
    expect_refused(word(ChannelWord::Credit, 0, 1, 3));  // server 0 sends there, not we
    expect_refused(word(ChannelWord::End, 1, 0, 1));
    expect_refused(word(ChannelWord::Attendance, 0, 2, 1));
    auto other = word(ChannelWord::Progress, 0, 0, 1);
    other.channel = 6;
    expect_refused(other);
    auto const transfer = one_segment();
    target(transfer, transfer.bytes());
    far().arrived(transfer.key, transfer.tag);
    expect_refused(word(ChannelWord::End, 0, 1, 1));  // one has come
    far().word(word(ChannelWord::End, 0, 1, 2));
    far().word(word(ChannelWord::End, 0, 1, 2));
    expect_refused(word(ChannelWord::End, 0, 1, 3));
}

TEST_F(ChannelLinks, WhatNicsHaveWrittenIsMadeVisibleAheadOfItsPublication) {
    auto const transfer = one_segment();
    auto& state = servers_.servers[1].channel->state();
    std::vector<std::uint64_t> published;  // as it was each time
    mover::Intake intake(state, 7, {{0, 1}}, {},
                         {{{0, 1}}, [&](std::uint32_t destination) {
                              EXPECT_EQ(destination, 1U);
                              published.push_back(state.destinations[1].queue->pushed());
                          }});
    auto second = transfer.key;
    second.sequence = 1;
    std::vector<iovec> pieces;
    for (auto const& key : {second, transfer.key}) {
        intake.target(key, transfer.tag, transfer.bytes(), pieces);
    }
    intake.arrived(second, transfer.tag);  // waits for its turn
    EXPECT_EQ(state.destinations[1].queue->pushed(), 0U);
    intake.arrived(transfer.key, transfer.tag);
    EXPECT_EQ(state.destinations[1].queue->pushed(), 2U);
    EXPECT_EQ(published, (std::vector<std::uint64_t>{0, 0}));
}

TEST_F(ChannelLinks, CreditsComeWhenConsumersGiveSegmentsBack) {
    auto const transfer = one_segment();
    auto& to = servers_.servers[1];
    EXPECT_FALSE(to.links->say_credits());
    std::vector<iovec> pieces;
    (void)far().target(transfer.key, transfer.tag, transfer.bytes(), pieces);
    far().arrived(transfer.key, transfer.tag);
    EXPECT_FALSE(to.links->say_credits()) << "it was not taken";
    Channel const channel(to.channel);
    Receiver receiver = channel.receiver(servers_.endpoint(1));
    {
        RecordBatch batch;
        ASSERT_EQ(receiver.try_recv(batch), Status::Ok);
    }
    EXPECT_TRUE(to.links->say_credits());
    ASSERT_EQ(to.out->words.size(), 1U);
    EXPECT_EQ(to.out->words[0].value, 3U);
    EXPECT_FALSE(to.links->say_credits()) << "nothing is new";
}

TEST_F(ChannelLinks, NewsOfTheOtherServer) {
    auto& here = servers_.servers[0];
    auto& there = servers_.servers[1];
    auto const pass_on = [&] {
        for (auto const& word : here.out->words) far().word(word);
        here.out->words.clear();
    };
    here.links->say_attendance(0, true);
    here.links->say_attendance(0, true);
    EXPECT_EQ(here.out->words.size(), 1U);
    auto const late = here.out->words[0];
    here.links->say_attendance(0, false);
    pass_on();
    far().word(late);
    using Attendance = std::vector<std::pair<std::uint32_t, bool>>;
    EXPECT_EQ(there.heard.attendance, (Attendance{{0, true}, {0, false}}));
    here.links->say_progress(5);
    here.links->say_progress(5);
    here.links->say_progress(3);
    EXPECT_EQ(here.out->words.size(), 1U);
    pass_on();
    EXPECT_EQ(there.heard.progress, 5U);
    there.links->say_progress(2);
    EXPECT_EQ(there.out->words.size(), 1U) << "what this server has told is not told back to it";
    here.links->say_failure(ErrorCode::Stalled, "no row moved");
    pass_on();
    EXPECT_EQ(there.heard.code, ErrorCode::Stalled);
    EXPECT_EQ(there.heard.why, "no row moved");
}

TEST_F(ChannelLinks, WhoHasSaidAllMayEndTheLink) {
    auto& here = servers_.servers[0];
    auto& there = servers_.servers[1];
    EXPECT_FALSE(here.links->has_said_end(0));
    Channel const channel(here.channel);
    Sender sender = channel.sender(servers_.endpoint(0));
    EXPECT_TRUE(sender.try_flush()) << "there is nothing to be delivered";
    EXPECT_FALSE(here.links->has_said_end(0)) << "the mover has not looked";
    (void)here.moves->step();
    EXPECT_TRUE(here.links->has_said_end(0));
    here.links->say_farewell();
    here.links->say_attendance(0, false);
    here.links->say_progress(9);
    ASSERT_EQ(here.out->words.size(), 2U) << "nothing is said behind a farewell";
    // The farewell comes first, and the link ends.
    far().word(here.out->words.at(1));
    far().failed(ErrorCode::Closed, "it has left");
    EXPECT_EQ(there.heard.why, "its link to the other server is over: it has left");
    there.heard.why.clear();
    far().word(here.out->words.at(0));
    far().failed(ErrorCode::Closed, "it has left");
    EXPECT_EQ(there.heard.why, "");
}

TEST_F(ChannelLinks, WhoHasSaidFarewellIsReleasedOnce) {
    auto& here = servers_.servers[0];
    auto& there = servers_.servers[1];
    there.links->release();
    EXPECT_TRUE(there.out->words.empty()) << "nobody has said farewell";
    here.links->say_farewell();
    far().word(here.out->words.back());
    EXPECT_EQ(there.heard.leavers, 1);
    EXPECT_FALSE(here.links->is_released(0));
    there.links->release();
    there.links->release();
    ASSERT_EQ(there.out->words.size(), 1U);
    servers_.owner(0).word(there.out->words.front());
    EXPECT_TRUE(here.links->is_released(0));
}

TEST_F(ChannelLinks, WhatComesBehindTheEndIsRefused) {
    auto const transfer = one_segment();
    mover::link::Word end{7, std::uint32_t(ChannelWord::End), 0, 1, 1, {}};
    far().word(end);
    expect_refused("behind the end", transfer);
}

TEST_F(ChannelLinks, AFullRouteIsKnownToHoldItsSource) {
    auto& here = servers_.servers[0];
    EXPECT_EQ(here.links->holds_segments(0, 1), false);
    EXPECT_EQ(here.links->holds_segments(1, 0), std::nullopt) << "the other server's source";
    auto const transfer = one_segment();
    EXPECT_EQ(here.links->holds_segments(0, 1), true) << "it is on its way";
    servers_.owner(0).acknowledged(transfer.token);
    (void)here.moves->step();
    EXPECT_EQ(here.links->holds_segments(0, 1), false);
}

}  // namespace
}  // namespace mgi::test
