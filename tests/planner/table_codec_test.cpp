#include "planner/table_codec.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <mgi/error.hpp>

#include "perf/plan_cluster.hpp"
#include "planner/channel_planner.hpp"
#include "planner/directory.hpp"
#include "support/random.hpp"

namespace mgi::planner {
namespace {

std::string refused_table(std::string const& bytes) {
    try {
        static_cast<void>(decode_table(bytes));
    } catch (Error const& error) {
        return error.what();
    }
    return {};
}

std::string some_table() {
    Cluster const cluster = perf::dgx_cluster(16, 8, 1);
    auto const gpus = perf::gpu_places(cluster, 16);
    return ChannelPlanner(cluster).plan(gpus, gpus).servers.at(0).table->bytes;
}

TEST(TableCodec, ComesBackAsItWas) {
    std::string const bytes = some_table();
    ServerTable const table = decode_table(bytes);
    EXPECT_EQ(encode(table), bytes);
    EXPECT_FALSE(table.vertices.empty());
    EXPECT_FALSE(table.arrivals.empty());
    EXPECT_EQ(decode_table(encode(ServerTable{})), ServerTable{});
}

TEST(TableCodec, EveryTruncationIsRefusedAndSaysWhere) {
    std::string const bytes = some_table();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        std::string const why = refused_table(bytes.substr(0, length));
        ASSERT_NE(why.find("forwarding table, byte "), std::string::npos) << length << ": " << why;
    }
    EXPECT_NE(refused_table(bytes + '\0').find("expected the end"), std::string::npos);
}

TEST(TableCodec, WhatIsAcceptedIsWhatItSays) {
    std::string const bytes = some_table();
    test::Random random(3);
    for (int round = 0; round < 20'000; ++round) {
        std::string changed = bytes;
        for (std::uint64_t i = random.between(1, 4); i > 0; --i) {
            changed[random.below(changed.size())] = char(random.next());
        }
        try {
            ASSERT_EQ(encode(decode_table(changed)), changed);
        } catch (Error const&) {  // refused: fine
        }
    }
}

TEST(TableCodec, HopsLeadToLaterStages) {
    auto const with = [](std::uint8_t stage, std::uint8_t next) {
        return encode(ServerTable{{{7, {{{}, stage, {{8, next, {}, 1}}}}}}, {}});
    };
    EXPECT_EQ(refused_table(with(2, 3)), "");
    EXPECT_EQ(refused_table(with(2, 0)), "");
    EXPECT_NE(refused_table(with(2, 2)).find("a stage behind the entry's own"), std::string::npos);
    EXPECT_NE(refused_table(with(2, 1)).find("a stage behind the entry's own"), std::string::npos);
}

TEST(TableCodec, OtherVersionsAreToldApart) {
    std::string bytes = some_table();
    bytes[4] = 9;
    EXPECT_NE(refused_table(bytes).find("version 2, not 9"), std::string::npos);
    EXPECT_NE(refused_table("MGIX").find("expected \"MGIT\""), std::string::npos);
}

TEST(Directory, HoldsAnyListOfPlaces) {
    test::Random random(5);
    for (int round = 0; round < 500; ++round) {
        ChannelDirectory directory;
        std::vector<Place> places;
        ServerId server = 0;
        while (places.size() < random.below(200) + 1) {
            server = random.one_in(8) ? ServerId(random.below(50)) : server + 1;
            auto const each = std::uint32_t(random.between(1, 4));
            for (std::uint32_t i = 0; i < each; ++i) {
                places.push_back(
                    {server, random.one_in(9) ? std::uint32_t(random.below(9)) : 5 + i});
            }
        }
        for (Place const place : places) directory.sources.add(place);
        directory.sources.close();
        directory.destinations.add({7, 7});
        ChannelDirectory const back = decode_directory(encode(directory));
        ASSERT_EQ(back, directory);
        ASSERT_EQ(back.sources.size(), places.size());
        for (std::size_t i = 0; i < places.size(); ++i) ASSERT_EQ(back.sources.at(i), places[i]);
        EXPECT_THROW(static_cast<void>(back.sources.at(places.size())), Error);
    }
}

}  // namespace
}  // namespace mgi::planner
