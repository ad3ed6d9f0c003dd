// The parts of a link, each by itself: path choice, shares of channels, duplicates, checksums, frames.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "link/codecs.hpp"
#include "mover/link/arrivals.hpp"
#include "mover/link/checksum.hpp"
#include "mover/link/choice.hpp"
#include "mover/link/fair_queue.hpp"
#include "mover/link/nic_board.hpp"
#include "mover/link/receiver.hpp"
#include "mover/link/sender.hpp"
#include "mover/link/word_book.hpp"
#include "support/random.hpp"

namespace mgi::mover::link {
namespace {

Candidate wire(std::uint32_t slot, std::uint64_t in_flight, double rate) {
    Candidate it;
    it.slot = slot;
    it.in_flight = in_flight;
    it.window = 1000;
    it.rate = rate;
    it.last_used = kSecond;
    return it;
}

TEST(LinkChoice, TakesTheWireOnWhichASegmentArrivesFirst) {
    std::array<Candidate, 3> const wires{wire(0, 500, 1), wire(1, 900, 10), wire(2, 100, 0.1)};
    EXPECT_EQ(choose(wires, 100, 2, kSecond)->slot, 1U);
}

TEST(LinkChoice, WaitsForAFastWireRatherThanTakingASlowOne) {
    std::array<Candidate, 2> const wires{wire(0, 1000, 10), wire(1, 0, 0.1)};
    EXPECT_FALSE(choose(wires, 100, 0, kSecond));
}

TEST(LinkChoice, StaysUntilAnotherIsClearlyBetter) {
    std::array<Candidate, 2> wires{wire(0, 100, 1), wire(1, 95, 1)};
    EXPECT_EQ(choose(wires, 100, 0, kSecond)->slot, 0U);
    EXPECT_EQ(choose(wires, 100, 1, kSecond)->slot, 1U);
    wires[1].in_flight = 50;
    EXPECT_EQ(choose(wires, 100, 0, kSecond)->slot, 1U);
}

TEST(LinkChoice, TriesAWireThatWasNotUsedForLong) {
    std::array<Candidate, 2> wires{wire(0, 0, 10), wire(1, 0, 0.1)};
    Time const later = kSecond + kProbeAfter;
    wires[0].last_used = later - 1;
    EXPECT_EQ(choose(wires, 100, 0, later)->slot, 1U);
    // But not when nothing was: a single segment need not go the slow way.
    wires[0].last_used = kSecond;
    EXPECT_EQ(choose(wires, 100, 0, later)->slot, 0U);
}

TEST(LinkChoice, BorrowsOnlyWhatIsLent) {
    std::array<Candidate, 2> wires{wire(0, 600, 1), wire(1, 0, 1)};
    wires[1].own = false;
    EXPECT_EQ(choose(wires, 100, 0, kSecond)->slot, 0U);
    wires[1].lent = true;
    EXPECT_EQ(choose(wires, 100, 0, kSecond)->slot, 1U);
    wires[0].in_flight = 0;  // its own comes first, also after one that was lent
    EXPECT_EQ(choose(wires, 100, 1, kSecond)->slot, 0U);
}

TEST(LinkChoice, HasNothingWithoutWires) {
    EXPECT_FALSE(choose({}, 1, 0, kSecond));
}

TEST(LinkNicBoard, LendsANicThatItsOwnerDoesNotUse) {
    NicBoard board;
    EXPECT_TRUE(board.idle(3, kSecond));
    board.owner_is_busy(3, kSecond);
    board.owner_is_busy(3, kSecond - 1);  // another of its links, which is done before
    EXPECT_FALSE(board.idle(3, kSecond + NicBoard::kIdleAfter - 1));
    EXPECT_TRUE(board.idle(3, kSecond + NicBoard::kIdleAfter));
    board.lend(3, 10, kSecond);
    board.give_back(3, 4, kSecond);
    EXPECT_EQ(board.lent(3, kSecond), 6U);
    EXPECT_EQ(board.lent_here(3), 6U);
}

TEST(LinkNicBoard, IsTheServersWhateverNumbersItsProcessesGiveItsNics) {
    auto const words = std::make_shared<NicWords>();
    NicBoard one;
    NicBoard two;
    EXPECT_TRUE(one.share(words, {70, 71}));
    EXPECT_TRUE(two.share(words, {71, 72}));
    one.owner_is_busy(1, kSecond);
    EXPECT_FALSE(two.idle(0, kSecond));
    EXPECT_TRUE(two.idle(1, kSecond));
    one.lend(1, 100, kSecond);
    two.lend(0, 10, kSecond);
    two.lend(1, 1, kSecond);
    EXPECT_EQ(one.lent(1, kSecond), 110U);
    EXPECT_EQ(two.lent(0, kSecond), 110U);
    EXPECT_EQ(two.lent_here(0), 10U);
    EXPECT_EQ(one.lent(0, kSecond), 0U);
    one.give_back(1, 100, kSecond);
    EXPECT_EQ(two.lent(0, kSecond), 10U);
}

TEST(LinkNicBoard, ForgetsWhatADeadProcessHasBorrowed) {
    auto const words = std::make_shared<NicWords>();
    NicBoard alive;
    NicBoard dead;
    EXPECT_TRUE(dead.share(words, {70}));
    EXPECT_TRUE(alive.share(words, {70}));
    dead.lend(0, 100, kSecond);
    EXPECT_EQ(alive.lent(0, 2 * kSecond - 1), 100U);
    EXPECT_EQ(alive.lent(0, 2 * kSecond), 0U);
    // It was only stopped, for so long that its row became another's.
    Time const later = kSecond + NicBoard::kGone;
    alive.lend(0, 7, later);
    dead.give_back(0, 40, later);
    EXPECT_EQ(alive.lent(0, later), 67U);
    EXPECT_EQ(dead.lent(0, later), 67U);
    alive.give_back(0, 7, later);
    EXPECT_EQ(dead.lent(0, later), 60U);
}

TEST(LinkNicBoard, DoesWithoutARowAndWithoutStrangeWords) {
    auto const words = std::make_shared<NicWords>();
    std::vector<std::unique_ptr<NicBoard>> boards;
    for (std::uint32_t i = 0; i < NicWords::kProcesses + 1; ++i) {
        boards.push_back(std::make_unique<NicBoard>());
        EXPECT_TRUE(boards.back()->share(words, {70}));
        boards.back()->lend(0, 1, kSecond);
    }
    EXPECT_EQ(boards.front()->lent(0, kSecond), NicWords::kProcesses);
    EXPECT_EQ(boards.back()->lent(0, kSecond), NicWords::kProcesses + 1);
    auto const strange = std::make_shared<NicWords>();
    strange->layout = 1;
    EXPECT_FALSE(boards.front()->share(strange, {70}));
    std::vector<std::uint64_t> many(NicWords::kNics);
    for (std::uint64_t i = 0; i < many.size(); ++i) many[i] = 100 + i;
    EXPECT_FALSE(NicBoard().share(words, many)) << "one place is taken";
}

std::array<char, 1000> some_bytes;

Transfer transfer_of(std::uint64_t channel, std::uint64_t sequence, std::size_t bytes) {
    Transfer transfer;
    transfer.key = {channel, 1, 2, sequence};
    transfer.pieces = {{some_bytes.data(), bytes}};
    transfer.token = sequence;
    return transfer;
}

TEST(LinkFairQueue, SharesByWeight) {
    FairQueue queue;
    queue.set_weight(1, 3.0);
    for (std::uint64_t i = 0; i < 100; ++i) {
        queue.push(transfer_of(1, i, 1000));
        queue.push(transfer_of(2, i, 1000));
    }
    std::array<int, 3> taken{};
    for (int i = 0; i < 80; ++i) {
        queue.offer([&](Transfer& transfer) {
            ++taken[transfer.key.channel];
            return true;
        });
    }
    EXPECT_NEAR(taken[1], 60, 2);
    queue.forget(1);
    EXPECT_EQ(queue.size(), std::size_t(100 - taken[2]));
}

TEST(LinkFairQueue, AChannelThatWasIdleHasSavedNothing) {
    FairQueue queue;
    auto const count = [&](int rounds) {
        std::array<int, 3> taken{};
        for (int i = 0; i < rounds; ++i) {
            queue.offer([&](Transfer& transfer) {
                ++taken[transfer.key.channel];
                return true;
            });
        }
        return taken;
    };
    for (std::uint64_t i = 0; i < 100; ++i) queue.push(transfer_of(1, i, 1000));
    EXPECT_EQ(count(50)[1], 50);
    for (std::uint64_t i = 0; i < 100; ++i) queue.push(transfer_of(2, i, 1000));
    EXPECT_NEAR(count(40)[1], 20, 2);
}

TEST(LinkFairQueue, OffersOthersWhenOneFindsNoRoom) {
    FairQueue queue;
    queue.push(transfer_of(1, 0, 10));
    queue.push(transfer_of(2, 0, 10));
    EXPECT_TRUE(queue.offer([](Transfer const& transfer) { return transfer.key.channel == 2; }));
    EXPECT_FALSE(queue.offer([](Transfer const& transfer) { return transfer.key.channel == 2; }));
    EXPECT_EQ(queue.size(), 1U);
}

TEST(LinkArrivals, KnowsWhatHasArrivedInAnyOrder) {
    Arrivals arrivals;
    test::Random random(1);
    std::vector<std::uint64_t> order(200);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (std::uint64_t const sequence : order) {
        Key const key{7, 1, 2, sequence};
        EXPECT_FALSE(arrivals.has(key));
        arrivals.add(key);
        EXPECT_TRUE(arrivals.has(key));
        EXPECT_FALSE(arrivals.has({7, 2, 1, sequence}));
    }
    EXPECT_TRUE(arrivals.is_absurd({7, 1, 2, 200 + Arrivals::kMostAhead}));
    EXPECT_FALSE(arrivals.is_absurd({7, 1, 2, 199 + Arrivals::kMostAhead}));
    arrivals.add({8, 0, 0, 0});
    arrivals.forget(7);
    EXPECT_FALSE(arrivals.has({7, 1, 2, 0}));
    EXPECT_TRUE(arrivals.has({8, 0, 0, 0}));
}

TEST(LinkWordBook, KeepsTheLatestValueUntilItIsKnown) {
    WordBook book;
    Word const first{1, 2, 3, 4, 10, "ten"};
    WordName const name = WordBook::name_of(first);
    book.say(name, first);
    book.say(name, {1, 2, 3, 4, 12, std::string(2000, 'x')});
    book.say(name, {1, 2, 3, 4, 11, "old"});
    auto const next = book.next();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->second.value, 12U);
    EXPECT_EQ(next->second.text.size(), kMostText);
    EXPECT_FALSE(book.next());
    book.lost(name);
    EXPECT_TRUE(book.has_waiting());
    EXPECT_EQ(book.next()->second.value, 12U);
    book.say(name, {1, 2, 3, 4, 13, ""});
    book.acknowledged(name, 12);
    EXPECT_FALSE(book.empty());
    book.acknowledged(name, 13);
    EXPECT_TRUE(book.empty());
}

TEST(LinkChecksum, IsCastagnolis) {
    EXPECT_EQ(crc32c(0, "123456789", 9), 0xe3069283U);
    EXPECT_EQ(crc32c(crc32c(0, "1234567", 7), "89", 2), 0xe3069283U);
}

/// Takes frames apart, and remembers what came.
struct Listener final : FrameSink {
    std::optional<std::string> begins(Header const& header, std::vector<iovec>& pieces) override {
        if (drop) return std::nullopt;
        std::uint32_t const bytes = segment_bytes(header);
        body.assign(bytes, '?');
        pieces.push_back({body.data(), bytes / 3});
        pieces.push_back({body.data() + bytes / 3, bytes - bytes / 3});
        return std::nullopt;
    }
    std::string spoiled(Header const& header) override {
        return "spoiled by codec " + std::to_string(header.codec);
    }
    std::optional<std::string> complete(Header const& header, std::string_view text) override {
        log += std::to_string(int(header.kind)) + ":" + std::to_string(header.number) + ":" +
               std::string(text) + (header.kind == FrameKind::Segment ? body : "") + " ";
        return std::nullopt;
    }
    bool drop = false;
    std::string body;
    std::string log;
};

std::string all_of(WireSender& sender, test::Random& random) {
    std::string bytes;
    std::array<iovec, 6> pieces{};
    while (std::size_t const count = sender.gather(pieces, 1)) {
        std::size_t sent = 0;
        for (std::size_t i = 0; i < count; ++i) {
            std::size_t const here =
                i + 1 < count ? pieces[i].iov_len : 1 + random.below(pieces[i].iov_len);
            bytes.append(static_cast<char const*>(pieces[i].iov_base), here);
            sent += here;
        }
        sender.sent(sent);
    }
    return bytes;
}

std::optional<std::string> feed(WireReceiver& receiver, std::string_view bytes, FrameSink& sink,
                                test::Random& random) {
    std::array<iovec, 3> pieces{};
    while (!bytes.empty()) {
        std::size_t const count = receiver.scatter(pieces);
        std::size_t most = std::min<std::size_t>(bytes.size(), 1 + random.below(700));
        std::size_t taken = 0;
        for (std::size_t i = 0; i < count && most != 0; ++i) {
            std::size_t const here = std::min(pieces[i].iov_len, most);
            std::memcpy(pieces[i].iov_base, bytes.data() + taken, here);
            taken += here;
            most -= here;
        }
        bytes.remove_prefix(taken);
        if (auto wrong = receiver.received(taken, sink)) return wrong;
    }
    return std::nullopt;
}

std::string a_stream(test::Random& random, WireSender& sender) {
    sender.restart(true);
    some_bytes.fill('s');
    sender.add({transfer_of(5, 0, 900), true});
    sender.add({transfer_of(5, 1, 0), true});
    sender.add({FrameKind::Word, 5, 1, 2, 3}, {5, 1, 2, 3, 99, "a word"});
    sender.acknowledge(3, 400);
    return all_of(sender, random);
}

TEST(LinkFrames, ComeAsTheyWereSentHoweverTheStreamIsCut) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        test::Random random(seed);
        WireSender sender;
        std::string const bytes = a_stream(random, sender);
        WireReceiver receiver;
        receiver.restart(1000);
        Listener listener;
        listener.drop = seed % 2 == 1;
        EXPECT_FALSE(feed(receiver, bytes, listener, random));
        std::string const body = listener.drop ? "" : std::string(900, 's');
        EXPECT_EQ(listener.log, "4:3: 2:1:a word 1:2:" + body + " 1:3: ");
        EXPECT_EQ(receiver.frames(), 3U);
        EXPECT_EQ(receiver.bytes(), bytes.size());

