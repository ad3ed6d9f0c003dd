// A channel's memory, tables and failure: what the public Channel, its kernels' handles, batches and
// the mover share.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mgi/channel.hpp>

#include "gpu/memory.hpp"
#include "memory/pool.hpp"
#include "memory/segment_layout.hpp"
#include "runtime/channel_tables.hpp"
#include "runtime/gpu_handover.hpp"
#include "runtime/gpu_place.hpp"
#include "runtime/gpu_relays.hpp"
#include "runtime/gpu_sharing.hpp"
#include "runtime/part.hpp"
#include "runtime/resources.hpp"

namespace mgi {

class Crossing;
class Progress;

class ChannelImpl : public std::enable_shared_from_this<ChannelImpl> {
public:
    // How several processes have a channel: the first makes its part, the others find it.
    struct Sharing {
        PartMembers members;
        std::shared_ptr<Part> found;  // null: to be made
    };
    // Allocates everything the plan says, out of the resources, and builds the tables; in shared
    // memory where there is a sharing, on GPUs for the endpoints that they have. Throws Error(OutOfMemory,
    // InvalidArgument).
    static std::shared_ptr<ChannelImpl> create(std::uint32_t id, ChannelSpec spec, Schema schema,
                                               Plan plan, Resources const& resources,
                                               std::optional<Sharing> sharing = {},
                                               std::vector<GpuMembers> const& gpus = {});
    ~ChannelImpl() { let_go(); }
    ChannelImpl(ChannelImpl const&) = delete;
    ChannelImpl& operator=(ChannelImpl const&) = delete;

    [[nodiscard]] std::uint32_t id() const { return id_; }
    [[nodiscard]] ChannelSpec const& spec() const { return spec_; }
    [[nodiscard]] Schema const& schema() const { return schema_; }
    // What batches have.
    [[nodiscard]] Schema const& columns() const {
        return spec_.schema.has_value() ? *spec_.schema : schema_;
    }
    [[nodiscard]] Plan const& plan() const { return plan_; }
    // As CPU devices' calls and movers see it, with the rows of all endpoints.
    [[nodiscard]] State& state() { return state_; }
    // As the endpoint's device calls see it; on a GPU the host's image of that.
    [[nodiscard]] State& state_at(Endpoint endpoint);
    // What the endpoint's device calls are given; on a GPU not for the host.
    [[nodiscard]] State* given_at(Endpoint endpoint);
    // The state that what was given stands for; null where that is no state of this channel.
    [[nodiscard]] State const* state_of(State const* given) const;
    // Brings the images of what is on GPUs up to date, for who looks into the states. They stay what they are where a
    // GPU's context is lost, which others see; false then.
    bool refresh() const noexcept;
    // The same of what is on the endpoint's GPU alone; and of a source, whether it has flushed.
    void refresh_at(Endpoint endpoint) const noexcept;
    void refresh_words(std::uint32_t source) const noexcept;
    // Whether a source is on a GPU whose kernels have said that all of its groups have called flush.
    [[nodiscard]] bool said_flushed(std::uint32_t source) const;
    [[nodiscard]] memory::Pool& pool() { return *pool_; }
    // What of it is on GPUs: there segments are not the host's to touch.
    [[nodiscard]] std::vector<std::unique_ptr<GpuPlace>> const& places() const { return places_; }
    [[nodiscard]] bool is_on_gpu(Endpoint endpoint) const { return place_of(endpoint) != nullptr; }
    // Where its segments lie that are in GPUs' memory, other processes' among them.
    [[nodiscard]] std::shared_ptr<transport::GpuMemories const> gpu_memories() const {
        return gpu_memories_;
    }
    // Finds the ways between its GPUs here; once, before anybody else knows this channel. Throws as GpuRelays does.
    void add_relays(Graph const& graph, std::vector<Device> const& devices,
                    Resources const& resources);
    // Null where it has not several GPUs here, or reads all in place.
    [[nodiscard]] GpuRelays const* relays() const { return relays_.get(); }
    // What other processes copy into, or reach in place, which is handed to them at their doors, by member; once.
    [[nodiscard]] SharedGpus share_gpus(std::vector<std::string> const& doors);
    // Opens what all members share, as far as this one copies into it, and what came to its door; once, after the
    // crossing was set and before it begins. Where all is read in place it builds the tables: nobody may look at them
    // before. Throws Error(Internal) where that is not what it has to be. Whose memory cannot be had, and why: then the
    // channel is of no use.
    [[nodiscard]] std::map<std::uint32_t, std::string> use_shared(
        std::vector<SharedGpus> const& by_member, GpuDoor const& door);
    // Nobody copies any more; the processes that share hear of it. What kernels reach in place stays as long as the channel.
    void forget_shared() {
        if (!is_between_processes()) let_go();
    }
    // Kernels that nobody knows of may still use what it has on GPUs.
    void abandon_places() const {
        for (auto const& place : places_) place->abandon();
    }
    // Whether its endpoints are on GPUs of several processes, and read in place what all of them have.
    [[nodiscard]] bool is_between_processes() const {
        return shared() && part_->members().in_place;
    }
    // "channel 'lineitem' (3)"
    [[nodiscard]] std::string describe() const;

