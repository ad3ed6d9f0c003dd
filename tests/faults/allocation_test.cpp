// Every allocation of an operation fails once: an error everywhere, nothing lost, the process usable.
#include <gtest/gtest.h>

#include <mgi/arrow_abi.hpp>
#include <mgi/operators.hpp>
#include <mgi/runtime.hpp>

#include "faults/failing_allocations.hpp"
#include "support/flow.hpp"
#include "support/hang_guard.hpp"
#include "support/one_device.hpp"
#include "support/tables.hpp"

namespace mgi::faults {
namespace {

using namespace std::chrono_literals;
using device::Status;
using test::KeyValue;

constexpr std::size_t kRows = 64;
constexpr auto kLimit = 20s;

// Two endpoints and a channel between them, tiny.
struct Pair {
    Runtime runtime = Runtime::local(test::one_device());
    Endpoint a = runtime.create_endpoint("cpu");
    Endpoint b = runtime.create_endpoint("cpu");

    Channel open(bool by_reference, std::uint64_t receive_limit = 0, std::uint32_t sorters = 0) {
        ChannelSpec spec;
        spec.sources = {a};
        spec.destinations = {b};
        spec.schema = test::numbered_schema();
        spec.routing = Routing::partition("key");
        spec.options.by_reference = by_reference;
        spec.options.segment_rows = 16;
        spec.options.slots = spec.options.credits = 2;
        spec.options.max_groups = 2;
        spec.options.receive_limit = receive_limit;
        spec.options.sorters = sorters;
        spec.options.gone_limit = 2000ms;
        return runtime.create_channel(spec);
    }
};

RecordBatch const& numbers() {
    static RecordBatch const batch =
        test::make_batch(test::numbered_schema(), test::numbered_rows(kRows, 9));
    return batch;
}

// Sends all of `rows` and flushes; nothing of its own is allocated.
void send_all(device::Group const& group, device::Shared& shared, device::Channel const& channel) {
    KeyValue rows[kRows];
    for (std::size_t i = 0; i < kRows; ++i) rows[i] = {std::int64_t(i % 9), std::int64_t(i)};
    std::uint64_t sent = 0;
    for (device::u32 round = 0; sent < kRows; ++round) {
        auto const result = channel.send_rows(group, shared, rows + sent, kRows - sent);
        if (result.status == Status::Error) return;
        sent += result.rows;
        device::backoff(round);
    }
    (void)channel.flush_wait(group, shared);
}

void receive_all(device::Group const& group, device::Shared& shared,
                 device::Channel const& channel) {
    for (device::u32 round = 0;; ++round) {
        device::ReceivedBatch batch;
        Status const status = channel.recv(group, shared, batch);
        if (status == Status::Ok) {
            channel.release(group, shared, batch);
        } else if (status != Status::Pending) {
            return;
        }
        device::backoff(round);
    }
}

// Deletes a channel at the end of a scope.
class OpenedPair {
public:
    OpenedPair(Pair& pair, Channel channel) : pair_(pair), channel_(std::move(channel)) {}
    OpenedPair(OpenedPair const&) = delete;
    OpenedPair& operator=(OpenedPair const&) = delete;
    ~OpenedPair() {
        try {
            close();
        } catch (std::exception const&) {
            // The allocation that failed was the deletion's own: the pair's end deletes it.
        }
    }
    void close() {
        if (open_) pair_.runtime.delete_channel(channel_);
        open_ = false;
    }
    Channel const* operator->() const { return &channel_; }

private:
    Pair& pair_;
    Channel const channel_;
    bool open_ = true;
};

// Both ends must be told; the first error is thrown on.
void exchange_by_launch(Pair& pair, bool by_reference, std::uint32_t sorters) {
    OpenedPair channel(pair, pair.open(by_reference, 0, sorters));
    LaunchOptions threads;
    threads.threads = 2;
    std::vector<Launch> launches;
    launches.reserve(2);
    std::exception_ptr failure;
    try {
        launches.push_back(pair.runtime.launch(pair.a, threads, send_all, channel->on(pair.a)));
        launches.push_back(pair.runtime.launch(pair.b, threads, receive_all, channel->on(pair.b)));
    } catch (...) {
        // A launch that never came about: its partner is told by the channel's deletion.
        failure = std::current_exception();
        channel.close();
    }
    for (Launch& launch : launches) {
        try {
            launch.wait(kLimit);
        } catch (...) {
            if (failure == nullptr) failure = std::current_exception();
        }
    }
    if (failure != nullptr) std::rethrow_exception(failure);
    channel->check();
    if (channel->stats().rows != kRows) throw std::runtime_error("rows are missing");
    channel.close();
}

void exchange_by_host(Pair& pair, bool by_reference, std::uint64_t receive_limit) {
    OpenedPair channel(pair, pair.open(by_reference, receive_limit));
    Sender sender = channel->sender(pair.a);
    Receiver receiver = channel->receiver(pair.b);
    std::vector<RecordBatch> kept;
    std::int64_t sent = 0;
    std::int64_t got = 0;
    bool flushed = false;
    auto const deadline = std::chrono::steady_clock::now() + kLimit;
    for (device::u32 round = 0;; ++round) {
        if (sent < numbers().rows) {
            sent += sender.try_send(numbers(), sent);
        } else if (!flushed) {
            flushed = sender.try_flush();
        }
        RecordBatch batch;
        Status const status = receiver.try_recv(batch);
        if (status == Status::End) break;
        if (status == Status::Ok) {
            got += batch.rows;
            if (receive_limit != 0) kept.push_back(std::move(batch));
        }
        device::backoff(round % 64);
        if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("it hangs");
    }
    if (got != numbers().rows) throw std::runtime_error("rows are missing");
    channel.close();
}

TEST(Allocation, Runtime) {
    fail_each_allocation([] {
        Runtime runtime = Runtime::local(test::one_device());
        Endpoint const endpoint = runtime.create_endpoint("cpu");
        runtime.delete_endpoint(endpoint);
    });
}

TEST(Allocation, Channel) {
    Pair pair;
    for (bool const by_reference : {true, false}) {
        fail_each_allocation([&] { pair.runtime.delete_channel(pair.open(by_reference)); });
    }
    fail_each_allocation([&] { pair.runtime.delete_channel(pair.open(true, 1 << 20)); });
}

TEST(Allocation, ChannelWithSorters) {
    Pair pair;
    fail_each_allocation([&] { pair.runtime.delete_channel(pair.open(true, 0, 1)); });
}

TEST(Allocation, RuntimeWithChannels) {
    fail_each_allocation([] {
        Pair pair;
        (void)pair.open(true);
        (void)pair.open(false);
    });
}

TEST(Allocation, Launches) {
    Pair pair;
    fail_each_allocation([&] { exchange_by_launch(pair, true, 0); });
}

TEST(Allocation, LaunchesByCopy) {
    Pair pair;
    fail_each_allocation([&] { exchange_by_launch(pair, false, 0); });
}

TEST(Allocation, LaunchesWithSorters) {
    Pair pair;
    fail_each_allocation([&] { exchange_by_launch(pair, true, 1); });
}

TEST(Allocation, HostGroups) {
    Pair pair;
    for (bool const by_reference : {true, false}) {
        for (std::uint64_t const limit : {0, 1 << 20}) {
            fail_each_allocation([&] { exchange_by_host(pair, by_reference, limit); });
        }
    }
}

TEST(Allocation, Stats) {
    Pair pair;
    Channel const channel = pair.open(true);
    fail_each_allocation([&] {
        (void)channel.stats();
        (void)pair.runtime.devices();
    });
}

TEST(Allocation, Arrow) {
    test::Random random(3);
    Schema const schema{{"n", int64()}, {"text", string()}, {"flag", boolean()}};
    Table table;
    table.schema = schema;
    for (int i = 0; i < 2; ++i) {
        table.batches.push_back(
            test::make_batch(schema, test::random_rows(schema, 20, random), random));
    }
    fail_each_allocation([&] {
        ArrowArrayStream stream{};
        export_stream(table, &stream);
        Table const back = import_stream(&stream);
        if (back.rows() != table.rows()) throw std::runtime_error("rows are missing");
    });
    fail_each_allocation([&] {
        ArrowArray array{};
        ArrowSchema columns{};
        export_batch(table.batches[0], &array);
        try {
            export_schema(table.batches[0], &columns);
        } catch (...) {
            array.release(&array);
            throw;
        }
        (void)import_batch(&array, &columns);
    });
}

class Operators : public ::testing::Test {
protected:
    Table part(std::int64_t first) {
        Table table;
        table.schema = {{"key", int64()}, {"value", int64()}, {"text", string()}};
        std::vector<test::Row> rows = test::numbered_rows(200, 17, first);
        for (auto& row : rows) row.emplace_back("a text past twelve characters");
        table.batches.push_back(test::make_batch(table.schema, rows));
        return table;
    }
    Runtime runtime_ = Runtime::local(test::one_device());
    std::vector<Endpoint> endpoints_{runtime_.create_endpoint("cpu"),
                                     runtime_.create_endpoint("cpu")};
    std::vector<Table> parts_{part(0), part(200)};
};

TEST_F(Operators, Exchange) {
    fail_each_allocation(
        [&] {
            auto const out = exchange(runtime_, endpoints_, parts_, {"key"});
            if (out[0].rows() + out[1].rows() != 400) throw std::runtime_error("rows are missing");
        },
        100);
}

TEST_F(Operators, GroupBy) {
    fail_each_allocation(
        [&] {
            auto const out = group_by(runtime_, endpoints_, parts_, {"key"},
                                      {{AggregateFunction::Sum, "value", "sum"}});
            if (out[0].rows() + out[1].rows() != 17) throw std::runtime_error("groups are missing");
        },
        100);
}

TEST_F(Operators, Join) {
    JoinSpec spec;
    spec.left_keys = spec.right_keys = {"value"};
    fail_each_allocation(
        [&] {
            auto const out = join(runtime_, endpoints_, parts_, parts_, spec);
            if (out[0].rows() + out[1].rows() != 400) throw std::runtime_error("rows are missing");
        },
        100);
}

}  // namespace
}  // namespace mgi::faults
