// What a link does in particular cases, in virtual time.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "link/codecs.hpp"
#include "link/traffic.hpp"

namespace mgi::test {
namespace {

using mover::link::Key;
using mover::link::kMillisecond;
using mover::link::kSecond;
using mover::link::Transfer;
using mover::link::Word;

/// Notes what it is told; targets are as large as they must be.
struct Notes final : LinkOwner {
    bool target(Key const& key, std::uint64_t, std::uint64_t bytes,
                std::vector<iovec>& pieces) override {
        if (key.channel == unknown) return false;
        if (key.channel == narrow) --bytes;
        memory.resize(bytes);
        pieces.push_back({memory.data(), bytes});
        return true;
    }
    void arrived(Key const& key, std::uint64_t) override { came.push_back(key.sequence); }
    void acknowledged(std::uint64_t token) override { done.push_back(token); }
    void word(Word const& it) override { words.push_back(it); }
    void failed(ErrorCode what, std::string const& text) override {
        ++failures;
        code = what;
        why = text;
    }

    std::uint64_t unknown = 77;
    std::uint64_t narrow = 78;
    std::vector<char> memory;
    std::vector<std::uint64_t> came;
    std::vector<std::uint64_t> done;
    std::vector<Word> words;
    int failures = 0;
    ErrorCode code = ErrorCode::Ok;
    std::string why;
};

class LinkTest : public ::testing::Test {
protected:
    LinkTest() { set_log_level("error"); }
    ~LinkTest() override { set_log_level("warn"); }

    void connect(std::uint32_t wires = 2) {
        mover::link::LinkOptions options;
        options.slots.resize(wires);
        for (std::uint32_t i = 0; i < wires; ++i) options.slots[i].nic = i;
        network.connect(options, one, two);
        pass(100 * kMillisecond);
    }
    void pass(Time time) {
        network.run(network.now + time, [] { return false; });
    }
    void send(std::uint64_t channel, std::uint64_t sequence, std::size_t bytes,
              std::uint64_t nics = 0) {
        source.resize(std::max(source.size(), bytes));
        Transfer transfer;
        transfer.key = {channel, 1, 2, sequence};
        transfer.pieces = {{source.data(), bytes}};
        transfer.token = sequence + 1000;
        transfer.nics = nics;
        network.link(0).start(std::move(transfer));
        network.poke(0);
    }

