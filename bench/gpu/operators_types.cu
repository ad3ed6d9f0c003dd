// Joins on a GPU by kinds, of sides of few rows, and by texts of 16 to 32 characters beside integers of 8 bytes: 60 million lines, 15 million orders,
// whose payload is an integer or a decimal. All rows of the joins by texts are checked.
#include <algorithm>
#include <chrono>
#include <functional>
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

__host__ __device__ u64 size_of(u64 number) {
    return 16 + number % 17;
}
__device__ char character(u64 number, u64 at) {
    return at < 16 ? "0123456789abcdef"[number >> (4 * at) & 15] : char('a' + (number + at) % 26);
}

__global__ void write_sizes(u64 const* keys, u64 rows, u64* sizes) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        sizes[i + 1] = size_of(keys[i] * kInverse);
    }
}
__global__ void write_texts(u64 const* keys, u64 rows, u64 const* offsets, char* characters) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        u64 const number = keys[i] * kInverse;
        for (u64 c = 0; c < size_of(number); ++c) {
            characters[offsets[i] + c] = character(number, c);
        }
    }
}
__global__ void widen(u64 const* from, u64 rows, u64* to) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        to[2 * i] = from[i] >> 1;
        to[2 * i + 1] = 0;
    }
}

/// What a result row must be, by its line's number.
template <class Offset>
__global__ void check_rows(Offset const* offsets, char const* characters, u64 const* lines,
                           u64 const* payloads, u64 rows, u64 orders, unsigned long long* wrong) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
        u64 const number = number_of_row(lines[i], orders);
        u64 const size = u64(offsets[i + 1] - offsets[i]);
        bool right = size == size_of(number) && payloads[2 * i] == payload_of(number) >> 1 &&
                     payloads[2 * i + 1] == 0;
        for (u64 c = 0; right && c < size; ++c) {
            right = characters[u64(offsets[i]) + c] == character(number, c);
        }
        if (!right) atomicAdd(wrong, 1ull);
    }
}

/// Keys and what is with them, as integers, and as texts and decimals.
struct Side {
    Side(Context& context, u64 count, u64 orders, bool of_lines)
        : rows(count), keys(count), payloads(count), offsets(count + 1), wide(2 * count) {
        cudaStream_t const stream = context.stream();
        if (of_lines) {
            make_lines<<<1024, 256, 0, stream>>>(keys.get(), payloads.get(), 0, rows, orders, true);
        } else {
            make_orders<<<1024, 256, 0, stream>>>(keys.get(), payloads.get(), 0, rows, orders);
        }
        check(cudaMemsetAsync(offsets.get(), 0, 8, stream), "clear");
        write_sizes<<<1024, 256, 0, stream>>>(keys.get(), rows, offsets.get());
        std::size_t bytes = 0;
        cub::DeviceScan::InclusiveSum(nullptr, bytes, offsets.get(), offsets.get(), rows + 1);
        DeviceArray<char> scratch(bytes);
        check(cub::DeviceScan::InclusiveSum(scratch.get(), bytes, offsets.get(), offsets.get(),
                                            rows + 1, stream),
              "add up sizes");
        u64 size = 0;
        check(cudaMemcpyAsync(&size, offsets.get() + rows, 8, cudaMemcpyDeviceToHost, stream),
              "read");
        context.wait(stream, "sizes");
        characters = std::make_unique<DeviceArray<char>>(size);
        write_texts<<<1024, 256, 0, stream>>>(keys.get(), rows, offsets.get(), characters->get());
        widen<<<1024, 256, 0, stream>>>(payloads.get(), rows, wide.get());
        check_launch("make rows");
        context.wait(stream, "rows to be made");
    }
    [[nodiscard]] GpuTable integers(std::string const& key, std::string const& payload) const {
        return gpu_table(0, std::int64_t(rows),
                         {{key, int64(), keys.get(), nullptr, 0},
                          {payload, int64(), payloads.get(), nullptr, 0}},
                         nullptr);
    }
    [[nodiscard]] GpuTable texts(std::string const& key, std::string const& payload,
                                 bool decimals) const {
        GpuColumnSource text{key, string(), offsets.get(), nullptr, 0, Encoding::Offsets64};
        text.bytes = reinterpret_cast<std::byte const*>(characters->get());
        GpuColumnSource number{payload, int64(), payloads.get(), nullptr, 0};
        if (decimals) number = {payload, decimal128(20, 2), wide.get(), nullptr, 0};
        return gpu_table(0, std::int64_t(rows), {text, number}, nullptr);
    }

    u64 rows;
    DeviceArray<u64> keys;
    DeviceArray<u64> payloads;
    DeviceArray<u64> offsets;
    DeviceArray<u64> wide;
    std::unique_ptr<DeviceArray<char>> characters;
};

