// Partition by cub's radix sort of (destination, row number) on just the destination's bits, then a
// gather of the rows in that order.
#include <cub/device/device_radix_sort.cuh>

#include <memory>

#include "gather.hpp"
#include "partition.hpp"

namespace mgi::bench {
namespace {

using Destination = unsigned char;  // the narrowest key moves least
constexpr u32 kThreads = 256;

__global__ void number_rows(Table input, u32 destinations, Destination* keys, u32* numbers) {
    u64 const step = u64(gridDim.x) * blockDim.x;
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < input.rows; i += step) {
        keys[i] = Destination(destination_of(input.at(i, 0), destinations));
        numbers[i] = u32(i);
    }
}

/// Where each destination begins among sorted ones.
__global__ void find_bounds(Destination const* keys, u32 rows, u32 destinations, u32* begin) {
    if (threadIdx.x >= destinations) return;
    u32 low = 0;
    u32 high = rows;
    while (low < high) {
        u32 const middle = low + (high - low) / 2;
        if (keys[middle] < threadIdx.x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    begin[threadIdx.x] = low;
}

struct Scratch {
    DeviceArray<Destination> keys;
    DeviceArray<Destination> sorted_keys;
    DeviceArray<u32> numbers;
    DeviceArray<u32> sorted_numbers;
    DeviceArray<char> sort;
};

PartitionRun sort_and_gather(PartitionCase const& one) {
    auto const scratch = std::make_shared<Scratch>();
    scratch->keys = DeviceArray<Destination>(one.rows());
    scratch->sorted_keys = DeviceArray<Destination>(one.rows());
    scratch->numbers = DeviceArray<u32>(one.rows());
    scratch->sorted_numbers = DeviceArray<u32>(one.rows());
    auto const sort = [one, scratch](void* at, std::size_t& bytes, cudaStream_t stream) {
        check(cub::DeviceRadixSort::SortPairs(at, bytes, scratch->keys.get(),
                                              scratch->sorted_keys.get(), scratch->numbers.get(),
                                              scratch->sorted_numbers.get(), int(one.rows()), 0,
                                              int(one.bits()), stream),
              "sort");
    };
    std::size_t sort_bytes = 0;
    sort(nullptr, sort_bytes, nullptr);
    scratch->sort = DeviceArray<char>(sort_bytes);
    return [=](cudaStream_t stream) {
        number_rows<<<2048, kThreads, 0, stream>>>(one.input, one.destinations, scratch->keys.get(),
                                                   scratch->numbers.get());
        std::size_t bytes = sort_bytes;
        sort(scratch->sort.get(), bytes, stream);
        gather(one.input, one.output, scratch->sorted_numbers.get(), stream);
        find_bounds<<<1, kMaxDestinations, 0, stream>>>(scratch->sorted_keys.get(), one.rows(),
                                                        one.destinations, one.begin);
    };
}

void run(Context& context) {
    run_partition_cases(context, sort_and_gather);
}

Registration const registered{"partition.sort", "cub radix sort of destinations, then gather", run};

}  // namespace
}  // namespace mgi::bench
