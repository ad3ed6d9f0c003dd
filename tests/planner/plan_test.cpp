#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <mgi/device/lane.hpp>
#include <mgi/device/receive_queue.hpp>
#include <mgi/error.hpp>

#include "memory/segment_layout.hpp"
#include "planner/plan.hpp"
#include "planner/sizes.hpp"
#include "support/expect_error.hpp"
#include "support/tables.hpp"

namespace mgi::planner {
namespace {

using device::RoutingKind;
using test::expect_error;

constexpr std::uint64_t kMiB = std::uint64_t(1) << 20;
constexpr std::uint64_t kGiB = std::uint64_t(1) << 30;

/// Vertices "cpu:0" ..., all joined by memory.
Graph shared_memory(std::uint32_t devices) {
    Graph graph;
    for (std::uint32_t d = 0; d < devices; ++d) {
        graph.vertices.push_back({d, "cpu:" + std::to_string(d), VertexKind::Cpu, true});
        for (std::uint32_t e = 0; e < devices; ++e) graph.edges.push_back({d, e, 10, "memory"});
    }
    return graph;
}

/// `endpoints` on as many devices, each a source and a destination, with memory enough.
PlanRequest all_to_all(std::uint32_t endpoints, Schema schema = {{"k", int64()}, {"v", int64()}}) {
    PlanRequest request;
    request.graph = shared_memory(endpoints);
    request.sources.resize(endpoints);
    std::iota(request.sources.begin(), request.sources.end(), 0);
    request.destinations = request.sources;
    request.schema = std::move(schema);
    request.options.name = "x";
    request.memory_limit = 8 * kGiB;
    request.memory_left = 8 * kGiB;
    return request;
}

TEST(Plan, Defaults) {
    Plan const plan = make_plan(all_to_all(4));
    EXPECT_EQ(plan.transfer, Transfer::ByReference);
    EXPECT_EQ(plan.lanes, 4u);
    EXPECT_EQ(plan.slots, 4u);
    EXPECT_EQ(plan.credits, 4u);
    EXPECT_EQ(plan.segment_bytes, 256u << 10);
    EXPECT_EQ(plan.segment_rows, (256u << 10) / 16);
    EXPECT_EQ(plan.text_bytes, 0u);
    EXPECT_EQ(plan.tile_rows, 1024u);
    EXPECT_EQ(plan.chunk_rows, plan.segment_rows);
    EXPECT_EQ(plan.max_groups, kLeastMaxGroups);
    std::uint64_t const segments = 4 * 4 * 4 * 256 * 1024;
    EXPECT_EQ(plan.pool_bytes, segments + 4 * 16 * 1024 * 16);
}

TEST(Plan, LanesFollowTheRouting) {
    PlanRequest request = all_to_all(3);
    for (auto const& [routing, lanes] :
         {std::pair{RoutingKind::Partition, 3u}, std::pair{RoutingKind::Direct, 3u},
          std::pair{RoutingKind::Broadcast, 1u}, std::pair{RoutingKind::Balance, 1u}}) {
        request.routing = routing;
        EXPECT_EQ(make_plan(request).lanes, lanes);
    }
}

TEST(Plan, ForwardingTablesNameEveryVertexOnce) {
    PlanRequest request = all_to_all(3);
    request.sources = {2, 0, 2};
    request.destinations = {1, 1, 0};
    Plan const plan = make_plan(request);
    ASSERT_EQ(plan.tables.size(), 2u);
    EXPECT_EQ(plan.tables[0].vertex, 0u);
    EXPECT_EQ(plan.tables[1].vertex, 2u);
    for (ForwardingTable const& table : plan.tables) {
        ASSERT_EQ(table.hops.size(), 2u);
        EXPECT_EQ(table.hops[0].destination, 0u);
        EXPECT_EQ(table.hops[1].destination, 1u);
        EXPECT_EQ(table.hops[1].next, 1u);
        EXPECT_TRUE(table.hops[1].path.empty());
        EXPECT_EQ(table.hops[1].gbps, 10);
    }
    EXPECT_EQ(plan.lanes, 3u) << "a lane for each endpoint, not for each vertex";
}

TEST(Plan, ByCopyWhenAskedForOrWhereMemoryIsNotShared) {
    PlanRequest request = all_to_all(2);
    std::uint64_t const by_reference = make_plan(request).pool_bytes;
    request.options.by_reference = false;
    request.options.credits = 3;
    Plan const plan = make_plan(request);
    EXPECT_EQ(plan.transfer, Transfer::ByCopy);
    EXPECT_EQ(plan.credits, 3u);
    EXPECT_EQ(plan.pool_bytes, by_reference + std::uint64_t(2) * 2 * 3 * plan.segment_bytes);

    /// Knows a path where there is no shared memory.
    struct OtherPaths final : PathFinder {
        [[nodiscard]] std::vector<ForwardingTable> find(
            Graph const&, std::vector<std::uint32_t> const&,
            std::vector<std::uint32_t> const&) const override {
            return {{0, {{1, 1, {7}, 25}}}};
        }
    };
    request = all_to_all(2);
    request.graph.edges.clear();
    Plan const far = make_plan(request, OtherPaths{});
    EXPECT_EQ(far.transfer, Transfer::ByCopy);
    EXPECT_EQ(far.tables[0].hops[0].path, std::vector<std::uint32_t>{7});
}

TEST(Plan, NoPathIsAnErrorThatNamesBothEnds) {
    PlanRequest request = all_to_all(2);
    std::erase_if(request.graph.edges, [](Edge const& e) { return e.from == 1 && e.to == 0; });
    expect_error(ErrorCode::InvalidArgument, {"from cpu:1 to cpu:0"}, [&] { make_plan(request); });
    request = all_to_all(2);
    request.sources = {5};
    expect_error(ErrorCode::InvalidArgument, {"no vertex 5"}, [&] { make_plan(request); });
    request = all_to_all(2);
    request.graph.vertices[1].managed = false;
    expect_error(ErrorCode::InvalidArgument, {"cpu:1"}, [&] { make_plan(request); });
}

TEST(Plan, SegmentsAreAsLargeAsTheLayoutMakesThem) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(seed);
        test::Random random(seed);
        bool const rows_together = random.one_in(3);
        PlanRequest request = all_to_all(2, test::random_schema(random, 10, rows_together));
        ChannelOptions& options = request.options;
        options.layout = rows_together ? Layout::Rows : Layout::Columns;
        if (random.one_in(2)) options.segment_rows = std::uint32_t(random.between(1, 5000));
        if (random.one_in(2)) options.segment_bytes = std::uint32_t(random.between(8192, 1 << 20));
        Plan const plan = make_plan(request);
        memory::ChannelLayout const layout(request.schema, options.layout, plan.segment_rows,
                                           plan.text_bytes);
        EXPECT_EQ(plan.segment_bytes, layout.get().size);
    }
}

