// Operators whose memory a caller's allocator provides: all of it, and all of it comes back, wherever the allocator fails.
#include <gtest/gtest.h>

#include "operators/gpu/group_by.hpp"
#include "operators/gpu/join.hpp"
#include "operators/host_pool.hpp"
#include "operators/host_tables.hpp"
#include "operators/host_windows.hpp"
#include "operators/job.hpp"
#include "support/expect_error.hpp"
#include "support/hang_guard.hpp"

namespace mgi::operators::on_gpu {
namespace {

using test::HostPool;

struct PoolCase {
    std::uint32_t endpoints;
    bool in_streams;
    bool by_reference;
};

class OperatorsFromAPool : public testing::TestWithParam<PoolCase> {
protected:
    using Call = std::function<std::vector<GpuTable>(Operation&)>;

    OperatorsFromAPool() {
        for (std::uint32_t e = 0; e < GetParam().endpoints; ++e) {
            endpoints_.push_back(runtime_.create_endpoint("cpu:" + std::to_string(e % 2)));
        }
        processes_ = processes_of(runtime_, endpoints_);
        options_.by_reference = GetParam().by_reference;
        options_.gpu_allocator = pool_.allocator(GetParam().in_streams);
        options_.gpu_streams = {{-1, &stream_}};
    }

    std::vector<GpuTable> run(Call const& call) {
        Operation operation(*processes_, "from a pool", runtime_, endpoints_, options_, places_,
                            &report_);
        return operation.perform([&] { return call(operation); });
    }
    [[nodiscard]] std::vector<GpuTable> parts_of(PlainTable const& table) const {
        std::size_t const count = endpoints_.size();
        std::size_t const rows = table.rows.size();
        std::vector<GpuTable> parts;
        for (std::size_t e = 0; e < count; ++e) {
            std::size_t const first = rows * e / count;
            parts.push_back(on_host(batch_of(table, first, rows * (e + 1) / count - first)));
        }
        return parts;
    }
    static Rows rows_in(std::vector<GpuTable> const& tables) {
        Rows rows;
        for (GpuTable const& table : tables) {
            for (Row& row : rows_of(batch_of_result(table))) rows.push_back(std::move(row));
        }
        return sorted(rows);
    }
    // Each operator with the rows that it must come to; groups of many keys, and of few, which are folded first.
    std::vector<std::pair<Call, Rows>> calls() {
        std::vector<Aggregate> const sums{{AggregateFunction::Sum, "x", "sum"},
                                          {AggregateFunction::Count, "", "rows"}};
        JoinSpec const spec{{"key"}, {"id"}, {"key", "x"}, {"y"}};
        std::vector<std::pair<Call, Rows>> all;
        for (bool const few : {false, true}) {
            auto const parts = parts_of(few ? few_ : many_);
            all.emplace_back([=](Operation& on) { return group_by_on(on, parts, {"key"}, sums); },
                             sorted(test::plain::group_by(few ? few_ : many_, {"key"}, sums)));
        }
        all.emplace_back([=, left = parts_of(many_), right = parts_of(right_)](
                             Operation& on) { return join_on(on, left, right, spec); },
                         sorted(test::plain::join(many_, right_, spec.left_keys, spec.right_keys,
                                                  spec.left_columns, spec.right_columns)));
        if (endpoints_.size() > 1) {
            all.emplace_back([parts = parts_of(many_)](
                                 Operation& on) { return exchange_on(on, parts, {"key"}); },
                             sorted(many_.rows));
        }
        return all;
    }

