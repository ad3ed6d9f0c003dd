// A mover's rounds by its own thread, and by others.
#include "mover/mover_thread.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <vector>

#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

using mover::MoverThread;
using mover::Work;

// Counts its steps; notices when two threads make one at a time.
class Counted final : public Work {
public:
    struct Seen {
        std::atomic<int> steps{0};
        std::atomic<int> by_others{0};
        std::atomic<int> at_once{0};
        std::atomic<bool> twice{false};
        std::atomic<bool> throws{false};
        std::thread::id own{};
        int unguarded = 0;  // ThreadSanitizer sees who writes it
    };
    explicit Counted(Seen& seen) : seen_(seen) {}
    bool step() override {
        if (seen_.at_once.fetch_add(1) != 0) seen_.twice = true;
        ++seen_.unguarded;
        ++seen_.steps;
        if (std::this_thread::get_id() == seen_.own) ++seen_.by_others;
        seen_.at_once.fetch_sub(1);
        if (seen_.throws) throw std::bad_alloc();
        return true;
    }
    [[nodiscard]] bool done() const override { return false; }

private:
    Seen& seen_;
};

MoverThread::Fail ignore() {
    return [](ErrorCode, char const*) {};
}

TEST(MoverThread, ItsOwnThreadRestsWhileOthersDrive) {
    Counted::Seen seen;
    seen.own = std::this_thread::get_id();
    MoverThread mover;
    mover.add(1, std::make_unique<Counted>(seen), nullptr, ignore());
    // Where its own thread wants a turn it has it, so a round is not to be had at once.
    int driven = 0;
    while (driven < 100) driven += mover.drive() ? 1 : 0;
    EXPECT_EQ(seen.by_others, driven);
    int const before = seen.steps;
    while (seen.steps == before) std::this_thread::yield();  // it takes over again
    mover.remove(1);
    EXPECT_FALSE(mover.drive());
    EXPECT_FALSE(seen.twice);
}

TEST(MoverThread, RoundsAreMadeByOneThreadAtATimeAndEndWithRemove) {
    std::vector<Counted::Seen> seen(20);
    MoverThread mover;
    std::atomic<bool> ended = false;
    std::vector<std::thread> drivers;
    for (int d = 0; d < 2; ++d) {
        drivers.emplace_back([&] {
            while (!ended) {
                mover.drive();
                std::this_thread::yield();
            }
        });
    }
    for (std::uint64_t id = 0; id < seen.size(); ++id) {
        mover.add(id, std::make_unique<Counted>(seen[id]), nullptr, ignore());
        while (seen[id].steps == 0) std::this_thread::yield();
        mover.remove(id);
        int const steps = seen[id].steps;
        std::this_thread::yield();
        EXPECT_EQ(seen[id].steps, steps);
        EXPECT_FALSE(seen[id].twice);
    }
    ended = true;
    for (std::thread& driver : drivers) driver.join();
}

TEST(MoverThread, WhatAStepThrowsFailsItsChannelWhoeverMakesIt) {
    Counted::Seen seen;
    seen.own = std::this_thread::get_id();
    seen.throws = true;
    std::atomic<int> failures = 0;
    MoverThread mover;
    mover.add(1, std::make_unique<Counted>(seen), nullptr, [&](ErrorCode code, char const*) {
        EXPECT_EQ(code, ErrorCode::OutOfMemory);
        ++failures;
    });
    while (seen.by_others == 0) EXPECT_FALSE(mover.drive());
    mover.remove(1);
    EXPECT_EQ(failures, seen.steps);
}

}  // namespace
}  // namespace mgi::test
