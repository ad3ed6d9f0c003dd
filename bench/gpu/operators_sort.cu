// Sorts of 60 million rows in GPU memory: an integer of 8 bytes and a number of 8 bytes, by keys of 64 bits and of 24, by two keys,
// by texts of 24 characters; beside what CUB takes to sort as many words with row numbers, and to gather such columns by them.
// Results are checked, row by row.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cub/device/device_radix_sort.cuh>

#include <mgi/gpu_operators.hpp>

#include "orders.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

using namespace orders;

/// What rows are sorted by. Of each row all follows from its number.
enum class By { Wide, Narrow, Two, Text };

constexpr u32 kTextSize = 24;

struct Rows {
    u64* keys = nullptr;
    std::int32_t* groups = nullptr;  // of two keys, the first
    u64* lines = nullptr;
    std::int32_t* offsets = nullptr;
    char* characters = nullptr;
};

__device__ u64 key_of(By by, u64 number) {
    return by == By::Narrow ? number : number * kFactor;
}
__device__ std::int32_t group_of(u64 number) {
    return std::int32_t(number % 1000);
}
/// Hexadecimal digits, the highest first, and letters that many have in common.
__device__ char character(u64 number, u32 at) {
    return at < 16 ? "0123456789abcdef"[number >> (60 - 4 * at) & 15] : char('a' + number % 5);
}

__global__ void make_rows(By by, Rows rows, u64 count, u64 numbers) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        u64 const number = number_of_row(i, numbers);
        rows.lines[i] = i;
        if (by == By::Text) {
            rows.offsets[i] = std::int32_t(i * kTextSize);
            if (i + 1 == count) rows.offsets[count] = std::int32_t(count * kTextSize);
            for (u32 c = 0; c < kTextSize; ++c) {
                rows.characters[i * kTextSize + c] = character(number, c);
            }
            continue;
        }
        rows.keys[i] = key_of(by, number);
        if (by == By::Two) rows.groups[i] = group_of(number);
    }
}

struct Rank {
    u64 first;
    u64 second;
    __device__ bool before(Rank const& other) const {
        return first != other.first ? first < other.first : second < other.second;
    }
};
__device__ Rank rank_of(By by, u64 line, u64 numbers) {
    u64 const number = number_of_row(line, numbers);
    if (by == By::Text || by == By::Narrow) return {0, number};
    u64 const word = key_of(by, number) ^ (u64{1} << 63);
    return {by == By::Two ? u64(group_of(number)) : 0, word};
}

/// `ahead`: the line that comes before these rows, if there is any. `times`: how often each is there.
__global__ void check_order(By by, Rows rows, u64 count, u64 const* ahead, u64 all, u64 numbers,
                            u32* times, unsigned long long* wrong) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        u64 const line = rows.lines[i];
        bool right = line < all && atomicAdd(&times[line], 1u) == 0;
        if (right) {
            u64 const number = number_of_row(line, numbers);
            if (by == By::Text) {
                right = rows.offsets[i + 1] - rows.offsets[i] == std::int32_t(kTextSize);
                for (u32 c = 0; right && c < kTextSize; ++c) {
                    right = rows.characters[rows.offsets[i] + c] == character(number, c);
                }
            } else {
                right = rows.keys[i] == key_of(by, number) &&
                        (by != By::Two || rows.groups[i] == group_of(number));
            }
        }
        u64 const* const before = i == 0 ? ahead : &rows.lines[i - 1];
        if (right && before != nullptr && *before < all) {
            right = !rank_of(by, line, numbers).before(rank_of(by, *before, numbers));
        }
        if (!right) atomicAdd(wrong, 1ull);
    }
}

class Sorted {
public:
    Sorted(Context& context, By by, u64 rows, u64 numbers)
        : context_(context), by_(by), count_(rows), numbers_(numbers), lines_(rows) {
        Rows made;
        made.lines = lines_.get();
        if (by == By::Text) {
            offsets_ = DeviceArray<std::int32_t>(rows + 1);
            characters_ = DeviceArray<char>(rows * kTextSize);
        } else {
            keys_ = DeviceArray<u64>(rows);
        }
        if (by == By::Two) groups_ = DeviceArray<std::int32_t>(rows);
        made.keys = keys_.get();
        made.groups = groups_.get();
        made.offsets = offsets_.get();
        made.characters = characters_.get();
        make_rows<<<1024, 256, 0, context.stream()>>>(by, made, rows, numbers);
        check_launch("make rows");
        context.wait(context.stream(), "rows to be made");
    }

