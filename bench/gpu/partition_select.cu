// Partition to two destinations by cub::DevicePartition: of row structs themselves; of columns, of row
// numbers, and then a gather.
#include <cub/device/device_partition.cuh>

#include <thrust/iterator/counting_iterator.h>

#include <memory>

#include "gather.hpp"
#include "partition.hpp"

namespace mgi::bench {
namespace {

template <u32 Words>
struct alignas(16) Row {
    u64 word[Words];
};

template <u32 Words>
struct RowGoesFirst {
    __device__ bool operator()(Row<Words> const& row) const {
        return destination_of(row.word[0], 2) == 0;
    }
};

struct NumberGoesFirst {
    u64 const* keys;
    __device__ bool operator()(u32 row) const { return destination_of(keys[row], 2) == 0; }
};

struct Scratch {
    DeviceArray<u32> numbers;
    DeviceArray<char> cub;
};

/// cub tells how many are of destination 0: there destination 1 begins.
template <class In, class Out, class Test>
void partition(void* at, std::size_t& bytes, In in, Out out, PartitionCase const& one, Test test,
               cudaStream_t stream) {
    if (at != nullptr) check(cudaMemsetAsync(one.begin, 0, 4, stream), "set the first bound");
    check(
        cub::DevicePartition::If(at, bytes, in, out, one.begin + 1, int(one.rows()), test, stream),
        "partition");
}

template <u32 Words>
PartitionRun select_rows(PartitionCase const& one) {
    auto const scratch = std::make_shared<Scratch>();
    auto const call = [one](void* at, std::size_t& bytes, cudaStream_t stream) {
        partition(at, bytes, reinterpret_cast<Row<Words> const*>(one.input.structs()),
                  reinterpret_cast<Row<Words>*>(one.output.structs()), one, RowGoesFirst<Words>{},
                  stream);
    };
    std::size_t bytes = 0;
    call(nullptr, bytes, nullptr);
    scratch->cub = DeviceArray<char>(bytes);
    return [=](cudaStream_t stream) {
        std::size_t size = bytes;
        call(scratch->cub.get(), size, stream);
    };
}

PartitionRun select_columns(PartitionCase const& one) {
    auto const scratch = std::make_shared<Scratch>();
    scratch->numbers = DeviceArray<u32>(one.rows());
    auto const call = [one, scratch](void* at, std::size_t& bytes, cudaStream_t stream) {
        partition(at, bytes, thrust::counting_iterator<u32>(0), scratch->numbers.get(), one,
                  NumberGoesFirst{one.input.column[0]}, stream);
    };
    std::size_t bytes = 0;
    call(nullptr, bytes, nullptr);
    scratch->cub = DeviceArray<char>(bytes);
    return [=](cudaStream_t stream) {
        std::size_t size = bytes;
        call(scratch->cub.get(), size, stream);
        gather(one.input, one.output, scratch->numbers.get(), stream);
    };
}

PartitionRun select(PartitionCase const& one) {
    if (one.layout == Layout::Columns) return select_columns(one);
    PartitionRun run;
    with_words(one.input.words, [&](auto words) { run = select_rows<words()>(one); });
    return run;
}

void run(Context& context) {
    run_partition_cases(context, select, {2});
}

Registration const registered{"partition.select", "cub::DevicePartition, to two destinations", run};

}  // namespace
}  // namespace mgi::bench