    // Index of an endpoint among the sources or destinations; kNone if it is not one.
    static constexpr std::uint32_t kNone = UINT32_MAX;
    [[nodiscard]] std::uint32_t source_index(Endpoint endpoint) const;
    [[nodiscard]] std::uint32_t destination_index(Endpoint endpoint) const;

    // Whether other processes have endpoints of it, too; then its part.
    [[nodiscard]] bool shared() const { return part_ != nullptr; }
    [[nodiscard]] std::shared_ptr<Part> const& part() const { return part_; }
    // What of it is on this server; all of it where it is not shared.
    [[nodiscard]] Here const& here() const { return here_; }
    // Its links to processes of other servers; null where there are none. Set once, before anybody else
    // knows this channel.
    [[nodiscard]] std::shared_ptr<Crossing> const& crossing() const { return crossing_; }
    void set_crossing(std::shared_ptr<Crossing> crossing) { crossing_ = std::move(crossing); }
    // What its calls do that cannot go on. Set once, before anybody calls.
    void set_progress(std::shared_ptr<Progress> progress);
    // Whether an endpoint is this process'; all of them are where it is not shared.
    [[nodiscard]] bool is_own_source(std::uint32_t source) const;
    [[nodiscard]] bool is_own_destination(std::uint32_t destination) const;
    // Of a shared channel: the member that moves a source's segments, where they move by copy.
    [[nodiscard]] std::uint32_t mover_of(std::uint32_t source) const;
    // Whether that is this process.
    [[nodiscard]] bool moves_source(std::uint32_t source) const;
    // Every segment of a source on this server stands in its receive queue, wherever that is, and every
    // destination on this server knows that there will be no more. Of another server's source: the latter.
    [[nodiscard]] bool source_ended(std::uint32_t source) const;
    // All groups of the source have said that they send no more.
    [[nodiscard]] bool source_flushed(std::uint32_t source) const;

    // The text is `message` and `cause`; without memory for it the channel fails all the same.
    void fail(ErrorCode code, std::string_view message, std::string_view cause = {}) noexcept;
    // Fails it in this process alone, which has left.
    void close_here(std::string_view message) noexcept;
    // Takes over what another process has failed it with; true if one has.
    bool adopt_failure() noexcept;
    [[nodiscard]] bool failed() const { return state_.failed.load(device::relaxed) != 0; }
    // Why it has failed; empty without memory for it.
    [[nodiscard]] std::string failure_text() const;
    [[noreturn]] void throw_failure() const;
    void check() const {
        if (failed()) throw_failure();
    }

    // Everything that goes to a destination on this server has been taken there.
    [[nodiscard]] bool ended(std::uint32_t destination) const;
    // The same of all destinations here, and everything that sources here send is where it is to go.
    [[nodiscard]] bool complete() const;
    // Changes whenever a row moves on this server.
    [[nodiscard]] std::uint64_t own_progress() const;
    // Or on another one.
    [[nodiscard]] std::uint64_t progress() const;
    [[nodiscard]] ChannelStats stats() const;

