#include "data.hpp"

#include <algorithm>

namespace mgi::bench {
namespace {

/// Where atomicAdd has its 64 bits.
using Wide = unsigned long long;
static_assert(sizeof(Wide) == sizeof(u64));

constexpr u32 kThreads = 256;

u32 blocks_for(u64 rows) {
    return u32(std::clamp<u64>((rows + kThreads - 1) / kThreads, 1, 4096));
}

/// Random bits of a row, without a generator's state.
__device__ u64 random_bits(u64 seed, u64 row, u32 draw) {
    return device::murmur3_mix(device::murmur3_mix(row + 1) ^ (seed << 48 | u64(draw) << 40));
}

/// Integral of x^-theta, and its inverse, as bench/perf/zipf.cpp has them.
__device__ double area(double theta, double x) {
    double const log_x = log(x);
    double const t = (1 - theta) * log_x;
    return fabs(t) < 1e-8 ? log_x * (1 + t / 2) : expm1(t) / (1 - theta);
}
__device__ double area_inverse(double theta, double y) {
    double const t = fmax(y * (1 - theta), -1.0);
    return fabs(t) < 1e-8 ? exp(y * (1 - t / 2)) : exp(y * (log1p(t) / t));
}

/// A rank in [1, n], with probability proportional to rank^-theta: rejection-inversion, see bench/perf/zipf.hpp.
__device__ u64 zipf_rank(double theta, u64 seed, u64 row, double n) {
    double const low = area(theta, 1.5) - 1;
    double const high = area(theta, n + 0.5);
    double const squeeze = 2 - area_inverse(theta, area(theta, 2.5) - pow(2.0, -theta));
    for (u32 draw = 0;; ++draw) {
        double const uniform = double(random_bits(seed, row, draw) >> 11) * 0x1p-53;
        double const y = high + uniform * (low - high);
        double const x = area_inverse(theta, y);
        double const rank = fmin(fmax(floor(x + 0.5), 1.0), n);
        // Nine of ten first draws are taken; the bound keeps a bad one from looping for ever.
        if (draw == 200 || rank - x <= squeeze ||
            y >= area(theta, rank + 0.5) - pow(rank, -theta)) {
            return u64(rank);
        }
    }
}

__global__ void fill(Table table, double theta, u64 seed) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < table.rows; i += step) {
        table.at(i, 0) =
            theta != 0 ? zipf_rank(theta, seed, i, double(table.rows)) : random_bits(seed, i, 0);
        for (u32 w = 1; w < table.words; ++w) table.at(i, w) = random_bits(seed, i, 200 + w);
    }
}

struct Bounds {
    u64 begin[kMaxDestinations + 1];
};

/// Adds rows to the sums of their destinations, and counts those that stand outside its bounds. A
/// thread keeps the sums of one destination until it meets another: rows in order cost no atomics.
__global__ void add_sums(Table table, u32 destinations, Bounds bounds, bool bounded, Sums* sums,
                         Wide* misplaced) {
    __shared__ Wide shared[kMaxDestinations][3];
    for (u32 i = threadIdx.x; i < destinations * 3; i += blockDim.x) shared[i / 3][i % 3] = 0;
    __syncthreads();
    u64 const step = u64(gridDim.x) * blockDim.x;
    u32 current = 0;
    Wide rows = 0;
    Wide keys = 0;
    Wide all = 0;
    Wide wrong = 0;
    auto const put = [&] {
        if (rows == 0) return;
        atomicAdd(&shared[current][0], rows);
        atomicAdd(&shared[current][1], keys);
        atomicAdd(&shared[current][2], all);
        rows = keys = all = 0;
    };
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < table.rows; i += step) {
        u64 const key = table.at(i, 0);
        u32 const destination = destination_of(key, destinations);
        if (destination != current) {
            put();
            current = destination;
        }
        u64 sum = 0;
        for (u32 w = 0; w < table.words; ++w) sum = row_sum(sum, table.at(i, w));
        ++rows;
        keys += key;
        all += sum;
        if (bounded && (i < bounds.begin[destination] || i >= bounds.begin[destination + 1])) {
            ++wrong;
        }
    }
    put();
    if (wrong != 0) atomicAdd(misplaced, wrong);
    __syncthreads();
    for (u32 i = threadIdx.x; i < destinations; i += blockDim.x) {
        atomicAdd(reinterpret_cast<Wide*>(&sums[i].rows), shared[i][0]);
        atomicAdd(reinterpret_cast<Wide*>(&sums[i].keys), shared[i][1]);
        atomicAdd(reinterpret_cast<Wide*>(&sums[i].all), shared[i][2]);
    }
}