/// What every plan promises to the device code, whatever the options.
TEST(Plan, AnyOptionsGiveAPlanThatDeviceCodeCanUse) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        SCOPED_TRACE(seed);
        test::Random random(seed);
        PlanRequest request =
            all_to_all(1 + std::uint32_t(random.below(20)), test::random_schema(random, 6));
        ChannelOptions& o = request.options;
        auto const maybe = [&](std::uint32_t most) {
            return random.one_in(2) ? std::uint32_t(random.between(1, most)) : 0;
        };
        o.segment_bytes = maybe(1 << 22);
        o.segment_rows = maybe(1 << 14);
        o.slots = maybe(20);
        o.credits = maybe(20);
        o.tile_rows = maybe(4000);
        o.chunk_rows = maybe(3000);
        o.text_bytes_per_row = maybe(500);
        o.ordered = random.one_in(4);
        o.by_reference = random.one_in(2);
        o.receive_limit = maybe(2);
        request.memory_left = random.between(std::int64_t(1) << 20, std::int64_t(1) << 33);
        request.memory_limit = request.memory_left;
        Plan plan;
        try {
            plan = make_plan(request);
        } catch (Error const& error) {
            EXPECT_EQ(std::string(error.what()).rfind("channel 'x'", 0), 0u) << error.what();
            continue;
        }
        EXPECT_GE(plan.segment_rows, 1u);
        EXPECT_LE(plan.segment_rows, device::Ticket::kMaxRows);
        EXPECT_LE(plan.text_bytes, device::Ticket::kMaxText);
        EXPECT_EQ(plan.text_bytes, device::Ticket::whole_units(plan.text_bytes));
        EXPECT_TRUE(std::has_single_bit(plan.slots));
        EXPECT_GE(plan.credits, 1u);
        EXPECT_GE(plan.tile_rows, 1u);
        EXPECT_EQ(plan.chunk_rows % 64, 0u);
        EXPECT_GE(plan.chunk_rows, 64u);
        EXPECT_LE((plan.segment_rows + plan.chunk_rows - 1) / plan.chunk_rows,
                  device::ReceiveQueue<>::kMaxChunks);
        EXPECT_TRUE(!o.ordered || plan.chunk_rows >= plan.segment_rows);
        if (o.segment_rows != 0) {
            EXPECT_EQ(plan.segment_rows, o.segment_rows);
        } else if (o.segment_bytes != 0) {
            EXPECT_LE(plan.segment_bytes, o.segment_bytes);
        } else {
            EXPECT_EQ(plan.segment_rows % 64, 0u);
        }
        EXPECT_LE(plan.pool_bytes, request.memory_left);
    }
}

