// What of a channel is on one GPU: its endpoints there, their segments, and their tables, in the GPU's memory. The host
// has an image of the tables, and looks into that (statistics, the watchdog) as it does on a CPU, once it has refreshed it
// by a copy. Movers never do; they go by mail (mgi/device/mail.hpp), in pinned memory of the host.
// Segments are in the GPU's memory, but for those that links bring or take: these are in pinned memory of the host,
// where kernels read and write them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gpu/memory.hpp"
#include "runtime/channel_tables.hpp"
#include "runtime/gpu_handover.hpp"
#include "runtime/gpu_tables.hpp"
#include "runtime/resources.hpp"
#include "transport/gpu_copy.hpp"

namespace mgi {

class GpuPlace;

// A channel's endpoints on one of several GPUs that reach each other's memory.
struct GpuPeer {
    Here here;
    GpuPlace* own = nullptr;
    // Of another process: what it shares, as GPUs here reach it. Its tables, and behind them its segments.
    char* elsewhere = nullptr;
};

class GpuPlace {
public:
    // Of a channel with the counts and layouts of `shape`; `far`: its endpoints to which links lead; `peers`: those of
    // all GPUs, where they are peers (build_peers). Memory of the host's for their segments is at the charge of the
    // account; `shared` is the GPU's, which the reserve has none of; of peers it has the tables as well, and so many bytes
    // `behind` the segments that are others'. Throws Error(OutOfMemory, ...).
    GpuPlace(int gpu, Here const& here, Here const& far, State const& shape, Plan const& plan,
             Resources const& resources, gpu::Shared shared = gpu::Shared::Not,
             Here const* peers = nullptr, std::uint64_t behind = 0);
    ~GpuPlace();
    GpuPlace(GpuPlace const&) = delete;
    GpuPlace& operator=(GpuPlace const&) = delete;

    [[nodiscard]] int gpu() const { return gpu_; }
    [[nodiscard]] Here const& here() const { return here_; }
    // The host's image of what kernels see; it is there once the place was built.
    [[nodiscard]] State& state() const { return *state_; }
    // What kernels see; not for the host.
    [[nodiscard]] State* on_gpu() const { return tables_->on_gpu(table_, state_); }
    // Brings the image up to date.
    void refresh() const { tables_->refresh(table_); }
    // The same of how far a source there is, all in all: of a few words.
    void refresh_words(std::uint32_t source) const {
        auto const* const words = state_->sources[source].words;
        tables_->refresh(table_, words, sizeof(*words));
    }
    // Whether kernels have said that all groups of a source here have called flush; of words in the host's memory.
    [[nodiscard]] bool said_flushed(std::uint32_t source) const {
        return state_->flushed != nullptr && state_->flushed[source].load(device::relaxed) != 0;
    }
    [[nodiscard]] std::uint64_t pool_bytes() const { return sizes_.pool + charge_.bytes; }
    // The GPU's memory that its segments lie in.
    [[nodiscard]] transport::GpuRange memory() const {
        return {gpu_, segments(), sizes_.pool, gpu_};
    }
    // Other processes import it from now on: it is nobody else's until their use of it is over.
    gpu::DeviceMemory const& share(std::shared_ptr<GpuImporters> importers);
    // By which others know it again; 0 where it is freed with the channel.
    [[nodiscard]] std::uint64_t kept_number() const {
        return reserve_->keeps(*pool_) ? pool_->number() : 0;
    }
    // Bytes of it that are this channel's.
    [[nodiscard]] std::uint64_t shared_bytes() const {
        return sizes_.ahead + sizes_.pool + behind_;
    }
    // Kernels that nobody knows of may still use what this channel uses.
    void abandon();
    [[nodiscard]] bool abandoned() const { return pool_->abandoned(); }
    // Builds the tables of a channel, or has those of one like it, and brings them there; `fill` writes all else of a
    // state.
    void build(TableSource const& source, std::function<void(State&)> const& fill);
    // The same of peers, where each endpoint reads in place what all have for it; `all`: the endpoints of all of them.
    // Processes that do so with each other's memory name them in one order, and each builds its own.
    static void build_peers(std::vector<GpuPeer> const& peers, Here const& all, TableSource source,
                            std::function<void(State&)> const& fill);
    // What each of them shares, but for what is behind it.
    static std::uint64_t peer_bytes(State const& shape, Plan const& plan, Here const& here,
                                    Here const& all);
    // The stages of a channel with sorters, by source: their images, and what kernels see.
    void set_stages(std::vector<State*> const& images, std::vector<State*> const& on_gpu);
    void set_failed(ErrorCode code);

private:
    static std::uint64_t bytes_of(State const& shape);
    struct Sizes {
        std::uint64_t tables = 0;
        std::uint64_t pool = 0;  // segments, and what groups keep
        std::uint64_t mail = 0;
        std::uint64_t host = 0;
        std::uint64_t ahead = 0;  // of the pool: tables that are shared with it
    };
    static Sizes sizes_of(State const& shape, Plan const& plan, Here const& here, Here const& far,
                          Here const* peers);
    // Gives back what it took.
    struct Charge {
        Charge(std::shared_ptr<memory::Account> of, std::uint64_t much);
        ~Charge() { account->give(bytes); }
        Charge(Charge const&) = delete;
        Charge& operator=(Charge const&) = delete;
        std::shared_ptr<memory::Account> const account;
        std::uint64_t const bytes;
    };
    static Sizes with_tables_ahead(Sizes sizes);
    GpuPlace(int gpu, Here here, Here far, Sizes sizes, Resources const& resources,
             gpu::Shared shared, bool is_peer, std::uint64_t behind);

    [[nodiscard]] char* segments() const { return pool_->data() + sizes_.ahead; }
    [[nodiscard]] TableSite site() const;

    int const gpu_;
    Here const here_;
    Here const far_;
    Sizes const sizes_;
    std::uint64_t const behind_;
    Charge const charge_;
    std::shared_ptr<gpu::Reserve> const reserve_;
    std::shared_ptr<KeptTables> const kept_;
    std::shared_ptr<gpu::DeviceMemory> pool_;
    std::shared_ptr<GpuImporters> importers_;
    std::shared_ptr<gpu::PinnedMemory> mail_;
    std::shared_ptr<gpu::PinnedMemory> host_;
    static void begin(std::pmr::memory_resource& memory, State& state,
                      std::function<void(State&)> const& fill);
    void own(std::shared_ptr<GpuTables> tables, std::size_t table);

    std::shared_ptr<GpuTables> tables_;  // of all peers
    std::size_t table_ = 0;              // this place's
    State* state_ = nullptr;
    State** stages_ = nullptr;  // in the image
};

}  // namespace mgi