    Network network{5};
    Notes one;
    Notes two;
    std::vector<char> source = std::vector<char>(100'000);  // does not move
};

TEST_F(LinkTest, CarriesSegmentsAndWords) {
    connect();
    send(1, 0, 5000);
    network.link(0).say({1, 9, 1, 2, 42, "text"});
    network.poke(0);
    pass(kSecond);
    EXPECT_EQ(two.came, std::vector<std::uint64_t>{0});
    EXPECT_EQ(one.done, std::vector<std::uint64_t>{1000});
    ASSERT_EQ(two.words.size(), 1U);
    EXPECT_EQ(two.words[0].value, 42U);
    EXPECT_EQ(two.words[0].text, "text");
}

TEST_F(LinkTest, CountsWhatEachWireCarries) {
    connect(1);
    auto const counts = network.link(0).counts();
    ASSERT_EQ(counts->size(), 1U);
    auto const& wire = counts->front();
    send(1, 0, 5000);
    send(1, 1, 3000);
    EXPECT_EQ(wire.in_flight.value(), 0U) << "not given to a wire yet";
    pass(kSecond);
    EXPECT_EQ(wire.segments.value(), 2U);
    EXPECT_EQ(wire.bytes.value(), 8000U);
    EXPECT_EQ(wire.in_flight.value(), 0U);
    // What the wire loses is sent again by the next one.
    network.silence(0, 0);
    for (std::uint64_t i = 2; i < 6; ++i) send(1, i, 20'000);
    pass(20 * kMillisecond);
    EXPECT_EQ(wire.in_flight.value(), 4U);
    EXPECT_EQ(wire.resends.value(), 0U);
    pass(10 * kSecond);
    EXPECT_EQ(one.done.size(), 6U);
    EXPECT_GT(wire.resends.value(), 0U);
    EXPECT_LE(wire.resends.value(), 4U);
    EXPECT_EQ(wire.segments.value(), 6U);
    EXPECT_EQ(wire.bytes.value(), 88'000U);
    EXPECT_EQ(wire.in_flight.value(), 0U);
    EXPECT_EQ(network.link(1).counts()->front().segments.value(), 0U) << "it has sent nothing";
}

TEST_F(LinkTest, NothingIsInFlightOverALinkThatIsOver) {
    connect(1);
    network.silence(0, 0);
    for (std::uint64_t i = 0; i < 4; ++i) send(1, i, 20'000);
    pass(20 * kMillisecond);
    auto const counts = network.link(0).counts();
    EXPECT_EQ((*counts)[0].in_flight.value(), 4U);
    network.link(0).close(ErrorCode::Deleted, "enough");
    EXPECT_EQ((*counts)[0].in_flight.value(), 0U);
    EXPECT_EQ((*counts)[0].segments.value(), 0U);
}

TEST_F(LinkTest, TheOtherEndHearsWhyItIsClosed) {
    connect();
    network.link(0).close(ErrorCode::Deleted, "enough");
    network.poke(0);
    pass(kSecond);
    EXPECT_EQ(one.failures, 0);
    EXPECT_EQ(two.failures, 1);
    EXPECT_EQ(two.code, ErrorCode::Deleted);
    EXPECT_NE(two.why.find("enough"), std::string::npos);
    EXPECT_TRUE(network.link(0).finished());
    EXPECT_TRUE(network.link(1).finished());
}

TEST_F(LinkTest, DropsWhatNobodyWants) {
    connect();
    send(two.unknown, 0, 90'000);
    send(1, 0, 10);
    pass(kSecond);
    EXPECT_EQ(one.done.size(), 2U);
    EXPECT_EQ(two.failures, 0);
}

TEST_F(LinkTest, ATargetOfAnotherSizeIsNeverWritten) {
    connect();
    send(two.narrow, 0, 900);
    pass(90 * kSecond);
    EXPECT_EQ(one.failures, 1);
    EXPECT_EQ(two.failures, 1);
    EXPECT_TRUE(two.memory == std::vector<char>(899)) << "something was written";
    EXPECT_NE((one.why + two.why).find("its target takes 899"), std::string::npos)
        << one.why << " / " << two.why;
}

TEST_F(LinkTest, BorrowsANicOnlyWhileItsOwnerIsIdle) {
    connect(2);
    std::vector<std::uint64_t> sequence{0, 0};
    // NIC 0 is the first channel's, NIC 1 the second one's.
    for (int i = 0; i < 20; ++i) send(1, sequence[0]++, 20'000, 1);
    network.run(network.now + 1, [] { return false; });
    std::string const alone = network.link(0).describe(network.now);
    EXPECT_EQ(alone.find("wire 1 (NIC 1): 0 bytes"), std::string::npos) << alone;
    pass(10 * kSecond);
    EXPECT_EQ(one.done.size(), 20U);

    send(2, sequence[1]++, 20'000, 2);
    network.run(network.now + 1, [] { return false; });
    for (int i = 0; i < 20; ++i) send(1, sequence[0]++, 20'000, 1);
    network.run(network.now + 1, [] { return false; });
    std::string const beside = network.link(0).describe(network.now);
    EXPECT_NE(beside.find("wire 1 (NIC 1): 20064 bytes"), std::string::npos) << beside;
    pass(10 * kSecond);
    EXPECT_EQ(one.done.size(), 41U);
}

/// Two wires with a codec each: what the first one loses is encoded anew for the second.
TEST_F(LinkTest, ASegmentIsSentAgainByAnotherWiresCodec) {
    auto const first = std::make_shared<Steps>(1);
    auto const second = std::make_shared<Steps>(2);
    mover::link::LinkOptions options;
    options.slots = {{0, 1.0, 1}, {1, 0.1, 2}};
    options.codecs = {first, second};
    network.connect(options, one, two);
    pass(100 * kMillisecond);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = char(5 * i);
    network.silence(0, 0);
    for (std::uint64_t i = 0; i < 6; ++i) send(1, i, 60'000);
    pass(5 * kMillisecond);
    EXPECT_NE(first->encoded(), 0U);
    pass(10 * kSecond);
    EXPECT_EQ(one.done.size(), 6U);
    EXPECT_NE(second->encoded(), 0U);
    EXPECT_GT(first->encoded() + second->encoded(), 6U) << "some of them twice";
    EXPECT_TRUE(std::equal(two.memory.begin(), two.memory.end(), source.begin()));
    EXPECT_NE((*network.link(0).counts())[0].resends.value(), 0U);
    EXPECT_EQ(network.link(0).settled(), true);
}

TEST_F(LinkTest, ACodecThatTheOtherEndDoesNotKnowEndsItsWire) {
    mover::link::LinkOptions options;
    options.slots = {{0, 1.0, 2}, {1, 0.1, 0}};
    options.codecs = {std::make_shared<Steps>(1), std::make_shared<Steps>(2)};
    auto fewer = options;
    fewer.codecs.pop_back();
    network.connect(options, fewer, one, two);
    pass(100 * kMillisecond);
    send(1, 0, 60'000);
    pass(50 * kMillisecond);
    EXPECT_NE(network.link(1).last_trouble().find("by codec 2, which this end does not know"),
              std::string::npos)
        << network.link(1).last_trouble();
    // The other wire has none, and carries it.
    pass(10 * kSecond);
    EXPECT_EQ(one.done.size(), 1U);
    EXPECT_EQ(one.failures + two.failures, 0);
}

TEST_F(LinkTest, WhatDecodesToSomethingElseEndsTheLink) {
    mover::link::LinkOptions options;
    options.slots = {{0, 1.0, 1}, {1, 1.0, 1}};
    options.codecs = {std::make_shared<Liar>()};
    network.connect(options, one, two);
    pass(100 * kMillisecond);
    send(1, 0, 60'000);
    pass(kSecond);
    EXPECT_TRUE(two.came.empty());
    EXPECT_TRUE(one.done.empty());
    EXPECT_EQ(one.failures, 1);
    EXPECT_EQ(two.failures, 1);
    for (Notes const* const end : {&one, &two}) {
        EXPECT_NE(end->why.find("its 1 bytes are not 60000 by codec 1"), std::string::npos)
            << end->why;
    }
}

TEST_F(LinkTest, WhatComesBehindTheLastWordIsTakenAndDropped) {
    connect(1);
    for (std::uint64_t i = 0; i < 4; ++i) send(1, i, 60'000);
    network.run(network.now + kSecond, [this] { return !two.memory.empty(); });
    network.link(1).close(ErrorCode::Interrupted, "enough");
    std::array<iovec, 2> pieces{};
    ASSERT_EQ(network.link(1).scatter(0, pieces), 1U) << "who moves the bytes would spin";
    EXPECT_NE(pieces[0].iov_base, two.memory.data());
    two.memory = std::vector<char>();  // AddressSanitizer tells if anybody writes there
    pass(kSecond);
    EXPECT_EQ(one.failures, 1);
    EXPECT_NE(one.why.find("enough"), std::string::npos) << one.why;
}

TEST_F(LinkTest, AnIdleLinkSaysLittleAndLives) {
    connect(4);
    std::uint64_t const before = network.steps;
    pass(60 * kSecond);
    EXPECT_LT(network.steps - before, 60U * 4 * 4 * 16);
    EXPECT_EQ(one.failures + two.failures, 0);
    send(1, 0, 10);
    pass(kSecond);
    EXPECT_EQ(one.done.size(), 1U);
}

TEST_F(LinkTest, AWireThatLagsBehindOthersIsNotAwaitedForLong) {
    connect(2);
    network.silence(0, 0);
    for (std::uint64_t i = 0; i < 20; ++i) send(1, i, 20'000);
    pass(3 * kSecond / 2);  // less than the silence of a whole process may last
    EXPECT_EQ(one.done.size(), 20U);
    EXPECT_EQ(one.failures + two.failures, 0);
}

TEST_F(LinkTest, AProcessThatIsStoppedForAMomentKeepsItsWires) {
    connect(2);
    for (std::uint64_t i = 0; i < 20; ++i) send(1, i, 20'000);
    network.freeze(1, network.now + 2 * kSecond);
    pass(3 * kSecond);
    EXPECT_EQ(one.done.size(), 20U);
    EXPECT_EQ(network.link(0).last_trouble(), "");
}

TEST_F(LinkTest, WithoutAnyWireBothEndsSaySo) {
    network.dials_fail = true;
    connect();
    pass(20 * kSecond);
    EXPECT_EQ(one.failures, 1);
    EXPECT_EQ(two.failures, 1);
    EXPECT_EQ(one.code, ErrorCode::Stalled);
    EXPECT_NE(one.why.find("nobody answers"), std::string::npos) << one.why;
}

}  // namespace
}  // namespace mgi::test
