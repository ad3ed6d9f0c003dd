// A process' runtime: devices, movers, watchdog, and the registry of what users made.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mgi/cluster.hpp>
#include <mgi/gpu_windows.hpp>
#include <mgi/runtime.hpp>

#include "core/kept_threads.hpp"
#include "mover/mover_thread.hpp"
#include "runtime/coordinator.hpp"
#include "runtime/crossing.hpp"
#include "runtime/gather_board.hpp"
#include "runtime/gpu_direct.hpp"
#include "runtime/gpu_sharing.hpp"
#include "runtime/network.hpp"
#include "runtime/progress.hpp"
#include "runtime/registry.hpp"
#include "runtime/resources.hpp"
#include "runtime/watchdog.hpp"
#include "topology/gpus.hpp"

namespace mgi {

class Runtime::Impl {
public:
    explicit Impl(RuntimeOptions const& options);
    Impl(RuntimeOptions const& options, ClusterOptions const& cluster);
    Impl(RuntimeOptions const& options, std::unique_ptr<Coordinator> coordinator);
    ~Impl();
    Impl(Impl const&) = delete;
    Impl& operator=(Impl const&) = delete;

    // A runtime of what `coordinator` joins, for tests.
    static Runtime joined(RuntimeOptions const& options, std::unique_ptr<Coordinator> coordinator);

    [[nodiscard]] RuntimeOptions const& options() const { return options_; }
    [[nodiscard]] std::vector<Device> const& devices() const { return devices_; }
    [[nodiscard]] Graph const& graph() const { return graph_; }
    [[nodiscard]] std::shared_ptr<Registry> const& registry() const { return registry_; }
    // Of the memory limit, and of the addresses that this process can still map.
    [[nodiscard]] std::uint64_t memory_left() const;
    [[nodiscard]] GpuAllocator const& gpu_allocator() const { return options_.gpu_allocator; }
    void trim() noexcept;
    [[nodiscard]] Coordinator& coordinator() { return *coordinator_; }
    [[nodiscard]] ChannelNetwork& network() { return network_; }

    Endpoint create_endpoint(std::string const& device);
    void delete_endpoint(Endpoint endpoint);
    std::vector<Endpoint> gather_endpoints(std::vector<Endpoint> const& mine);
    void decline_endpoints(Error const& why) noexcept;
    // The processes that have some of these endpoints.
    struct Company {
        Job job;
        std::vector<std::uint32_t> ranks;    // sorted
        std::vector<std::uint32_t> rank_of;  // by endpoint
        std::uint32_t me = 0;                // index in ranks
        std::vector<std::string> servers;    // by rank of `ranks`
        std::vector<bool> on_gpu;            // by endpoint
        std::vector<std::uint32_t> first;    // endpoint of each, by rank of `ranks`
        [[nodiscard]] bool on_one_server() const {
            return std::adjacent_find(servers.begin(), servers.end(), std::not_equal_to<>()) ==
                   servers.end();
        }
    };
    // Throws Error(NotFound), or InvalidArgument where this process is none of them.
    [[nodiscard]] Company company_of(std::vector<Endpoint> const& endpoints) const;
    // What all of them say, by rank: each calls it with the same `what`, which names the occasion. As
    // ClusterClient::gather, `failed` too; a timeout of 0 is the cluster's. What somebody says is never
    // empty: so the rank that has failed is known by what the others have not said.
    std::vector<std::string> gather(Company const& company, std::string const& what,
                                    std::string const& data, std::chrono::milliseconds timeout = {},
                                    bool failed = false);
    // The same for operators, which gather much: by memory of their own once they have some, `stop` is asked meanwhile.
    std::vector<std::string> gather_often(Company const& company, std::string const& what,
                                          std::string const& data,
                                          std::chrono::milliseconds timeout,
                                          std::function<bool()> const& stop, bool failed);
    // How often this process has been asked for it before, for the same ranks.
    std::uint64_t next_occasion(Company const& company);
    // How often it has been by now.
    [[nodiscard]] std::uint64_t occasions(Company const& company) const;
    // Those that are kept for these endpoints, or what `make` makes.
    std::shared_ptr<GpuWindows> windows_of(
        std::vector<Endpoint> const& endpoints,
        std::function<std::shared_ptr<GpuWindows>()> const& make);
    Channel create_channel(ChannelSpec const& spec);
    void decline_channel(std::vector<Endpoint> const& endpoints, Error const& why) noexcept;
    void delete_channel(ChannelImpl const& channel);

