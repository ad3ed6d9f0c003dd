// Received batches that are kept: views in place, batches detached into a growing pool.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/expect_error.hpp"
#include "support/flow.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Status;

class Keep : public ::testing::TestWithParam<bool> {
protected:
    void SetUp() override {
        options_.by_reference = GetParam();
        options_.name = "sales";
        options_.segment_rows = 16;
        options_.slots = options_.credits = 2;
        options_.text_bytes_per_row = 32;
    }
    Channel open(Routing const& routing = Routing::broadcast()) {
        ChannelSpec spec;
        spec.sources = {a_};
        spec.destinations = {b_, c_};
        spec.schema = schema_;
        spec.routing = routing;
        spec.options = options_;
        return runtime_->create_channel(spec);
    }
    std::vector<Row> some_rows(std::size_t count) {
        Random random(count);
        return random_rows(schema_, count, random);
    }
    static void add_rows(RecordBatch const& batch, std::vector<std::string>& rows) {
        for (std::int64_t i = 0; i < batch.rows; ++i) rows.push_back(encode_row(batch, i));
    }
    std::optional<Runtime> runtime_ = Runtime::local();
    Endpoint a_ = runtime_->create_endpoint("cpu");
    Endpoint b_ = runtime_->create_endpoint("cpu");
    Endpoint c_ = runtime_->create_endpoint("cpu");
    Schema schema_{{"k", int64(), true}, {"s", string(), true}, {"f", boolean(), true}};
    ChannelOptions options_;
};

