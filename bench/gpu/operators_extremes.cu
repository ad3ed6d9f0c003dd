// Group-bys on a GPU that take the least value of each group: of integers, of texts of 16 to 32 characters that differ early,
// share their first ones, or are all the same in a group, and of long decimals. 60 million lines of 15 million orders, and of 4.
// All groups are checked.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <cub/device/device_scan.cuh>

#include <mgi/gpu_operators.hpp>

#include "orders.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

using namespace orders;
using i64 = std::int64_t;

enum class Values { Integers, Texts, TextsWithFront, TextsOfKeys, Decimals };

constexpr u64 kFront = 9;

/// A line's value: all of them differ, or, with `groups`, those of different groups.
__device__ u64 value_of(u64 line, u64 groups) {
    u64 const number = groups == 0 ? line : number_of_row(line, groups);
    return device::murmur3_mix(number + 1);
}
/// Texts order as their values do.
__host__ __device__ u64 size_of(u64 value, u64 front) {
    return front + 16 + value % 17;
}
__device__ char character(u64 value, u64 front, u64 at) {
    if (at < front) return "Customer#"[at];
    at -= front;
    return at < 16 ? "0123456789abcdef"[value >> (60 - 4 * at) & 15]
                   : char('a' + (value + at) % 26);
}

__global__ void write_sizes(u64 rows, u64 groups, u64 front, u64* sizes) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        sizes[i + 1] = size_of(value_of(i, groups), front);
    }
}
__global__ void write_texts(u64 rows, u64 groups, u64 front, u64 const* offsets, char* characters) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        u64 const value = value_of(i, groups);
        for (u64 c = 0; c < size_of(value, front); ++c) {
            characters[offsets[i] + c] = character(value, front, c);
        }
    }
}
__global__ void write_numbers(u64 rows, bool wide, u64* to) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        u64 const value = value_of(i, 0);
        if (wide) to[2 * i] = device::murmur3_mix(value);
        to[wide ? 2 * i + 1 : i] = wide ? value >> 3 : value;
    }
}

__global__ void find_least(u64 rows, u64 groups, bool of_keys, unsigned long long* least) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        auto const value = (unsigned long long)(value_of(i, of_keys ? groups : 0));
        atomicMin(&least[number_of_row(i, groups)], value);
    }
}

/// A column of a result, of which one way to read it is right.
struct Found {
    Values values;
    void const* data;
    char const* characters;
    bool narrow;

    __device__ bool is(u64 row, u64 value) const {
        auto const* const words = static_cast<u64 const*>(data);
        if (values == Values::Integers) return words[row] == value;
        if (values == Values::Decimals) {
            return words[2 * row] == device::murmur3_mix(value) && words[2 * row + 1] == value >> 3;
        }
        u64 const front = values == Values::TextsWithFront ? kFront : 0;
        auto const* const offsets = static_cast<std::int32_t const*>(data);
        u64 const begin = narrow ? u64(offsets[row]) : words[row];
        u64 const end = narrow ? u64(offsets[row + 1]) : words[row + 1];
        bool right = end - begin == size_of(value, front);
        for (u64 c = 0; right && c < end - begin; ++c) {
            right = characters[begin + c] == character(value, front, c);
        }
        return right;
    }
};

/// Takes each result away from what must be: of all groups nothing is left.
__global__ void check_groups(unsigned long long* least, u64 groups, u64 const* keys, Found found,
                             u64 rows, unsigned long long* wrong) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        u64 const number = keys[i] * kInverse;
        u64 const value = number < groups ? atomicExch(&least[number], ~0ull) : ~0ull;
        if (value == ~0ull || !found.is(i, value)) atomicAdd(wrong, 1ull);
    }
}
__global__ void find_rests(unsigned long long const* least, u64 groups, unsigned long long* wrong) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < groups; i += step) {
        if (least[i] != ~0ull) atomicAdd(wrong, 1ull);
    }
}

/// Lines' values of one kind.
struct Column {
    Column(Context& context, u64 rows, u64 groups, Values kind) {
        cudaStream_t const stream = context.stream();
        bool const texts = kind != Values::Integers && kind != Values::Decimals;
        if (kind != Values::TextsOfKeys) groups = 0;
        u64 const front = kind == Values::TextsWithFront ? kFront : 0;
        bool const wide = kind == Values::Decimals;
        words = std::make_unique<DeviceArray<u64>>(wide ? 2 * rows : rows + 1);
        if (!texts) {
            write_numbers<<<1024, 256, 0, stream>>>(rows, wide, words->get());
            source = {"value", wide ? decimal128(38, 2) : uint64(), words->get(), nullptr, 0};
        } else {
            check(cudaMemsetAsync(words->get(), 0, 8, stream), "clear");
            write_sizes<<<1024, 256, 0, stream>>>(rows, groups, front, words->get());
            std::size_t bytes = 0;
            cub::DeviceScan::InclusiveSum(nullptr, bytes, words->get(), words->get(), rows + 1);
            DeviceArray<char> scratch(bytes);
            check(cub::DeviceScan::InclusiveSum(scratch.get(), bytes, words->get(), words->get(),
                                                rows + 1, stream),
                  "add up sizes");
            u64 size = 0;
            check(cudaMemcpyAsync(&size, words->get() + rows, 8, cudaMemcpyDeviceToHost, stream),
                  "read");
            context.wait(stream, "sizes");
            characters = std::make_unique<DeviceArray<char>>(size);
            write_texts<<<1024, 256, 0, stream>>>(rows, groups, front, words->get(),
                                                  characters->get());
            source = {"value", string(), words->get(), nullptr, 0, Encoding::Offsets64};
            source.bytes = reinterpret_cast<std::byte const*>(characters->get());
        }
        check_launch("make values");
        context.wait(stream, "values to be made");
    }

