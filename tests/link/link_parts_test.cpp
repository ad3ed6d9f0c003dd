// The parts of a link, each by itself: path choice, shares of channels, duplicates, checksums.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "link/transfers.hpp"
#include "mover/choice.hpp"
#include "mover/link/arrivals.hpp"
#include "mover/link/checksum.hpp"
#include "mover/link/fair_queue.hpp"
#include "mover/link/nic_board.hpp"
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

}  // namespace
}  // namespace mgi::mover::link