/// The sums, and how many rows are misplaced.
std::vector<Sums> run_sums(Table const& table, u32 destinations, std::vector<u64> const* begin,
                           u64& misplaced, cudaStream_t stream) {
    require(destinations >= 1 && destinations <= kMaxDestinations, "1 to 64 destinations");
    Bounds bounds{};
    if (begin != nullptr) {
        require(begin->size() == destinations + 1, "a bound for each destination and an end");
        std::copy(begin->begin(), begin->end(), bounds.begin);
    }
    // The last entry's `rows` counts the misplaced.
    DeviceArray<Sums> sums(destinations + 1);
    check(cudaMemsetAsync(sums.get(), 0, sums.bytes(), stream), "clear sums");
    add_sums<<<blocks_for(table.rows), kThreads, 0, stream>>>(
        table, destinations, bounds, begin != nullptr, sums.get(),
        reinterpret_cast<Wide*>(&sums.get()[destinations].rows));
    check_launch("add up rows");
    std::vector<Sums> out(destinations + 1);
    check(cudaMemcpyAsync(out.data(), sums.get(), sums.bytes(), cudaMemcpyDeviceToHost, stream),
          "fetch sums");
    check(cudaStreamSynchronize(stream), "add up rows");
    misplaced = out.back().rows;
    out.pop_back();
    return out;
}

}  // namespace

TableBuffer::TableBuffer(Layout layout, u64 rows, u32 words) : layout_(layout) {
    require(words >= 1 && words <= kMaxWords, "1 to 8 words a row");
    u64 const column = layout == Layout::Rows ? rows : (rows + 31) / 32 * 32;
    memory_ = DeviceArray<u64>(column * words);
    table_.rows = rows;
    table_.words = words;
    table_.stride = layout == Layout::Rows ? words : 1;
    for (u32 w = 0; w < words; ++w) {
        table_.column[w] = memory_.get() + (layout == Layout::Rows ? w : w * column);
    }
}

void generate(Table const& table, double theta, cudaStream_t stream, u64 seed) {
    if (table.rows == 0) return;
    fill<<<blocks_for(table.rows), kThreads, 0, stream>>>(table, theta, seed);
    check_launch("generate rows");
}

std::vector<Sums> sums_of(Table const& table, u32 destinations, cudaStream_t stream) {
    u64 misplaced = 0;
    if (destinations < 1 || (destinations & (destinations - 1)) != 0) {
        return run_sums(table, destinations, nullptr, misplaced, stream);
    }
    // Of a power of two: a destination of 64 lies in that of the same leading bits; with more sums
    // fewer threads meet on one.
    std::vector<Sums> const fine = run_sums(table, kMaxDestinations, nullptr, misplaced, stream);
    std::vector<Sums> out(destinations);
    for (u32 i = 0; i < kMaxDestinations; ++i) {
        Sums& sum = out[i * destinations / kMaxDestinations];
        sum.rows += fine[i].rows;
        sum.keys += fine[i].keys;
        sum.all += fine[i].all;
    }
    return out;
}

bool is_partitioned(Table const& output, std::vector<u64> const& begin,
                    std::vector<Sums> const& expected, cudaStream_t stream) {
    u64 misplaced = 0;
    auto const found = run_sums(output, u32(expected.size()), &begin, misplaced, stream);
    return misplaced == 0 && begin.front() == 0 && begin.back() == output.rows && found == expected;
}

}  // namespace mgi::bench
