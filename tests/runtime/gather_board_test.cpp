// A board on which threads, each with a mapping of its own, play the processes.
#include "runtime/gather_board.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <mgi/error.hpp>

#include "support/hang_guard.hpp"
#include "support/random.hpp"

namespace mgi {
namespace {

auto const kNever = [] { return false; };

/// Runs `work(board, me)` for each of so many processes.
template <class Work>
void run(std::size_t processes, Work const& work) {
    auto const memory = GatherBoard::make(processes);
    std::vector<std::jthread> threads;
    for (std::size_t me = 0; me < processes; ++me) {
        threads.emplace_back([&, me] {
            GatherBoard board(memory.get(), processes, me);
            work(board, me);
        });
    }
}

std::string words_of(std::size_t process, int gather) {
    return std::string(std::size_t(gather % 7) * 100 + process, char('a' + gather % 26));
}

TEST(GatherBoard, TellsEachWhatAllSay) {
    constexpr int kGathers = test::kSanitized ? 300 : 3000;
    run(3, [](GatherBoard& board, std::size_t me) {
        test::Random random(me);
        for (int g = 0; g < kGathers; ++g) {
            if (random.one_in(100)) std::this_thread::sleep_for(std::chrono::microseconds(50));
            auto const all = board.gather("gather " + std::to_string(g), words_of(me, g), kNever);
            ASSERT_TRUE(all.has_value()) << g;
            for (std::size_t p = 0; p < 3; ++p) ASSERT_EQ((*all)[p], words_of(p, g)) << g;
        }
        EXPECT_FALSE(board.is_over());
    });
}

TEST(GatherBoard, LeavesLongWordsToTheCoordinatorAndGoesOn) {
    run(2, [](GatherBoard& board, std::size_t me) {
        std::string const words(me == 0 ? GatherBoard::kMostBytes + 1 : 3, 'x');
        EXPECT_FALSE(board.gather("long", words, kNever).has_value());
        EXPECT_FALSE(board.is_over());
        std::string const most(GatherBoard::kMostBytes, 'y');
        auto const all = board.gather("short", most, kNever);
        ASSERT_TRUE(all.has_value());
        EXPECT_EQ(all->at(1 - me), most);
    });
}

TEST(GatherBoard, IsOverForAllWhereOneComesLate) {
    run(2, [](GatherBoard& board, std::size_t me) {
        EXPECT_TRUE(board.gather("first", "", kNever).has_value());
        if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
        EXPECT_FALSE(board.gather("second", "", kNever).has_value());
        EXPECT_TRUE(board.is_over());
    });
}

TEST(GatherBoard, IsOverWhereTheySpeakOfDifferentThings) {
    run(2, [](GatherBoard& board, std::size_t me) {
        EXPECT_FALSE(board.gather(me == 0 ? "this" : "that", "", kNever).has_value());
        EXPECT_TRUE(board.is_over());
    });
}

TEST(GatherBoard, IsOneThreadsAtATime) {
    run(2, [](GatherBoard& board, std::size_t me) {
        if (me == 1) return;
        std::atomic<bool> asked{false};
        std::jthread const waits([&] {
            auto const stop = [&] {
                asked = true;
                return false;
            };
            EXPECT_FALSE(board.gather("first", "", stop).has_value());
        });
        while (!asked) std::this_thread::yield();
        EXPECT_FALSE(board.gather("second", "", kNever).has_value());
        EXPECT_FALSE(board.is_over());
    });
}

// Whether one stops, or all have come first: all find the same.
TEST(GatherBoard, IsOverForAllOrForNoneWhereOneStops) {
    for (int round = 0; round < (test::kSanitized ? 20 : 100); ++round) {
        std::atomic<int> complete{0};
        run(3, [&](GatherBoard& board, std::size_t me) {
            test::Random random(std::uint64_t(round) * 3 + me);
            std::this_thread::sleep_for(std::chrono::microseconds(random.below(2500)));
            auto const stop = [me] { return me == 0; };
            if (board.gather("gather", "words", stop)) ++complete;
        });
        EXPECT_TRUE(complete == 0 || complete == 3) << complete;
    }
}

TEST(GatherBoard, RefusesMemoryOfAnotherSize) {
    auto const memory = GatherBoard::make(2);
    EXPECT_THROW(GatherBoard(memory.get(), 3, 0), Error);
}

}  // namespace
}  // namespace mgi
