#include <algorithm>
#include <new>
#include <set>
#include <system_error>

#include "core/block_cache.hpp"
#include "core/log.hpp"
#include "core/process_limits.hpp"
#include "core/text.hpp"
#include "planner/plan.hpp"
#include "runtime/checks.hpp"
#include "runtime/cluster_coordinator.hpp"
#include "runtime/gpu_channels.hpp"
#include "runtime/gpu_kernels.hpp"
#include "runtime/runtime_impl.hpp"
#include "topology/discovery.hpp"

namespace mgi {

namespace {

// How long running groups are given when their runtime dies.
constexpr auto kGroupsEnd = std::chrono::seconds(5);

std::vector<topology::Gpu> gpus_for(RuntimeOptions const& options) {
    if (!options.gpus) return {};
    topology::GpuReport report = topology::discover_gpus();
    for (std::string const& problem : report.problems) log::warn("{}", problem);
    return std::move(report.gpus);
}

std::vector<Device> devices_of(RuntimeOptions const& options,
                               std::vector<topology::Gpu> const& gpus) {
    std::vector<Device> devices = topology::discover_cpu_devices(options.cpu_devices);
    for (topology::Gpu const& gpu : gpus) {
        devices.push_back(topology::device_of(gpu, static_cast<std::uint32_t>(devices.size())));
    }
    return devices;
}

}  // namespace

Runtime::Impl::Impl(RuntimeOptions const& options) : Impl(options, gpus_for(options)) {}

Runtime::Impl::Impl(RuntimeOptions const& options, std::vector<topology::Gpu> const& gpus)
    : options_(options),
      devices_(devices_of(options, gpus)),
      graph_(topology::build_graph(devices_, gpus)),
      account_(std::make_shared<memory::Account>(
          options.memory_limit != 0 ? options.memory_limit : usable_memory().value / 2)),
      coming_(devices_.size(), 0),
      network_(options.addresses, devices_, options.encrypt_wires) {
    log::info("a runtime with {} CPU devices, {} GPUs and {} for channels",
              devices_.size() - gpus.size(), gpus.size(), bytes_text(account_->limit()));
}

Runtime::Impl::Impl(RuntimeOptions const& options, ClusterOptions const& cluster) : Impl(options) {
    coordinator_ = std::make_unique<ClusterCoordinator>(cluster, devices_, registry_);
    network_.share_board_by([this](int board) { return coordinator_->share_board(board); });
}

Runtime::Impl::Impl(RuntimeOptions const& options, std::unique_ptr<Coordinator> coordinator)
    : Impl(options) {
    coordinator_ = std::move(coordinator);
}

Runtime Runtime::Impl::joined(RuntimeOptions const& options,
                              std::unique_ptr<Coordinator> coordinator) {
    return Runtime(std::make_shared<Impl>(options, std::move(coordinator)));
}

Runtime::Impl::~Impl() {
    std::vector<std::shared_ptr<Launch::State>> launches;
    leave_all();
    {
        std::lock_guard const lock(registry_->mutex);
        for (auto const& [id, channel] : registry_->channels) {
            if (channel->shared()) coordinator_->leave_channel(id);
            (void)channel->refresh();
            if (!channel->complete()) channel->fail(ErrorCode::Deleted, "the runtime has ended");
        }
    }
    // One by one: links are waited for, and nobody else is kept from the registry meanwhile.
    for (std::uint32_t next = 0;;) {
        std::shared_ptr<ChannelImpl> channel;
        {
            std::lock_guard const lock(registry_->mutex);
            auto const at = registry_->channels.lower_bound(next);
            if (at == registry_->channels.end()) break;
            channel = at->second;
        }
        end_work(*channel);
        if (channel->id() == UINT32_MAX) break;
        next = channel->id() + 1;
    }
    try {
        while (!registry_->channels.empty()) {
            registry_->remove_channel(registry_->channels.begin()->first);
        }
    } catch (std::bad_alloc const&) {
        // The rest lives as long as the registry, which running groups hold on to.
        log::warn("no memory to take a runtime's channels apart");
    }
    {
        std::lock_guard const lock(registry_->mutex);
        launches.swap(registry_->launches);
    }
    auto const deadline = std::chrono::steady_clock::now() + kGroupsEnd;
    for (auto const& launch : launches) {
        std::unique_lock lock(launch->mutex);
        if (!launch->ended.wait_until(lock, deadline, [&] { return launch->running == 0; })) {
            log::warn("{} groups on endpoint {} still run although their runtime has ended",
                      launch->running, launch->endpoint.id);
        }
    }
    progress_->close();
}

// A device by its name; by a kind ("cpu", "cuda") the one of it with the fewest endpoints. Of several the first one, counted
// from this process' share on: the processes of a server share the devices out. The caller holds the registry's mutex.
std::size_t Runtime::Impl::device_for(std::string const& name, Job const& job) const {
    std::vector<std::size_t> found;
    std::string known;
    for (Device const& device : devices_) {
        if (device.name == name || device.name.starts_with(name + ":")) {
            found.push_back(device.index);
        }
        known += (known.empty() ? "" : ", ") + device.name;
    }
    if (found.empty()) {
        throw Error(ErrorCode::NotFound,
                    "there is no device '" + name + "'; this runtime has " + known);
    }
    std::vector<std::size_t> endpoints = coming_;
    for (auto const& [id, endpoint] : registry_->endpoints) ++endpoints[endpoint.device];
    std::size_t const share = found.size() * job.local_rank / job.local_size;
    std::rotate(found.begin(), found.begin() + std::ptrdiff_t(share), found.end());
    return *std::min_element(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
        return endpoints[a] < endpoints[b];
    });
}

