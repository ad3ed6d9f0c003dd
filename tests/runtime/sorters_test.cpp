// The second way to send: threads append rows to stage buffers, sorters partition them into lanes.
#include <gtest/gtest.h>

#include <mutex>

#include "support/expect_error.hpp"
#include "support/flow.hpp"
#include "support/kernels.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Group;
using device::ReceivedBatch;
using device::SendResult;
using device::Shared;
using device::Status;

struct SorterCase {
    bool by_reference;
    std::uint32_t sorters;
    std::uint32_t groups;
    std::uint32_t threads;
    std::uint32_t segment_rows;
};

class Sorters : public ::testing::TestWithParam<SorterCase> {
protected:
    void SetUp() override {
        options_.by_reference = GetParam().by_reference;
        options_.sorters = GetParam().sorters;
        options_.segment_rows = GetParam().segment_rows;
        options_.slots = options_.credits = 1;
        options_.text_bytes_per_row = 64;
        options_.name = "sales";
        for (int i = 0; i < 2; ++i) ends_.push_back(runtime_.create_endpoint("cpu"));
    }
    Channel open(Schema const& schema, Routing const& routing) {
        ChannelSpec spec;
        spec.sources = spec.destinations = ends_;
        spec.schema = schema;
        spec.routing = routing;
        spec.options = options_;
        return runtime_.create_channel(spec);
    }
    LaunchOptions shape() {
        LaunchOptions options;
        options.groups = GetParam().groups;
        options.threads = GetParam().threads;
        return options;
    }
    Runtime runtime_ = Runtime::local();
    std::vector<Endpoint> ends_;
    ChannelOptions options_;
};

/// Every thread sends every `step`-th row on its own; then the group receives to the end.
template <class Value>
struct DivergentKernel {
    std::vector<Value> const* rows;
    Schema const* schema;
    std::mutex* mutex;
    std::vector<std::string>* got;

    void operator()(Group const& group, Shared& shared, device::Channel const& channel) const {
        std::size_t const step = group.blocks * group.threads;
        Yields yields(group.block * 10 + group.thread, 30);
        for (std::size_t i = group.block * group.threads + group.thread; i < rows->size();
             i += step) {
            for (device::u32 idle = 0;; ++idle) {
                SendResult const result = channel.send_row(group, (*rows)[i]);
                ASSERT_NE(result.status, Status::Error);
                if (result.rows == 1) break;
                // Nobody else of this group receives now: what is staged moves on by itself, as far
                // as lanes go. So tests with long inputs use receivers of their own.
                device::backoff(idle);
            }
            yields();
        }
        group.sync();
        bool flushed = false;
        for (device::u32 idle = 0;;) {
            if (!flushed) flushed = channel.flush(group, shared) == Status::Ok;
            ReceivedBatch batch;
            Status const status = channel.recv(group, shared, batch);
            if (status == Status::Ok) {
                {
                    std::lock_guard const lock(*mutex);
                    for (std::uint32_t i = group.thread; i < batch.rows; i += group.threads) {
                        got->push_back(encode_row(batch, *schema, i));
                    }
                }
                channel.release(group, shared, batch);
                idle = 0;
            } else if (status == Status::Pending) {
                device::backoff(idle++);
            } else {
                ASSERT_EQ(status, Status::End);
                break;
            }
        }
        if (!flushed) {
            EXPECT_EQ(channel.flush_wait(group, shared), Status::Ok);
        }
    }
};

TEST_P(Sorters, DivergentThreadsSendRows) {
    options_.slots = options_.credits = 64;  // lanes hold all of it
    options_.segment_rows = 32;
    Schema const schema = numbered_schema();
    Channel const channel = open(schema, Routing::partition("key"));
    std::vector<KeyValue> rows;
    std::vector<std::string> expected;
    for (std::int64_t i = 0; i < 500; ++i) rows.push_back({i % 37, i});
    for (int copy = 0; copy < 2; ++copy) {
        for (auto const& row : rows) expected.push_back(encode({cell(row.key), cell(row.value)}));
    }
    std::mutex mutex;
    std::vector<std::string> got;
    std::vector<Launch> launches;
    for (Endpoint const end : ends_) {
        launches.push_back(runtime_.launch(end, shape(),
                                           DivergentKernel<KeyValue>{&rows, &schema, &mutex, &got},
                                           channel.on(end)));
    }
    wait_for(launches, channel);
    EXPECT_TRUE(same_rows(got, expected));
}

