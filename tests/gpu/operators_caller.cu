// Operators inside an engine: in the order of its streams, and in memory of its allocators.
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include <mgi/gpu_memory_resource.hpp>

#include "gpu/operators_bed.hpp"

namespace mgi::test::on_gpu {

namespace {

using F = AggregateFunction;

void cuda_check(cudaError_t error, char const* what) {
    if (error == cudaSuccess) return;
    cudaGetLastError();
    throw Wrong(std::string(what) + ": " + cudaGetErrorString(error));
}

// Some milliseconds.
__global__ void spin(long long cycles) {
    long long const start = clock64();
    while (clock64() - start < cycles) {
    }
}

std::set<int> gpus_of(std::vector<GpuTable> const& parts) {
    std::set<int> gpus;
    for (GpuTable const& part : parts) gpus.insert(part.gpu);
    return gpus;
}

// A stream of each GPU, of one kind.
class Streams {
public:
    enum class Kind { Made, Legacy, PerThread };

    Streams(std::set<int> const& gpus, Kind kind = Kind::Made) {
        for (int const gpu : gpus) {
            GpuOfThread const here(gpu);
            cudaStream_t stream = kind == Kind::PerThread ? cudaStreamPerThread : nullptr;
            if (kind == Kind::Made) {
                cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
                made_.emplace_back(gpu, stream);
            }
            by_gpu[gpu] = stream;
        }
    }
    ~Streams() {
        for (auto const& [gpu, stream] : made_) {
            GpuOfThread const here(gpu);
            cudaStreamSynchronize(stream);
            cudaStreamDestroy(stream);
        }
    }
    Streams(Streams const&) = delete;
    Streams& operator=(Streams const&) = delete;

    [[nodiscard]] cudaStream_t of(int gpu) const {
        return static_cast<cudaStream_t>(by_gpu.at(gpu));
    }

    std::map<int, void*> by_gpu;

private:
    std::vector<std::pair<int, cudaStream_t>> made_;
};

// Nothing is left in a capture, whatever the test comes to.
class Capture {
public:
    Capture(cudaStream_t stream, cudaStreamCaptureMode mode) : stream_(stream) {
        cuda_check(cudaStreamBeginCapture(stream, mode), "capture");
    }
    ~Capture() {
        if (!ended_) (void)end_capture();
        cudaGetLastError();
    }
    Capture(Capture const&) = delete;
    Capture& operator=(Capture const&) = delete;

    // Throws where something has broken it.
    void end() { cuda_check(end_capture(), "end the capture"); }

private:
    cudaError_t end_capture() {
        ended_ = true;
        cudaGraph_t graph = nullptr;
        cudaError_t const error = cudaStreamEndCapture(stream_, &graph);
        if (graph != nullptr) cudaGraphDestroy(graph);
        return error;
    }

    cudaStream_t const stream_;
    bool ended_ = false;
};

// A table's rows in other memory, which has something else in it until they are copied.
class Later {
public:
    explicit Later(GpuTable const& table) : table_(table) {
        if (table.rows == 0) return;
        GpuOfThread const here(table.gpu);
        for (std::size_t c = 0; c < table.columns.size(); ++c) {
            GpuColumn& column = table_.columns[c];
            std::size_t const width = std::max(1u, table.schema[c].type.row_width());
            column.values = another(column.values, std::size_t(table.rows) * width);
            if (column.validity == nullptr) continue;
            column.validity = static_cast<std::uint8_t const*>(
                another(column.validity, std::size_t(table.rows + 7) / 8));
        }
        table_.owner = std::shared_ptr<void const>(memory_, memory_->data());
    }

    // In the stream.
    void copy(cudaStream_t stream) const {
        GpuOfThread const here(table_.gpu);
        for (auto const& [to, from, bytes] : copies_) {
            cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
        }
    }
    [[nodiscard]] GpuTable const& table() const { return table_; }

private:
    void* another(void const* from, std::size_t bytes) {
        void* at = nullptr;
        cuda_check(cudaMalloc(&at, bytes), "memory");
        memory_->emplace_back(at, [](void* of) { cudaFree(of); });
        cuda_check(cudaMemset(at, 0x5a, bytes), "fill");
        copies_.emplace_back(at, from, bytes);
        return at;
    }