bool as_they_must_be(Context& context, std::vector<GpuTable> const& results, u64 lines,
                     u64 orders) {
    DeviceArray<unsigned long long> wrong(1);
    check(cudaMemsetAsync(wrong.get(), 0, 8, context.stream()), "clear");
    u64 rows = 0;
    for (GpuTable const& result : results) {
        rows += u64(result.rows);
        if (result.rows == 0) continue;
        GpuColumn const& text = result.columns[0];
        auto const check_all = [&](auto offset) {
            check_rows<<<1024, 256, 0, context.stream()>>>(
                static_cast<decltype(offset) const*>(text.values),
                reinterpret_cast<char const*>(text.bytes),
                static_cast<u64 const*>(result.columns[1].values),
                static_cast<u64 const*>(result.columns[2].values), u64(result.rows), orders,
                wrong.get());
        };
        if (text.encoding == Encoding::Offsets32) {
            check_all(std::int32_t{});
        } else {
            check_all(std::int64_t{});
        }
    }
    check_launch("check rows");
    unsigned long long count = 1;
    check(cudaMemcpyAsync(&count, wrong.get(), 8, cudaMemcpyDeviceToHost, context.stream()),
          "read");
    context.wait(context.stream(), "the check of rows");
    return count == 0 && rows == lines;
}

Timing repeat(std::vector<GpuTable>& results, int repeats,
              std::function<std::vector<GpuTable>()> const& work) {
    Timing timing;
    for (int i = 0; i <= repeats; ++i) {
        results.clear();
        auto const start = std::chrono::steady_clock::now();
        results = work();
        std::chrono::duration<double, std::milli> const took =
            std::chrono::steady_clock::now() - start;
        if (i != 0) timing.ms.push_back(took.count());
    }
    std::sort(timing.ms.begin(), timing.ms.end());
    return timing;
}

void join_types(Context& context) {
    u64 const count = context.quick() ? 1'500'000 : 15'000'000;
    Side const lines(context, 4 * count, count, true);
    Side const orders(context, count, count, false);
    RuntimeOptions local;
    local.cpu_devices = 1;
    Runtime runtime = Runtime::local(local);
    int const repeats = context.quick() ? 3 : 7;
    for (u32 const endpoints : {1u, 4u}) {
        std::vector<Endpoint> at;
        for (u32 e = 0; e < endpoints; ++e) at.push_back(runtime.create_endpoint("cuda:0"));
        auto const parts_of = [&](GpuTable const& table) {
            std::vector<GpuTable> parts;
            for (i64 e = 0; e < i64(endpoints); ++e) {
                i64 const first = table.rows * e / endpoints;
                parts.push_back(table.slice(first, table.rows * (e + 1) / endpoints - first));
            }
            return parts;
        };
        auto const measure = [&](std::string const& what, GpuTable const& left,
                                 GpuTable const& right, JoinKind kind, bool checks,
                                 Broadcast broadcast = Broadcast::Off) {
            bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
            JoinSpec spec{{"key"}, {"id"}, {"key", "line"}, {}, kind, broadcast};
            if (pairs) spec.right_columns = {"payload"};
            std::vector<GpuTable> results;
            Timing const timing = repeat(results, repeats, [&] {
                return join(runtime, at, parts_of(left), parts_of(right), spec);
            });
            Result result;
            result.with("what", what).with("endpoints", endpoints);
            timing.fill(result, (left.rows + right.rows) * 16);
            result.figure("ms_median", timing.median_ms());
            if (checks) {
                result.exact = as_they_must_be(context, results, lines.rows, orders.rows);
            }
            context.add(result);
        };
        GpuTable const left = lines.integers("key", "line");
        GpuTable const right = orders.integers("id", "payload");
        for (auto const& [name, kind] :
             {std::pair{"inner", JoinKind::Inner}, std::pair{"left", JoinKind::Left},
              std::pair{"right", JoinKind::Right}, std::pair{"full", JoinKind::Full},
              std::pair{"semi", JoinKind::Semi}, std::pair{"anti", JoinKind::Anti}}) {
            measure(name, left, right, kind, false);
        }
        for (u64 const few : {count / 4, count / 16, count / 64, count / 1024}) {
            std::string const what = std::to_string(few) + " orders";
            GpuTable const some = right.slice(0, i64(few));
            measure(what, left, some, JoinKind::Inner, false);
            measure(what + ", broadcast", left, some, JoinKind::Inner, false, Broadcast::On);
        }
        measure("texts", lines.texts("key", "line", false), orders.texts("id", "payload", true),
                JoinKind::Inner, true);
        for (Endpoint const& endpoint : at) runtime.delete_endpoint(endpoint);
    }
}

Registration const types{"mgi_join_types", "joins of each kind, and by texts", join_types};

}  // namespace
}  // namespace mgi::bench