    // A received batch as the host's own, which takes over its release: a view in place, or detached
    // with a fresh segment that the caller took from the pool. When it throws, the batch is released
    // and the segment given back.
    RecordBatch view_in_place(std::uint32_t destination, device::ReceivedBatch const& batch);
    RecordBatch detach(std::uint32_t destination, device::ReceivedBatch const& batch,
                       std::uint64_t fresh);
    [[nodiscard]] bool can_grow() const;
    // For Error(OutOfMemory) when it can grow no more.
    [[nodiscard]] std::string growth_limit_text() const;
    void release(std::uint32_t destination, device::ReceivedBatch const& batch);
    // Batches in place that the host holds of a destination.
    std::vector<std::atomic<std::uint32_t>> held;

    // Host groups, one for each (endpoint index, group); made at the first ask.
    std::shared_ptr<Sender::State> sender(std::uint32_t source, std::uint32_t group,
                                          std::uint32_t groups);
    std::shared_ptr<Receiver::State> receiver(std::uint32_t destination, std::uint32_t group);

    // Whether host code holds a Receiver of the destination or a batch in place, or a Sender of the
    // source.
    [[nodiscard]] bool has_receiver(std::uint32_t destination) const;
    [[nodiscard]] bool has_sender(std::uint32_t source) const;

    // What threads of a stage's groups gather rows in. Called once, before anybody else knows this
    // channel, as add_stages is.
    void add_staged_rows(std::shared_ptr<memory::Account> account);
    // Where the sorters of a stage work. Called once, as add_staged_rows is.
    void add_seats(std::uint32_t sorters);
    // Of a source on a GPU: true for who is to start its sorters, once; for who could not, that nobody has.
    [[nodiscard]] bool wants_gpu_sorters(std::uint32_t source) const;
    [[nodiscard]] bool begin_gpu_sorters(std::uint32_t source);
    void forget_gpu_sorters(std::uint32_t source);
    // Where they say why they had to stop.
    [[nodiscard]] std::uint32_t* gpu_sorter_failures(std::uint32_t source) const;
    // The inner channels of a channel with sorters, one for each source of this process, null for others'.
    // Each fails with the other.
    void add_stages(std::vector<std::shared_ptr<ChannelImpl>> stages);
    [[nodiscard]] std::vector<std::shared_ptr<ChannelImpl>> const& stages() const {
        return stages_;
    }
    [[nodiscard]] bool has_sorters() const { return spec_.options.sorters != 0; }
    // The channel as kernels are given it: of a stage the one it is for.
    [[nodiscard]] State const& given_as() const;

private:
    ChannelImpl(std::uint32_t id, ChannelSpec spec, Schema schema, Plan plan,
                Resources const& resources, std::optional<Sharing> sharing,
                std::vector<GpuMembers> const& gpus);
    void fill_in(State& state, bool on_gpu) const;
    void build(ChannelTables& tables, std::shared_ptr<memory::Account> account);
    void add_places(std::vector<GpuMembers> const& gpus, Resources const& resources);
    void adopt_places();
    [[nodiscard]] Here all_endpoints() const;
    [[nodiscard]] SharedGpus share_places(std::vector<std::string> const& doors);
    [[nodiscard]] std::map<std::uint32_t, std::string> build_between(
        std::vector<SharedGpus> const& by_member);
    [[nodiscard]] std::vector<GpuPeer> peers_of(std::uint32_t member, SharedGpus const& theirs);
    void check_peers(std::uint32_t member, std::vector<GpuPeer> const& peers,
                     SharedGpus const& theirs) const;
    [[nodiscard]] std::uint64_t proof_bytes() const;
    void prove(std::uint32_t member, SharedGpuPool const& theirs) const;
    void use_shared(std::uint32_t member, SharedGpus const& theirs, GpuHandover const& handed);
    std::shared_ptr<gpu::ImportedMemory> import(SharedGpuPool const& pool,
                                                GpuHandover const& handed,
                                                Descriptor const* memory) const;
    // Of others' memory.
    void let_go() noexcept;
    [[nodiscard]] bool is_written_by_others(Here const& here) const;
    [[nodiscard]] Here far_of(Here const& here) const;
    [[nodiscard]] gpu::Shared shared_as(int gpu) const;
    [[nodiscard]] gpu::Shared not_shared() const;
    std::vector<State*> stage_table(std::vector<std::uint32_t> const& here, bool given = false);
    template <class Refresh>
    bool try_to(Refresh const& refresh) const noexcept;
    [[nodiscard]] GpuPlace* place_of(Endpoint endpoint) const;
    void set_failed(ErrorCode code);
    void share(ChannelTables& tables, Sharing sharing, std::shared_ptr<memory::Account> account);
    void fail_others(std::string_view message, std::string_view cause) noexcept;
    void tell_servers() noexcept;
    [[nodiscard]] bool has_delivered(std::uint32_t source) const;
    // Sets the text; without memory there is none, see throw_failure.
    void say_failure(std::string_view message, std::string_view cause) noexcept;
    RecordBatch view(device::ReceivedBatch const& batch, char const* segment,
                     std::shared_ptr<void const> owner) const;
    RecordBatch view_of_structs(device::ReceivedBatch const& batch) const;