    GpuTable table_;
    std::shared_ptr<std::vector<std::shared_ptr<void>>> memory_ =
        std::make_shared<std::vector<std::shared_ptr<void>>>();
    std::vector<std::tuple<void*, void const*, std::size_t>> copies_;
};

// The same rows, which come behind a slow kernel in the stream of each GPU.
std::vector<GpuTable> later(std::vector<GpuTable> const& tables, Streams const& streams) {
    std::vector<Later> all(tables.begin(), tables.end());
    for (int const gpu : gpus_of(tables)) {
        GpuOfThread const here(gpu);
        cuda_check(cudaDeviceSynchronize(), "fill");
        spin<<<1, 1, 0, streams.of(gpu)>>>(10'000'000);
        cuda_check(cudaGetLastError(), "a slow kernel");
    }
    std::vector<GpuTable> results;
    for (Later const& one : all) {
        one.copy(streams.of(one.table().gpu));
        results.push_back(one.table());
    }
    return results;
}

Schema const kSchema{{"key", int64(), true}, {"x", int32(), true}, {"y", float64()}};
Schema const kRight{{"id", int64()}, {"z", int16(), true}};
std::vector<Aggregate> const kSums{{F::Sum, "x", "sum"}, {F::Count, "", "rows"}};
JoinSpec const kSpec{{"key"}, {"id"}, {"key", "x"}, {"z"}};

// Each operator, by what `given` makes of its parts, and the rows that it must come to.
struct Call {
    std::function<std::vector<GpuTable>()> run;
    Rows expected;
};
std::vector<Call> calls(Bed& bed, std::size_t rows,
                        std::function<std::vector<GpuTable>(std::vector<GpuTable>)> const& given) {
    PlainTable const many = random_table(kSchema, rows, 1u << 30, 41);
    PlainTable const few = random_table(kSchema, rows, 9, 42);
    PlainTable right = random_table(kRight, rows / 4, 1u << 30, 43);
    for (std::size_t i = 0; i < right.rows.size(); ++i) {
        right.rows[i][0] = {true, many.rows[2 * i][0].word};
    }
    std::vector<Call> all;
    for (PlainTable const& table : {many, few}) {
        all.push_back({[&bed, given, parts = bed.parts_of(table)] {
                           return group_by(bed.runtime(), bed.endpoints(), given(parts), {"key"},
                                           kSums, bed.options);
                       },
                       sorted(plain::group_by(table, {"key"}, kSums))});
    }
    all.push_back({[&bed, given, left = bed.parts_of(many), right = bed.parts_of(right)] {
                       return join(bed.runtime(), bed.endpoints(), given(left), given(right), kSpec,
                                   bed.options);
                   },
                   sorted(plain::join(many, right, kSpec.left_keys, kSpec.right_keys,
                                      kSpec.left_columns, kSpec.right_columns))});
    all.push_back({[&bed, given, parts = bed.parts_of(many)] {
                       return exchange(bed.runtime(), bed.endpoints(), given(parts), {"key"},
                                       bed.options);
                   },
                   sorted(many.rows)});
    return all;
}
std::vector<GpuTable> as_they_are(std::vector<GpuTable> parts) {
    return parts;
}

// An allocator of pools that counts, knows whose stream it was, and has nothing left from some call on.
class Counting : public std::enable_shared_from_this<Counting> {
public:
    Counting(std::set<int> const& gpus, bool shared) {
        for (int const gpu : gpus) {
            cudaMemPoolProps kind = {};
            kind.allocType = cudaMemAllocationTypePinned;
            kind.location = {cudaMemLocationTypeDevice, gpu};
            cuda_check(cudaMemPoolCreate(&pools_[gpu], &kind), "a pool");
            // Else the system has it back, and gives it anew, whenever somebody waits.
            std::uint64_t kept = ~std::uint64_t{0};
            cuda_check(cudaMemPoolSetAttribute(pools_[gpu], cudaMemPoolAttrReleaseThreshold, &kept),
                       "what a pool keeps");
            for (int const other : gpus) {
                if (!shared || other == gpu || !gpus_reach_each_other(gpu, other)) continue;
                cudaMemAccessDesc access = {};
                access.location = {cudaMemLocationTypeDevice, other};
                access.flags = cudaMemAccessFlagsProtReadWrite;
                cuda_check(cudaMemPoolSetAccess(pools_[gpu], &access, 1), "access to a pool");
            }
        }
        from_ = allocator_of_pools(pools_);
    }
    ~Counting() {
        for (auto const& [gpu, pool] : pools_) cudaMemPoolDestroy(pool);
    }
    Counting(Counting const&) = delete;
    Counting& operator=(Counting const&) = delete;

