#include "planner/plan.hpp"

#include <string>

#include <mgi/error.hpp>

#include "core/text.hpp"
#include "planner/batching.hpp"
#include "planner/sizes.hpp"

namespace mgi {

char const* to_string(Transfer transfer) noexcept {
    switch (transfer) {
        case Transfer::ByReference: return "by reference";
        case Transfer::ByCopy: return "by copy";
        case Transfer::Mixed: break;
    }
    return "by reference on a server, by copy between servers";
}

namespace planner {
namespace {

std::string who_of(ChannelOptions const& options) {
    return options.name.empty() ? "channel" : "channel '" + options.name + "'";
}

void check(PlanRequest const& request, std::string const& who) {
    char const* missing = nullptr;
    if (request.sources.empty()) missing = "source";
    if (request.destinations.empty()) missing = "destination";
    if (missing != nullptr) {
        throw Error(ErrorCode::InvalidArgument, who + " has no " + missing + " endpoint");
    }
    if (request.schema.empty()) {
        throw Error(ErrorCode::InvalidArgument,
                    who + ": the schema has no column; leave the schema away for raw messages");
    }
    std::size_t const lanes = lanes_of(request.routing, 2) == 1 ? 1 : request.destinations.size();
    if (lanes > kMaxLanes) {
        throw Error(ErrorCode::InvalidArgument, who + " has " + std::to_string(lanes) +
                                                    " destinations, hence as many lanes; at "
                                                    "most " +
                                                    std::to_string(kMaxLanes) + " are possible");
    }
}

void check_memory(Plan const& plan, PlanRequest const& request, std::string const& who) {
    if (plan.pool_bytes <= request.memory_left) return;
    throw Error(
        ErrorCode::OutOfMemory,
        who + " needs " + bytes_text(plan.pool_bytes) + " (" + std::to_string(plan.pool_bytes) +
            " bytes: " +
            std::to_string(request.sources_here == 0 ? request.sources.size()
                                                     : request.sources_here) +
            " sources x " + std::to_string(plan.lanes) + " lanes x " + std::to_string(plan.slots) +
            " slots of " + bytes_text(plan.segment_bytes) +
            (plan.transfer == Transfer::ByCopy
                 ? ", receive pools of " + std::to_string(plan.credits) + " credits"
                 : "") +
            ", carry buffers of " + std::to_string(plan.max_groups) + " groups), but " +
            bytes_text(request.memory_left) + " (" + std::to_string(request.memory_left) +
            " bytes) of " + request.left_of +
            " are left; choose smaller segment_bytes, slots, credits, "
            "tile_rows or max_groups, delete other channels, or raise the runtime's memory_limit");
}

}  // namespace

std::uint32_t lanes_of(device::RoutingKind routing, std::uint32_t destinations) noexcept {
    return device::has_own_lanes(routing) ? destinations : 1;
}

Plan make_plan(PlanRequest const& request, PathFinder const& paths) {
    std::string const who = who_of(request.options);
    check(request, who);
    Plan plan;
    plan.tables = paths.find(request.graph, request.sources, request.destinations);
    bool const in_place = request.options.by_reference &&
                          share_memory(request.graph, request.sources, request.destinations);
    plan.transfer = in_place ? Transfer::ByReference : Transfer::ByCopy;
    plan.lanes = lanes_of(request.routing, std::uint32_t(request.destinations.size()));

    ChannelShape shape;
    shape.sources = request.sources.size();
    shape.destinations = request.destinations.size();
    bool const one_server = request.sources_here == 0 && request.destinations_here == 0;
    shape.sources_here = one_server ? shape.sources : request.sources_here;
    shape.destinations_here = one_server ? shape.destinations : request.destinations_here;
    shape.lanes = plan.lanes;
    shape.memory_limit = request.memory_limit;
    shape.memory_left = request.memory_left;
    shape.cores = request.cores;
    shape.by_copy = !in_place;
    decide_sizes(request.schema, request.options, shape, who, plan);
    check_memory(plan, request, who);
    return plan;
}

}  // namespace planner
}  // namespace mgi
