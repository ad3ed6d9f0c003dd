// Sending and receiving from host code.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "support/expect_error.hpp"
#include "support/flow.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Status;

class HostApi : public ::testing::TestWithParam<bool> {
protected:
    Channel open(Schema const& schema = numbered_schema(),
                 Routing const& routing = Routing::partition("key")) {
        ChannelSpec spec;
        spec.sources = {a_, b_};
        spec.destinations = {b_, c_};
        spec.schema = schema;
        spec.routing = routing;
        spec.options = options_;
        spec.options.by_reference = GetParam();
        spec.options.name = "sales";
        return runtime_.create_channel(spec);
    }
    /// Receives everything that comes at an endpoint until the end.
    static std::vector<std::string> drain(Receiver receiver) {
        std::vector<std::string> rows;
        while (auto const batch = receiver.recv(20s)) {
            for (std::int64_t i = 0; i < batch->rows; ++i) rows.push_back(encode_row(*batch, i));
        }
        return rows;
    }
    Runtime runtime_ = Runtime::local();
    Endpoint a_ = runtime_.create_endpoint("cpu");
    Endpoint b_ = runtime_.create_endpoint("cpu");
    Endpoint c_ = runtime_.create_endpoint("cpu");
    ChannelOptions options_;
};

TEST_P(HostApi, OneThreadOnEitherSide) {
    options_.segment_rows = 16;
    Channel const channel = open();
    auto const rows = numbered_rows(1000, 40);
    std::vector<std::string> at_b;
    std::vector<std::string> at_c;
    std::jthread to_b([&] { at_b = drain(channel.receiver(b_)); });
    std::jthread to_c([&] { at_c = drain(channel.receiver(c_)); });
    Sender first = channel.sender(a_);
    Sender second = channel.sender(b_);
    first.send(make_batch(numbered_schema(), rows));
    second.send(make_batch(numbered_schema(), rows));
    first.flush();
    second.flush();
    to_b.join();
    to_c.join();
    at_b.insert(at_b.end(), at_c.begin(), at_c.end());
    auto expected = encode_all(rows);
    auto const once = expected;
    expected.insert(expected.end(), once.begin(), once.end());
    EXPECT_TRUE(same_rows(at_b, expected));
}

TEST_P(HostApi, OneThreadForAllOfIt) {
    Channel const channel = open(numbered_schema(), Routing::broadcast());
    Sender sender = channel.sender(a_);
    Receiver b = channel.receiver(b_);
    Receiver c = channel.receiver(c_);
    RecordBatch batch;
    EXPECT_EQ(b.try_recv(batch), Status::Pending);
    EXPECT_EQ(sender.try_send(make_batch(numbered_schema(), numbered_rows(5, 5))), 5);
    EXPECT_EQ(b.try_recv(batch), Status::Pending) << "buffered, not pushed";
    sender.push();
    auto const got = b.recv(20s);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->rows, 5);
    EXPECT_EQ(got->values<std::int64_t>(1)[4], 4);
    sender.flush(20s);
    channel.sender(b_).flush(20s);
    EXPECT_EQ(drain(c).size(), 5U);
    EXPECT_EQ(b.recv(20s), std::nullopt);
    EXPECT_EQ(b.recv(20s), std::nullopt) << "the end stays";
}

TEST_P(HostApi, EveryAskGivesTheSameGroup) {
    Channel const channel = open();
    auto const batch = make_batch(numbered_schema(), numbered_rows(3, 3));
    channel.sender(a_).send(batch);
    channel.sender(a_).send(batch);
    channel.sender(a_).flush();
    channel.sender(b_).flush();
    auto rows = drain(channel.receiver(b_));
    auto const more = drain(channel.receiver(c_));
    EXPECT_EQ(rows.size() + more.size(), 6U);
}

TEST_P(HostApi, SeveralGroupsOfOneSourceInOneThread) {
    // The first group's flush must not wait for what this same thread does later.
    Channel const channel = open(numbered_schema(), Routing::partition("key", Hash::Modulo));
    Sender first = channel.sender(a_, 0, 2);
    Sender second = channel.sender(a_, 1, 2);
    auto const batch = make_batch(numbered_schema(), numbered_rows(4, 4));
    first.send(batch);
    first.flush(20s);
    second.send(batch);
    second.flush(20s);
    channel.sender(b_).flush(20s);
    EXPECT_EQ(drain(channel.receiver(b_)).size(), 4U);
    EXPECT_EQ(drain(channel.receiver(c_)).size(), 4U);
}