TEST(Plan, ManyLanesMakeSegmentsSmaller) {
    Plan const few = make_plan(all_to_all(4));
    Plan const many = make_plan(all_to_all(64));
    EXPECT_LT(many.segment_bytes, few.segment_bytes);
    EXPECT_GE(many.segment_bytes, kSmallestDefaultSegment - 1024);
    EXPECT_GE(many.segment_rows, 64u);
}

TEST(Plan, LittleMemoryMakesSegmentsAndTilesSmaller) {
    PlanRequest request = all_to_all(2);
    request.memory_left = request.memory_limit = 2 * kMiB;
    Plan const plan = make_plan(request);
    EXPECT_LE(plan.pool_bytes, 2 * kMiB);
    EXPECT_LE(plan.segment_bytes, 32u << 10);
}

TEST(Plan, WideRowsStillHave64ToASegment) {
    Plan const plan = make_plan(all_to_all(1, {{"blob", fixed_size_binary(65536)}}));
    EXPECT_EQ(plan.segment_rows, 64u);
}

TEST(Plan, NarrowRowsStopAtTheTicketsLimit) {
    PlanRequest request = all_to_all(1, {{"flag", boolean()}});
    request.options.segment_bytes = 1 << 20;
    EXPECT_EQ(make_plan(request).segment_rows, device::Ticket::kMaxRows);
}

TEST(Plan, TextFollowsTheRows) {
    PlanRequest request = all_to_all(1, {{"k", int64()}, {"t", string()}});
    Plan plan = make_plan(request);
    EXPECT_EQ(plan.text_bytes, plan.segment_rows * kDefaultTextPerRow);
    request.options.segment_rows = 3;
    EXPECT_EQ(make_plan(request).text_bytes, kLeastText);
    request.options.text_bytes_per_row = 20;
    EXPECT_EQ(make_plan(request).text_bytes, 64u);
    request.options = {};
    request.options.segment_bytes = 2048;
    plan = make_plan(request);
    EXPECT_LE(plan.segment_bytes, 2048u);
    EXPECT_GE(plan.text_bytes, 1024u);
    request.options = {};
    request.options.segment_rows = 1 << 20;
    EXPECT_EQ(make_plan(request).text_bytes, device::Ticket::kMaxUnits * 16);
}

TEST(Plan, TextIsAsLongAsTheOptionsSay) {
    PlanRequest request = all_to_all(1, {{"k", int64()}, {"t", string()}});
    request.memory_left = request.memory_limit = std::uint64_t{64} << 30;
    request.options.slots = request.options.max_groups = 1;
    // By what one row is said to have, if that is more than segments have by themselves.
    request.options.text_bytes_per_row = 40'000'000;
    EXPECT_EQ(make_plan(request).text_bytes, device::Ticket::whole_units(40'000'000));
    request.options.text_bytes_per_row = 1'000'000;
    EXPECT_EQ(make_plan(request).text_bytes, kMostDefaultText);
    // By rows and by bytes, up to what a view reaches.
    request.options.segment_rows = 3;
    EXPECT_EQ(make_plan(request).text_bytes, 3'000'000u);
    request.options.text_bytes_per_row = 1u << 31;
    EXPECT_EQ(make_plan(request).text_bytes, device::Ticket::kMaxText);
    request.options = {};
    request.options.slots = request.options.max_groups = 1;
    request.options.segment_bytes = 64 * kMiB;
    request.options.text_bytes_per_row = 16;
    EXPECT_GE(make_plan(request).text_bytes, 8 * kMiB);
}

TEST(Plan, TilesGrowWithTheLanes) {
    EXPECT_EQ(make_plan(all_to_all(2)).tile_rows, 1024u);
    EXPECT_EQ(make_plan(all_to_all(20)).tile_rows, 2048u);
    PlanRequest request = all_to_all(2);
    request.destinations.resize(256, request.destinations.front());
    EXPECT_EQ(make_plan(request).tile_rows, 8192u);
}

TEST(Plan, ChunksAreWholeSegmentsWhereTheyMustBe) {
    PlanRequest request = all_to_all(1);
    request.options.segment_bytes = 2 * kMiB;
    EXPECT_EQ(make_plan(request).chunk_rows, make_plan(request).segment_rows / 4);
    request.options.segment_bytes = 0;
    request.options.segment_rows = 1000;
    EXPECT_EQ(make_plan(request).chunk_rows, 1024u);
    request.options.receive_limit = kMiB;
    EXPECT_EQ(make_plan(request).chunk_rows, 1024u);
    request.options.chunk_rows = 100;
    EXPECT_EQ(make_plan(request).chunk_rows, 128u);
    request.options.ordered = true;
    EXPECT_EQ(make_plan(request).chunk_rows, 1024u);
    request.options = {};
    request.options.segment_rows = 3;
    EXPECT_EQ(make_plan(request).chunk_rows, 64u);
}

