// What a lone thread waits for: loads, atomic operations and fences, one after the other, in cycles of the GPU's clock. A device
// call is a chain of such.
#include <array>

#include <cuda/atomic>

#include "memory.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <class T>
using OfGpu = cuda::atomic<T, cuda::thread_scope_device>;
template <class T>
using OfAll = cuda::atomic<T, cuda::thread_scope_system>;
constexpr auto kRelaxed = cuda::std::memory_order_relaxed;
constexpr auto kRelease = cuda::std::memory_order_release;

constexpr char const* kNames[] = {
    "load",            // relaxed, of a word of System scope
    "add_of_gpu",      // with its result, Device scope
    "add_of_all",      // the same, System scope
    "release_to_gpu",  // a store, Device scope
    "release_to_all",  // a store, System scope
};
constexpr u32 kKinds = u32(std::size(kNames));
constexpr u32 kChain = 8;

/// Words are apart, so that none comes with another one.
struct alignas(512) Word {
    OfAll<u64> of_all;
    OfGpu<u64> of_gpu;
};

/// Each step of a chain needs what the one before has found, which is 0.
template <class Step>
__device__ u64 cycles_of(Step const& step) {
    u64 found = 0;
    u64 const start = clock64();
    for (u32 i = 0; i < kChain; ++i) found += step(i, found);
    return (clock64() - start + found) / kChain;
}

__global__ void chains(Word* words, u64* cycles) {
    for (u32 round = 0; round < 2; ++round) {  // the first one brings code and words
        cycles[0] =
            cycles_of([&](u32 i, u64 found) { return words[i + found].of_all.load(kRelaxed); });
        cycles[1] = cycles_of(
            [&](u32 i, u64 found) { return words[i + found].of_gpu.fetch_add(0, kRelaxed); });
        cycles[2] = cycles_of(
            [&](u32 i, u64 found) { return words[i + found].of_all.fetch_add(0, kRelaxed); });
        cycles[3] = cycles_of([&](u32 i, u64 found) {
            words[i + found].of_gpu.store(0, kRelease);
            return u64(0);
        });
        cycles[4] = cycles_of([&](u32 i, u64 found) {
            words[i + found].of_all.store(0, kRelease);
            return u64(0);
        });
    }
}

void measure(Context& context) {
    DeviceArray<char> const words(kChain * sizeof(Word));
    DeviceArray<u64> const cycles(kKinds);
    check(cudaMemsetAsync(words.get(), 0, words.bytes(), context.stream()), "clear words");
    chains<<<1, 1, 0, context.stream()>>>(reinterpret_cast<Word*>(words.get()), cycles.get());
    check_launch("chains of loads");
    context.wait(context.stream(), "a thread that loads");
    std::array<u64, kKinds> took{};
    check(cudaMemcpy(took.data(), cycles.get(), cycles.bytes(), cudaMemcpyDeviceToHost),
          "read cycles");
    Result result;
    for (u32 kind = 0; kind < kKinds; ++kind) {
        result.figure(std::string(kNames[kind]) + "_cycles", double(took[kind]));
    }
    result.exact = true;
    context.add(result);
}

Registration const registered{
    "words", "what a lone thread waits for at loads, atomic operations and fences", measure};

}  // namespace
}  // namespace mgi::bench