TEST_P(HostApi, SeveralReceiversShareTheRows) {
    options_.segment_rows = 4;
    options_.slots = 2;
    Channel const channel = open(numbered_schema(), Routing::balance());
    std::vector<std::vector<std::string>> got(4);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] { got[i] = drain(channel.receiver(i < 2 ? b_ : c_, i % 2)); });
    }
    auto const rows = numbered_rows(500, 5);
    channel.sender(b_).flush();
    Sender sender = channel.sender(a_);
    sender.send(make_batch(numbered_schema(), rows));
    sender.flush();
    for (auto& thread : threads) thread.join();
    std::vector<std::string> all;
    for (auto& rows_of_one : got) all.insert(all.end(), rows_of_one.begin(), rows_of_one.end());
    EXPECT_TRUE(same_rows(all, encode_all(rows)));
}

TEST_P(HostApi, AnyEncodingAndOffset) {
    Schema const schema{{"k", string(), true}, {"b", boolean(), true}, {"d", decimal128(9, 1)}};
    options_.text_bytes_per_row = 100;
    Channel const channel = open(schema, Routing::broadcast());
    Random random(3);
    std::vector<Row> rows;
    Sender sender = channel.sender(a_);
    for (int i = 0; i < 10; ++i) {
        auto const some = random_rows(schema, 1 + random.below(30), random);
        sender.send(make_batch(schema, some, random));
        rows.insert(rows.end(), some.begin(), some.end());
    }
    sender.flush();
    channel.sender(b_).flush();
    EXPECT_TRUE(same_rows(drain(channel.receiver(b_)), encode_all(rows)));
    EXPECT_TRUE(same_rows(drain(channel.receiver(c_)), encode_all(rows)));
}

TEST_P(HostApi, RowStructs) {
    struct Sale {
        std::int64_t key;
        std::int64_t value;
    };
    Channel const channel = open(numbered_schema(), Routing::direct());
    std::vector<Sale> const sales{{1, 2}, {3, 4}};
    Sender sender = channel.sender(a_);
    EXPECT_EQ(sender.try_send_rows_to(c_, sales.data(), sizeof(Sale), 2), 2);
    expect_error(ErrorCode::InvalidArgument, {"sales", "16", "12"},
                 [&] { sender.try_send_rows_to(c_, sales.data(), 12, 2); });
    sender.flush();
    channel.sender(b_).flush();
    EXPECT_TRUE(same_rows(drain(channel.receiver(c_)),
                          encode_all({{cell(std::int64_t{1}), cell(std::int64_t{2})},
                                      {cell(std::int64_t{3}), cell(std::int64_t{4})}})));
    EXPECT_TRUE(drain(channel.receiver(b_)).empty());
}

TEST_P(HostApi, SchemaOfTheBatchDiffers) {
    Channel const channel = open();
    Sender sender = channel.sender(a_);
    Schema const other{{"key", int64()}, {"price", int64()}};
    expect_error(ErrorCode::InvalidArgument, {"sales", "price"},
                 [&] { sender.send(make_batch(other, numbered_rows(1, 1))); });
    Schema const narrow{{"key", int32()}, {"value", int64()}};
    expect_error(ErrorCode::InvalidArgument, {"sales", "int32"}, [&] {
        sender.send(make_batch(narrow, {{cell(std::int32_t{1}), cell(std::int64_t{1})}}));
    });
    EXPECT_EQ(sender.try_send(make_batch(numbered_schema(), numbered_rows(1, 1))), 1)
        << "a refused batch harms nothing";
}

TEST_P(HostApi, NullWhereNoneIsAllowed) {
    Channel const channel = open();
    expect_error(ErrorCode::InvalidArgument, {"sales", "value", "nullable"}, [&] {
        channel.sender(a_).send(
            make_batch(numbered_schema(), {{cell(std::int64_t{1}), std::nullopt}}));
    });
}

TEST_P(HostApi, FirstRowOutsideTheBatch) {
    Channel const channel = open();
    auto const batch = make_batch(numbered_schema(), numbered_rows(3, 3));
    for (std::int64_t const first : {std::int64_t{-1}, std::int64_t{4}}) {
        expect_error(ErrorCode::InvalidArgument, {std::to_string(first)},
                     [&] { channel.sender(a_).try_send(batch, first); });
    }
    EXPECT_EQ(channel.sender(a_).try_send(batch, 3), 0);
    EXPECT_EQ(channel.sender(a_).try_send(batch, 1), 2);
}

