// Channels, endpoints and options that cannot be: each a clear error that names the offender.
#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/tables.hpp"

#include <mgi/runtime.hpp>

namespace mgi::test {
namespace {

class BadChannel : public ::testing::Test {
protected:
    ChannelSpec spec() {
        ChannelSpec spec;
        spec.sources = {a_};
        spec.destinations = {b_};
        spec.schema = Schema{{"key", int64()}, {"name", string()}, {"rate", float64()}};
        spec.routing = Routing::partition("key");
        spec.options.name = "sales";
        return spec;
    }
    void refuses(ChannelSpec const& spec, ErrorCode code,
                 std::initializer_list<std::string> words) {
        expect_error(code, words, [&] { (void)runtime_.create_channel(spec); });
        // What was refused leaves nothing behind.
        EXPECT_NO_THROW(runtime_.delete_channel(runtime_.create_channel(this->spec())));
    }
    Runtime runtime_ = Runtime::local();
    Endpoint a_ = runtime_.create_endpoint("cpu");
    Endpoint b_ = runtime_.create_endpoint("cpu");
};

TEST_F(BadChannel, KeyColumnAbsent) {
    ChannelSpec bad = spec();
    bad.routing = Routing::partition("l_orderkey");
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "l_orderkey", "rate"});
}

TEST_F(BadChannel, ModuloOfWhatIsNoInteger) {
    ChannelSpec bad = spec();
    bad.routing = Routing::partition("rate", Hash::Modulo);
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "rate", "double"});
    bad.routing = Routing::partition("name", Hash::Modulo);
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "name", "string"});
    bad.routing = Routing::partition({"key", "name"}, Hash::Modulo);
    refuses(bad, ErrorCode::InvalidArgument, {"sales"});
}

TEST_F(BadChannel, NoKey) {
    ChannelSpec bad = spec();
    bad.routing = Routing::partition(std::vector<std::string>{});
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "key"});
}

TEST_F(BadChannel, OwnersThatAreNone) {
    ChannelSpec bad = spec();
    bad.routing.owners = {0, 1, 2};
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "part 1", "destination 1"});
    bad.routing.owners.assign(65'536, 0);
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "65536 parts"});
    bad.routing = Routing::broadcast();
    bad.routing.owners = {0};
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "owners"});
}

TEST_F(BadChannel, RangesThatAreNone) {
    ChannelSpec bad = spec();
    bad.destinations = {a_, b_};
    auto const range = [](std::vector<SortKey> const& keys, std::vector<Row> const& rows) {
        Schema const schema{{"key", int64()}, {"name", string(), true}, {"rate", float32()}};
        return Routing::range(keys, make_batch(schema, rows));
    };
    auto const row = [](std::int64_t key, char const* name) {
        return Row{cell(key), name == nullptr ? Cell() : Cell(name), cell(1.5F)};
    };
    bad.routing = range({{"key"}}, {row(1, "a"), row(2, "b")});
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "2 splitters for 2 destinations", "give 1"});
    bad.routing = range({{"key"}}, {});
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "0 splitters for 2 destinations"});
    bad.routing = range({{"rate"}}, {row(1, "a")});
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "'rate' is float", "double"});
    bad.routing = range({{"key"}}, {row(1, "a")});
    bad.routing.order[0].column = "l_orderkey";
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "l_orderkey", "rate"});
    bad.destinations = {a_, b_, runtime_.create_endpoint("cpu")};
    bad.routing = range({{"key"}}, {row(2, "a"), row(1, "b")});
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "splitter 1 comes before splitter 0"});
    bad.routing = range({{"key", true}}, {row(1, "a"), row(2, "b")});
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "splitter 1 comes before splitter 0"});
    bad.routing = range({{"name"}}, {row(1, nullptr), row(2, "b")});
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "splitter 1 comes before splitter 0"});
    bad.routing = range({{"name"}}, {row(1, "a"), row(2, "b")});
    bad.routing.splitters.values[1].begin = 1000;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "Routing::range"});
    bad.routing = range({{"name"}}, {row(1, "a"), row(2, "b")});
    bad.routing.kind = device::RoutingKind::Balance;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "only Range"});
    bad.routing = range({{"name"}}, {row(1, "a"), row(2, "b")});
    bad.schema.reset();
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "schema"});
}

