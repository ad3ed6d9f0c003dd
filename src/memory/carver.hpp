// Hands out a channel's memory once, in order, in pieces of whole cache lines.
#pragma once

#include <cstdint>
#include <cstring>

#include <mgi/device/assert.hpp>
#include <mgi/error.hpp>

namespace mgi::memory {

class Carver {
public:
    // `zero`: every byte is already. Then nothing of the memory is touched, which may be a GPU's. `origin`: where
    // offsets count from; null: the first byte.
    Carver(char* base, std::uint64_t bytes, bool zero, char const* origin = nullptr)
        : base_(base),
          end_(bytes),
          zero_(zero),
          // As numbers, which may wrap: it may be other memory, at higher addresses.
          first_(origin == nullptr ? 0
                                   : reinterpret_cast<std::uintptr_t>(base) -
                                         reinterpret_cast<std::uintptr_t>(origin)) {}

    static constexpr std::uint64_t piece(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

    // `count` zeroed objects of a type for which that is a value.
    template <class T>
    T* take(std::uint64_t count) {
        return reinterpret_cast<T*>(base_ + take_place(count * sizeof(T), count * sizeof(T)));
    }
    // Offset of `bytes` bytes, of which the first `zeroed` are zero. Throws Error(Internal) when the
    // memory is too small.
    std::uint64_t take_bytes(std::uint64_t bytes, std::uint64_t zeroed = 0) {
        return first_ + take_place(bytes, zeroed);
    }

private:
    std::uint64_t take_place(std::uint64_t bytes, std::uint64_t zeroed) {
        MGI_ASSERT(zeroed <= bytes && used_ <= end_, zeroed, bytes, used_, end_);
        std::uint64_t const at = used_;
        used_ += piece(bytes);
        if (used_ > end_) {
            throw Error(ErrorCode::Internal, "a channel's pool is smaller than its tables");
        }
        if (!zero_) std::memset(base_ + at, 0, zeroed);
        return at;
    }

    char* base_;
    std::uint64_t end_;
    bool zero_;
    std::uint64_t first_;
    std::uint64_t used_ = 0;
};

}  // namespace mgi::memory