    Schema const schema_{{"key", int64(), true}, {"x", int32(), true}, {"flag", boolean()}};
    PlainTable const many_ = random_table(schema_, 900, 1u << 30, 31);
    PlainTable const few_ = random_table(schema_, 900, 7, 32);
    PlainTable const right_ = [this] {
        PlainTable table{Schema{{"id", int64()}, {"y", boolean(), true}}, {}};
        for (std::size_t i = 0; i < 300; ++i) {
            table.rows.push_back({{true, many_.rows[i * 3][0].word}, {i % 5 != 0, i % 5 % 2}});
        }
        return table;
    }();
    int stream_ = 0;
    HostPool pool_;
    Runtime runtime_ = runtime_of_cpus(2);
    std::vector<Endpoint> endpoints_;
    std::unique_ptr<Processes> processes_;
    OperatorOptions options_;
    Operation::MakePlace places_ = places_on_host(1);
    OperatorReport report_;
};

TEST_P(OperatorsFromAPool, HaveAllMemoryOfItAndGiveItBack) {
    for (auto const& [call, expected] : calls()) {
        int const in_stream = pool_.came_in(&stream_);
        auto results = run(call);
        expect_same(rows_in(results), expected);
        // Whatever else it was has come back.
        EXPECT_EQ(pool_.out(), results.size());
        for (GpuTable const& result : results) EXPECT_TRUE(pool_.has(result.owner.get()));
        EXPECT_EQ(pool_.came_in(&stream_), in_stream) << "nothing but results is given back there";
        std::size_t const tables = results.size();
        GpuTable const one = results[0].slice(0, 1);
        results.clear();
        EXPECT_EQ(pool_.out(), 1);
        EXPECT_EQ(pool_.came_in(&stream_) - in_stream, GetParam().in_streams ? int(tables) - 1 : 0);
    }
    EXPECT_EQ(pool_.out(), 0);
}

TEST_P(OperatorsFromAPool, FailWithoutALeakWhicheverAllocationFails) {
    for (auto const& [call, expected] : calls()) {
        pool_.throw_at(1 << 30);
        expect_same(rows_in(run(call)), expected);
        int const calls = pool_.calls();
        ASSERT_GT(calls, 3);
        for (int bad = 0; bad < calls; bad += test::kSanitized ? 5 : 1) {
            SCOPED_TRACE("from call " + std::to_string(bad) + " of " + std::to_string(calls));
            pool_.throw_at(bad);
            test::expect_error(ErrorCode::OutOfMemory,
                               {"the host", " takes ", "gpu_allocator", "the pool is dry"},
                               [&] { (void)run(call); });
            ASSERT_EQ(pool_.out(), 0);
            // One alone is made good by asking once more.
            pool_.throw_at(bad, 1);
            expect_same(rows_in(run(call)), expected);
            ASSERT_EQ(pool_.out(), 0);
        }
    }
}

// As from pools of several GPUs that nobody has given access to each other's.
TEST_P(OperatorsFromAPool, SendRowsWhereMemoryIsClosed) {
    struct ClosedPlace final : HostPlace {
        using HostPlace::HostPlace;
        [[nodiscard]] bool reaches_memory(Place const& other, void*) const override {
            return this == &other;
        }
    };
    places_ = [](Device const&, PlaceOptions const& options) {
        return std::make_unique<ClosedPlace>(2, 1, options);
    };
    for (auto const& [call, expected] : calls()) {
        report_ = {};
        expect_same(rows_in(run(call)), expected);
        EXPECT_EQ(report_.channels.empty(), endpoints_.size() == 1);
        EXPECT_EQ(pool_.out(), 0);
    }
}

TEST_P(OperatorsFromAPool, StayWithinTheirLimit) {
    options_.receive_limit = 3000;
    test::expect_error(ErrorCode::OutOfMemory, {"receive_limit"},
                       [&] { (void)run(calls()[0].first); });
    EXPECT_EQ(pool_.out(), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, OperatorsFromAPool,
                         testing::Values(PoolCase{1, false, true}, PoolCase{1, true, true},
                                         PoolCase{3, false, true}, PoolCase{3, true, true},
                                         PoolCase{3, true, false}),
                         [](auto const& of) {
                             return std::to_string(of.param.endpoints) + "Endpoints" +
                                    (of.param.in_streams ? "InStreams" : "") +
                                    (of.param.by_reference ? "" : "ByAChannel");
                         });

TEST(OperatorsFromAPoolOfTheRuntime, TakeItWhereTheirOptionsNameNone) {
    HostPool const of_runtime;
    HostPool const of_options;
    std::vector<GpuTable> kept;
    {
        RuntimeOptions options;
        options.cpu_devices = 1;
        options.pin = false;
        options.gpus = false;
        options.gpu_allocator = of_runtime.allocator();
        Runtime runtime = Runtime::local(options);
        std::vector<Endpoint> const endpoints{runtime.create_endpoint("cpu:0")};
        auto const processes = processes_of(runtime, endpoints);
        PlainTable const table = random_table(Schema{{"key", int64()}}, 100, 20, 33);
        std::vector<GpuTable> const parts{on_host(batch_of(table, 0, table.rows.size()))};
        for (bool const named : {false, true}) {
            OperatorOptions wanted;
            if (named) wanted.gpu_allocator = of_options.allocator();
            Operation operation(*processes, "group_by", runtime, endpoints, wanted,
                                places_on_host(1));
            kept.push_back(group_by_on(operation, parts, {"key"}, {})[0]);
        }
    }
    // Of a result the memory outlives the runtime.
    EXPECT_EQ(of_runtime.out(), 1);
    EXPECT_EQ(of_options.out(), 1);
    kept.clear();
    EXPECT_EQ(of_runtime.out() + of_options.out(), 0);
}

TEST(OperatorsFromAPoolOfTheRuntime, NeedBothFunctionsOfAPair) {
    GpuAllocator half = HostPool().allocator(true);
    half.deallocate_in_stream = nullptr;
    test::expect_error(ErrorCode::InvalidArgument, {"gpu_allocator", "deallocate_in_stream"},
                       [&] { (void)callers_allocator(half, {}); });
    // Channels cannot do with a stream's order.
    RuntimeOptions options;
    options.gpus = false;
    options.gpu_allocator = HostPool().allocator(true);
    test::expect_error(ErrorCode::InvalidArgument, {"gpu_allocator", "no function allocate"},
                       [&] { (void)Runtime::local(options); });
}

TEST(OperatorsBehindStreams, RefuseStreamsOfOtherGpusAlone) {
    Runtime runtime = runtime_of_cpus(2);
    std::vector<Endpoint> const endpoints{runtime.create_endpoint("cpu:0")};
    auto const processes = processes_of(runtime, endpoints);
    int stream = 0;
    auto const call = [&](std::map<int, void*> const& streams) {
        OperatorOptions options;
        options.gpu_streams = streams;
        Operation const operation(*processes, "join", runtime, endpoints, options,
                                  places_on_host(1));
    };
    test::expect_error(ErrorCode::InvalidArgument,
                       {"join: gpu_streams has streams for 1, 3,", "endpoints are on cpu:0;"},
                       [&] { call({{1, &stream}, {3, &stream}}); });
    // A host's place has the number -1. Streams of further GPUs are nobody's harm.
    call({{-1, &stream}, {3, &stream}});
    call({});
}

// Where a call has no stream of the caller's to work in, the allocator's plain pair serves it, if there is one.
TEST(CallersMemory, IsTakenInTheCallersStreamAlone) {
    HostPool const pool;
    GpuAllocator both = pool.allocator();
    GpuAllocator const in_streams = pool.allocator(true);
    both.allocate_in_stream = in_streams.allocate_in_stream;
    both.deallocate_in_stream = in_streams.deallocate_in_stream;
    int ours = 0;
    int callers = 0;
    int waits = 0;
    // Where memory came back: of the call, and of a result.
    auto const came_back = [&](GpuAllocator const& from, std::optional<void*> stream) {
        CallersMemory::Site site;
        site.on_gpu = false;
        site.stream = stream.value_or(&ours);
        site.callers = stream;
        site.wait = [&] { ++waits; };
        auto const memory =
            std::make_shared<CallersMemory>(callers_allocator(from, GpuAllocator()), site);
        auto scratch = memory->take(100, "a plan");
        auto result = memory->take(100, "rows");
        scratch.reset();
        memory->end_call();
        result.reset();
        return std::vector<int>{pool.came_in(&callers), pool.came_in(&ours), pool.came_in(nullptr)};
    };
    EXPECT_EQ(came_back(both, &callers), (std::vector<int>{2, 0, 0}));
    EXPECT_EQ(waits, 0);
    EXPECT_EQ(came_back(both, std::nullopt), (std::vector<int>{2, 0, 2}));
    EXPECT_EQ(waits, 1);
    // The call's own stream is no more when a result goes.
    EXPECT_EQ(came_back(in_streams, std::nullopt), (std::vector<int>{2, 1, 3}));
    EXPECT_EQ(waits, 1);
}

TEST(CallersMemory, IsGivenBackBehindWhatUsesIt) {
    HostPool const pool;
    int waits = 0;
    int trims = 0;
    CallersMemory::Site site;
    site.name = "cuda:0";
    site.on_gpu = false;
    site.wait = [&] { ++waits; };
    site.trim = [&] { ++trims; };
    auto const memory =
        std::make_shared<CallersMemory>(callers_allocator(pool.allocator(), GpuAllocator()), site);
    auto first = memory->take(0, "nothing");
    auto second = memory->take(1000, "rows");
    pool.throw_at(0, 1);
    auto third = memory->take(1000, "more rows");
    EXPECT_EQ(trims, 1);
    pool.throw_at(0);
    test::expect_error(ErrorCode::OutOfMemory,
                       {"cuda:0: yet more takes 1024 bytes", "the pool is dry"},
                       [&] { (void)memory->take(1000, "yet more"); });
    EXPECT_EQ(waits, 0);
    first.reset();
    EXPECT_EQ(waits, 1);
    memory->end_call();
    second.reset();
    third.reset();
    EXPECT_EQ(waits, 1) << "nothing uses a result any more";
    EXPECT_EQ(pool.out(), 0);
}

// What other processes write into is not the allocator's, and results are.
class ExchangeBetweenPools : public testing::Test {
protected:
    std::vector<test::Came> run(test::Job& job) {
        return job.run([&](test::ThreadAsProcess& process, std::size_t me) {
            auto const windows = std::make_shared<HostWindows>(true);
            process.windows_of = [windows] { return windows; };
            OperatorOptions options;
            options.gpu_allocator = pools_[me].allocator(true);
            std::vector<GpuTable> parts(2);
            parts[me] = on_host(batch_of(table_, me * 1500, 1500));
            Operation operation(process, "exchange", job.runtime(), job.endpoints(), options,
                                places_on_host(1));
            auto const results =
                operation.perform([&] { return exchange_on(operation, parts, {"key"}); });
            EXPECT_TRUE(pools_[me].has(results[me].owner.get()));
            EXPECT_TRUE(windows->all_closed());
            return std::vector<Table>{{results[0].schema, {batch_of_result(results[0])}},
                                      {results[1].schema, {batch_of_result(results[1])}}};
        });
    }

    PlainTable const table_ =
        random_table(Schema{{"key", int64(), true}, {"x", boolean()}}, 3000, 1u << 30, 34);
    HostPool pools_[2];
};

TEST_F(ExchangeBetweenPools, CopiesResultsOutOfWindows) {
    test::Job job{2, {0, 1}};
    auto came = run(job);
    Rows rows;
    for (Table const& result : job.result(came)) {
        for (RecordBatch const& batch : result.batches) {
            for (Row& row : rows_of(batch)) rows.push_back(std::move(row));
        }
    }
    expect_same(sorted(rows), sorted(table_.rows));
    came.clear();
    // One that has no room for its copy.
    pools_[1].throw_at(pools_[1].calls() - 1);
    test::Job another{2, {0, 1}};
    auto const texts = test::texts_of(run(another), ErrorCode::OutOfMemory);
    test::expect_words(texts[0], {"rank 1 has failed", "the pool is dry"});
    EXPECT_EQ(pools_[0].out() + pools_[1].out(), 0);
}

}  // namespace
}  // namespace mgi::operators::on_gpu