Endpoint Runtime::Impl::create_endpoint(std::string const& device) {
    bool const has_gpus = devices_.back().kind == VertexKind::Gpu;
    std::string const name = !device.empty() ? device : has_gpus ? "cuda" : "cpu";
    // CPU devices are this process' own: its cores.
    Job const job = name == "cuda" ? coordinator_->job() : Job{};
    std::size_t index = 0;
    {
        std::lock_guard const lock(registry_->mutex);
        index = device_for(name, job);
        ++coming_[index];
    }
    std::optional<std::uint32_t> id;
    std::exception_ptr failure;
    // Before anything is resident there.
    if (devices_[index].kind == VertexKind::Gpu) load_gpu_kernels(devices_[index].ordinal);
    try {
        id = coordinator_->create_endpoint(devices_[index]);
    } catch (...) {
        failure = std::current_exception();
    }
    std::lock_guard const lock(registry_->mutex);
    --coming_[index];
    if (failure != nullptr) std::rethrow_exception(failure);
    Endpoint const endpoint{*id, static_cast<std::uint32_t>(index)};
    registry_->endpoints.emplace(endpoint.id, endpoint);
    return endpoint;
}

void Runtime::Impl::delete_endpoint(Endpoint endpoint) {
    (void)device_of(endpoint);
    {
        std::lock_guard const lock(registry_->mutex);
        for (auto const& [id, channel] : registry_->channels) {
            if (has_endpoint(*channel, endpoint)) {
                throw Error(ErrorCode::InvalidArgument, "endpoint " + std::to_string(endpoint.id) +
                                                            " is used by " + channel->describe() +
                                                            "; delete the channel first");
            }
        }
        registry_->endpoints.erase(endpoint.id);
    }
    coordinator_->delete_endpoint(endpoint.id);
}

Device const& Runtime::Impl::device_of(Endpoint endpoint) const {
    std::lock_guard const lock(registry_->mutex);
    auto const at = registry_->endpoints.find(endpoint.id);
    if (at == registry_->endpoints.end() || !(at->second == endpoint)) {
        throw Error(ErrorCode::NotFound, "endpoint " + std::to_string(endpoint.id) +
                                             " does not exist in this runtime (deleted, " +
                                             coordinator_->elsewhere() + ")");
    }
    return devices_[endpoint.device];
}

void Runtime::Impl::check_endpoints(std::vector<Endpoint> const& endpoints, char const* role,
                                    std::string const& who) const {
    if (endpoints.empty()) {
        throw Error(ErrorCode::InvalidArgument, who + " has no " + role + " endpoints");
    }
    std::set<std::uint32_t> seen;
    for (Endpoint const endpoint : endpoints) {
        try {
            (void)device_of(endpoint);
        } catch (Error const& error) {
            throw Error(error.code(), who + ", " + role + ": " + error.what());
        }
        if (!seen.insert(endpoint.id).second) {
            throw Error(
                ErrorCode::InvalidArgument,
                who + " names endpoint " + std::to_string(endpoint.id) + " twice as a " + role);
        }
    }
}

