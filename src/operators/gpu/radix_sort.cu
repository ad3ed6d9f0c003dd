#include "operators/gpu/radix_sort.hpp"

#include <cub/device/device_radix_sort.cuh>

namespace mgi::operators::on_gpu {

cudaError_t radix_sort(cudaStream_t stream, WordsToSort& all, void* scratch, u64& bytes) {
    cub::DoubleBuffer<u64> words(all.words, all.other_words);
    cub::DoubleBuffer<u32> rows(all.rows, all.other_rows);
    std::size_t size = bytes;
    cudaError_t const error = cub::DeviceRadixSort::SortPairs(
        scratch, size, words, rows, u32(all.count), 0, int(all.bits), stream);
    bytes = size;
    if (scratch == nullptr) return error;
    all.words = words.Current();
    all.other_words = words.Alternate();
    all.rows = rows.Current();
    all.other_rows = rows.Alternate();
    return error;
}

}  // namespace mgi::operators::on_gpu
