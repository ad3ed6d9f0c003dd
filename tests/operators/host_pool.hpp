/// \file
/// A caller's allocator for operators that run in the host's memory: it knows what is out, fails where it is told to, and finds
/// who writes beyond what it has.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>

#include <mgi/gpu_allocator.hpp>

#include "support/hang_guard.hpp"

namespace mgi::test {

/// Copies name the same pool.
class HostPool {
public:
    /// With functions for streams, or the others.
    [[nodiscard]] GpuAllocator allocator(bool in_streams = false) const {
        GpuAllocator made;
        if (in_streams) {
            made.allocate_in_stream = [in = pool_](int, std::uint64_t bytes, void* stream) {
                return in->take(bytes, stream);
            };
            made.deallocate_in_stream = [in = pool_](int, void* at, std::uint64_t bytes,
                                                     void* stream) { in->give(at, bytes, stream); };
        } else {
            made.allocate = [in = pool_](int, std::uint64_t bytes) {
                return in->take(bytes, nullptr);
            };
            made.deallocate = [in = pool_](int, void* at, std::uint64_t bytes) {
                in->give(at, bytes, nullptr);
            };
        }
        return made;
    }
    /// From the call with this number on, counted anew, it throws, or for so many calls.
    void throw_at(int call, int calls = 1 << 30) const {
        std::lock_guard const lock(pool_->mutex);
        pool_->first_bad = call;
        pool_->bad = calls;
        pool_->calls = 0;
    }
    [[nodiscard]] int calls() const {
        std::lock_guard const lock(pool_->mutex);
        return pool_->calls;
    }
    [[nodiscard]] std::size_t out() const {
        std::lock_guard const lock(pool_->mutex);
        return pool_->blocks.size();
    }
    /// Whether it has handed out what begins there.
    [[nodiscard]] bool has(void const* at) const {
        std::lock_guard const lock(pool_->mutex);
        return pool_->blocks.count(const_cast<void*>(at)) != 0;
    }
    /// How often memory came back in a stream.
    [[nodiscard]] int came_in(void* stream) const {
        std::lock_guard const lock(pool_->mutex);
        auto const at = pool_->came_in.find(stream);
        return at == pool_->came_in.end() ? 0 : at->second;
    }

private:
    static constexpr std::align_val_t kAlign{256};
    // A sanitizer guards it itself.
    static constexpr std::size_t kGuard = kSanitized ? 0 : 64;
    struct Block {
        std::uint64_t bytes;
        void* stream;
    };
    struct Pool {
        std::mutex mutex;
        std::map<void*, Block> blocks;
        std::map<void*, int> came_in;
        int calls = 0;
        int first_bad = 1 << 30;
        int bad = 0;

        void* take(std::uint64_t bytes, void* stream) {
            std::lock_guard const lock(mutex);
            int const call = calls++;
            if (call >= first_bad && call - first_bad < bad) {
                throw std::runtime_error("the pool is dry");
            }
            void* const at = ::operator new(bytes + kGuard, kAlign);
            std::memset(at, 0xa5, bytes + kGuard);
            blocks[at] = {bytes, stream};
            return at;
        }
        void give(void* at, std::uint64_t bytes, void* stream) {
            std::lock_guard const lock(mutex);
            auto const block = blocks.find(at);
            ASSERT_NE(block, blocks.end()) << "it is not out";
            EXPECT_EQ(block->second.bytes, bytes);
            auto const* const guard = static_cast<unsigned char const*>(at) + bytes;
            EXPECT_EQ(std::count(guard, guard + kGuard, 0xa5), std::ptrdiff_t(kGuard))
                << "somebody has written beyond " << bytes << " bytes";
            ++came_in[stream];
            blocks.erase(block);
            ::operator delete(at, kAlign);
        }
    };

    std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

}  // namespace mgi::test
