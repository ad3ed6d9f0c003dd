// The device calls on a GPU: endpoints of one kernel exchange rows through the production headers, and
// every row must arrive once. Needs CUDA and nothing else.
//
//   exchange [--small] [--no-clerks] [--json FILE]
//
// --no-clerks leaves out what has them: compute-sanitizer's racecheck counts barriers that only some of a block's
// threads wait at as everybody's, and then takes all that comes behind a later __syncthreads for unordered.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "support/tiny_channel.hpp"

namespace {

using namespace mgi::device;
using mgi::test::TinyChannel;
using mgi::test::TinyOptions;

void check(cudaError_t error, char const* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(2);
}

/// A kernel's endpoints, groups (blocks) of each, and the channel between them.
struct Shape {
    u32 endpoints;
    u32 groups;
    u32 threads;
    u64 rows;  ///< of each group
    u32 segment_rows;
    u32 tile_rows;
    u32 slots;
    bool staged = true;  ///< tiles go through shared memory
};

/// What one group has sent and received.
struct Tally {
    unsigned long long sent = 0;
    unsigned long long received = 0;
    unsigned long long key_sum = 0;
    unsigned long long value_parity = 0;
    u32 failure = 0;  ///< the ErrorCode plus 1; kLate past the deadline
};
constexpr u32 kLate = 1000;

struct Run {
    BasicChannel<LibcuAtomics> const* ends;  ///< by endpoint
    Shape shape;
    long long const* keys;
    long long const* values;
    Tally* tallies;
    u64 launch;
    u64 deadline_ns;
};

__device__ u64 now_ns() {
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

/// The paper's Figure 3, by each block.
// The largest block of the shapes below.
__global__ void __launch_bounds__(512) exchange(Run const* run_at, u32 scratch_bytes) {
    extern __shared__ __align__(16) unsigned char scratch[];
    __shared__ ColumnView columns[2];
    __shared__ u32 word;
    Run const& run = *run_at;
    Shape const& shape = run.shape;
    u32 const endpoint = blockIdx.x / shape.groups;
    Group const group{blockIdx.x % shape.groups, shape.groups, threadIdx.x, blockDim.x,
                      run.launch + blockIdx.x,   nullptr};
    Shared shared{reinterpret_cast<std::byte*>(scratch), scratch_bytes};
    auto const channel = run.ends[endpoint];
    Tally& tally = run.tallies[blockIdx.x];
    u64 const first = u64(blockIdx.x) * shape.rows;
    u64 const start = now_ns();
    unsigned long long received = 0;
    unsigned long long key_sum = 0;
    unsigned long long value_parity = 0;
    u64 sent = 0;
    bool flushed = false;
    u32 failure = 0;
    while (failure == 0) {
        if (sent < shape.rows) {
            if (group.leads()) {
                for (u32 c = 0; c < 2; ++c) columns[c] = ColumnView{};
                columns[0].values = run.keys + first + sent;
                columns[1].values = run.values + first + sent;
            }
            group.sync();
            Batch batch;
            batch.columns = columns;
            batch.count = min_of<u64>(shape.rows - sent, 4 * shape.tile_rows);
            SendResult const result = channel.send(group, shared, batch);
            if (result.status == Status::Error) failure = u32(result.code) + 1;
            sent += result.rows;
        } else if (!flushed) {
            Status const status = channel.flush(group, shared);
            if (status == Status::Error) failure = u32(channel.error()) + 1;
            flushed = status == Status::Ok;
        }
        ReceivedBatch batch;
        Status const status = channel.recv(group, shared, batch);
        if (status == Status::Ok) {
            auto const* const keys = batch.column<unsigned long long>(0);
            auto const* const values = batch.column<unsigned long long>(1);
            for (u32 i = group.thread; i < batch.rows; i += group.threads) {
                ++received;
                key_sum += keys[i];
                value_parity ^= values[i];
            }
            channel.release(group, shared, batch);
        } else if (status == Status::Error) {
            failure = u32(channel.error()) + 1;
        } else if (status == Status::End && flushed) {
            break;
        }
        if (failure == 0 && now_ns() - start > run.deadline_ns) failure = kLate;
        failure = agree(group, &word, failure);
    }
    atomicAdd(&tally.received, received);
    atomicAdd(&tally.key_sum, key_sum);
    atomicXor(&tally.value_parity, value_parity);
    if (group.leads()) {
        tally.sent = sent;
        tally.failure = failure;
    }
}

struct Outcome {
    bool exact = false;
    double gbps = 0;
    std::string text;
};

Outcome run_once(Shape const& shape, u64 launch) {
    TinyOptions options;
    options.sources = options.destinations = shape.endpoints;
    options.max_groups = shape.groups;
    options.segment_rows = shape.segment_rows;
    options.chunk_rows = std::max(64u, shape.segment_rows / 4);
    options.tile_rows = shape.tile_rows;
    options.slots = shape.slots;
    options.staged = shape.staged;
    auto const tiny = std::make_unique<TinyChannel>(
        mgi::Schema{{"key", mgi::int64()}, {"value", mgi::int64()}}, options);
    std::vector<BasicChannel<LibcuAtomics>> ends;
    for (u32 e = 0; e < shape.endpoints; ++e) ends.push_back(tiny->on(e, e));
    u32 const blocks = shape.endpoints * shape.groups;
    u64 const rows = blocks * shape.rows;
    std::vector<long long> keys(rows);
    std::vector<long long> values(rows);
    Tally expected;
    expected.sent = expected.received = rows;
    for (u64 i = 0; i < rows; ++i) {
        keys[i] = static_cast<long long>(murmur3_mix(i + 1));
        values[i] = static_cast<long long>(murmur3_mix(i + (u64(1) << 40)));
        expected.key_sum += static_cast<unsigned long long>(keys[i]);
        expected.value_parity ^= static_cast<unsigned long long>(values[i]);
    }
    std::vector<Tally> tallies(blocks);
    auto const run = std::make_unique<Run>(Run{ends.data(), shape, keys.data(), values.data(),
                                               tallies.data(), launch, 30'000'000'000});
    u32 const scratch = ends[0].shared_bytes();
    check(cudaFuncSetAttribute(exchange, cudaFuncAttributeMaxDynamicSharedMemorySize, int(scratch)),
          "shared memory of a block");
    int resident = 0;
    int multiprocessors = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, exchange, int(shape.threads),
                                                        scratch),
          "occupancy");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "device 0");
    if (u32(resident * multiprocessors) < blocks) return {false, 0, "does not fit this GPU"};
    cudaEvent_t before;
    cudaEvent_t after;
    check(cudaEventCreate(&before), "event");
    check(cudaEventCreate(&after), "event");
    check(cudaEventRecord(before), "event");
    exchange<<<blocks, shape.threads, scratch>>>(run.get(), scratch);
    check(cudaGetLastError(), "launch");
    check(cudaEventRecord(after), "event");
    check(cudaEventSynchronize(after), "kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, before, after), "event");
    cudaEventDestroy(before);
    cudaEventDestroy(after);
    Tally all;
    for (Tally const& tally : tallies) {
        all.sent += tally.sent;
        all.received += tally.received;
        all.key_sum += tally.key_sum;
        all.value_parity ^= tally.value_parity;
        all.failure = std::max(all.failure, tally.failure);
    }
    Outcome outcome;
    outcome.exact = all.failure == 0 && all.sent == expected.sent &&
                    all.received == expected.received && all.key_sum == expected.key_sum &&
                    all.value_parity == expected.value_parity;
    outcome.gbps = double(rows) * 16 / ms / 1e6;
    outcome.text = "sent " + std::to_string(all.sent) + " and received " +
                   std::to_string(all.received) + " of " + std::to_string(rows) +
                   " rows, failure " + std::to_string(all.failure);
    return outcome;
}

}  // namespace

int main(int argc, char** argv) {
    bool small = false;
    bool clerks = true;
    char const* json = nullptr;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--small") == 0) {
            small = true;
        } else if (std::strcmp(argv[i], "--no-clerks") == 0) {
            clerks = false;
        } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            json = argv[++i];
        } else {
            std::fprintf(stderr, "usage: exchange [--small] [--no-clerks] [--json FILE]\n");
            return 2;
        }
    }
    std::vector<Shape> shapes{{1, 1, 32, 1000, 64, 64, 2},
                              {2, 2, 64, 3000, 256, 128, 2},
                              {3, 2, 96, 3000, 256, 100, 2},
                              {2, 2, 64, 3000, 256, 128, 2, false},
                              // With clerks.
                              {3, 1, 128, 3000, 256, 128, 2},
                              {2, 2, 160, 3000, 256, 200, 2}};
    if (!small) {
        shapes.push_back({4, 8, 256, 100'000, 4096, 1024, 4});
        shapes.push_back({8, 16, 256, 200'000, 16384, 2048, 4});
        shapes.push_back({2, 64, 256, 400'000, 16384, 1024, 4});
        shapes.push_back({4, 33, 256, 400'000, 16384, 1024, 4});
        shapes.push_back({4, 32, 512, 400'000, 16384, 2048, 4});
    }
    if (!clerks) std::erase_if(shapes, [](Shape const& shape) { return shape.threads >= 128; });
    int failed = 0;
    u64 launch = 0;
    std::string lines;
    for (Shape const& shape : shapes) {
        Outcome outcome;
        double best = 0;
        for (int repeat = 0; repeat < 3; ++repeat) {
            outcome = run_once(shape, launch);
            launch += shape.endpoints * shape.groups;
            best = std::max(best, outcome.gbps);
            if (!outcome.exact) break;
        }
        failed += outcome.exact ? 0 : 1;
        char line[400];
        std::snprintf(line, sizeof(line),
                      "{\"endpoints\": %u, \"groups\": %u, \"threads\": %u, \"rows\": %llu, "
                      "\"segment_rows\": %u, \"tile_rows\": %u, \"slots\": %u, \"staged\": %s, "
                      "\"gbps_max\": %.1f, "
                      "\"exact\": %s}",
                      shape.endpoints, shape.groups, shape.threads,
                      static_cast<unsigned long long>(shape.rows * shape.endpoints * shape.groups),
                      shape.segment_rows, shape.tile_rows, shape.slots,
                      shape.staged ? "true" : "false", best, outcome.exact ? "true" : "false");
        std::printf("%s%s\n", line, outcome.exact ? "" : ("  " + outcome.text).c_str());
        lines += (lines.empty() ? "  " : ",\n  ") + std::string(line);
    }
    if (json != nullptr) std::ofstream(json) << "[\n" << lines << "\n]\n";
    std::printf("%d passed, %d failed\n", int(shapes.size()) - failed, failed);
    return failed == 0 ? 0 : 1;
}