    std::uint32_t const id_;
    ChannelSpec const spec_;
    Schema const schema_;
    Plan plan_;
    memory::ChannelLayout layout_;
    memory::ChannelLayout carry_layout_;
    std::vector<std::uint32_t> keys_;
    std::vector<device::u16> owners_;
    std::vector<device::KeyOrder> range_keys_;  // of a Range
    std::vector<std::uint32_t> destination_ids_;
    std::unique_ptr<memory::Pool> staged_pool_;  // of a stage: its threads' rows
    Here here_;
    std::shared_ptr<Part> part_;
    std::unique_ptr<memory::Pool>
        pool_;  // CPU endpoints' segments and what groups keep; may be none
    std::unique_ptr<gpu::PinnedRange> pinned_;  // the pool, where GPUs have endpoints as well
    std::unique_ptr<std::pmr::monotonic_buffer_resource> tables_;
    State state_;
    std::vector<std::unique_ptr<GpuPlace>> places_;
    std::unique_ptr<GpuRelays> relays_;
    std::shared_ptr<GpuImporters> importers_;      // of places' memory
    std::map<std::uint32_t, GpuHandover> handed_;  // by member
    std::shared_ptr<ImportedMemories> imports_;
    std::vector<std::shared_ptr<gpu::ImportedMemory>> imported_;
    std::shared_ptr<transport::GpuMemories> gpu_memories_ =
        std::make_shared<transport::GpuMemories>();

    std::vector<std::shared_ptr<ChannelImpl>> stages_;
    std::vector<State*> stage_states_;
    std::weak_ptr<ChannelImpl> staged_for_;
    struct GpuSorting {
        GpuSorting(int gpu, std::uint32_t sorters)
            : failures(gpu, sorters * sizeof(std::uint32_t)) {}
        gpu::PinnedMemory failures;
        std::atomic<bool> started{false};
    };
    std::map<std::uint32_t, GpuSorting>
        gpu_sorting_;  // by source; complete before anybody knows us

    mutable std::mutex mutex_;
    std::string failure_;
    // Host groups keep their number when the last handle on them dies: they stay the same group.
    template <class HandleState>
    struct KnownGroup {
        std::weak_ptr<HandleState> state;
        std::optional<std::uint64_t> number;
    };
    using IndexAndGroup = std::pair<std::uint32_t, std::uint32_t>;
    std::map<IndexAndGroup, KnownGroup<Sender::State>> senders_;
    std::map<IndexAndGroup, KnownGroup<Receiver::State>> receivers_;
    std::shared_ptr<Progress> progress_;
    std::shared_ptr<Crossing> crossing_;  // last: its links end before anything that they use
};

}  // namespace mgi
