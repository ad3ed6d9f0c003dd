// Threads that are kept for the next work.
#include "core/kept_threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mgi {
namespace {

// Shared: the thread that sets it may still be inside when the one that waited has gone on.
using Signal = std::shared_ptr<std::promise<void>>;
Signal signal() {
    return std::make_shared<std::promise<void>>();
}

std::thread::id thread_of(KeptThreads& threads) {
    auto const ran = std::make_shared<std::promise<std::thread::id>>();
    auto id = ran->get_future();
    threads.run([ran] { ran->set_value(std::this_thread::get_id()); });
    return id.get();
}

TEST(KeptThreads, DoTheNextWork) {
    KeptThreads threads;
    auto const first = thread_of(threads);
    // It may not have come back yet.
    bool again = false;
    for (int i = 0; i < 1000 && !again; ++i) again = thread_of(threads) == first;
    EXPECT_TRUE(again);
}

TEST(KeptThreads, AreAsManyAsThereIsWorkAtOnce) {
    KeptThreads threads;
    for (int round = 0; round < 20; ++round) {
        Signal const one = signal();
        Signal const other = signal();
        Signal const met = signal();
        threads.run([=] {
            one->set_value();
            other->get_future().wait();
            met->set_value();
        });
        threads.run([=] {
            one->get_future().wait();
            other->set_value();
        });
        met->get_future().wait();
    }
}

TEST(KeptThreads, DoWhatTheyWereGivenToItsEnd) {
    Signal const may_end = signal();
    Signal const ended = signal();
    {
        KeptThreads threads;
        threads.run([=] {
            may_end->get_future().wait();
            ended->set_value();
        });
    }
    may_end->set_value();
    ended->get_future().wait();
}

TEST(KeptThreads, LetGoOfWorkThatIsDone) {
    KeptThreads threads;
    auto held = std::make_shared<int>();
    std::weak_ptr<int> const seen = held;
    threads.run([held = std::move(held)] {});
    while (!seen.expired()) std::this_thread::yield();
}

TEST(KeptThreads, RunAllAtTheSameTime) {
    KeptThreads threads;
    for (int round = 0; round < 100; ++round) {
        std::atomic<int> there{0};
        auto const meet = [&there] {
            ++there;
            while (there != 3) std::this_thread::yield();
        };
        threads.run_all({meet, meet, meet});
    }
    threads.run_all({});
}

TEST(KeptThreads, RunAllToTheEndWhereOneFails) {
    KeptThreads threads;
    for (int bad = 0; bad < 3; ++bad) {
        std::atomic<int> done{0};
        std::vector<std::function<void()>> all;
        for (int i = 0; i < 3; ++i) {
            all.emplace_back([&done, fails = i == bad] {
                if (fails) throw std::runtime_error("it fails");
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
                ++done;
            });
        }
        EXPECT_THROW(threads.run_all(all), std::runtime_error);
        EXPECT_EQ(done, 2);
    }
}

}  // namespace
}  // namespace mgi
