#include <algorithm>
#include <new>
#include <set>
#include <system_error>

#include "core/log.hpp"
#include "core/text.hpp"
#include "planner/plan.hpp"
#include "runtime/checks.hpp"
#include "runtime/cluster_coordinator.hpp"
#include "runtime/runtime_impl.hpp"
#include "topology/discovery.hpp"
#include "transport/cpu_copy.hpp"

namespace mgi {

namespace {

// Of a stage buffer's segments.
constexpr std::uint32_t kStageRows = 1024;
constexpr std::uint32_t kStageSlots = 4;

// How long running groups are given when their runtime dies.
constexpr auto kFarewell = std::chrono::seconds(5);

// Device of a stage's destinations, which are no endpoints.
constexpr std::uint32_t kStageBuffer = UINT32_MAX;

}  // namespace

Runtime::Impl::Impl(RuntimeOptions const& options)
    : options_(options),
      devices_(topology::discover_cpu_devices(options.cpu_devices)),
      graph_(topology::build_graph(devices_)),
      account_(std::make_shared<memory::Account>(
          options.memory_limit != 0 ? options.memory_limit : topology::machine_memory_bytes() / 2)),
      coming_(devices_.size(), 0) {
    log::info("a runtime with {} CPU devices and {} for channels", devices_.size(),
              bytes_text(account_->limit()));
}

Runtime::Impl::Impl(RuntimeOptions const& options, ClusterOptions const& cluster) : Impl(options) {
    coordinator_ = std::make_unique<ClusterCoordinator>(cluster, devices_, registry_);
}

Runtime::Impl::~Impl() {
    std::vector<std::shared_ptr<Launch::State>> launches;
    {
        std::lock_guard const lock(registry_->mutex);
        for (auto const& [id, channel] : registry_->channels) {
            if (!channel->complete()) channel->fail(ErrorCode::Deleted, "the runtime has ended");
        }
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
    auto const deadline = std::chrono::steady_clock::now() + kFarewell;
    for (auto const& launch : launches) {
        std::unique_lock lock(launch->mutex);
        if (!launch->ended.wait_until(lock, deadline, [&] { return launch->running == 0; })) {
            log::warn("{} groups on endpoint {} still run although their runtime has ended",
                      launch->running, launch->endpoint.id);
        }
    }
}

std::size_t Runtime::Impl::device_named(std::string const& name) const {
    std::string known;
    for (Device const& device : devices_) {
        if (device.name == name) return device.index;
        known += (known.empty() ? "" : ", ") + device.name;
    }
    throw Error(ErrorCode::NotFound,
                "there is no device '" + name + "'; this runtime has " + known);
}

// The device with the fewest endpoints, of those the first. The caller holds the registry's mutex.
std::size_t Runtime::Impl::free_device() const {
    std::vector<std::size_t> endpoints = coming_;
    for (auto const& [id, endpoint] : registry_->endpoints) ++endpoints[endpoint.device];
    return std::size_t(std::min_element(endpoints.begin(), endpoints.end()) - endpoints.begin());
}

Endpoint Runtime::Impl::create_endpoint(std::string const& device) {
    std::size_t index = 0;
    {
        std::lock_guard const lock(registry_->mutex);
        index = device.empty() ? free_device() : device_named(device);
        ++coming_[index];
    }
    std::optional<std::uint32_t> id;
    std::exception_ptr failure;
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
            if (channel->source_index(endpoint) != ChannelImpl::kNone ||
                channel->destination_index(endpoint) != ChannelImpl::kNone) {
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

Plan Runtime::Impl::plan_channel(ChannelSpec const& spec, Schema const& schema) const {
    planner::PlanRequest request;
    request.graph = graph_;
    for (Endpoint const endpoint : spec.sources) request.sources.push_back(endpoint.device);
    for (Endpoint const endpoint : spec.destinations) {
        bool const buffer = endpoint.device == kStageBuffer;
        request.destinations.push_back(buffer ? spec.sources[0].device : endpoint.device);
    }
    request.schema = schema;
    request.routing = spec.routing.kind;
    request.options = spec.options;
    request.memory_limit = account_->limit();
    request.memory_left = memory_left();
    for (Device const& device : devices_) {
        request.cores = std::max(request.cores, static_cast<std::uint32_t>(device.cores.size()));
    }
    return planner::make_plan(request);
}

Channel Runtime::Impl::create_channel(ChannelSpec const& spec) {
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
    auto const channel = build_channel(id, spec);
    if (spec.options.sorters != 0) add_stages(channel);
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
            if (watchdog_ == nullptr) watchdog_ = std::make_unique<Watchdog>(registry_);
            registry_->channels.emplace(channel->id(), channel);
            for (auto const& stage : channel->stages()) {
                registry_->channels.emplace(stage->id(), stage);
            }
        }
        if (channel->plan().transfer == Transfer::ByCopy) add_moves(channel);
        if (!channel->stages().empty()) start_sorters(channel);
        coordinator_->check_channel(channel->id());
    } catch (std::system_error const& error) {
        abandon(*channel);
        throw Error(
            ErrorCode::OutOfMemory,
            channel->describe() + ": cannot start a thread to work for it: " + error.what());
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

std::shared_ptr<ChannelImpl> Runtime::Impl::build_channel(std::uint32_t id, ChannelSpec const& spec,
                                                          std::optional<std::uint32_t> text_bytes) {
    ChannelSpec fitting = spec;
    // What grows may take no more than what is left; UINT64_MAX asks for all of that.
    fitting.options.receive_limit = std::min(spec.options.receive_limit, memory_left());
    Schema const schema = schema_of(spec);
    Plan plan = plan_channel(fitting, schema);
    if (text_bytes) plan.text_bytes = *text_bytes;
    return ChannelImpl::create(id, std::move(fitting), schema, std::move(plan), account_);
}

// A stage for each source: an inner channel with a stage buffer for each of its groups, which the
// sorters of the source share out among them. Its destinations are no endpoints, just numbers.
void Runtime::Impl::add_stages(std::shared_ptr<ChannelImpl> const& channel) {
    ChannelSpec const& outer = channel->spec();
    std::vector<std::shared_ptr<ChannelImpl>> stages;
    for (Endpoint const source : outer.sources) {
        ChannelSpec inner;
        inner.sources = {source};
        for (std::uint32_t b = 0; b < channel->plan().max_groups; ++b) {
            inner.destinations.push_back({b, kStageBuffer});
        }
        inner.schema = outer.schema;
        inner.routing = Routing::direct();
        inner.options.name = outer.options.name + ".stage";
        inner.options.layout = outer.options.layout;
        // Many small segments: a sorter soon has something to do, and has it in cache. There is a lane
        // for each group there may ever be, so all of one's together stay small, too.
        inner.options.segment_rows = std::min(kStageRows, channel->plan().segment_rows);
        inner.options.tile_rows = inner.options.segment_rows;
        inner.options.slots = kStageSlots;
        inner.options.max_groups = channel->plan().max_groups;
        inner.options.gone_limit = std::chrono::milliseconds(0);
        // Rows that fit the stage must fit the channel.
        std::uint32_t id = 0;
        {
            std::lock_guard const lock(registry_->mutex);
            id = registry_->next_inner--;
        }
        stages.push_back(build_channel(id, inner, channel->plan().text_bytes));
        stages.back()->add_staged_rows(account_);
        stages.back()->add_seats(outer.options.sorters);
    }
    channel->add_stages(std::move(stages));
}

void Runtime::Impl::start_sorters(std::shared_ptr<ChannelImpl> const& channel) {
    for (std::uint32_t s = 0; s < channel->spec().sources.size(); ++s) {
        State* const outer = &channel->state();
        State* const stage = &channel->stages()[s]->state();
        LaunchOptions options;
        options.groups = channel->spec().options.sorters;
        options.shared_bytes =
            static_cast<std::uint32_t>(channel->schema().size() * sizeof(device::ColumnView));
        start(
            channel->spec().sources[s], options,
            {device::Channel(outer, s, ChannelImpl::kNone),
             device::Channel(stage, 0, ChannelImpl::kNone)},
            [outer, stage, s](device::Group const& group, device::Shared& shared) {
                ErrorCode const code = device::Sorter<Words>()(group, shared, outer, s, stage);
                if (code == ErrorCode::Ok || outer->error() != ErrorCode::Ok) return;
                throw Error(code, std::string("a sorter could not go on: ") + to_string(code));
            },
            true);
    }
}

// Each source's segments are moved by the mover of its device; an ordered broadcast's all by one,
// which makes the one order.
void Runtime::Impl::add_moves(std::shared_ptr<ChannelImpl> const& channel) {
    auto const& spec = channel->spec();
    bool const one_order =
        spec.options.ordered && spec.routing.kind == device::RoutingKind::Broadcast;
    std::map<std::uint32_t, std::vector<std::uint32_t>> sources;
    for (std::uint32_t s = 0; s < spec.sources.size(); ++s) {
        sources[spec.sources[one_order ? 0 : s].device].push_back(s);
    }
    std::lock_guard const lock(movers_mutex_);
    for (auto const& [device, indices] : sources) {
        movers_[device].add(channel->id(),
                            std::make_unique<mover::ChannelMoves>(
                                channel->state(), indices, std::make_unique<transport::CpuCopy>()),
                            channel, [raw = channel.get()](ErrorCode code, char const* reason) {
                                raw->fail(code, "its mover: ", reason);
                            });
    }
}

void Runtime::Impl::delete_channel(ChannelImpl const& channel) {
    take_apart(channel);
    coordinator_->delete_channel(channel.id());
}

void Runtime::Impl::take_apart(ChannelImpl const& channel) {
    std::shared_ptr<ChannelImpl> gone;
    {
        std::lock_guard const lock(registry_->mutex);
        auto const at = registry_->channels.find(channel.id());
        if (at == registry_->channels.end() || at->second.get() != &channel) {
            throw Error(ErrorCode::NotFound,
                        channel.describe() + " does not exist in this runtime (deleted before?)");
        }
        gone = at->second;
    }
    // The channel itself comes last, so that a delete without memory can be tried again.
    gone->fail(ErrorCode::Deleted, "the channel was deleted");
    for (auto const& stage : gone->stages()) registry_->remove_channel(stage->id());
    registry_->remove_channel(gone->id());
    registry_->forget_launches();
    std::lock_guard const lock(movers_mutex_);
    for (auto& [device, mover] : movers_) mover.remove(gone->id());
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