TEST(Plan, SlotsAreAPowerOfTwo) {
    PlanRequest request = all_to_all(1);
    for (auto const& [asked, slots] :
         {std::pair{1u, 1u}, std::pair{2u, 2u}, std::pair{3u, 4u}, std::pair{1024u, 1024u}}) {
        request.options.slots = asked;
        request.options.segment_rows = 1;
        EXPECT_EQ(make_plan(request).slots, slots);
        EXPECT_EQ(make_plan(request).credits, slots);
    }
}

TEST(Plan, GroupsFollowTheCores) {
    PlanRequest request = all_to_all(1);
    request.cores = 48;
    EXPECT_EQ(make_plan(request).max_groups, 96u);
    request.options.max_groups = 5;
    EXPECT_EQ(make_plan(request).max_groups, 5u);
}

TEST(Plan, AbsurdOptionsAreRefusedByName) {
    struct Case {
        char const* option;
        std::uint32_t ChannelOptions::* member;
        std::uint32_t value;
        char const* text;
    };
    std::vector<Case> const cases{
        {"segment_rows", &ChannelOptions::segment_rows, (1u << 20) + 1, "1048576"},
        {"segment_bytes", &ChannelOptions::segment_bytes, 3, "one row"},
        {"slots", &ChannelOptions::slots, 1025, "1024"},
        {"credits", &ChannelOptions::credits, 1025, "1024"},
        {"tile_rows", &ChannelOptions::tile_rows, 65536, "65535"},
        {"chunk_rows", &ChannelOptions::chunk_rows, 1u << 20, "segment's"},
    };
    for (Case const& c : cases) {
        SCOPED_TRACE(c.option);
        PlanRequest request = all_to_all(2);
        request.options.*c.member = c.value;
        std::string const value = std::to_string(c.value);
        expect_error(ErrorCode::InvalidArgument, {"channel 'x'", c.option, value.c_str(), c.text},
                     [&] { make_plan(request); });
    }
    PlanRequest text = all_to_all(1, {{"t", string()}});
    text.options.text_bytes_per_row = (1u << 31) + 1;
    expect_error(ErrorCode::InvalidArgument, {"text_bytes_per_row"}, [&] { make_plan(text); });
    PlanRequest large = all_to_all(1);
    large.options.segment_bytes = 1u << 30;
    large.options.segment_rows = 1u << 20;
    large.memory_limit = large.memory_left = 8 * kMiB;
    expect_error(ErrorCode::InvalidArgument, {"segment_rows 1048576", "memory limit", "8 MiB"},
                 [&] { make_plan(large); });
    PlanRequest wide = all_to_all(1, {{"b", fixed_size_binary(65536)}});
    wide.options.segment_rows = 1u << 20;
    expect_error(ErrorCode::InvalidArgument, {"4 GiB"}, [&] { make_plan(wide); });
}

TEST(Plan, TooManyLanesAreRefused) {
    PlanRequest request = all_to_all(1);
    request.destinations.assign(65536, 0);
    expect_error(ErrorCode::InvalidArgument, {"65536", "65535"}, [&] { make_plan(request); });
    request.routing = RoutingKind::Broadcast;
    EXPECT_EQ(make_plan(request).lanes, 1u);
}

TEST(Plan, NothingToPlanIsRefused) {
    PlanRequest request = all_to_all(1);
    request.sources.clear();
    expect_error(ErrorCode::InvalidArgument, {"no source"}, [&] { make_plan(request); });
    request = all_to_all(1);
    request.destinations.clear();
    expect_error(ErrorCode::InvalidArgument, {"no destination"}, [&] { make_plan(request); });
    request = all_to_all(1, {});
    expect_error(ErrorCode::InvalidArgument, {"no column"}, [&] { make_plan(request); });
}

TEST(Plan, PoolsBeyondTheMemoryAreRefusedWithBothNumbers) {
    PlanRequest request = all_to_all(4);
    request.options.segment_bytes = 4 << 20;
    request.memory_left = 100 * kMiB;
    expect_error(ErrorCode::OutOfMemory,
                 {"channel 'x'", "257 MiB", "100 MiB", "104857600", "memory_limit", "slots"},
                 [&] { make_plan(request); });
}

TEST(Plan, HugeProductsDoNotWrap) {
    PlanRequest request = all_to_all(1, {{"b", fixed_size_binary(60000)}});
    request.sources.assign(60000, 0);
    request.destinations.assign(60000, 0);
    request.options.slots = 1024;
    request.options.segment_rows = 60000;
    expect_error(ErrorCode::OutOfMemory, {"EiB"}, [&] { make_plan(request); });
}

}  // namespace
}  // namespace mgi::planner
