#include "operators/callers_memory.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <mgi/error.hpp>
#include <mgi/runtime.hpp>

#include "core/log.hpp"

namespace mgi::operators {

std::shared_ptr<GpuAllocator const> callers_allocator(GpuAllocator const& of_options,
                                                      GpuAllocator const& of_runtime) {
    check_pairs(of_options);
    for (GpuAllocator const* const one : {&of_options, &of_runtime}) {
        if (one->allocate == nullptr && one->allocate_in_stream == nullptr) continue;
        return std::make_shared<GpuAllocator const>(*one);
    }
    return nullptr;
}

CallersMemory::CallersMemory(std::shared_ptr<GpuAllocator const> from, Site site)
    : from_(std::move(from)), site_(std::move(site)) {}

std::shared_ptr<void> CallersMemory::take(std::uint64_t bytes, std::string const& what) {
    std::uint64_t const size = (std::max<std::uint64_t>(bytes, 1) + 255) / 256 * 256;
    std::optional<GpuOfThread> here;
    if (site_.on_gpu) here.emplace(site_.gpu);
    std::string why;
    void* at = ask(size, why);
    if (at == nullptr) {
        site_.trim();
        at = ask(size, why);
    }
    if (at == nullptr) {
        throw Error(ErrorCode::OutOfMemory,
                    site_.name + ": " + what + " takes " + std::to_string(size) +
                        " bytes, which the caller's gpu_allocator does not have: " + why +
                        "; give it more memory, spread the rows over more GPUs, or do a part of "
                        "them at a time");
    }
    std::shared_ptr<void> memory(
        at, [self = shared_from_this(), size](void* of) { self->give_back(of, size); });
    if (site_.on_gpu) check_gpu_memory(site_.gpu, at, size);
    return memory;
}

void* CallersMemory::ask(std::uint64_t bytes, std::string& why) const {
    why = "it returned null";
    try {
        return in_streams() ? from_->allocate_in_stream(site_.gpu, bytes, site_.stream)
                            : from_->allocate(site_.gpu, bytes);
    } catch (std::exception const& error) {
        why = error.what();
    } catch (...) {
        why = "it threw what is no std::exception";
    }
    return nullptr;
}

void CallersMemory::give_back(void* at, std::uint64_t bytes) const noexcept {
    std::string why = "what is no std::exception";
    try {
        bool const over = over_;
        std::optional<GpuOfThread> here;
        try {
            if (site_.on_gpu) here.emplace(site_.gpu);
            // Whoever knows no streams must find that nothing uses the memory.
            if (!in_streams() && !over) site_.wait();
        } catch (Error const&) {
            // The GPU's context is lost: nothing runs there, and what was taken goes back all the same.
        }
        if (in_streams()) {
            void* const stream = over ? site_.callers.value_or(nullptr) : site_.stream;
            from_->deallocate_in_stream(site_.gpu, at, bytes, stream);
        } else {
            from_->deallocate(site_.gpu, at, bytes);
        }
        return;
    } catch (std::exception const& error) {
        why = error.what();
    } catch (...) {
        // It is said below.
    }
    log::error("{}: the caller's gpu_allocator threw when {} bytes came back: {}", site_.name,
               bytes, why);
}

}  // namespace mgi::operators