    std::unique_ptr<DeviceArray<u64>> words;
    std::unique_ptr<DeviceArray<char>> characters;
    GpuColumnSource source;
};

bool as_they_must_be(Context& context, std::vector<GpuTable> const& results, Values kind, u64 lines,
                     u64 groups) {
    cudaStream_t const stream = context.stream();
    DeviceArray<unsigned long long> least(groups);
    DeviceArray<unsigned long long> wrong(1);
    check(cudaMemsetAsync(least.get(), 0xff, least.bytes(), stream), "clear");
    check(cudaMemsetAsync(wrong.get(), 0, 8, stream), "clear");
    find_least<<<1024, 256, 0, stream>>>(lines, groups, kind == Values::TextsOfKeys, least.get());
    for (GpuTable const& result : results) {
        if (result.rows == 0) continue;
        GpuColumn const& column = result.columns[1];
        Found const found{kind, column.values, reinterpret_cast<char const*>(column.bytes),
                          column.encoding == Encoding::Offsets32};
        check_groups<<<1024, 256, 0, stream>>>(least.get(), groups,
                                               static_cast<u64 const*>(result.columns[0].values),
                                               found, u64(result.rows), wrong.get());
    }
    find_rests<<<1024, 256, 0, stream>>>(least.get(), groups, wrong.get());
    check_launch("check groups");
    unsigned long long count = 1;
    check(cudaMemcpyAsync(&count, wrong.get(), 8, cudaMemcpyDeviceToHost, stream), "read");
    context.wait(stream, "the check of groups");
    return count == 0;
}

void group_extremes(Context& context) {
    u64 const orders = context.quick() ? 1'500'000 : 15'000'000;
    u64 const lines = 4 * orders;
    RuntimeOptions local;
    local.cpu_devices = 1;
    Runtime runtime = Runtime::local(local);
    DeviceArray<u64> keys(lines);
    DeviceArray<u64> unused(lines);
    for (auto const& [name, kind] :
         {std::pair{"integers", Values::Integers}, std::pair{"texts", Values::Texts},
          std::pair{"texts that share 9", Values::TextsWithFront},
          std::pair{"texts of keys", Values::TextsOfKeys},
          std::pair{"decimals", Values::Decimals}}) {
        for (u64 const groups : {orders, u64{4}}) {
            Column const column(context, lines, groups, kind);
            GpuTable const table = gpu_table(
                0, i64(lines), {{"key", int64(), keys.get(), nullptr, 0}, column.source}, nullptr);
            make_lines<<<1024, 256, 0, context.stream()>>>(keys.get(), unused.get(), 0, lines,
                                                           groups, false);
            check_launch("make keys");
            context.wait(context.stream(), "keys to be made");
            for (u32 const endpoints : {1u, 4u}) {
                std::vector<Endpoint> at;
                std::vector<GpuTable> parts;
                for (i64 e = 0; e < i64(endpoints); ++e) {
                    at.push_back(runtime.create_endpoint("cuda:0"));
                    i64 const first = table.rows * e / endpoints;
                    parts.push_back(table.slice(first, table.rows * (e + 1) / endpoints - first));
                }
                std::vector<GpuTable> results;
                Timing timing;
                for (int i = 0; i <= (context.quick() ? 3 : 7); ++i) {
                    results.clear();
                    auto const start = std::chrono::steady_clock::now();
                    results = group_by(runtime, at, parts, {"key"},
                                       {{AggregateFunction::Min, "value", "least"}});
                    std::chrono::duration<double, std::milli> const took =
                        std::chrono::steady_clock::now() - start;
                    if (i != 0) timing.ms.push_back(took.count());
                }
                std::sort(timing.ms.begin(), timing.ms.end());
                Result result;
                result.with("what", name).with("groups", groups).with("endpoints", endpoints);
                timing.fill(result, lines * 16);
                result.figure("ms_median", timing.median_ms());
                result.exact = as_they_must_be(context, results, kind, lines, groups);
                context.add(result);
                for (Endpoint const& endpoint : at) runtime.delete_endpoint(endpoint);
            }
        }
    }
}

Registration const extremes{"mgi_group_extremes",
                            "the least value of each group: integers, texts, decimals",
                            group_extremes};

}  // namespace
}  // namespace mgi::bench
