// What of a channel is on one GPU: its endpoints there, their segments, and their tables in memory that is
// managed, at home on the GPU. So the host builds tables in place, and looks into them
// (statistics, the watchdog, a failure) as it does on a CPU: then their pages come over, and go back when a
// kernel asks. Movers never do; they go by mail (mgi/device/mail.hpp), in pinned memory of the host.
// Segments are in the GPU's memory, but for those that links bring or take: these are in pinned memory of the host,
// where kernels read and write them.
#pragma once

#include <memory>
#include <memory_resource>
#include <vector>

#include "gpu/memory.hpp"
#include "memory/account.hpp"
#include "runtime/channel_tables.hpp"
#include "runtime/gpu_handover.hpp"
#include "transport/gpu_copy.hpp"

namespace mgi {

class GpuPlace {
public:
    // Of a channel with the counts and layouts of `shape`; `far`: its endpoints to which links lead. Memory of the
    // host's for their segments is at the charge of `account`; `shared` is the GPU's. Throws
    // Error(OutOfMemory, ...).
    GpuPlace(int gpu, Here const& here, Here const& far, State const& shape, Plan const& plan,
             std::shared_ptr<memory::Account> account, gpu::Shared shared = gpu::Shared::Not);
    ~GpuPlace();
    GpuPlace(GpuPlace const&) = delete;
    GpuPlace& operator=(GpuPlace const&) = delete;

    [[nodiscard]] int gpu() const { return gpu_; }
    [[nodiscard]] Here const& here() const { return here_; }
    [[nodiscard]] State& state() const { return *state_; }
    [[nodiscard]] std::uint64_t pool_bytes() const { return pool_->bytes() + host_.bytes(); }
    // The GPU's memory that its segments lie in.
    [[nodiscard]] transport::GpuRange memory() const {
        return {gpu_, pool_->data(), pool_->bytes(), gpu_};
    }
    // Other processes import it from now on; plain memory stays until they have let go.
    gpu::DeviceMemory const& share(std::shared_ptr<GpuImporters> importers);
    // Brings the arrays over that the state names, gives it the pool, and builds the tables.
    void build(Plan const& plan);
    // The stages of a channel with sorters, by source.
    void set_stages(std::vector<State*> const& stages);

private:
    static std::uint64_t bytes_of(State const& shape);
    template <class T>
    void bring(T const*& array, std::size_t count);
    struct Sizes {
        std::uint64_t tables = 0;
        std::uint64_t pool = 0;
        std::uint64_t mail = 0;
        std::uint64_t host = 0;
    };
    static Sizes sizes_of(State const& shape, Plan const& plan, Here const& here, Here const& far);
    // Gives back what it took.
    struct Charge {
        Charge(std::shared_ptr<memory::Account> of, std::uint64_t much);
        ~Charge() { account->give(bytes); }
        Charge(Charge const&) = delete;
        Charge& operator=(Charge const&) = delete;
        std::shared_ptr<memory::Account> const account;
        std::uint64_t const bytes;
    };
    GpuPlace(int gpu, Here here, Here far, State const& shape, Sizes const& sizes,
             std::shared_ptr<memory::Account> account, gpu::Shared shared);

    int const gpu_;
    Here const here_;
    Here const far_;
    gpu::ManagedMemory managed_;
    Charge const charge_;
    std::unique_ptr<gpu::DeviceMemory> pool_;
    std::shared_ptr<GpuImporters> importers_;
    gpu::PinnedMemory mail_;
    gpu::PinnedMemory host_;
    std::pmr::monotonic_buffer_resource memory_;
    State* const state_;
};

}  // namespace mgi
