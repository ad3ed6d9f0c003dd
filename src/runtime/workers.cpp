// What works for a channel beside its users' groups: movers, and sorters with their stages.
#include "mover/channel_moves.hpp"
#include "runtime/crossing.hpp"
#include "runtime/runtime_impl.hpp"
#include "transport/cpu_copy.hpp"
#include "transport/gpu_copy.hpp"

namespace mgi {

namespace {

// Of a stage buffer's segments.
constexpr std::uint32_t kStageRows = 1024;
constexpr std::uint32_t kStageSlots = 4;

// Device of a stage's destinations, which are no endpoints.
constexpr std::uint32_t kStageBuffer = UINT32_MAX;

std::unique_ptr<transport::Transport> transport_for(ChannelImpl const& channel) {
    if (channel.places().empty()) return std::make_unique<transport::CpuCopy>();
    std::vector<transport::GpuRange> memories;
    for (auto const& place : channel.places()) memories.push_back(place->memory());
    bool const within = channel.plan().transfer == Transfer::ByCopy;
    return std::make_unique<transport::GpuCopy>(std::move(memories),
                                                within ? channel.plan().segment_bytes : 0);
}

}  // namespace

// A stage for each source: an inner channel with a stage buffer for each of its groups, which the
// sorters of the source share out among them. Its destinations are no endpoints, just numbers.
void Runtime::Impl::add_stages(std::shared_ptr<ChannelImpl> const& channel) {
    ChannelSpec const& outer = channel->spec();
    std::vector<std::shared_ptr<ChannelImpl>> stages;
    for (std::uint32_t s = 0; s < outer.sources.size(); ++s) {
        if (!channel->is_own_source(s)) {
            stages.push_back(nullptr);
            continue;
        }
        ChannelSpec inner;
        inner.sources = {outer.sources[s]};
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
        if (!channel->is_own_source(s)) continue;
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
        far_routes = [&](std::uint32_t source, std::uint32_t lane, std::uint32_t destination) {
            return crossing->links().route(source, lane, destination,
                                           network_.nics_of(spec.sources[source].device));
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