TEST_F(BadChannel, PartitionWithoutSchema) {
    ChannelSpec bad = spec();
    bad.schema.reset();
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "schema"});
}

TEST_F(BadChannel, ImpossibleSchemas) {
    expect_error(ErrorCode::InvalidArgument, {"39"},
                 [] { (void)Schema{{"d", decimal128(39, 0)}}; });
    expect_error(ErrorCode::InvalidArgument, {"0"},
                 [] { (void)Schema{{"b", fixed_size_binary(0)}}; });
}

TEST_F(BadChannel, NoEndpoints) {
    ChannelSpec bad = spec();
    bad.sources.clear();
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "source"});
    bad = spec();
    bad.destinations.clear();
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "destination"});
}

TEST_F(BadChannel, DuplicateEndpoints) {
    ChannelSpec bad = spec();
    bad.sources = {a_, b_, a_};
    refuses(bad, ErrorCode::InvalidArgument, {"sales", std::to_string(a_.id), "twice", "source"});
    bad = spec();
    bad.destinations = {b_, b_};
    refuses(bad, ErrorCode::InvalidArgument, {"sales", std::to_string(b_.id), "twice"});
}

TEST_F(BadChannel, DeletedAndForeignEndpoints) {
    Endpoint const gone = runtime_.create_endpoint("cpu");
    runtime_.delete_endpoint(gone);
    ChannelSpec bad = spec();
    bad.destinations = {b_, gone};
    refuses(bad, ErrorCode::NotFound, {"sales", std::to_string(gone.id)});
    bad.destinations = {Endpoint{4711, 0}};
    refuses(bad, ErrorCode::NotFound, {"sales", "4711"});
    expect_error(ErrorCode::NotFound, {std::to_string(gone.id)},
                 [&] { runtime_.delete_endpoint(gone); });
    expect_error(ErrorCode::NotFound, {std::to_string(gone.id)},
                 [&] { runtime_.launch(gone, {}, [](device::Group const&, device::Shared&) {}); });
}

TEST_F(BadChannel, EndpointInUse) {
    Channel const channel = runtime_.create_channel(spec());
    expect_error(ErrorCode::InvalidArgument, {std::to_string(a_.id), "sales"},
                 [&] { runtime_.delete_endpoint(a_); });
    runtime_.delete_channel(channel);
    EXPECT_NO_THROW(runtime_.delete_endpoint(a_));
}

TEST_F(BadChannel, UnknownDevice) {
    expect_error(ErrorCode::NotFound, {"cuda:7", "cpu:0"},
                 [&] { (void)runtime_.create_endpoint("cuda:7"); });
}

TEST_F(BadChannel, DefaultDeviceIsTheFirstFreeOne) {
    RuntimeOptions options;
    options.cpu_devices = 3;
    options.gpus = false;
    Runtime runtime = Runtime::local(options);
    ASSERT_EQ(runtime.devices().size(), 3U);
    EXPECT_EQ(runtime.create_endpoint().device, 0U);
    Endpoint const second = runtime.create_endpoint("cpu");
    EXPECT_EQ(second.device, 1U);
    EXPECT_EQ(runtime.create_endpoint("cpu:2").device, 2U);
    EXPECT_EQ(runtime.create_endpoint("cpu").device, 0U);
    runtime.delete_endpoint(second);
    EXPECT_EQ(runtime.create_endpoint("cpu").device, 1U);
}

TEST_F(BadChannel, DeletedChannel) {
    Channel const channel = runtime_.create_channel(spec());
    runtime_.delete_channel(channel);
    expect_error(ErrorCode::NotFound, {"sales"}, [&] { runtime_.delete_channel(channel); });
    expect_error(ErrorCode::Deleted, {"sales"}, [&] { (void)channel.on(a_); });
    expect_error(ErrorCode::Deleted, {"sales"}, [&] { (void)channel.sender(a_); });
    expect_error(ErrorCode::Deleted, {"sales"}, [&] { (void)channel.receiver(b_); });
    expect_error(ErrorCode::Deleted, {"sales"}, [&] { channel.check(); });
    EXPECT_EQ(channel.name(), "sales") << "the handle still tells what it was";
    expect_error(ErrorCode::NotFound, {}, [&] { runtime_.delete_channel(Channel()); });
    expect_error(ErrorCode::NotFound, {}, [&] { Channel().check(); });
}