    // A channel whose endpoints are in several processes. All members call with equal specifications;
    // endpoints of other members may have any device. The first of each server makes its part there, all by
    // one plan: `descriptor` is the channel's, good until this process leaves it. Throws Error as create_channel
    // does, and leaves nothing then.
    struct MadePart {
        Channel channel;
        int descriptor = -1;
        std::uint64_t address = 0;
    };
    // For channels with members on other servers; the same in all processes.
    struct Elsewhere {
        std::optional<Terms> terms;
        MemberAddresses addresses;
    };
    MadePart make_part(std::uint32_t id, ChannelSpec const& spec, PartMembers const& members,
                       Elsewhere const& elsewhere = {});
    // Makes one known whose tables are there; of members that read in place that is behind `use_shared`.
    Channel complete_channel(std::shared_ptr<ChannelImpl> const& channel);
    // What the first of all members plans for them.
    [[nodiscard]] Plan plan_together(ChannelSpec const& spec, PartMembers const& members) const;
    // The same if all turn out to read in place what is on others' GPUs.
    [[nodiscard]] Plan plan_for_peers(ChannelSpec const& spec, PartMembers const& members) const;
    // The others find it; the descriptor stays the caller's. Nothing if the part's address is taken in
    // this process: then the first leaves that part and makes another. Throws Error(InvalidArgument) if
    // the descriptor is no part of this channel, or of another specification; Error(OutOfMemory).
    std::optional<Channel> open_part(std::uint32_t id, ChannelSpec const& spec,
                                     PartMembers const& members, int descriptor,
                                     Elsewhere const& elsewhere = {});
    // This process does without such a channel from now on. If its sources have ended and its destinations
    // have taken everything, nobody else notices; else the channel fails everywhere, with Deleted. A
    // source's end that movers have still to announce is waited for, at most gone_limit without a row
    // that moves. Throws Error(NotFound).
    void leave(ChannelImpl const& channel);

    using Body = std::function<void(device::Group const&, device::Shared&)>;
    // `channels` are those that the kernel was given; `sorts` marks MGI's own sorters.
    Launch start(Endpoint endpoint, LaunchOptions const& options,
                 std::vector<device::Channel> const& channels, Body body,
                 GpuStart const& on_gpu = {}, bool sorts = false);
    // Runtime::most_groups.
    [[nodiscard]] std::uint32_t fitting(Endpoint endpoint, LaunchOptions const& options,
                                        std::vector<device::Channel> const& channels,
                                        GpuFit const& on_gpu) const;

    Attachment attach(Endpoint endpoint, AttachOptions const& options);