Plan Runtime::Impl::plan_channel(ChannelSpec const& spec, Schema const& schema,
                                 std::optional<LargestServer> const& largest) const {
    planner::PlanRequest request;
    request.graph = graph_;
    // A stage's buffers lie with its source; other processes' endpoints share this one's memory, so they
    // may as well.
    std::uint32_t anywhere = 0;
    for (Endpoint const endpoint : spec.sources) {
        if (endpoint.device < devices_.size()) anywhere = endpoint.device;
    }
    auto const vertex = [&](Endpoint endpoint) {
        return endpoint.device < devices_.size() ? endpoint.device : anywhere;
    };
    for (Endpoint const endpoint : spec.sources) request.sources.push_back(vertex(endpoint));
    for (Endpoint const endpoint : spec.destinations) {
        request.destinations.push_back(vertex(endpoint));
    }
    request.schema = schema;
    request.routing = spec.routing.kind;
    request.options = spec.options;
    request.memory_limit = account_->limit();
    request.memory_left = memory_left();
    if (request.memory_left < account_->left()) {
        auto const addresses = ProcessLimits().addresses_left();
        if (addresses) request.left_of = "what " + addresses->name + " allows";
    }
    if (largest) {
        request.sources_here = largest->sources;
        request.destinations_here = largest->destinations;
    }
    for (Device const& device : devices_) {
        request.cores = std::max(request.cores, static_cast<std::uint32_t>(device.cores.size()));
    }
    return planner::make_plan(request);
}

Channel Runtime::Impl::create_channel(ChannelSpec const& asked) {
    ChannelSpec spec = asked;
    bool together = false;
    for (auto* endpoints : {&spec.sources, &spec.destinations}) {
        for (Endpoint& endpoint : *endpoints) {
            endpoint = resolved(endpoint);
            together = together || endpoint.device == Endpoint::kElsewhere;
        }
    }
    if (together) return create_together(spec);
    std::string const who = name_of(spec);
    check_endpoints(spec.sources, "source", who);
    check_endpoints(spec.destinations, "destination", who);
    check_spec(spec, schema_of(spec));
    std::uint32_t const id = coordinator_->create_channel(spec);
    try {
        return make_channel(id, spec);
    } catch (...) {
        coordinator_->delete_channel(id);
        throw;
    }
}

// All of it that this process has; or nothing is left of it.
Channel Runtime::Impl::make_channel(std::uint32_t id, ChannelSpec const& spec) {
    return complete_channel(build_channel(id, spec));
}

// What else belongs to a channel whose tables are there.
Channel Runtime::Impl::complete_channel(std::shared_ptr<ChannelImpl> const& channel) {
    ChannelSpec const& spec = channel->spec();
    channel->add_relays(graph_, devices_, resources());
    if (channel->has_sorters()) add_stages(channel);
    open_channel(channel);
    log::info("{}: {} sources, {} destinations, {}, segments of {}, {} in all", channel->describe(),
              spec.sources.size(), spec.destinations.size(), to_string(channel->plan().transfer),
              bytes_text(channel->plan().segment_bytes), bytes_text(channel->plan().pool_bytes));
    return Channel(channel);
}

// Makes a channel known and starts what works for it, or leaves nothing of it behind.
void Runtime::Impl::open_channel(std::shared_ptr<ChannelImpl> const& channel) {
    try {
        {
            std::lock_guard const lock(registry_->mutex);
            if (watchdog_ == nullptr) {
                watchdog_ = std::make_unique<Watchdog>(
                    registry_, [imported = imported_] { imported->prune(); });
            }
            registry_->channels.emplace(channel->id(), channel);
            for (auto const& stage : channel->stages()) {
                if (stage != nullptr) registry_->channels.emplace(stage->id(), stage);
            }
        }
        if (channel->plan().transfer != Transfer::ByReference) add_moves(channel);
        if (channel->has_sorters()) start_sorters(channel);
        coordinator_->check_channel(channel->id());
        if (channel->shared()) channel->part()->join();
    } catch (std::system_error const& error) {
        abandon(*channel);
        throw Error(ErrorCode::OutOfMemory,
                    channel->describe() +
                        ": cannot start a thread to work for it: " + no_thread_text(error.what()));
    } catch (...) {
        abandon(*channel);
        throw;
    }
}

// Deletes a channel that was not completed, as far as it was made known.
void Runtime::Impl::abandon(ChannelImpl const& channel) noexcept {
    try {
        take_apart(channel);
    } catch (Error const&) {
        // It had not even been made known.
    } catch (std::exception const& error) {
        log::warn("an incomplete channel is left: {}", error.what());
    }
}

std::uint64_t Runtime::Impl::memory_left() const {
    return std::min(account_->left(), address_room(BlockCache::shared().mapped()));
}

