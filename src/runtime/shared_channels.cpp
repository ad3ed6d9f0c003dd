// Channels whose endpoints are in several processes: coming to one, and leaving it.
#include <algorithm>
#include <map>
#include <set>

#include "core/log.hpp"
#include "core/process_limits.hpp"
#include "planner/plan.hpp"
#include "planner/sizes.hpp"
#include "runtime/checks.hpp"
#include "runtime/crossing.hpp"
#include "runtime/gpu_channels.hpp"
#include "runtime/patience.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

// How long a runtime that ends waits for its movers, for all channels together.
constexpr std::chrono::milliseconds kLeaving{5000};

// Of a lane, and credits, where segments cross servers: while a NIC has one, another one is filled. No more,
// so that a segment is sent from the cache in which it was filled.
constexpr std::uint32_t kFarSlotsOfNic = 2;
constexpr std::size_t kMostFarSlots = 16;

// As ChannelState::one_order.
bool has_one_order(ChannelSpec const& spec) {
    return spec.options.ordered && spec.routing.kind == device::RoutingKind::Broadcast &&
           spec.sources.size() > 1;
}

// Whether all rows may be read in place. An ordered broadcast by reference has one word that all sources
// deliver under, of which each process has its own. And no server reads another one's memory in place.
bool may_be_in_place(ChannelSpec const& spec, PartMembers const& members) {
    if (members.in_place) return true;
    if (!spec.options.by_reference || members.cross_servers()) return false;
    auto const& of = members.source_member;
    return !has_one_order(spec) ||
           std::all_of(of.begin(), of.end(), [&](std::uint32_t m) { return m == of.front(); });
}

// How many of these endpoints are on the server that has most of them.
std::uint64_t most_on_a_server(PartMembers const& members,
                               std::vector<std::uint32_t> const& owners) {
    std::map<std::uint32_t, std::uint64_t> counts;
    for (std::uint32_t const owner : owners) ++counts[members.server[owner]];
    std::uint64_t most = 0;
    for (auto const& [server, count] : counts) most = std::max(most, count);
    return most;
}

// How the rows of a channel over several servers go. Balance and the one order of several sources are
// made by one hand, the mover's.
Transfer transfer_across(ChannelSpec const& spec) {
    bool const by_mover = spec.routing.kind == device::RoutingKind::Balance || has_one_order(spec);
    bool const in_place = spec.options.by_reference && !by_mover;
    return in_place ? Transfer::Mixed : Transfer::ByCopy;
}

bool can_be(Transfer transfer, ChannelSpec const& spec, PartMembers const& members) {
    if (members.in_place) return transfer == Transfer::ByReference;
    if (members.cross_servers()) return transfer == transfer_across(spec);
    return transfer == Transfer::ByCopy ||
           (transfer == Transfer::ByReference && may_be_in_place(spec, members));
}

// A plan that stands in a part is another process': what it says must be possible.
void check_plan(Plan const& plan, ChannelSpec const& spec, PartMembers const& members) {
    auto const within = [](std::uint64_t value, std::uint64_t least, std::uint64_t most) {
        return value >= least && value <= most;
    };
    std::uint64_t const whole = (std::uint64_t{plan.segment_rows} + 63) / 64 * 64;
    bool const possible =
        can_be(plan.transfer, spec, members) &&
        plan.lanes == planner::lanes_of(spec.routing.kind,
                                        static_cast<std::uint32_t>(spec.destinations.size())) &&
        within(plan.segment_rows, 1, device::Ticket::kMaxRows) &&
        within(plan.text_bytes, 0, device::Ticket::kMaxText) &&
        plan.text_bytes == device::Ticket::whole_units(plan.text_bytes) &&
        within(plan.slots, 1, planner::kMaxSlots) && (plan.slots & (plan.slots - 1)) == 0 &&
        within(plan.credits, 1, planner::kMaxSlots) &&
        within(plan.tile_rows, 1, planner::kMaxTileRows) && within(plan.chunk_rows, 64, whole) &&
        plan.chunk_rows % 64 == 0 &&
        within(plan.max_groups, std::max(1U, spec.options.sorters), 1U << 20);
    if (possible) return;
    throw Error(ErrorCode::InvalidArgument,
                name_of(spec) +
                    ": the plan in its part contradicts this process' specification; all "
                    "processes have to give the same one");
}