TEST_F(BadChannel, SegmentsThatHoldNoRow) {
    ChannelSpec bad = spec();
    bad.options.segment_bytes = 8;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "segment_bytes", "8"});
}

TEST_F(BadChannel, SegmentsBeyondTheMemoryLimit) {
    RuntimeOptions options;
    options.memory_limit = 1 << 20;
    Runtime small = Runtime::local(options);
    ChannelSpec bad = spec();
    bad.sources = {small.create_endpoint("cpu")};
    bad.destinations = {small.create_endpoint("cpu")};
    bad.options.segment_bytes = 2 << 20;
    expect_error(ErrorCode::InvalidArgument, {"sales", "segment_bytes", "limit"},
                 [&] { (void)small.create_channel(bad); });
}

TEST_F(BadChannel, PoolsBeyondTheMemoryLimit) {
    RuntimeOptions options;
    options.memory_limit = 1 << 20;
    Runtime small = Runtime::local(options);
    ChannelSpec big = spec();
    big.sources = {small.create_endpoint("cpu")};
    big.destinations = {small.create_endpoint("cpu")};
    big.options.segment_bytes = 256 << 10;
    big.options.slots = 64;
    expect_error(ErrorCode::OutOfMemory, {"sales"}, [&] { (void)small.create_channel(big); });
    // All channels together: one after the other until there is no more.
    big.options.segment_bytes = 64 << 10;
    big.options.slots = 4;
    big.options.max_groups = 1;
    big.options.tile_rows = 64;
    std::vector<Channel> channels;
    expect_error(ErrorCode::OutOfMemory, {"sales"}, [&] {
        for (int i = 0; i < 100; ++i) channels.push_back(small.create_channel(big));
    });
    ASSERT_FALSE(channels.empty());
    small.delete_channel(channels.back());
    channels.pop_back();
    EXPECT_NO_THROW(small.create_channel(big)) << "a deleted channel gives its memory back";
}

TEST_F(BadChannel, NumbersThatAreTooLarge) {
    ChannelSpec bad = spec();
    bad.options.segment_rows = 2'000'000;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "segment_rows", "2000000"});
    bad = spec();
    bad.options.tile_rows = 70'000;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "tile_rows", "70000"});
    bad = spec();
    bad.options.text_bytes_per_row = (2U << 30) + 1;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "text_bytes_per_row"});
    bad = spec();
    bad.options.segment_rows = 10;
    bad.options.chunk_rows = 100;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "chunk_rows", "100"});
}

TEST_F(BadChannel, RowsLayoutOfWhatIsNotFixedWidth) {
    ChannelSpec bad = spec();
    bad.options.layout = Layout::Rows;
    refuses(bad, ErrorCode::InvalidArgument, {"name", "string"});
    bad.schema = Schema{{"key", int64()}, {"paid", boolean()}};
    refuses(bad, ErrorCode::InvalidArgument, {"paid", "bool"});
    bad.schema = Schema{{"key", int64(), true}};
    refuses(bad, ErrorCode::InvalidArgument, {"key", "nullable"});
}

TEST_F(BadChannel, OrderedBalance) {
    ChannelSpec bad = spec();
    bad.routing = Routing::balance();
    bad.options.ordered = true;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "Balance", "ordered"});
}

TEST_F(BadChannel, SortersWhereTheyCannotSort) {
    ChannelSpec bad = spec();
    bad.options.sorters = 1;
    bad.options.ordered = true;
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "sorters"});
    bad.options.ordered = false;
    bad.routing = Routing::direct();
    refuses(bad, ErrorCode::InvalidArgument, {"sales", "sorters", "Direct"});
}

TEST_F(BadChannel, LaunchOfNothing) {
    auto const nothing = [](device::Group const&, device::Shared&) {};
    LaunchOptions options;
    options.groups = 0;
    expect_error(ErrorCode::InvalidArgument, {"group"},
                 [&] { runtime_.launch(a_, options, nothing); });
    options.groups = 1;
    options.threads = 0;
    expect_error(ErrorCode::InvalidArgument, {"thread"},
                 [&] { runtime_.launch(a_, options, nothing); });
}

TEST_F(BadChannel, UnknownLogLevel) {
    expect_error(ErrorCode::InvalidArgument, {"loud"}, [] { set_log_level("loud"); });
}

}  // namespace
}  // namespace mgi::test