TEST_P(HostApi, RowTooLarge) {
    options_.segment_rows = 4;
    options_.text_bytes_per_row = 16;
    Schema const schema{{"key", int64()}, {"text", string()}};
    Channel const channel = open(schema, Routing::broadcast());
    Sender sender = channel.sender(a_);
    auto const row = [](std::size_t size) {
        return Row{cell(std::int64_t{1}), std::string(size, 'x')};
    };
    expect_error(ErrorCode::Refused, {"sales", "row 2", "64"},
                 [&] { sender.send(make_batch(schema, {row(3), row(64), row(65)})); });
    sender.send(make_batch(schema, {row(20)}));
    sender.flush(20s);
    channel.sender(b_).flush();
    EXPECT_EQ(drain(channel.receiver(b_)).size(), 3U) << "the rows before it are sent";
}

// Beyond 4 MiB a segment's text is counted in larger units.
TEST_P(HostApi, RowsOfManyMebibytes) {
    constexpr std::size_t kFull = std::size_t{6} << 20;
    options_.segment_rows = 2;
    options_.text_bytes_per_row = kFull / 2;
    options_.slots = options_.max_groups = 2;
    Schema const schema{{"key", int64()}, {"text", string()}};
    Channel const channel = open(schema);
    std::vector<Row> rows;
    for (std::size_t const size : {std::size_t{4} << 20, std::size_t{7}, kFull, std::size_t{100},
                                   (std::size_t{4} << 20) - 1, (std::size_t{4} << 20) + 1}) {
        std::string text(size, char('a' + rows.size()));
        text.back() = '.';
        rows.push_back({cell(std::int64_t(rows.size())), text});
    }
    RecordBatch const batch = make_batch(schema, rows);
    std::vector<std::string> at_b;
    std::vector<std::string> at_c;
    std::jthread to_b([&] { at_b = drain(channel.receiver(b_)); });
    std::jthread to_c([&] { at_c = drain(channel.receiver(c_)); });
    std::vector<std::jthread> senders;
    for (std::uint32_t group = 0; group < 2; ++group) {
        senders.emplace_back([&, group] {
            Sender sender = channel.sender(a_, group, 2);
            sender.send(batch);
            sender.flush(20s);
        });
    }
    Sender other = channel.sender(b_);
    Row const long_one{cell(std::int64_t{1}), std::string(kFull + 1, 'x')};
    expect_error(ErrorCode::Refused, {"sales", "row 0", std::to_string(kFull)},
                 [&] { other.send(make_batch(schema, {long_one})); });
    other.flush(20s);
    senders.clear();
    to_b.join();
    to_c.join();
    at_b.insert(at_b.end(), at_c.begin(), at_c.end());
    std::vector<std::string> expected;
    for (std::int64_t i = 0; i < 2 * batch.rows; ++i) {
        expected.push_back(encode_row(batch, i / 2));
    }
    std::sort(expected.begin(), expected.end());
    std::sort(at_b.begin(), at_b.end());
    EXPECT_TRUE(at_b == expected);  // texts are too long to be printed
}

TEST_P(HostApi, SendAfterFlush) {
    Channel const channel = open();
    Sender sender = channel.sender(a_);
    sender.flush();
    expect_error(ErrorCode::Closed, {"sales", "flush"},
                 [&] { sender.send(make_batch(numbered_schema(), numbered_rows(1, 1))); });
    sender.flush();
}

TEST_P(HostApi, OtherNumberOfGroups) {
    Channel const channel = open();
    auto const batch = make_batch(numbered_schema(), numbered_rows(1, 1));
    channel.sender(a_, 0, 2).send(batch);
    expect_error(ErrorCode::Closed, {"sales"}, [&] { channel.sender(a_, 1, 3).send(batch); });
}

TEST_P(HostApi, TimeoutSaysWhatWasSent) {
    options_.segment_rows = 4;
    options_.slots = options_.credits = 1;
    options_.tile_rows = 4;
    Channel const channel = open(numbered_schema(), Routing::broadcast());
    Sender sender = channel.sender(a_);
    expect_error(ErrorCode::Timeout, {"sales", "of 100"},
                 [&] { sender.send(make_batch(numbered_schema(), numbered_rows(100, 3)), 50ms); });
    expect_error(ErrorCode::Timeout, {"sales", "50"}, [&] { sender.flush(50ms); });
    expect_error(ErrorCode::Timeout, {"sales", "50"}, [&] {
        Receiver receiver = channel.receiver(c_);
        while (receiver.recv(50ms)) {
        }
    });
}

