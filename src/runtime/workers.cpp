// What works for a channel beside its users' groups: movers, and sorters with their stages.
#include <algorithm>
#include <chrono>

#include "mover/channel_moves.hpp"
#include "mover/way_copy.hpp"
#include "runtime/crossing.hpp"
#include "runtime/gpu_channels.hpp"
#include "runtime/runtime_impl.hpp"
#include "transport/cpu_copy.hpp"
#include "transport/gpu_copy.hpp"
#include "transport/wire/wire_thread.hpp"

namespace mgi {

namespace {

// Of a stage buffer's segments.
constexpr std::uint32_t kStageRows = 1024;
constexpr std::uint32_t kStageSlots = 4;

constexpr std::uint32_t kGpuStageBuffers = 256;

std::unique_ptr<transport::Transport> transport_for(ChannelImpl const& channel) {
    if (channel.places().empty()) return std::make_unique<transport::CpuCopy>();
    // A copy within a GPU's memory goes through pinned memory, which takes tens of milliseconds to get.
    bool const meets_itself =
        std::any_of(channel.places().begin(), channel.places().end(), [](auto const& place) {
            return !place->here().sources.empty() && !place->here().destinations.empty();
        });
    // Another process may have the same GPU.
    bool const within = (channel.plan().transfer == Transfer::ByCopy && meets_itself) ||
                        (channel.shared() && channel.part()->members().writes_own_gpus);
    auto engines = std::make_unique<transport::GpuCopy>(channel.gpu_memories(),
                                                        within ? channel.plan().segment_bytes : 0);
    auto const* const relays = channel.relays();
    return std::make_unique<mover::WayCopy>(std::move(engines), channel.gpu_memories(),
                                            relays != nullptr ? relays->ways() : mover::Ways{},
                                            transport::wire::WireThread::now, channel.describe());
}

}  // namespace

// A stage for each source: an inner channel with stage buffers, which the sorters of the source share out among
// them. Its destinations are no endpoints, just numbers.
ChannelSpec Runtime::Impl::stage_spec(ChannelImpl const& channel, std::uint32_t source) const {
    ChannelSpec const& outer = channel.spec();
    Plan const& plan = channel.plan();
    bool const on_gpu = channel.is_on_gpu(outer.sources[source]);
    ChannelSpec inner;
    inner.sources = {outer.sources[source]};
    // On a CPU one for each of its groups; blocks of a GPU are many, and share some.
    std::uint32_t const buffers =
        on_gpu ? std::min(plan.max_groups, kGpuStageBuffers) : plan.max_groups;
    for (std::uint32_t b = 0; b < buffers; ++b) {
        inner.destinations.push_back(on_gpu ? Endpoint{kNoEndpoint + b, inner.sources[0].device}
                                            : Endpoint{b, kStageBuffer});
    }
    inner.schema = outer.schema;
    inner.routing = Routing::direct();
    inner.options.name = outer.options.name + ".stage";
    inner.options.layout = outer.options.layout;
    // Many small segments: a sorter soon has something to do, and has it in cache. There is a lane
    // for each group there may ever be, so all of one's together stay small, too.
    inner.options.segment_rows = on_gpu ? stage_rows_on_gpu(channel.schema(), plan.segment_rows)
                                        : std::min(kStageRows, plan.segment_rows);
    inner.options.tile_rows = inner.options.segment_rows;
    inner.options.slots = kStageSlots;
    inner.options.max_groups = plan.max_groups;
    inner.options.gone_limit = std::chrono::milliseconds(0);
    return inner;
}

void Runtime::Impl::add_stages(std::shared_ptr<ChannelImpl> const& channel) {
    ChannelSpec const& outer = channel->spec();
    std::vector<std::shared_ptr<ChannelImpl>> stages;
    for (std::uint32_t s = 0; s < outer.sources.size(); ++s) {
        if (!channel->is_own_source(s)) {
            stages.push_back(nullptr);
            continue;
        }
        std::uint32_t id = 0;
        {
            std::lock_guard const lock(registry_->mutex);
            id = registry_->next_inner--;
        }
        // Rows that fit the stage must fit the channel.
        stages.push_back(build_channel(id, stage_spec(*channel, s), channel->plan().text_bytes));
        if (channel->is_on_gpu(outer.sources[s])) continue;
        stages.back()->add_staged_rows(account_);
        stages.back()->add_seats(outer.options.sorters);
    }
    channel->add_stages(std::move(stages));
}

// Those on CPU devices; on a GPU they start with the first launch.
void Runtime::Impl::start_sorters(std::shared_ptr<ChannelImpl> const& channel) {
    for (std::uint32_t s = 0; s < channel->spec().sources.size(); ++s) {
        if (!channel->is_own_source(s) || channel->is_on_gpu(channel->spec().sources[s])) continue;
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
            {}, true);
    }
}

// Each source's segments are moved by the mover of its device; an ordered broadcast's all by one,
// which makes the one order.
void Runtime::Impl::add_moves(std::shared_ptr<ChannelImpl> const& channel) {
    auto const& spec = channel->spec();
    std::map<std::uint32_t, std::vector<std::uint32_t>> sources;
    for (std::uint32_t s = 0; s < spec.sources.size(); ++s) {
        if (!channel->moves_source(s)) continue;
        sources[spec.sources[channel->state().one_order() ? 0 : s].device].push_back(s);
    }
    mover::ChannelMoves::FarRoutes far_routes;
    auto const& crossing = channel->crossing();
    if (crossing != nullptr) {
        far_routes = [&](std::uint32_t source, std::uint32_t lane, std::uint32_t destination,
                         transport::Transport& transport, std::uint64_t index) {
            return crossing->links().route(source, lane, destination,
                                           network_.nics_of(spec.sources[source].device), transport,
                                           index);
        };
    }
    auto const fail = [raw = channel.get()](ErrorCode code, char const* reason) {
        raw->fail(code, "its mover: ", reason);
    };
    std::lock_guard const lock(movers_mutex_);
    for (auto const& [device, indices] : sources) {
        movers_[device].add(channel->id(),
                            std::make_unique<mover::ChannelMoves>(
                                channel->state(), indices, transport_for(*channel), far_routes),
                            channel, fail);
    }
    if (crossing == nullptr) return;
    // Credits for other servers are said by the mover of a device that receives.
    for (std::uint32_t d = 0; d < spec.destinations.size(); ++d) {
        if (!channel->is_own_destination(d)) continue;
        movers_[spec.destinations[d].device].add(
            channel->id(), std::make_unique<mover::Credits>(crossing->links()), channel, fail);
        break;
    }
    for (auto& [device, mover] : movers_) progress_->add(mover);
    progress_->add(network_.wires());
    channel->set_progress(progress_);
}

}  // namespace mgi