// What of this process is not over: its sources, those that its movers work for, its destinations. Empty
// when nobody awaits anything of it.
std::string unfinished(ChannelImpl const& channel) {
    ChannelSpec const& spec = channel.spec();
    bool const by_copy = channel.plan().transfer != Transfer::ByReference;
    for (std::uint32_t s = 0; s < spec.sources.size(); ++s) {
        bool const mine = channel.is_own_source(s);
        bool const moved_here = by_copy && channel.moves_source(s);
        bool const said = channel.crossing() == nullptr || !moved_here ||
                          channel.crossing()->links().has_said_end(s);
        if ((!mine && !moved_here) || (channel.source_ended(s) && said)) continue;
        std::string const source = "source " + std::to_string(spec.sources[s].id);
        if (!mine) return "while its mover still worked for " + source;
        return "before its " + source +
               (channel.source_flushed(s) ? "'s rows had arrived" : " had flushed");
    }
    for (std::uint32_t d = 0; d < spec.destinations.size(); ++d) {
        if (!channel.is_own_destination(d) || channel.ended(d)) continue;
        return "before its destination " + std::to_string(spec.destinations[d].id) +
               " had taken everything";
    }
    return "";
}

// Whether nothing but movers and sorters is missing, of this process or another.
bool only_moves_are_missing(ChannelImpl const& channel) {
    ChannelSpec const& spec = channel.spec();
    for (std::uint32_t s = 0; s < spec.sources.size(); ++s) {
        if (!channel.is_own_source(s)) continue;
        ChannelImpl const& sender = channel.has_sorters() ? *channel.stages()[s] : channel;
        if (!sender.source_flushed(channel.has_sorters() ? 0 : s)) return false;
    }
    for (std::uint32_t d = 0; d < spec.destinations.size(); ++d) {
        if (channel.is_own_destination(d) && !channel.ended(d)) return false;
    }
    return true;
}

}  // namespace

void Runtime::Impl::check_members(ChannelSpec const& spec, PartMembers const& members) const {
    members.check(spec.sources.size(), spec.destinations.size());
    std::string const who = name_of(spec);
    auto const check = [&](std::vector<Endpoint> const& endpoints,
                           std::vector<std::uint32_t> const& owners, char const* role) {
        std::vector<Endpoint> own;
        std::set<std::uint32_t> seen;
        for (std::size_t i = 0; i < endpoints.size(); ++i) {
            if (!seen.insert(endpoints[i].id).second) {
                throw Error(ErrorCode::InvalidArgument, who + " names endpoint " +
                                                            std::to_string(endpoints[i].id) +
                                                            " twice as a " + role);
            }
            if (owners[i] == members.me) own.push_back(endpoints[i]);
        }
        if (endpoints.empty() || !own.empty()) check_endpoints(own, role, who);
    };
    check(spec.sources, members.source_member, "source");
    check(spec.destinations, members.destination_member, "destination");
    check_spec(spec, schema_of(spec));
    bool const on_gpus = members.on_gpus();
    auto const& received = members.destination_on_gpu;
    if (on_gpus) {
        check_kept(spec, std::find(received.begin(), received.end(), false) != received.end());
    }
    auto const& of = members.source_member;
    if (!has_one_order(spec) || members.server.empty()) return;
    for (std::size_t s = 1; s < of.size(); ++s) {
        if (members.server[of[s]] == members.server[of[0]]) continue;
        throw Error(ErrorCode::InvalidArgument,
                    who + ": an ordered broadcast has one order of all rows, which one " +
                        (on_gpus ? "process makes where endpoints are on GPUs" : "server makes") +
                        "; sources " + std::to_string(spec.sources[0].id) + " and " +
                        std::to_string(spec.sources[s].id) + " are on two");
    }
}

Plan Runtime::Impl::plan_together(ChannelSpec const& spec, PartMembers const& members) const {
    ChannelSpec fitting = spec;
    fitting.options.by_reference = may_be_in_place(spec, members);
    if (!members.cross_servers()) return plan_channel(fitting, schema_of(spec));
    LargestServer const largest{most_on_a_server(members, members.source_member),
                                most_on_a_server(members, members.destination_member)};
    if (members.on_gpus()) {
        auto const& sent = members.source_on_gpu;
        OnlyGpus const only{std::find(sent.begin(), sent.end(), false) == sent.end(), false, false,
                            false};
        fitting.options = options_on_gpus(spec, schema_of(spec), only, memory_left());
        fitting.options.by_reference = false;
        Plan plan = plan_channel(fitting, schema_of(spec), largest);
        plan.transfer = transfer_across(spec);
        return plan;
    }
    auto const plan_with = [&](std::uint32_t slots) {
        fitting.options.slots = slots;
        Plan plan = plan_channel(fitting, schema_of(spec), largest);
        plan.transfer = transfer_across(spec);
        return plan;
    };
    if (spec.options.slots != 0) return plan_with(spec.options.slots);
    try {
        std::size_t const nics = std::max<std::size_t>(network_.nics().size(), 1);
        return plan_with(std::uint32_t(std::min(kFarSlotsOfNic * nics, kMostFarSlots)));
    } catch (Error const& error) {
        if (error.code() != ErrorCode::OutOfMemory) throw;
    }
    return plan_with(0);
}