    // For streams, or the other functions.
    [[nodiscard]] GpuAllocator allocator(bool in_streams) {
        auto const self = shared_from_this();
        GpuAllocator made;
        if (in_streams) {
            made.allocate_in_stream = [self](int gpu, std::uint64_t bytes, void* stream) {
                self->count(stream);
                void* const at = self->from_.allocate_in_stream(gpu, bytes, stream);
                ++self->out;
                return at;
            };
            made.deallocate_in_stream = [self](int gpu, void* at, std::uint64_t bytes,
                                               void* stream) {
                --self->out;
                self->from_.deallocate_in_stream(gpu, at, bytes, stream);
            };
            return made;
        }
        made.allocate = [self](int gpu, std::uint64_t bytes) {
            self->count(nullptr);
            void* const at = self->from_.allocate(gpu, bytes);
            ++self->out;
            return at;
        };
        made.deallocate = [self](int gpu, void* at, std::uint64_t bytes) {
            --self->out;
            self->from_.deallocate(gpu, at, bytes);
        };
        return made;
    }
    void throw_at(int call) {
        calls = 0;
        first_bad = call;
    }

    std::atomic<int> out{0};
    std::atomic<int> calls{0};
    std::atomic<int> first_bad{1 << 30};
    std::mutex mutex;
    std::set<void*> streams;

private:
    void count(void* stream) {
        if (calls++ >= first_bad) throw std::runtime_error("the pool is dry");
        std::lock_guard const lock(mutex);
        streams.insert(stream);
    }

