// GPU memory that a caller's allocator provides for one call of an operator, and for its results.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <mgi/gpu_allocator.hpp>

namespace mgi::operators {

// What an operator's options name, else what the runtime has; null: neither. Throws Error(InvalidArgument) where a function of a
// pair is missing.
std::shared_ptr<GpuAllocator const> callers_allocator(GpuAllocator const& of_options,
                                                      GpuAllocator const& of_runtime);

// The call's part of the allocator on one GPU. Thread-safe.
class CallersMemory : public std::enable_shared_from_this<CallersMemory> {
public:
    // Where the call works.
    struct Site {
        std::string name;              // for messages
        int gpu = 0;                   // what the allocator is told
        bool on_gpu = true;            // not the host, as in tests
        void* stream = nullptr;        // in which the call uses the memory
        std::optional<void*> callers;  // the caller's, in which results are given back
        std::function<void()> wait;  // for what is in the stream; called only while the call lasts
        std::function<void()> trim;  // frees what MGI keeps, which may be what is missing
    };
    CallersMemory(std::shared_ptr<GpuAllocator const> from, Site site);

    // At least so many bytes, which may be used behind what is in the call's stream. They are given back with the last
    // copy, which may outlive the call. `what` is for the error: throws Error(OutOfMemory), and InvalidArgument for what is no
    // memory of the GPU.
    std::shared_ptr<void> take(std::uint64_t bytes, std::string const& what);
    // Nothing of the call runs any more.
    void end_call() { over_ = true; }

private:
    // MGI's own stream is none that an allocator should keep memory for, if it can do without.
    [[nodiscard]] bool in_streams() const {
        return from_->allocate_in_stream != nullptr &&
               (site_.callers || from_->allocate == nullptr);
    }
    void* ask(std::uint64_t bytes, std::string& why) const;
    void give_back(void* at, std::uint64_t bytes) const noexcept;

    std::shared_ptr<GpuAllocator const> const from_;
    Site const site_;
    std::atomic<bool> over_ = false;
};

}  // namespace mgi::operators