    // The device of an endpoint; throws Error(NotFound).
    [[nodiscard]] Device const& device_of(Endpoint endpoint) const;

private:
    Impl(RuntimeOptions const& options, std::vector<topology::Gpu> const& gpus);
    // Another process' endpoint.
    struct Other {
        std::uint32_t rank = 0;
        std::string server;
        bool on_gpu = false;
    };
    // Own endpoints as they are, others' elsewhere; what is not known stays.
    [[nodiscard]] Endpoint resolved(Endpoint endpoint) const;
    class Founding;
    Channel create_together(ChannelSpec const& spec);
    [[nodiscard]] std::size_t device_for(std::string const& name, Job const& job) const;
    void check_endpoints(std::vector<Endpoint> const& endpoints, char const* role,
                         std::string const& who) const;
    // Of a channel over several servers: the most endpoints that any of them has.
    struct LargestServer {
        std::uint64_t sources = 0;
        std::uint64_t destinations = 0;
    };
    [[nodiscard]] Plan plan_channel(ChannelSpec const& spec, Schema const& schema,
                                    std::optional<LargestServer> const& largest = {}) const;
    std::shared_ptr<ChannelImpl> build_channel(std::uint32_t id, ChannelSpec const& spec,
                                               std::optional<std::uint32_t> text_bytes = {});
    Channel make_channel(std::uint32_t id, ChannelSpec const& spec);
    void check_members(ChannelSpec const& spec, PartMembers const& members) const;
    void add_crossing(ChannelImpl& channel, Elsewhere const& elsewhere);
    void leave_all() noexcept;
    void leave(ChannelImpl& channel, std::string_view why,
               std::chrono::steady_clock::time_point until);
    // The registry's hold on a channel; throws Error(NotFound).
    [[nodiscard]] std::shared_ptr<ChannelImpl> known(ChannelImpl const& channel) const;
    void open_channel(std::shared_ptr<ChannelImpl> const& channel);
    void abandon(ChannelImpl const& channel) noexcept;
    void take_apart(ChannelImpl const& channel);
    void end_work(ChannelImpl& channel) noexcept;
    [[nodiscard]] std::shared_ptr<Launch::State> new_launch(
        Endpoint endpoint, std::uint32_t groups, std::vector<device::Channel> const& channels,
        bool sorts) const;
    [[nodiscard]] std::uint32_t scratch_of(Launch::State& launch, std::uint32_t more) const;
    // `after`: what is looked at when the kernel is over; throws what was wrong.
    Launch start_on_gpu(std::shared_ptr<Launch::State> const& launch, Device const& device,
                        LaunchOptions const& options, std::uint32_t scratch, GpuStart const& on_gpu,
                        std::function<void()> const& after = {});
    // The launch's channels that its endpoint is a source of and has had no sorters for, and which source.
    using Sorted = std::vector<std::pair<std::shared_ptr<ChannelImpl>, std::uint32_t>>;
    [[nodiscard]] Sorted without_gpu_sorters(Launch::State const& launch) const;
    void start_gpu_sorters(Launch::State const& launch);
    void start_gpu_sorters(std::shared_ptr<ChannelImpl> const& channel, std::uint32_t source);
    [[nodiscard]] std::uint32_t gpu_sorters_on(Device const& device) const;
    [[nodiscard]] ChannelSpec stage_spec(ChannelImpl const& channel, std::uint32_t source) const;
    void add_stages(std::shared_ptr<ChannelImpl> const& channel);
    void start_sorters(std::shared_ptr<ChannelImpl> const& channel);
    void add_moves(std::shared_ptr<ChannelImpl> const& channel);

    RuntimeOptions options_;
    std::vector<Device> devices_;
    Graph graph_;
    std::shared_ptr<memory::Account> account_;
    std::shared_ptr<KeptTables> kept_tables_ =
        std::make_shared<KeptTables>(std::uint64_t{32} << 20);
    std::shared_ptr<ImportedMemories> imported_ = std::make_shared<ImportedMemories>();
    std::shared_ptr<gpu::Reserve> reserve_ = std::make_shared<gpu::Reserve>(
        std::uint64_t{1} << 30, std::uint64_t{64} << 20,
        // Tables hold memory of the reserve, which holds this.
        [tables = std::weak_ptr(kept_tables_), imported = std::weak_ptr(imported_)] {
            if (auto const kept = tables.lock()) kept->trim();
            if (auto const kept = imported.lock()) kept->trim();
        },
        gpu::to_share(options_.gpu_allocator));
    [[nodiscard]] Resources resources() const {
        return {account_, reserve_, kept_tables_, imported_};
    }
    std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
    std::vector<std::size_t>
        coming_;  // endpoints on their way, by device; under the registry's mutex
    std::map<std::vector<std::uint32_t>, std::uint64_t>
        occasions_;  // by ranks; under the registry's mutex
    struct Board {
        std::shared_ptr<GatherBoard> board;
        bool never = false;  // they cannot share memory
    };
    [[nodiscard]] std::shared_ptr<GatherBoard> board_of(Company const& company);
    void found_board(Company const& company, std::string const& after) noexcept;
    // Each process calls it at the same time, with the same `what`.
    Board make_board(Company const& company, std::string const& what);
    std::map<std::vector<std::uint32_t>, Board> boards_;  // by ranks; under the registry's mutex
    std::map<std::uint32_t, Other> others_;  // by endpoint, as gathered; under the registry's mutex
    struct KeptWindows {
        std::vector<Endpoint> endpoints;
        std::shared_ptr<GpuWindows> windows;
    };
    std::mutex windows_mutex_;
    std::vector<KeptWindows> windows_;  // few; what was asked for last comes last
    std::unique_ptr<Coordinator> coordinator_ = std::make_unique<LocalCoordinator>();
    GpuRefusals gpu_refusals_;
    DirectRefusal direct_refusal_;
    ChannelNetwork network_;
    std::mutex movers_mutex_;
    std::map<std::uint32_t, mover::MoverThread> movers_;  // by device
    KeptThreads watch_threads_;
    std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
    std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace mgi