TEST_P(Sorters, TextsThroughStageBuffers) {
    struct Named {
        device::RowBytes name;
        std::int64_t value;
    };
    options_.slots = options_.credits = 64;
    options_.segment_rows = 32;
    Schema const schema{{"name", string(), true}, {"value", int64()}};
    Channel const channel = open(schema, Routing::partition("name"));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < 200; ++i) names.push_back(std::string(i % 60, char('a' + i % 26)));
    std::vector<Named> rows;
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < names.size(); ++i) {
        rows.push_back({{names[i].data(), names[i].size()}, std::int64_t(i)});
    }
    for (int copy = 0; copy < 2; ++copy) {
        for (std::size_t i = 0; i < names.size(); ++i) {
            expected.push_back(encode({names[i], cell(std::int64_t(i))}));
        }
    }
    std::mutex mutex;
    std::vector<std::string> got;
    std::vector<Launch> launches;
    for (Endpoint const end : ends_) {
        launches.push_back(runtime_.launch(
            end, shape(), DivergentKernel<Named>{&rows, &schema, &mutex, &got}, channel.on(end)));
    }
    wait_for(launches, channel);
    EXPECT_TRUE(same_rows(got, expected));
}

// The collective send works on such channels as on others, pools of the smallest size included.
TEST_P(Sorters, CollectiveSendThroughStageBuffers) {
    for (auto const& routing :
         {Routing::partition("key"), Routing::broadcast(), Routing::balance()}) {
        FlowSetup flow;
        flow.schema = {{"key", int32(), true}, {"name", string(), true}, {"flag", boolean()}};
        flow.routing = routing;
        flow.options = options_;
        flow.groups = GetParam().groups;
        flow.threads = GetParam().threads;
        flow.yields = 10;
        flow.fill(150);
        SCOPED_TRACE(describe(flow));
        run_and_check(flow);
    }
}

TEST_P(Sorters, RangesThroughStageBuffers) {
    FlowSetup flow;
    flow.schema = {{"key", int32(), true}, {"name", string(), true}, {"flag", boolean()}};
    flow.options = options_;
    flow.destinations = 3;
    flow.groups = GetParam().groups;
    flow.threads = GetParam().threads;
    flow.yields = 10;
    flow.fill(150);
    Random random(5);
    flow.route_by_range(random);
    SCOPED_TRACE(describe(flow));
    run_and_check(flow);
}

TEST_P(Sorters, RowsLayout) {
    FlowSetup flow;
    flow.options = options_;
    flow.options.layout = Layout::Rows;
    flow.structs = true;
    flow.groups = GetParam().groups;
    flow.threads = GetParam().threads;
    flow.rows.assign(2, std::vector<std::vector<Row>>(flow.groups, numbered_rows(100, 9)));
    run_and_check(flow);
}

TEST_P(Sorters, SendRowNeedsSorters) {
    options_.sorters = 0;
    Channel const channel = open(numbered_schema(), Routing::partition("key"));
    runtime_
        .launch(
            ends_[0], {},
            [](Group const& group, Shared& shared, device::Channel const& to) {
                EXPECT_EQ(to.send_row(group, KeyValue{1, 2}).code, ErrorCode::InvalidArgument);
                EXPECT_EQ(to.flush_wait(group, shared), Status::Ok);
            },
            channel.on(ends_[0]))
        .wait(20s);
}

TEST_P(Sorters, FromHostCode) {
    options_.slots = options_.credits = 8;
    options_.segment_rows = 64;
    Channel const channel = open(numbered_schema(), Routing::broadcast());
    Sender sender = channel.sender(ends_[0]);
    sender.send(make_batch(numbered_schema(), numbered_rows(100, 10)), 20s);
    sender.flush(20s);
    channel.sender(ends_[1]).flush(20s);
    Receiver receiver = channel.receiver(ends_[1]);
    std::int64_t rows = 0;
    while (auto const batch = receiver.recv(20s)) rows += batch->rows;
    EXPECT_EQ(rows, 100);
}

TEST_P(Sorters, DeletedWhileTheySort) {
    Channel const channel = open(numbered_schema(), Routing::partition("key"));
    Launch launch = runtime_.launch(
        ends_[0], shape(),
        [](Group const& group, Shared& shared, device::Channel const& to) {
            auto const send = [&](auto const& batch) { return to.send(group, shared, batch); };
            EXPECT_EQ(send_until_it_fails(64, 9, send), ErrorCode::Deleted);
        },
        channel.on(ends_[0]));
    std::this_thread::sleep_for(20ms);
    runtime_.delete_channel(channel);
    launch.wait(20s);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Sorters,
                         ::testing::Values(SorterCase{true, 1, 1, 1, 1},
                                           SorterCase{true, 2, 3, 2, 7},
                                           SorterCase{true, 3, 2, 4, 40},
                                           SorterCase{false, 1, 1, 1, 1},
                                           SorterCase{false, 2, 3, 2, 7}));

}  // namespace
}  // namespace mgi::test