    [[nodiscard]] GpuTable table() const {
        GpuColumnSource key{"key", int64(), keys_.get()};
        if (by_ == By::Text) {
            key = {"key", string(), offsets_.get(), nullptr, 0, Encoding::Offsets32};
            key.bytes = reinterpret_cast<std::byte const*>(characters_.get());
        }
        std::vector<GpuColumnSource> columns{key, {"line", int64(), lines_.get()}};
        if (by_ == By::Two) columns.push_back({"group", int32(), groups_.get()});
        return gpu_table(0, std::int64_t(count_), columns, nullptr);
    }
    [[nodiscard]] std::vector<SortKey> keys() const {
        if (by_ == By::Two) return {{"group"}, {"key"}};
        return {{"key"}};
    }
    [[nodiscard]] u64 row_bytes() const {
        return by_ == By::Text ? 8 + kTextSize : by_ == By::Two ? 20 : 16;
    }
    [[nodiscard]] bool are_right(std::vector<GpuTable> const& results) const {
        cudaStream_t const stream = context_.stream();
        DeviceArray<u32> times(count_);
        DeviceArray<unsigned long long> wrong(1);
        check(cudaMemsetAsync(times.get(), 0, times.bytes(), stream), "clear");
        check(cudaMemsetAsync(wrong.get(), 0, 8, stream), "clear");
        u64 rows = 0;
        u64 const* ahead = nullptr;
        for (GpuTable const& result : results) {
            rows += u64(result.rows);
            if (result.rows == 0) continue;
            auto const column = [&](std::size_t c) {
                return const_cast<void*>(result.columns[c].values);
            };
            Rows got;
            got.lines = static_cast<u64*>(column(1));
            got.keys = static_cast<u64*>(column(0));
            if (by_ == By::Two) got.groups = static_cast<std::int32_t*>(column(2));
            if (by_ == By::Text) {
                got.offsets = static_cast<std::int32_t*>(column(0));
                got.characters =
                    const_cast<char*>(reinterpret_cast<char const*>(result.columns[0].bytes));
            }
            check_order<<<1024, 256, 0, stream>>>(by_, got, u64(result.rows), ahead, count_,
                                                  numbers_, times.get(), wrong.get());
            ahead = got.lines + result.rows - 1;
        }
        check_launch("check rows");
        unsigned long long count = 1;
        check(cudaMemcpyAsync(&count, wrong.get(), 8, cudaMemcpyDeviceToHost, stream), "read");
        context_.wait(stream, "the check of rows");
        return count == 0 && rows == count_;
    }

private:
    Context& context_;
    By by_;
    u64 count_;
    u64 numbers_;
    DeviceArray<u64> keys_;
    DeviceArray<std::int32_t> groups_;
    DeviceArray<u64> lines_;
    DeviceArray<std::int32_t> offsets_;
    DeviceArray<char> characters_;
};

u64 rows_of(Context const& context) {
    return context.quick() ? 6'000'000 : context.large() ? 600'000'000 : 60'000'000;
}

void sort_case(Context& context, Runtime& runtime, By by, std::string const& name,
               u32 endpoint_count) {
    // A text's characters are counted in 32 bits here.
    u64 const rows = std::min<u64>(rows_of(context), by == By::Text ? 60'000'000 : ~u64{0});
    Sorted const sorted(context, by, rows, rows / 4);
    std::vector<Endpoint> endpoints;
    for (u32 e = 0; e < endpoint_count; ++e) endpoints.push_back(runtime.create_endpoint("cuda:0"));
    std::vector<GpuTable> parts;
    GpuTable const table = sorted.table();
    for (u32 e = 0; e < endpoint_count; ++e) {
        std::int64_t const first = table.rows * e / endpoint_count;
        parts.push_back(table.slice(first, table.rows * (e + 1) / endpoint_count - first));
    }
    Timing timing;
    OperatorReport told;
    std::vector<GpuTable> results;
    for (int i = 0; i <= (context.quick() ? 2 : 5); ++i) {
        results.clear();
        OperatorReport report;
        auto const start = std::chrono::steady_clock::now();
        results = sort(runtime, endpoints, parts, sorted.keys(), {}, &report);
        std::chrono::duration<double, std::milli> const took =
            std::chrono::steady_clock::now() - start;
        if (i == 0) continue;
        if (timing.ms.empty() || took.count() < timing.ms.front()) told = report;
        timing.ms.push_back(took.count());
        std::sort(timing.ms.begin(), timing.ms.end());
    }
    Result result;
    result.with("by", name).with("rows", rows).with("endpoints", endpoint_count);
    timing.fill(result, rows * sorted.row_bytes());
    result.figure("ms_best", timing.best_ms());
    result.figure("rows_per_us", double(rows) / timing.best_ms() / 1e3);
    for (OperatorPhase const& phase : told.phases) {
        result.figure("ms_" + phase.name, phase.seconds * 1e3);
    }
    result.exact = sorted.are_right(results);
    results.clear();
    context.add(result);
    for (Endpoint const& endpoint : endpoints) runtime.delete_endpoint(endpoint);
}