Plan Runtime::Impl::plan_for_peers(ChannelSpec const& spec, PartMembers const& members) const {
    Schema const schema = schema_of(spec);
    ChannelSpec fitting = spec;
    // Each has one GPU at least; this one does not know of more.
    fitting.options =
        options_on_gpus(spec, schema, {true, true, false, true}, memory_left(), members.count);
    LargestServer const largest{most_on_a_server(members, members.source_member),
                                most_on_a_server(members, members.destination_member)};
    Plan plan = plan_channel(fitting, schema, largest);
    plan.transfer = Transfer::ByReference;
    return plan;
}

Runtime::Impl::MadePart Runtime::Impl::make_part(std::uint32_t id, ChannelSpec const& spec,
                                                 PartMembers const& members,
                                                 Elsewhere const& elsewhere) {
    check_members(spec, members);
    Plan plan = elsewhere.terms ? elsewhere.terms->plan : plan_together(spec, members);
    check_plan(plan, spec, members);
    ChannelSpec fitting = spec;
    fitting.options.by_reference = may_be_in_place(spec, members);
    fitting.options.receive_limit =
        std::min({spec.options.receive_limit, memory_left(), Part::most_growth(members.count),
                  // Every member has all members' in its addresses.
                  address_room(0) / std::max(members.count, 1U)});
    Schema const schema = schema_of(spec);
    auto const channel =
        ChannelImpl::create(id, std::move(fitting), schema, std::move(plan), resources(),
                            ChannelImpl::Sharing{members, nullptr}, gpu_members(spec, devices_));
    add_crossing(*channel, elsewhere);
    // Of one that is read in place others' memory is missing.
    Channel handle = members.in_place ? Channel(channel) : complete_channel(channel);
    return {std::move(handle), channel->part()->descriptor(), channel->part()->address()};
}

std::optional<Channel> Runtime::Impl::open_part(std::uint32_t id, ChannelSpec const& spec,
                                                PartMembers const& members, int descriptor,
                                                Elsewhere const& elsewhere) {
    check_members(spec, members);
    auto part = Part::open(descriptor, id, members);
    if (part == nullptr) return std::nullopt;
    Plan plan = part->plan();
    check_plan(plan, spec, members);
    ChannelSpec fitting = spec;
    fitting.options.by_reference = plan.transfer == Transfer::ByReference;
    fitting.options.receive_limit = part->receive_limit();
    auto const channel =
        ChannelImpl::create(id, std::move(fitting), schema_of(spec), std::move(plan), resources(),
                            ChannelImpl::Sharing{members, std::move(part)});
    add_crossing(*channel, elsewhere);
    return complete_channel(channel);
}

void Runtime::Impl::add_crossing(ChannelImpl& channel, Elsewhere const& elsewhere) {
    if (!channel.part()->members().cross_servers()) return;
    auto crossing =
        std::make_shared<Crossing>(channel, network_, *elsewhere.terms, elsewhere.addresses);
    channel.set_crossing(crossing);
    crossing->connect();
}

void Runtime::Impl::leave(ChannelImpl const& channel) {
    leave(*known(channel), "it left ", std::chrono::steady_clock::time_point::max());
    take_apart(channel);
}

// Waits for what movers have still to do, and tells the others.
void Runtime::Impl::leave(ChannelImpl& channel, std::string_view why,
                          std::chrono::steady_clock::time_point until) {
    auto const limit = channel.spec().options.gone_limit;
    Patience patience(limit.count() != 0 ? limit : kLeaving);
    (void)channel.refresh();
    std::uint64_t progress = channel.progress();
    std::string missing = unfinished(channel);
    while (!missing.empty() && !channel.failed() && only_moves_are_missing(channel)) {
        if (std::chrono::steady_clock::now() >= until || !patience.wait()) break;
        (void)channel.refresh();
        if (std::uint64_t const now = channel.progress(); now != progress) {
            progress = now;
            patience.reset();
        }
        missing = unfinished(channel);
    }
    if (missing.empty() && channel.crossing() != nullptr && !channel.failed()) {
        // A link that gets nowhere is over after a while.
        if (!channel.crossing()->bid_farewell(until)) {
            missing = "before other servers had heard of it";
        }
    }
    if (missing.empty()) {
        channel.close_here("this process has left the channel");
    } else {
        channel.fail(ErrorCode::Deleted, why, missing);
    }
    channel.part()->leave();
}

void Runtime::Impl::leave_all() noexcept {
    try {
        std::vector<std::shared_ptr<ChannelImpl>> shared;
        {
            std::lock_guard const lock(registry_->mutex);
            for (auto const& [id, channel] : registry_->channels) {
                if (channel->shared()) shared.push_back(channel);
            }
        }
        auto const until = std::chrono::steady_clock::now() + kLeaving;
        for (auto const& channel : shared) leave(*channel, "its runtime ended ", until);
    } catch (std::exception const& error) {
        log::warn("a runtime could not leave its channels in order: {}", error.what());
    }
}

}  // namespace mgi