TEST_P(HostApi, SendToOutsideTheDestinations) {
    Channel const channel = open(numbered_schema(), Routing::direct());
    auto const batch = make_batch(numbered_schema(), numbered_rows(1, 1));
    expect_error(ErrorCode::InvalidArgument, {"sales", std::to_string(a_.id)},
                 [&] { channel.sender(a_).send_to(a_, batch); });
    expect_error(ErrorCode::InvalidArgument, {"sales"}, [&] { channel.sender(a_).send(batch); });
    Channel const partitioned = open();
    expect_error(ErrorCode::InvalidArgument, {"sales", "not among its destinations"},
                 [&] { partitioned.sender(a_).send_to(a_, batch); });
    Channel const to_all = open(numbered_schema(), Routing::broadcast());
    expect_error(ErrorCode::InvalidArgument, {"sales", "not among its destinations"},
                 [&] { to_all.sender(a_).send_to(a_, batch); });
    Channel const to_any = open(numbered_schema(), Routing::balance());
    expect_error(ErrorCode::InvalidArgument, {"sales", "Balance", "a Direct channel between"},
                 [&] { to_any.sender(a_).send_to(b_, batch); });
    options_.sorters = 1;
    Channel const sorted = open(numbered_schema(), Routing::broadcast());
    expect_error(ErrorCode::InvalidArgument, {"sales", "sorters", "a Direct channel between"},
                 [&] { sorted.sender(a_).send_to(b_, batch); });
}

TEST_P(HostApi, BroadcastTakesANamedDestination) {
    options_.segment_rows = 64;
    Channel const channel = open(numbered_schema(), Routing::broadcast());
    auto const rows = make_batch(channel.schema(), numbered_rows(100, 1));
    std::vector<std::jthread> sending;
    for (Endpoint const source : {a_, b_}) {
        sending.emplace_back([&, source] {
            Sender sender = channel.sender(source);
            sender.send(rows.slice(0, 30), 20s);
            sender.send_to(c_, rows, 20s);
            sender.send(rows.slice(0, 20), 20s);
            sender.flush(20s);
        });
    }
    std::size_t got = 0;
    std::jthread other([&] { got = drain(channel.receiver(b_)).size(); });
    EXPECT_EQ(drain(channel.receiver(c_)).size(), 300U);
    other.join();
    sending.clear();
    EXPECT_EQ(got, 100U);
    auto const stats = channel.stats();
    EXPECT_EQ(stats.rows, 300U);
    for (auto const& queue : stats.queues) {
        EXPECT_EQ(queue.rows, queue.destination == c_.id ? 300U : 100U);
        EXPECT_EQ(queue.segments, queue.taken);
    }
}

TEST_P(HostApi, PartitionTakesANamedDestination) {
    Channel const channel = open();
    auto const batch = make_batch(channel.schema(), numbered_rows(100, 1));
    Sender first = channel.sender(a_);
    Sender second = channel.sender(b_);
    first.send_to(c_, batch);
    first.flush(20s);
    second.flush(20s);
    EXPECT_EQ(drain(channel.receiver(b_)).size(), 0U);
    EXPECT_EQ(drain(channel.receiver(c_)).size(), 100U);
}

TEST_P(HostApi, NotASourceNotADestination) {
    Channel const channel = open();
    expect_error(ErrorCode::InvalidArgument, {"sales", std::to_string(c_.id), "source"},
                 [&] { (void)channel.sender(c_); });
    expect_error(ErrorCode::InvalidArgument, {"sales", std::to_string(a_.id), "destination"},
                 [&] { (void)channel.receiver(a_); });
    Endpoint const d = runtime_.create_endpoint("cpu");
    expect_error(ErrorCode::InvalidArgument, {"sales", std::to_string(d.id)},
                 [&] { (void)channel.on(d); });
}

TEST_P(HostApi, MoreGroupsThanTheChannelTakes) {
    options_.max_groups = 2;
    Channel const channel = open();
    expect_error(ErrorCode::InvalidArgument, {"sales", "max_groups"},
                 [&] { (void)channel.sender(a_, 0, 3); });
    expect_error(ErrorCode::InvalidArgument, {"sales", "max_groups"},
                 [&] { (void)channel.receiver(b_, 2); });
}

TEST_P(HostApi, MessagesNeedAChannelWithoutSchema) {
    Channel const channel = open();
    expect_error(ErrorCode::InvalidArgument, {"sales", "schema"},
                 [&] { channel.sender(a_).try_send_bytes("x", 1); });
}

INSTANTIATE_TEST_SUITE_P(Transfer, HostApi, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