__global__ void gather_two(u32 const* order, u64 const* first, u64 const* second, u64 count,
                           u64* to_first, u64* to_second) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        to_first[i] = first[order[i]];
        to_second[i] = second[order[i]];
    }
}
__global__ void number_rows(u32* rows, u64 count) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        rows[i] = u32(i);
    }
}

/// What a sort of one key cannot do without: CUB's of the words, and a gather.
void cub_case(Context& context, By by, std::string const& name, int bits) {
    u64 const rows = rows_of(context);
    Rows from;
    DeviceArray<u64> keys(rows);
    DeviceArray<u64> lines(rows);
    from.keys = keys.get();
    from.lines = lines.get();
    make_rows<<<1024, 256, 0, context.stream()>>>(by, from, rows, rows / 4);
    check_launch("make rows");
    DeviceArray<u64> words(2 * rows);
    DeviceArray<u32> numbers(2 * rows);
    cub::DoubleBuffer<u64> both_words(words.get(), words.get() + rows);
    cub::DoubleBuffer<u32> both_numbers(numbers.get(), numbers.get() + rows);
    std::size_t bytes = 0;
    auto const sort_pairs = [&](void* scratch, cudaStream_t stream) {
        check(cub::DeviceRadixSort::SortPairs(scratch, bytes, both_words, both_numbers, u32(rows),
                                              0, bits, stream),
              "sort");
    };
    sort_pairs(nullptr, context.stream());
    DeviceArray<char> scratch(bytes);
    auto const prepare = [&](cudaStream_t stream) {
        both_words = {words.get(), words.get() + rows};
        both_numbers = {numbers.get(), numbers.get() + rows};
        check(cudaMemcpyAsync(words.get(), keys.get(), 8 * rows, cudaMemcpyDeviceToDevice, stream),
              "copy");
        number_rows<<<1024, 256, 0, stream>>>(numbers.get(), rows);
    };
    Timing const sorting =
        context.time([&](cudaStream_t stream) { sort_pairs(scratch.get(), stream); }, prepare);
    DeviceArray<u64> to(2 * rows);
    Timing const gathering = context.time([&](cudaStream_t stream) {
        gather_two<<<1024, 256, 0, stream>>>(both_numbers.Current(), keys.get(), lines.get(), rows,
                                             to.get(), to.get() + rows);
    });
    Result result;
    result.with("by", name).with("rows", rows).with("bits", bits);
    result.figure("ms_sort", sorting.best_ms());
    result.figure("ms_gather", gathering.best_ms());
    result.figure("ms_best", sorting.best_ms() + gathering.best_ms());
    result.figure("rows_per_us", double(rows) / (sorting.best_ms() + gathering.best_ms()) / 1e3);
    context.add(result);
}

void sort_all(Context& context) {
    RuntimeOptions options;
    options.cpu_devices = 1;
    Runtime runtime = Runtime::local(options);
    for (u32 const endpoints : {1u, 4u}) {
        sort_case(context, runtime, By::Wide, "64 bits", endpoints);
        sort_case(context, runtime, By::Narrow, "24 bits", endpoints);
        sort_case(context, runtime, By::Two, "two keys", endpoints);
        sort_case(context, runtime, By::Text, "texts", endpoints);
    }
}
void cub_all(Context& context) {
    cub_case(context, By::Wide, "64 bits", 64);
    cub_case(context, By::Narrow, "24 bits", 24);
}

Registration const sorts{"mgi_sort", "sort of tables in GPU memory", sort_all};
Registration const cub_sorts{"cub_sort", "CUB's radix sort of words and row numbers, and a gather",
                             cub_all};

}  // namespace
}  // namespace mgi::bench
