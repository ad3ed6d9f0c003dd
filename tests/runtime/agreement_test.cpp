// What processes say to each other when they make a channel together.
#include "runtime/agreement.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "support/expect_error.hpp"

namespace mgi {
namespace {

using test::expect_error;

ChannelSpec spec() {
    ChannelSpec made;
    made.sources = {{1, 0}, {2, Endpoint::kElsewhere}};
    made.destinations = {{3, 0}};
    made.schema = Schema{{"key", int64()}, {"text\twith\na tab", string()}};
    made.routing = Routing::partition({"key"});
    made.options.name = "orders";
    return made;
}

Said said(ChannelSpec const& of) {
    Said made;
    made.fields = fields_of(of);
    return made;
}

TEST(Agreement, WordsComeAsTheyWere) {
    Said made = said(spec());
    made.id = 7;
    made.taken = true;
    made.error = Error(ErrorCode::OutOfMemory, "two\nlines\tof text");
    Said const read = decode(encode(made));
    EXPECT_EQ(read.fields, made.fields);
    EXPECT_EQ(read.id, 7u);
    EXPECT_TRUE(read.taken);
    ASSERT_TRUE(read.error.has_value());
    EXPECT_EQ(read.error->code(), ErrorCode::OutOfMemory);
    EXPECT_STREQ(read.error->what(), "two lines of text");
    Said const nothing = decode(encode({}));
    EXPECT_TRUE(nothing.fields.empty());
    EXPECT_FALSE(nothing.error.has_value());
}

TEST(Agreement, WordsOfGpusComeAsTheyWere) {
    Said made;
    made.gpus = {"home of mine", {"gpu-1"}, {"gpu-1", "gpu-2"}, {{3, "gpu-1"}}, {7}, true, "door"};
    made.terms = Terms::of(Plan());
    made.terms->plan.slots = 5;
    made.terms->for_peers = Plan();
    made.terms->for_peers->slots = 6;
    made.terms->for_peers->transfer = Transfer::ByReference;
    SharedGpuPool pool;
    pool.mapped = true;
    pool.bytes = 1ull << 33;
    pool.used = pool.bytes - 64;
    pool.here = {{0, 2}, {1}};
    made.shared_gpus.pools = {pool, SharedGpuPool()};
    Said const read = decode(encode(made));
    EXPECT_EQ(read.gpus.home, made.gpus.home);
    EXPECT_EQ(read.gpus.destinations, made.gpus.destinations);
    EXPECT_EQ(read.gpus.without, made.gpus.without);
    EXPECT_EQ(read.gpus.door, made.gpus.door);
    EXPECT_TRUE(read.gpus.maps);
    EXPECT_EQ(read.terms->plan.slots, 5U);
    EXPECT_EQ(read.terms->for_peers->slots, 6U);
    EXPECT_EQ(read.terms->for_peers->transfer, Transfer::ByReference);
    ASSERT_EQ(read.shared_gpus.pools.size(), 2U);
    SharedGpuPool const& mapped = read.shared_gpus.pools[0];
    EXPECT_TRUE(mapped.mapped);
    EXPECT_EQ(mapped.bytes, pool.bytes);
    EXPECT_EQ(mapped.used, pool.used);
    EXPECT_EQ(mapped.here.sources, pool.here.sources);
    EXPECT_EQ(mapped.here.destinations, pool.here.destinations);
    EXPECT_FALSE(read.shared_gpus.pools[1].mapped);
    EXPECT_FALSE(decode(encode({})).terms);
    for (char const* words :
         {"pool\t64 mapped x3\n", "pool\t64 mapped s\n", "pool\t64 mapped  s1\n"}) {
        expect_error(ErrorCode::Internal, {"the same version"},
                     [&] { (void)decode(encode({}) + words); });
    }
}

TEST(Agreement, OtherWordsAreRefused) {
    for (char const* text : {"", "hello", "version\t0\n", "version\t1\nid\tx\n", "version\t1\nid",
                             "version\t1\ncode\t99\n", "version\t1\nfield\tname\n"}) {
        expect_error(ErrorCode::Internal, {"the same version"}, [&] { (void)decode(text); });
    }
}

// Where an endpoint is says nothing about the channel: each process sees its own here.
TEST(Agreement, TheSameIsTheSameInEveryProcess) {
    ChannelSpec other = spec();
    other.sources = {{1, Endpoint::kElsewhere}, {2, 3}};
    check_agreement({said(spec()), said(other)}, {"rank 0", "rank 1"}, "a channel");
}

TEST(Agreement, EveryFieldCounts) {
    using Change = void (*)(ChannelSpec&);
    std::pair<char const*, Change> const changes[] = {
        {"sources", [](ChannelSpec& s) { s.sources.pop_back(); }},
        {"destinations", [](ChannelSpec& s) { s.destinations.push_back({1, 0}); }},
        {"schema", [](ChannelSpec& s) { s.schema = Schema{{"key", int32()}}; }},
        {"schema", [](ChannelSpec& s) { s.schema.reset(); }},
        {"routing", [](ChannelSpec& s) { s.routing = Routing::broadcast(); }},
        {"routing's keys", [](ChannelSpec& s) { s.routing.keys = {"key", "key"}; }},
        {"routing's hash", [](ChannelSpec& s) { s.routing.hash = Hash::Modulo; }},
        {"routing's order", [](ChannelSpec& s) { s.routing.order = {{"key", true}}; }},
        {"routing's splitters", [](ChannelSpec& s) { s.routing.splitters.bytes = "a"; }},
        {"routing's splitters",
         [](ChannelSpec& s) {
             s.routing.splitters.types = {int64()};
             s.routing.splitters.values.resize(1);
         }},
        {"name", [](ChannelSpec& s) { s.options.name += 's'; }},
        {"ordered", [](ChannelSpec& s) { s.options.ordered = true; }},
        {"by_reference", [](ChannelSpec& s) { s.options.by_reference = false; }},
        {"layout", [](ChannelSpec& s) { s.options.layout = Layout::Rows; }},
        {"segment_bytes", [](ChannelSpec& s) { s.options.segment_bytes = 1; }},
        {"segment_rows", [](ChannelSpec& s) { s.options.segment_rows = 1; }},
        {"slots", [](ChannelSpec& s) { s.options.slots = 1; }},
        {"credits", [](ChannelSpec& s) { s.options.credits = 1; }},
        {"tile_rows", [](ChannelSpec& s) { s.options.tile_rows = 1; }},
        {"chunk_rows", [](ChannelSpec& s) { s.options.chunk_rows = 1; }},
        {"max_groups", [](ChannelSpec& s) { s.options.max_groups = 1; }},
        {"text_bytes_per_row", [](ChannelSpec& s) { s.options.text_bytes_per_row = 1; }},
        {"receive_limit", [](ChannelSpec& s) { s.options.receive_limit = 1; }},
        {"stall_limit", [](ChannelSpec& s) { s.options.stall_limit = std::chrono::seconds(1); }},
        {"gone_limit", [](ChannelSpec& s) { s.options.gone_limit = std::chrono::seconds(1); }},
        {"sorters", [](ChannelSpec& s) { s.options.sorters = 1; }},
        {"weight", [](ChannelSpec& s) { s.options.weight = 0.5; }},
    };
    for (auto const& [name, change] : changes) {
        ChannelSpec other = spec();
        change(other);
        expect_error(ErrorCode::InvalidArgument,
                     {"channel 'orders'", std::string(name) + " is '", "rank 0", "rank 2"}, [&] {
                         check_agreement({said(spec()), said(spec()), said(other)},
                                         {"rank 0", "rank 1", "rank 2"}, "channel 'orders'");
                     });
    }
}

// However long they are, and where they differ.
TEST(Agreement, LongFieldsAreComparedInFull) {
    ChannelSpec one = spec();
    for (std::uint32_t id = 10; id < 10'000; ++id) one.destinations.push_back({id, 0});
    ChannelSpec other = one;
    other.destinations.back().id += 1;
    EXPECT_LT(encode(said(one)).size(), 4000u);
    expect_error(ErrorCode::InvalidArgument, {"destinations is '3 10 11", "bytes, hash"}, [&] {
        check_agreement({said(one), said(other)}, {"rank 0", "rank 1"}, "a channel");
    });
}

TEST(Agreement, AnErrorIsEverybodys) {
    Said wrong = said(spec());
    wrong.error = Error(ErrorCode::OutOfMemory, "no memory");
    expect_error(ErrorCode::OutOfMemory, {"rank 4: no memory"}, [&] {
        check_agreement({said(spec()), wrong}, {"rank 0", "rank 4"}, "a channel");
    });
}

TEST(GatherEndpoints, OfAProcessAloneAreItsOwn) {
    Runtime runtime = Runtime::local();
    std::vector<Endpoint> const mine = {runtime.create_endpoint("cpu"),
                                        runtime.create_endpoint("cpu")};
    EXPECT_EQ(runtime.gather_endpoints(mine), mine);
    expect_error(ErrorCode::InvalidArgument, {"a process' own endpoints", "endpoint 99"},
                 [&] { (void)runtime.gather_endpoints({{99, 0}}); });
}

}  // namespace
}  // namespace mgi