        std::vector<WireSender::Done> done;
        EXPECT_FALSE(sender.acknowledged(4, bytes.size(), done));
        EXPECT_FALSE(sender.acknowledged(3, bytes.size() + 1, done));
        EXPECT_TRUE(sender.acknowledged(2, bytes.size(), done));
        EXPECT_EQ(done.size(), 2U);
        EXPECT_FALSE(sender.acknowledged(1, bytes.size(), done));
        EXPECT_TRUE(sender.acknowledged(3, bytes.size(), done));
        EXPECT_EQ(sender.in_flight(), 0U);
    }
}

TEST(LinkFrames, ADamagedByteIsSeen) {
    test::Random random(3);
    WireSender sender;
    std::string const bytes = a_stream(random, sender);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        std::string damaged = bytes;
        damaged[at] = char(damaged[at] ^ 4);
        WireReceiver receiver;
        receiver.restart(1000);
        Listener listener;
        EXPECT_TRUE(feed(receiver, damaged, listener, random)) << at;
    }
}

/// Two segments that grow in step, of which the codec makes less, and one that it makes nothing of.
std::string a_coded_stream(test::Random& random, WireSender& sender, Codec const& codec) {
    sender.restart(true, 2, &codec);
    for (std::size_t i = 0; i < some_bytes.size(); ++i) some_bytes[i] = char(3 * i + i / 5);
    sender.add({transfer_of(5, 0, 900), true});
    sender.add({transfer_of(5, 1, 1), true});
    sender.add({transfer_of(5, 2, 64), true});
    sender.add({FrameKind::Word, 5, 1, 2, 3}, {5, 1, 2, 3, 99, "a word"});
    return all_of(sender, random);
}

