/// \file
/// Streams and memory that channels have given back, kept for the next ones: taking what is there takes microseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "gpu/memory.hpp"

namespace mgi::gpu {

/// Of a runtime. What is taken comes back here once nobody has it. Thread-safe.
class Reserve : public std::enable_shared_from_this<Reserve> {
public:
    /// Bytes that it keeps at most, of each GPU's memory and of the host's that is pinned by it; of each in few pieces, since
    /// mapped ones have a descriptor. What came first goes first.
    /// `trim_others` frees what others keep, which may come back here; it must neither throw nor hold the reserve.
    /// `allocator` provides what is for this process alone, and gets it back at once; null: the driver does.
    Reserve(std::uint64_t most, std::uint64_t most_pinned, std::function<void()> trim_others = {},
            std::shared_ptr<GpuAllocator const> allocator = nullptr)
        : most_(most),
          most_pinned_(most_pinned),
          trim_others_(std::move(trim_others)),
          allocator_(std::move(allocator)) {}
    ~Reserve() { trim(); }
    Reserve(Reserve const&) = delete;
    Reserve& operator=(Reserve const&) = delete;

    /// Of a GPU; all that was put into it must be over when it comes back.
    [[nodiscard]] std::shared_ptr<OwnStream> stream(int gpu);
    /// Has so many at hand, for kernels that will be resident at the same time: then no more can be made.
    void make_streams(int gpu, std::size_t count);
    /// At least so many bytes, zeroed. What was shared before is given out again once others' use of it is over.
    [[nodiscard]] std::shared_ptr<DeviceMemory> memory(int gpu, std::uint64_t bytes,
                                                       Shared shared = Shared::Not);
    /// At least so many bytes of whatever content.
    [[nodiscard]] std::shared_ptr<PinnedMemory> pinned(int gpu, std::uint64_t bytes);
    /// What `one` makes. Where it throws Error(OutOfMemory), what is kept may be what is missing: once more without it.
    template <class Make>
    auto make(Make const& one) {
        try {
            return one();
        } catch (Error const& error) {
            if (error.code() != ErrorCode::OutOfMemory) throw;
        }
        trim();
        return one();
    }
    /// Whether that is kept when it comes back, for all that is known now.
    [[nodiscard]] bool keeps(DeviceMemory const& memory) const;
    /// Frees all that is kept, by others as well.
    void trim() noexcept;

private:
    static constexpr std::size_t kMostPieces = 64;
    template <class T>
    struct Kept {
        std::unique_ptr<T> what;
        std::unique_ptr<OwnStream> zeroes;  // it, from when it came back; none of pinned memory
    };
    template <class T>
    using Shelf = std::vector<Kept<T>>;

    std::unique_ptr<OwnStream> find_stream(int gpu);
    std::unique_ptr<DeviceMemory> provided(int gpu, std::uint64_t bytes);
    template <class T, class Serves>
    Kept<T> find(Shelf<T>& shelf, int gpu, std::uint64_t bytes, Serves const& serves);
    template <class T>
    void keep(Shelf<T>& shelf, std::uint64_t most, Kept<T> one);
    template <class T>
    std::shared_ptr<T> lend(std::unique_ptr<T> one);
    void give(std::unique_ptr<OwnStream> stream);
    void give(std::unique_ptr<DeviceMemory> memory);
    void keep_zeroed(std::unique_ptr<DeviceMemory> memory);
    void settle();
    void give(std::unique_ptr<PinnedMemory> memory);

    std::uint64_t const most_;
    std::uint64_t const most_pinned_;
    std::function<void()> const trim_others_;
    std::shared_ptr<GpuAllocator const> const allocator_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<OwnStream>> streams_;
    Shelf<DeviceMemory> memories_;
    Shelf<DeviceMemory> used_by_others_;  // not zeroed
    Shelf<PinnedMemory> pinned_;
};

}  // namespace mgi::gpu
