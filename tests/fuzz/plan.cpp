#include <bit>
#include <string>
#include <utility>
#include <vector>

#include <mgi/device/lane.hpp>
#include <mgi/error.hpp>

#include "fuzz/targets.hpp"
#include "memory/segment_layout.hpp"
#include "planner/plan.hpp"
#include "planner/sizes.hpp"

namespace mgi::fuzz {
namespace {

/// Any field, possible or not.
Field field(Input& input, std::uint32_t number) {
    Field made;
    made.name = input.one_in(32) ? "" : "c" + std::to_string(number);
    made.nullable = input.below(2) != 0;
    made.type.id = TypeId(input.below(17));
    if (made.type.id == TypeId::FixedSizeBinary || input.one_in(32)) {
        made.type.width =
            input.below(2) == 0 ? input.below(64) : input.take<std::int32_t>() % 70000;
    }
    if (made.type.id == TypeId::Decimal128 || input.one_in(32)) {
        made.type.precision = int(input.below(42)) - 2;
        made.type.scale = input.take<std::int8_t>();
    }
    return made;
}

Schema schema(Input& input) {
    std::vector<Field> fields;
    std::uint32_t const count = input.one_in(16) ? input.below(256) : input.below(6);
    for (std::uint32_t c = 0; c < count; ++c) fields.push_back(field(input, c));
    return Schema(std::move(fields));
}

std::uint32_t option(Input& input) {
    switch (input.below(6)) {
        case 0:
        case 1: return 0;
        case 2: return input.take<std::uint32_t>();
        case 3: return 1u << input.below(32);
        default: return input.below(256) * (1 + input.below(64));
    }
}

planner::PlanRequest request(Input& input) {
    planner::PlanRequest made;
    made.schema = schema(input);
    std::uint32_t const devices = 1 + input.below(4);
    for (std::uint32_t d = 0; d < devices; ++d) {
        made.graph.vertices.push_back({d, "cpu:" + std::to_string(d), VertexKind::Cpu, true});
        for (std::uint32_t e = 0; e < devices; ++e) {
            if (!input.one_in(16)) made.graph.edges.push_back({d, e, 10, "memory"});
        }
    }
    std::uint32_t const sources = input.below(9);
    std::uint32_t const destinations = input.below(9);
    for (std::uint32_t s = 0; s < sources; ++s) made.sources.push_back(input.below(devices));
    for (std::uint32_t d = 0; d < destinations; ++d) {
        made.destinations.push_back(input.below(devices) + (input.one_in(64) ? 1 : 0));
    }
    made.routing = device::RoutingKind(input.below(4));
    made.options.ordered = input.below(2) != 0;
    made.options.by_reference = input.below(2) != 0;
    made.options.layout = input.below(4) == 0 ? Layout::Rows : Layout::Columns;
    made.options.segment_bytes = option(input);
    made.options.segment_rows = option(input);
    made.options.slots = option(input);
    made.options.credits = option(input);
    made.options.tile_rows = option(input);
    made.options.chunk_rows = option(input);
    made.options.max_groups = option(input);
    made.options.text_bytes_per_row = option(input);
    made.options.receive_limit = input.below(2) == 0 ? 0 : input.take<std::uint64_t>();
    made.options.sorters = option(input);
    made.memory_limit = input.below(4) == 0 ? input.take<std::uint64_t>() : std::uint64_t(1) << 33;
    made.memory_left = input.below(2) == 0 ? made.memory_limit : input.take<std::uint64_t>();
    made.cores = input.below(8) == 0 ? option(input) : input.below(128);
    return made;
}

void check(planner::PlanRequest const& asked, Plan const& plan) {
    require(plan.pool_bytes <= asked.memory_left, "the pools fit the memory that is left");
    require(plan.segment_rows >= 1 && plan.segment_rows <= device::Ticket::kMaxRows,
            "a ticket can count a segment's rows");
    require(plan.text_bytes <= device::Ticket::kMaxText &&
                plan.text_bytes == device::Ticket::whole_units(plan.text_bytes),
            "a ticket can count a segment's text");
    require(std::has_single_bit(plan.slots) && plan.slots <= planner::kMaxSlots,
            "slots are a power of two");
    require(plan.credits >= 1, "there is a credit");
    require(plan.lanes == planner::lanes_of(asked.routing, asked.destinations.size()),
            "a source has its lanes");
    require(plan.tile_rows >= 1 && plan.tile_rows <= planner::kMaxTileRows,
            "a tile can number its rows");
    require(plan.chunk_rows >= 1 && plan.chunk_rows % 64 == 0, "chunks share no word of bits");
    require((plan.segment_rows + plan.chunk_rows - 1) / plan.chunk_rows <= 0xffff,
            "a queue's entry can count a segment's chunks");
    require(plan.max_groups >= 1 && plan.max_groups >= asked.options.sorters,
            "every sorter is a group");
    bool const in_rows = asked.options.layout == Layout::Rows;
    if (in_rows) return;  // such a layout refuses columns that the plan leaves to it
    memory::ChannelLayout const layout(asked.schema, asked.options.layout, plan.segment_rows,
                                       plan.text_bytes);
    require(layout.get().size == plan.segment_bytes, "a segment is as large as was planned");
}

}  // namespace

void plan(Input input) {
    try {
        planner::PlanRequest const asked = request(input);
        check(asked, planner::make_plan(asked));
    } catch (Error const& error) {
        require(
            error.code() == ErrorCode::InvalidArgument || error.code() == ErrorCode::OutOfMemory,
            "options are refused as an argument, or for want of memory");
    }
}

}  // namespace mgi::fuzz