TEST(LinkCodec, SegmentsComeAsTheyWereHoweverTheStreamIsCut) {
    Codecs const codecs{std::make_shared<test::Liar>(), std::make_shared<test::Steps>(7)};
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        test::Random random(seed);
        WireSender sender;
        std::string const bytes = a_coded_stream(random, sender, *codecs[1]);
        EXPECT_LT(bytes.size(), 4 * kHeaderBytes + 300) << "an eighth of 964 and a word";
        WireReceiver receiver;
        receiver.restart(1000, &codecs);
        Listener listener;
        listener.drop = seed % 3 == 2;
        EXPECT_FALSE(feed(receiver, bytes, listener, random));
        auto const body = [&](std::size_t size) {
            return listener.drop ? "" : std::string(some_bytes.data(), size);
        };
        EXPECT_EQ(listener.log,
                  "2:1:a word 1:2:" + body(900) + " 1:3:" + body(1) + " 1:4:" + body(64) + " ");
        std::vector<WireSender::Done> done;
        EXPECT_TRUE(sender.acknowledged(4, bytes.size(), done));
        EXPECT_EQ(sender.in_flight(), 0U);
    }
}

TEST(LinkCodec, ADamagedByteIsSeenBeforeItIsDecoded) {
    Codecs const codecs{std::make_shared<test::Liar>(), std::make_shared<test::Steps>(7)};
    test::Random random(3);
    WireSender sender;
    std::string const bytes = a_coded_stream(random, sender, *codecs[1]);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        std::string damaged = bytes;
        damaged[at] = char(damaged[at] ^ 4);
        WireReceiver receiver;
        receiver.restart(1000, &codecs);
        Listener listener;
        auto const wrong = feed(receiver, damaged, listener, random);
        ASSERT_TRUE(wrong) << at;
        EXPECT_EQ(wrong->find("spoiled"), std::string::npos) << at << ": " << *wrong;
    }
}

