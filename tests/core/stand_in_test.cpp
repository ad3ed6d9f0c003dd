// A thread whose work others do, now and then.
#include "core/stand_in.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace mgi::test {
namespace {

TEST(StandIn, NobodyStandsInAtFirst) {
    StandIn others;
    EXPECT_FALSE(others.works());
}

TEST(StandIn, WorkIsSeenUntilARestWithoutAny) {
    StandIn others;
    others.note();
    EXPECT_TRUE(others.works());
    EXPECT_TRUE(others.works());
    others.rest();
    EXPECT_FALSE(others.works());
    others.note();
    EXPECT_TRUE(others.works());
}

TEST(StandIn, WhatComesBeforeTheRestEndsItToo) {
    StandIn others;
    others.wake();
    others.rest();
    others.note();
    EXPECT_TRUE(others.works());
}

// Rests end by themselves, whatever others do; by one that is woken at any time nothing is lost.
TEST(StandIn, WorkersAndWakersMayComeAtAnyTime) {
    StandIn others;
    std::atomic<bool> ended = false;
    std::thread worker([&] {
        while (!ended) others.note();
    });
    std::thread waker([&] {
        while (!ended) others.wake();
    });
    for (int rests = 0; rests < 50; ++rests) {
        if (others.works()) others.rest();
        if (rests % 10 == 0) others.end();
    }
    ended = true;
    worker.join();
    waker.join();
    while (others.works()) others.rest();
    EXPECT_FALSE(others.works());
}

}  // namespace
}  // namespace mgi::test
