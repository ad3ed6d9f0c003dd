// GPUs' memory that a NIC moves bytes of itself, as one context of UCX knows it.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "gpu/memory.hpp"
#include "transport/ucx/library.hpp"
#include "transport/wire/medium.hpp"

namespace mgi::transport::ucx {

// Used by one thread at a time. The context is the caller's.
class GpuMemories {
public:
    GpuMemories(Library const& ucx, ucp_context_h const& context) : ucx_(ucx), context_(context) {}
    ~GpuMemories();
    GpuMemories(GpuMemories const&) = delete;
    GpuMemories& operator=(GpuMemories const&) = delete;

    // Why there can be none; empty: there can.
    [[nodiscard]] std::string why_not() const;
    // Throws Error(Refused).
    void add(wire::GpuMemory const& memory);
    // If it is here.
    void remove(wire::GpuMemory const& memory) noexcept;

    // Whether bytes at this address are a GPU's.
    [[nodiscard]] bool has(void const* at) const { return find(at) != all_.end(); }
    // Whether UCX can move these pieces as one: all of them the host's, or a single one of a GPU.
    [[nodiscard]] bool are_alike(std::span<iovec const> pieces) const;
    // Says to UCX whose the bytes are; nothing of the host's.
    void describe(void const* at, ucp_request_param_t& param) const;

    // While it lives UCX may be called that moves them: its copies want a context in the calling thread.
    class Turn {
    public:
        explicit Turn(GpuMemories const& memories);

    private:
        std::optional<gpu::Current> current_;
    };

private:
    struct Registered {
        std::uint64_t bytes = 0;
        int gpu = 0;
        ucp_mem_h handle = nullptr;
    };
    using All = std::map<std::uintptr_t, Registered>;
    [[nodiscard]] All::const_iterator find(void const* at) const;

    Library const& ucx_;
    ucp_context_h const& context_;
    All all_;
};

}  // namespace mgi::transport::ucx