TEST(LinkCodec, OneThatIsNotKnownIsNamed) {
    Codecs const one{std::make_shared<test::Liar>()};
    test::Random random(4);
    WireSender sender;
    test::Steps const steps(7);
    std::string const bytes = a_coded_stream(random, sender, steps);
    for (Codecs const* const known : {static_cast<Codecs const*>(nullptr), &one}) {
        WireReceiver receiver;
        receiver.restart(1000, known);
        Listener listener;
        auto const wrong = feed(receiver, bytes, listener, random);
        ASSERT_TRUE(wrong);
        EXPECT_NE(wrong->find("codec 2"), std::string::npos) << *wrong;
    }
}

TEST(LinkCodec, WhatIsSomethingElseSpoilsIt) {
    Codecs const other{std::make_shared<test::Liar>(), std::make_shared<test::Liar>()};
    test::Random random(5);
    WireSender sender;
    test::Steps const steps(7);
    std::string const bytes = a_coded_stream(random, sender, steps);
    WireReceiver receiver;
    receiver.restart(1000, &other);
    Listener listener;
    EXPECT_EQ(feed(receiver, bytes, listener, random).value_or(""), "spoiled by codec 2");
    EXPECT_EQ(receiver.frames(), 1U) << "the word";
}

TEST(LinkCodec, NoneMakesASegmentLarger) {
    struct Larger final : Codec {
        bool encode(std::span<iovec const>, std::size_t most,
                    std::vector<char>& encoded) const override {
            encoded.assign(most, 'x');
            return true;
        }
        bool decode(std::span<char const>, std::span<iovec const>) const override { return false; }
    };
    struct NoMemory final : Codec {
        bool encode(std::span<iovec const>, std::size_t,
                    std::vector<char>& encoded) const override {
            encoded.push_back('x');
            throw std::bad_alloc();
        }
        bool decode(std::span<char const>, std::span<iovec const>) const override { return false; }
    };
    Larger const larger;
    NoMemory const none;
    for (Codec const* const codec :
         {static_cast<Codec const*>(&larger), static_cast<Codec const*>(&none)}) {
        test::Random random(6);
        WireSender sender;
        std::string const bytes = a_coded_stream(random, sender, *codec);
        WireReceiver receiver;
        receiver.restart(1000);
        Listener listener;
        EXPECT_FALSE(feed(receiver, bytes, listener, random));
        EXPECT_NE(listener.log.find(std::string(some_bytes.data(), 900)), std::string::npos);
    }
}

