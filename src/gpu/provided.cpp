#include "gpu/provided.hpp"

#include <exception>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "gpu/memory.hpp"
#include "gpu/peers.hpp"

namespace mgi::gpu {

namespace {

constexpr std::uint64_t kAlignment = 256;

void* ask(GpuAllocator const& allocator, int gpu, std::uint64_t bytes) {
    std::string why;
    try {
        if (void* const at = allocator.allocate(gpu, bytes)) return at;
        why = "it returned null";
    } catch (std::exception const& error) {
        why = error.what();
    } catch (...) {
        why = "it threw what is no std::exception";
    }
    throw Error(ErrorCode::OutOfMemory, "cuda:" + std::to_string(gpu) +
                                            ": the caller's gpu_allocator has no " +
                                            std::to_string(bytes) + " bytes for a channel: " + why);
}

// Empty: it is device memory of that GPU.
std::string what_else(Driver const& driver, int gpu, Address at) {
    unsigned type = 0;
    int on = 0;
    unsigned is_managed = 0;
    Result const result = driver.cuPointerGetAttribute(&type, kPointerMemoryType, at);
    if (result == kInvalidValue) return "memory that the driver does not know";
    driver.check(result, "look at memory of the caller's gpu_allocator", gpu);
    if (type != kMemoryOfDevice) return "memory of the host";
    driver.check(driver.cuPointerGetAttribute(&is_managed, kPointerIsManaged, at),
                 "look at memory of the caller's gpu_allocator", gpu);
    if (is_managed != 0) return "managed memory";
    driver.check(driver.cuPointerGetAttribute(&on, kPointerOrdinal, at),
                 "look at memory of the caller's gpu_allocator", gpu);
    if (on != gpu) return "memory of cuda:" + std::to_string(on);
    if (at % kAlignment != 0) return "not at a multiple of " + std::to_string(kAlignment);
    return "";
}

}  // namespace

std::shared_ptr<GpuAllocator const> to_share(GpuAllocator const& allocator) {
    check_pairs(allocator);
    if (allocator.allocate != nullptr) return std::make_shared<GpuAllocator const>(allocator);
    if (allocator.allocate_in_stream == nullptr) return nullptr;
    throw Error(ErrorCode::InvalidArgument,
                "gpu_allocator has no function allocate, which channels call; give allocate and "
                "deallocate beside those for streams, or give it to operators alone");
}

ProvidedMemory::ProvidedMemory(std::shared_ptr<GpuAllocator const> from, int gpu,
                               std::uint64_t bytes)
    : from_(std::move(from)), gpu_(gpu), bytes_(bytes) {
    Current const here(driver_, gpu);
    at_ = ask(*from_, gpu, bytes);
    try {
        check_gpu_memory(gpu, at_, bytes);
    } catch (...) {
        give_back();
        throw;
    }
}

ProvidedMemory::~ProvidedMemory() {
    give_back();
}

void ProvidedMemory::wait_for_kernels() const noexcept {
    try {
        for (int const gpu : connected_with(gpu_)) wait_for(gpu);
    } catch (std::exception const&) {
        wait_for(gpu_);
    }
}

void ProvidedMemory::wait_for(int gpu) const noexcept {
    try {
        Current const here(driver_, gpu);
        (void)driver_.cuCtxSynchronize();
    } catch (std::exception const&) {
        // The GPU's context is lost: nothing runs there.
    }
}

void ProvidedMemory::give_back() noexcept {
    try {
        std::optional<Current> here;
        try {
            here.emplace(driver_, gpu_);
        } catch (Error const&) {
            // The GPU's context is lost; what was taken goes back all the same.
        }
        from_->deallocate(gpu_, at_, bytes_);
    } catch (std::exception const& error) {
        log::error("cuda:{}: the caller's gpu_allocator threw when {} bytes came back: {}", gpu_,
                   bytes_, error.what());
    } catch (...) {
        log::error("cuda:{}: the caller's gpu_allocator threw when {} bytes came back", gpu_,
                   bytes_);
    }
}

}  // namespace mgi::gpu

namespace mgi {

void check_pairs(GpuAllocator const& allocator) {
    auto const check = [](bool first, bool second, char const* one, char const* other) {
        if (first == second) return;
        throw Error(ErrorCode::InvalidArgument, std::string("gpu_allocator has no function ") +
                                                    (first ? other : one) + "; give both, or none");
    };
    check(allocator.allocate != nullptr, allocator.deallocate != nullptr, "allocate", "deallocate");
    check(allocator.allocate_in_stream != nullptr, allocator.deallocate_in_stream != nullptr,
          "allocate_in_stream", "deallocate_in_stream");
}

void check_gpu_memory(int gpu, void* at, std::uint64_t bytes) {
    std::string const what =
        gpu::what_else(gpu::Driver::get(), gpu, reinterpret_cast<gpu::Address>(at));
    if (what.empty()) return;
    std::ostringstream text;
    text << "cuda:" << gpu << ": the caller's gpu_allocator was asked for " << bytes
         << " bytes of this GPU's memory, and gave " << at << ", which is " << what;
    throw Error(ErrorCode::InvalidArgument, text.str());
}

}  // namespace mgi
