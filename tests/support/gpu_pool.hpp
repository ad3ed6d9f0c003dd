/// \file
/// A caller's pool of GPU memory, for RuntimeOptions::gpu_allocator: it takes memory from the driver and knows what is out.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <mgi/gpu_allocator.hpp>

#include "gpu/memory.hpp"

namespace mgi::test {

/// Copies name the same pool.
class GpuPool {
public:
    [[nodiscard]] GpuAllocator allocator() const {
        return {[in = pool_](int gpu, std::uint64_t bytes) { return in->take(gpu, bytes); },
                [in = pool_](int gpu, void* at, std::uint64_t bytes) { in->give(gpu, at, bytes); }};
    }
    /// From the call with this number on it has nothing, or only for so many calls.
    void throw_at(int call, int calls = 1 << 30) const {
        std::lock_guard const lock(pool_->mutex);
        pool_->first_bad = call;
        pool_->bad = calls;
        pool_->calls = 0;
    }
    /// How often it was asked.
    [[nodiscard]] int calls() const { return read(pool_->calls); }
    /// Whether it has handed out what lies there.
    [[nodiscard]] bool has(char const* at) const {
        std::lock_guard const lock(pool_->mutex);
        for (auto const& [first, block] : pool_->blocks) {
            if (at - static_cast<char const*>(first) >= 0 &&
                std::uint64_t(at - static_cast<char const*>(first)) < block.second) {
                return true;
            }
        }
        return false;
    }
    /// Blocks, and bytes of a GPU, that are out.
    [[nodiscard]] std::size_t out() const {
        std::lock_guard const lock(pool_->mutex);
        return pool_->blocks.size();
    }
    [[nodiscard]] std::uint64_t bytes_out(int gpu) const {
        std::lock_guard const lock(pool_->mutex);
        std::uint64_t all = 0;
        for (auto const& [at, block] : pool_->blocks) all += block.first == gpu ? block.second : 0;
        return all;
    }

private:
    struct Pool {
        std::mutex mutex;
        std::map<void*, std::pair<int, std::uint64_t>> blocks;
        int calls = 0;
        int first_bad = 1 << 30;
        int bad = 0;

        void* take(int gpu, std::uint64_t bytes) {
            std::lock_guard const lock(mutex);
            int const call = calls++;
            if (call >= first_bad && call - first_bad < bad) throw std::bad_alloc();
            gpu::Address at = 0;
            // MGI has made the GPU the thread's.
            if (gpu::Driver::get().cuMemAlloc(&at, bytes) != gpu::kSuccess) return nullptr;
            auto* const memory = reinterpret_cast<void*>(at);
            blocks[memory] = {gpu, bytes};
            return memory;
        }
        void give(int gpu, void* at, std::uint64_t bytes) {
            std::lock_guard const lock(mutex);
            auto const block = blocks.find(at);
            ASSERT_NE(block, blocks.end()) << "it is not out";
            EXPECT_EQ(block->second, std::pair(gpu, bytes));
            blocks.erase(block);
            // Where the GPU's context is lost that fails.
            (void)gpu::Driver::get().cuMemFree(reinterpret_cast<gpu::Address>(at));
        }
    };
    [[nodiscard]] int read(int const& number) const {
        std::lock_guard const lock(pool_->mutex);
        return number;
    }

    std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

}  // namespace mgi::test