TEST(LinkFrames, RefusesWhatCannotBe) {
    auto const wrong = [](Header header) {
        seal(header);
        return what_is_wrong(header, 1000).value_or("");
    };
    Header header;
    EXPECT_EQ(wrong(header), "");
    header.bytes = 1;
    EXPECT_NE(wrong(header), "");
    header.kind = FrameKind::Segment;
    header.bytes = 1001;
    EXPECT_NE(wrong(header), "");
    header.kind = FrameKind(9);
    EXPECT_NE(wrong(header), "");

    header = {};
    header.kind = FrameKind::Segment;
    header.codec = 1;
    header.summed = 1;
    header.bytes = 10;
    header.decoded = 1000;
    EXPECT_EQ(wrong(header), "");
    header.decoded = 1001;
    EXPECT_NE(wrong(header).find("codec 1"), std::string::npos) << "larger than any segment";
    header.decoded = 10;
    EXPECT_NE(wrong(header), "") << "no smaller";
    header.decoded = 11;
    header.summed = 0;
    EXPECT_NE(wrong(header), "") << "not summed";
    header.summed = 1;
    header.kind = FrameKind::Word;
    EXPECT_NE(wrong(header), "") << "no segment";
}

TEST(LinkFrames, WhatADeadWireLeavesBehind) {
    WireSender sender;
    sender.restart(false);
    for (std::uint64_t i = 0; i < 4; ++i) sender.add({transfer_of(5, i, 500), true});
    std::array<iovec, 2> pieces{};
    EXPECT_EQ(sender.gather(pieces, 1), 2U);
    sender.sent(kHeaderBytes + 500 + 3);  // the second one is begun
    sender.add({FrameKind::Word, 5, 1, 2, 3}, {5, 1, 2, 3, 99, ""});
    std::vector<Flight> dropped;
    EXPECT_FALSE(sender.forget(5, dropped));
    auto const remains = sender.take_remains();
    ASSERT_EQ(remains.begun.size(), 2U);
    EXPECT_EQ(remains.begun[1].first, 2U);
    EXPECT_EQ(remains.begun[1].second.transfer.key.sequence, 1U);
    EXPECT_EQ(remains.waiting.size(), 2U);
    EXPECT_EQ(remains.words.size(), 1U);
    EXPECT_EQ(remains.written, 1U);
    EXPECT_EQ(sender.in_flight(), 0U);
}

}  // namespace
}  // namespace mgi::mover::link