TEST_P(Keep, ViewsInPlaceHoldTheirRoom) {
    Channel const channel = open(Routing::direct());
    Sender sender = channel.sender(a_);
    Receiver receiver = channel.receiver(b_);
    auto const rows = some_rows(200);
    RecordBatch const batch = make_batch(schema_, rows);
    std::vector<RecordBatch> held;
    std::int64_t sent = 0;
    for (int i = 0; i < 100; ++i) {
        sent += sender.try_send_to(b_, batch, sent);
        RecordBatch got;
        if (receiver.try_recv(got) == Status::Ok) held.push_back(got);
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_LT(sent, 200) << "held views hold their producers";
    std::vector<std::string> got;
    for (auto const& view : held) add_rows(view, got);
    EXPECT_LT(got.size(), 200U);
    auto copy = held;
    held.clear();
    EXPECT_LT(sender.try_send_to(b_, batch, sent) + sent, 200) << "copies hold it, too";
    copy.clear();
    std::jthread rest([&] {
        sender.send_to(b_, batch.slice(sent, 200 - sent), 20s);
        sender.flush(20s);
    });
    while (auto const more = receiver.recv(20s)) add_rows(*more, got);
    rest.join();
    EXPECT_TRUE(same_rows(got, encode_all(rows)));
    EXPECT_EQ(channel.stats().detached_bytes, 0U);
}

TEST_P(Keep, GrowingPoolTakesWhatIsKept) {
    options_.receive_limit = 8 << 20;
    Channel const channel = open();
    auto const rows = some_rows(1500);
    std::jthread sending([&] {
        Sender sender = channel.sender(a_);
        sender.send(make_batch(schema_, rows), 20s);
        sender.flush(20s);
    });
    std::vector<RecordBatch> kept;
    std::vector<RecordBatch> kept_at_c;
    std::jthread other([&] {
        Receiver at_c = channel.receiver(c_);
        while (auto const batch = at_c.recv(20s)) kept_at_c.push_back(*batch);
    });
    Receiver receiver = channel.receiver(b_);
    while (auto const batch = receiver.recv(20s)) kept.push_back(*batch);
    other.join();
    sending.join();
    std::uint64_t const segment = channel.plan().segment_bytes;
    EXPECT_GE(channel.stats().detached_bytes, kept.size() * segment);
    std::vector<std::string> got;
    for (auto const& batch : kept) add_rows(batch, got);
    EXPECT_TRUE(same_rows(got, encode_all(rows)));
    got.clear();
    for (auto const& batch : kept_at_c) add_rows(batch, got);
    EXPECT_TRUE(same_rows(got, encode_all(rows)));
    kept.clear();
    kept_at_c.clear();
    EXPECT_EQ(channel.stats().detached_bytes, 0U);
}

TEST_P(Keep, AtTheLimitNothingIsLost) {
    Channel const probe = open(Routing::direct());
    options_.receive_limit = 3 * probe.plan().segment_bytes;
    Channel const channel = open(Routing::direct());
    auto const rows = some_rows(500);
    std::jthread sending([&] {
        Sender sender = channel.sender(a_);
        sender.send_to(b_, make_batch(schema_, rows), 20s);
        sender.flush(20s);
    });
    Receiver receiver = channel.receiver(b_);
    std::vector<std::string> got;
    std::vector<RecordBatch> held;
    int refusals = 0;
    for (bool ended = false; !ended;) {
        try {
            auto const batch = receiver.recv(20s);
            ended = !batch.has_value();
            if (ended) break;
            add_rows(*batch, got);
            held.push_back(*batch);
        } catch (Error const& error) {
            ASSERT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
            ASSERT_FALSE(held.empty());
            ++refusals;
            held.clear();
        }
        EXPECT_LE(channel.stats().detached_bytes, options_.receive_limit);
    }
    EXPECT_GT(refusals, 0);
    EXPECT_TRUE(same_rows(got, encode_all(rows)));
}

// A receiver takes a segment to trade before it knows whether there is anything to receive.
TEST_P(Keep, WhoFindsNothingTakesNothingFromOthers) {
    Channel const probe = open(Routing::direct());
    options_.receive_limit = probe.plan().segment_bytes;
    Channel const channel = open(Routing::direct());
    std::atomic<bool> stop{false};
    std::jthread idle([&] {
        Receiver at_c = channel.receiver(c_);
        RecordBatch batch;
        while (!stop.load()) EXPECT_NE(at_c.try_recv(batch), Status::Ok);
    });
    std::size_t const rows = 3000;
    std::jthread sending([&] {
        Sender sender = channel.sender(a_);
        sender.send_to(b_, make_batch(schema_, some_rows(rows)), 20s);
        sender.flush(20s);
    });
    Receiver receiver = channel.receiver(b_);
    std::int64_t got = 0;
    int refusals = 0;
    for (bool ended = false; !ended;) {
        try {
            auto const batch = receiver.recv(20s);
            ended = !batch.has_value();
            if (!ended) got += batch->rows;
        } catch (Error const& error) {
            EXPECT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
            ended = error.code() != ErrorCode::OutOfMemory;
            ++refusals;
        }
    }
    stop = true;
    EXPECT_EQ(got, std::int64_t(rows));
    EXPECT_EQ(refusals, 0);
}

TEST_P(Keep, FailureIsSeenAtTheLimit) {
    Channel const probe = open(Routing::direct());
    options_.receive_limit = probe.plan().segment_bytes;
    Channel const channel = open(Routing::direct());
    Sender sender = channel.sender(a_);
    sender.send_to(b_, make_batch(schema_, some_rows(10)));
    sender.push();
    Receiver receiver = channel.receiver(b_);
    auto const held = receiver.recv(20s);
    ASSERT_TRUE(held.has_value());
    RecordBatch batch;
    EXPECT_EQ(receiver.try_recv(batch), Status::Pending);
    channel.fail(ErrorCode::Interrupted, "the user pressed Ctrl-C");
    expect_error(ErrorCode::Interrupted, {"Ctrl-C"}, [&] { (void)receiver.recv(20s); });
}

TEST_P(Keep, FromAKernel) {
    options_.receive_limit = 4 << 20;
    Channel const channel = open(Routing::direct());
    auto const rows = some_rows(300);
    std::vector<RecordBatch> kept;
    Launch receiving = runtime_->launch(
        b_, {},
        [&](device::Group const& group, device::Shared& shared, device::Channel const& from) {
            for (device::u32 idle = 0;;) {
                device::ReceivedBatch batch;
                Status const status = from.recv(group, shared, batch);
                if (status == Status::Ok) {
                    kept.push_back(channel.keep(b_, batch));
                    idle = 0;
                } else if (status == Status::Pending) {
                    device::backoff(idle++);
                } else {
                    EXPECT_EQ(status, Status::End);
                    return;
                }
            }
        },
        channel.on(b_));
    Sender sender = channel.sender(a_);
    sender.send_to(b_, make_batch(schema_, rows), 20s);
    sender.flush(20s);
    receiving.wait(20s);
    std::vector<std::string> got;
    for (auto const& batch : kept) add_rows(batch, got);
    EXPECT_TRUE(same_rows(got, encode_all(rows)));
}

TEST_P(Keep, KeepSaysWhenTheLimitIsReached) {
    options_.receive_limit = 1;
    Channel const channel = open(Routing::direct());
    Sender sender = channel.sender(a_);
    runtime_
        ->launch(
            b_, {},
            [&](device::Group const& group, device::Shared& shared, device::Channel const& from) {
                std::vector<RecordBatch> kept;
                auto const keep_all = [&] {
                    for (int i = 0; i < 1000; ++i) {
                        (void)sender.try_send_to(b_, make_batch(schema_, some_rows(16)));
                        device::ReceivedBatch batch;
                        if (from.recv(group, shared, batch) == Status::Ok) {
                            kept.push_back(channel.keep(b_, batch));
                        }
                        std::this_thread::sleep_for(1ms);
                    }
                };
                expect_error(ErrorCode::OutOfMemory, {"sales", "receive_limit"}, keep_all);
            },
            channel.on(b_))
        .wait(50s);
}

TEST_P(Keep, BatchesOutliveChannelAndRuntime) {
    for (bool const growing : {true, false}) {
        if (!runtime_) runtime_ = Runtime::local();
        a_ = runtime_->create_endpoint("cpu");
        b_ = runtime_->create_endpoint("cpu");
        c_ = runtime_->create_endpoint("cpu");
        options_.receive_limit = growing ? 1 << 20 : 0;
        auto const rows = some_rows(10);
        std::optional<RecordBatch> batch;
        {
            Channel const channel = open(Routing::direct());
            Sender sender = channel.sender(a_);
            sender.send_to(b_, make_batch(schema_, rows));
            sender.push();
            batch = channel.receiver(b_).recv(20s);
            ASSERT_TRUE(batch.has_value());
            runtime_->delete_channel(channel);
        }
        runtime_.reset();
        std::vector<std::string> got;
        add_rows(*batch, got);
        EXPECT_TRUE(same_rows(got, encode_all(rows)));
    }
}

TEST_P(Keep, RowStructsAreCopiedOut) {
    schema_ = numbered_schema();
    options_.layout = Layout::Rows;
    Channel const channel = open(Routing::direct());
    auto const rows = numbered_rows(100, 10);
    std::vector<RecordBatch> kept;
    std::jthread sending([&] {
        Sender sender = channel.sender(a_);
        sender.send_to(b_, make_batch(schema_, rows), 20s);
        sender.flush(20s);
    });
    Receiver receiver = channel.receiver(b_);
    while (auto const batch = receiver.recv(20s)) kept.push_back(*batch);
    sending.join();
    std::vector<std::string> got;
    for (auto const& batch : kept) add_rows(batch, got);
    EXPECT_TRUE(same_rows(got, encode_all(rows)));
}

INSTANTIATE_TEST_SUITE_P(Transfer, Keep, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