    std::map<int, cudaMemPool_t> pools_;
    GpuAllocator from_;
};

void behind_slow_kernels(Bed& bed) {
    auto const gpus = gpus_of(bed.parts_of(random_table(kSchema, 100, 50, 40)));
    for (auto const kind : {Streams::Kind::Made, Streams::Kind::Legacy, Streams::Kind::PerThread}) {
        Streams const streams(gpus, kind);
        bed.options.gpu_streams = streams.by_gpu;
        auto const all = calls(bed, 8000, [&](auto parts) { return later(parts, streams); });
        for (Call const& call : all) expect_same(Bed::all_rows(call.run()), call.expected);
    }
    // In a stream of MGI's behind the legacy default one, as each thread's own is: what Python does by default.
    Streams const legacy(gpus, Streams::Kind::Legacy);
    bed.options.gpu_streams = Streams(gpus, Streams::Kind::PerThread).by_gpu;
    for (Call const& call : calls(bed, 8000, [&](auto parts) { return later(parts, legacy); })) {
        expect_same(Bed::all_rows(call.run()), call.expected);
    }
    // Through a channel, whose kernels have streams of their own.
    Streams const streams(gpus);
    bed.options.gpu_streams = streams.by_gpu;
    bed.options.by_reference = false;
    auto const all = calls(bed, 5000, [&](auto parts) { return later(parts, streams); });
    for (Call const& call : all) expect_same(Bed::all_rows(call.run()), call.expected);
}

void several_threads(Bed& bed) {
    Streams const streams(gpus_of(bed.parts_of(random_table(kSchema, 100, 50, 40))));
    bed.options.gpu_streams = streams.by_gpu;
    auto const all = calls(bed, 8000, as_they_are);
    std::vector<std::exception_ptr> failures(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < failures.size(); ++t) {
        threads.emplace_back([&, t] {
            try {
                for (std::size_t i = 0; i < 2 * all.size(); ++i) {
                    Call const& call = all[(i + t) % all.size()];
                    expect_same(Bed::all_rows(call.run()), call.expected);
                }
            } catch (...) {
                failures[t] = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::exception_ptr const& failure : failures) {
        if (failure) std::rethrow_exception(failure);
    }
}

void from_pools(Bed& bed) {
    auto const gpus = gpus_of(bed.parts_of(random_table(kSchema, 100, 50, 40)));
    for (bool const shared : {true, false}) {
        for (bool const in_streams : {true, false}) {
            Streams const streams(gpus);
            auto const pool = std::make_shared<Counting>(gpus, shared);
            bed.options.gpu_streams = streams.by_gpu;
            bed.options.gpu_allocator = pool->allocator(in_streams);
            auto all = calls(bed, 8000, [&](auto parts) { return later(parts, streams); });
            for (Call const& call : all) {
                expect_same(Bed::all_rows(call.run()), call.expected);
                if (pool->out != 0) throw Wrong(std::to_string(pool->out) + " pieces are out");
            }
            if (pool->calls == 0) throw Wrong("no memory was asked for");
            for (void* const stream : pool->streams) {
                bool ours = stream == nullptr;
                for (int const gpu : gpus) ours = ours || stream == streams.of(gpu);
                if (!ours || (stream == nullptr && in_streams)) throw Wrong("another stream");
            }
            bed.options.gpu_allocator = {};
        }
    }
}

// A call behind a thread's own stream does not work there: it has memory of the plain functions, or of a stream of MGI's.
void behind_threads_streams(Bed& bed) {
    auto const gpus = gpus_of(bed.parts_of(random_table(kSchema, 100, 50, 40)));
    Streams const streams(gpus, Streams::Kind::PerThread);
    bed.options.gpu_streams = streams.by_gpu;
    for (bool const plain_too : {true, false}) {
        auto const pool = std::make_shared<Counting>(gpus, true);
        GpuAllocator allocator = pool->allocator(true);
        if (plain_too) {
            GpuAllocator const plain = pool->allocator(false);
            allocator.allocate = plain.allocate;
            allocator.deallocate = plain.deallocate;
        }
        bed.options.gpu_allocator = allocator;
        std::vector<GpuTable> results;
        auto all = calls(bed, 2000, [&](auto parts) { return later(parts, streams); });
        for (Call const& call : all) {
            results = call.run();
            expect_same(Bed::all_rows(results), call.expected);
            // In another thread, whose stream is another one.
            std::thread([&] { results.clear(); }).join();
            if (pool->out != 0) throw Wrong(std::to_string(pool->out) + " pieces are out");
        }
        for (void* const stream : pool->streams) {
            if ((stream == nullptr) != plain_too || stream == cudaStreamPerThread) {
                throw Wrong("another stream");
            }
        }
        bed.options.gpu_allocator = {};
    }
}

// Whichever allocation fails first: each of one operator at two endpoints, else so many.
void dry_pools(Bed& bed, int tried) {
    auto const gpus = gpus_of(bed.parts_of(random_table(kSchema, 100, 50, 40)));
    bed.options.spill_limit = 1;  // it fails where the pool does
    for (bool const in_streams : {true, false}) {
        Streams const streams(gpus);
        auto const pool = std::make_shared<Counting>(gpus, true);
        bed.options.gpu_streams = streams.by_gpu;
        bed.options.gpu_allocator = pool->allocator(in_streams);
        bool all = bed.endpoints().size() == 2 && tried > 4;
        for (Call const& call : calls(bed, 600, as_they_are)) {
            pool->throw_at(1 << 30);
            expect_same(Bed::all_rows(call.run()), call.expected);
            int const count = pool->calls;
            int const step = all ? 1 : std::max(1, count / tried);
            all = false;
            for (int bad = 0; bad < count; bad += step) {
                pool->throw_at(bad);
                expect_error(ErrorCode::OutOfMemory, "the pool is dry", [&] { (void)call.run(); });
                if (pool->out != 0) throw Wrong(std::to_string(pool->out) + " pieces are out");
            }
            pool->throw_at(1 << 30);
            expect_same(Bed::all_rows(call.run()), call.expected);
        }
        bed.options.gpu_allocator = {};
    }
    bed.options.spill_limit = 0;
}

void wrong_streams(Bed& bed) {
    PlainTable const table = random_table(kSchema, 100, 50, 44);
    auto const parts = bed.parts_of(table);
    Streams const streams(gpus_of(parts));
    auto const call = [&] {
        (void)group_by(bed.runtime(), bed.endpoints(), parts, {"key"}, kSums, bed.options);
    };
    bed.options.gpu_streams = streams.by_gpu;
    for (auto const mode : {cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeThreadLocal,
                            cudaStreamCaptureModeGlobal}) {
        GpuOfThread const here(0);
        Capture capture(streams.of(0), mode);
        expect_error(ErrorCode::InvalidArgument, "captured into a graph", call);
        capture.end();
    }
    {
        // The legacy default stream cannot be used while a stream that waits for it is captured.
        GpuOfThread const here(0);
        cudaStream_t blocking = nullptr;
        cuda_check(cudaStreamCreate(&blocking), "stream");
        std::shared_ptr<void> const made(
            blocking, [](void* of) { cudaStreamDestroy(static_cast<cudaStream_t>(of)); });
        Capture capture(blocking, cudaStreamCaptureModeRelaxed);
        bed.options.gpu_streams[0] = nullptr;
        expect_error(ErrorCode::InvalidArgument, "captured into a graph", call);
        capture.end();
    }
    bed.options.gpu_streams = {{77, streams.of(0)}};
    expect_error(ErrorCode::InvalidArgument, "gpu_streams has streams for 77", call);
    bed.options.gpu_streams = streams.by_gpu;
    call();
    if (streams.by_gpu.size() < 2) return;
    bed.options.gpu_streams[1] = streams.of(0);
    expect_error(ErrorCode::InvalidArgument, "a stream of cuda:0", call);
}

}  // namespace

std::vector<GpuTest> caller_tests(bool small) {
    return {{"streams: behind slow kernels", behind_slow_kernels},
            {"streams: one for several threads", several_threads},
            {"streams: that an operator cannot have", wrong_streams},
            {"allocators: of pools", from_pools},
            {"allocators: behind a thread's own stream", behind_threads_streams},
            {"allocators: of pools that are dry",
             [tried = small ? 3 : 6](Bed& bed) { dry_pools(bed, tried); }}};
}

}  // namespace mgi::test::on_gpu