std::shared_ptr<ChannelImpl> Runtime::Impl::build_channel(std::uint32_t id, ChannelSpec const& spec,
                                                          std::optional<std::uint32_t> text_bytes) {
    ChannelSpec fitting = spec;
    // What grows may take no more than what is left; UINT64_MAX asks for all of that.
    fitting.options.receive_limit = std::min(spec.options.receive_limit, memory_left());
    Schema const schema = schema_of(spec);
    std::vector<GpuMembers> const gpus = gpu_members(spec, devices_);
    OnlyGpus const only = only_gpus(spec, gpus);
    if (!gpus.empty()) {
        fitting.options = options_on_gpus(fitting, schema, only, memory_left(), gpus.size());
    }
    Plan plan = plan_channel(fitting, schema);
    if (!gpus.empty()) plan.transfer = transfer_on_gpus(spec, plan.transfer);
    if (only.peers) plan.transfer = Transfer::ByReference;
    if (text_bytes) plan.text_bytes = *text_bytes;
    return ChannelImpl::create(id, std::move(fitting), schema, std::move(plan), resources(), {},
                               gpus);
}

void Runtime::Impl::delete_channel(ChannelImpl const& channel) {
    if (channel.shared()) {
        leave(channel);
        coordinator_->leave_channel(channel.id());
    } else {
        take_apart(channel);
        coordinator_->delete_channel(channel.id());
    }
}

std::shared_ptr<ChannelImpl> Runtime::Impl::known(ChannelImpl const& channel) const {
    std::lock_guard const lock(registry_->mutex);
    auto const at = registry_->channels.find(channel.id());
    if (at == registry_->channels.end() || at->second.get() != &channel) {
        throw Error(ErrorCode::NotFound,
                    channel.describe() + " does not exist in this runtime (deleted before?)");
    }
    return at->second;
}

void Runtime::Impl::take_apart(ChannelImpl const& channel) {
    std::shared_ptr<ChannelImpl> const gone = known(channel);
    // The channel itself comes last, so that a delete without memory can be tried again.
    gone->fail(ErrorCode::Deleted, "the channel was deleted");
    for (auto const& stage : gone->stages()) {
        if (stage != nullptr) registry_->remove_channel(stage->id());
    }
    registry_->remove_channel(gone->id());
    registry_->forget_launches();
    end_work(*gone);
}

// Movers and links touch its memory no more.
void Runtime::Impl::end_work(ChannelImpl& channel) noexcept {
    {
        std::lock_guard const lock(movers_mutex_);
        for (auto& [device, mover] : movers_) mover.remove(channel.id());
    }
    channel.forget_shared();
    if (channel.crossing() != nullptr) channel.crossing()->close();
}

Runtime Runtime::local(RuntimeOptions const& options) {
    return Runtime(std::make_shared<Impl>(options));
}

Runtime Runtime::connect(ClusterOptions const& cluster, RuntimeOptions const& options) {
    return Runtime(std::make_shared<Impl>(options, cluster));
}

std::vector<Device> const& Runtime::devices() const {
    return impl_->devices();
}
Graph const& Runtime::graph() const {
    return impl_->graph();
}
std::uint64_t Runtime::memory_left() const {
    return impl_->memory_left();
}
void Runtime::Impl::trim() noexcept {
    reserve_->trim();
    for (Device const& device : devices_) {
        if (device.kind != VertexKind::Gpu) continue;
        try {
            (void)trim_gpu_windows(device.ordinal);
        } catch (std::exception const&) {
            // The GPU's context is lost, and its memory with it.
        }
    }
}

std::shared_ptr<GpuWindows> Runtime::Impl::windows_of(
    std::vector<Endpoint> const& endpoints,
    std::function<std::shared_ptr<GpuWindows>()> const& make) {
    constexpr std::size_t kMost = 4;
    std::lock_guard const lock(windows_mutex_);
    auto const at = std::find_if(windows_.begin(), windows_.end(), [&](KeptWindows const& one) {
        return one.endpoints == endpoints;
    });
    if (at != windows_.end()) {
        std::rotate(at, at + 1, windows_.end());
        return windows_.back().windows;
    }
    if (windows_.size() == kMost) windows_.erase(windows_.begin());
    windows_.push_back({endpoints, make()});
    return windows_.back().windows;
}

void Runtime::trim() {
    impl_->trim();
}

GpuAllocator const& Runtime::gpu_allocator() const {
    return impl_->gpu_allocator();
}

Endpoint Runtime::create_endpoint(std::string const& device) {
    return impl_->create_endpoint(device);
}

void Runtime::delete_endpoint(Endpoint endpoint) {
    impl_->delete_endpoint(endpoint);
}

Channel Runtime::create_channel(ChannelSpec const& spec) {
    return impl_->create_channel(spec);
}

void Runtime::delete_channel(Channel const& channel) {
    if (channel.impl() == nullptr) {
        throw Error(ErrorCode::NotFound, "this Channel object names no channel");
    }
    impl_->delete_channel(*channel.impl());
}

}  // namespace mgi
