#include "hostile/shape.hpp"

#include "support/tables.hpp"

namespace mgi::hostile {

using device::RoutingKind;
using test::Random;

namespace {

std::uint32_t small(Random& random, std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(low + random.below(high - low + 1));
}

// A key, the row's number, and up to three columns more.
Schema random_columns(Random& random, bool plain) {
    std::vector<Field> fields{{"key", int64(), !plain && random.one_in(4)}, {"id", int64(), false}};
    if (!plain && random.one_in(4)) fields[0].type = string();
    Schema const more = test::random_schema(random, 3, plain);
    if (random.one_in(3)) return Schema(fields);
    for (Field const& field : more.fields()) fields.push_back(field);
    return Schema(fields);
}

// Where tickets, sequences and queue positions wrap round, and beyond.
std::uint64_t random_start(Random& random, std::uint32_t sources) {
    std::uint64_t const before = random.below(6);
    switch (random.below(7)) {
        case 0: return (1ULL << 26) - before;
        case 1: return (1ULL << 32) - before;
        case 2: return (1ULL << 32) / sources - before;
        case 3: return (1ULL << 31) - before;
        case 4: return (1ULL << 40) - (1ULL << 26) - before;
        default: return 0;
    }
}

RoutingKind random_routing(Random& random) {
    switch (random.below(6)) {
        case 0: return RoutingKind::Broadcast;
        case 1: return RoutingKind::Direct;
        case 2: return RoutingKind::Balance;
        default: return RoutingKind::Partition;
    }
}

test::TinyOptions random_channel(Random& random, bool plain) {
    test::TinyOptions channel;
    channel.sources = small(random, 1, 3);
    channel.destinations = small(random, 1, 3);
    channel.segment_rows = random.one_in(2) ? small(random, 1, 5) : small(random, 60, 140);
    channel.slots = 1U << random.below(3);
    channel.staged = random.one_in(4);
    channel.tile_rows = random.one_in(2) ? small(random, 1, 8) : small(random, 1, 100);
    channel.chunk_rows = 64 * small(random, 1, 2);
    // Four columns of text at most, of at most 40 characters.
    channel.text_bytes = 16 * small(random, 10, 40);
    channel.routing = random_routing(random);
    channel.ordered = channel.routing != RoutingKind::Balance && random.one_in(4);
    channel.by_reference = !random.one_in(3);
    channel.credits = small(random, 1, 4);
    channel.start = random_start(random, channel.sources);
    if (random.one_in(4)) channel.rows_start = (1ULL << 32) - random.below(20);
    channel.layout = plain && random.one_in(2) ? Layout::Rows : Layout::Columns;
    return channel;
}

}  // namespace

Shape shape_of(std::uint64_t seed) {
    Random random(seed * 0x2545f4914f6cdd1dULL + 1);
    Shape shape;
    shape.seed = seed;
    shape.policy = static_cast<Policy>(random.below(3));
    bool const plain = random.one_in(4);
    shape.schema = random_columns(random, plain);
    shape.channel = random_channel(random, plain);
    auto& channel = shape.channel;
    bool const modulo = shape.schema[0].type.id == TypeId::Int64 && random.one_in(4);
    if (channel.routing == RoutingKind::Partition && modulo) {
        channel.hash = device::HashKind::Modulo;
    }
    if (random.one_in(4)) channel.keys = {0, 1};
    if (channel.hash == device::HashKind::Modulo) channel.keys = {0};
    shape.loopback = !random.one_in(3);
    shape.groups = small(random, 1, 3);
    shape.threads = random.one_in(3) ? 2 : 1;
    shape.structs = plain && random.one_in(2);
    shape.movers = channel.ordered && channel.routing == RoutingKind::Broadcast
                       ? 1
                       : small(random, 1, channel.sources);
    if (channel.routing != RoutingKind::Direct && !channel.ordered && random.one_in(6)) {
        shape.sorters = small(random, 1, 2);
        shape.helped = !random.one_in(3);
        shape.by_row = shape.structs && random.one_in(2);
        shape.staged_rows = random.one_in(3) ? 0 : small(random, 1, 9);
    }
    if (shape.by_row) shape.schema = {{"key", int64(), false}, {"id", int64(), false}};
    channel.max_groups = std::max(shape.groups, shape.sorters);
    shape.most_rows = random.one_in(6) ? 200 : small(random, 0, 40);
    shape.push_one_in = random.one_in(2) ? 0 : small(random, 1, 10);
    shape.slow_receiver = random.one_in(2) ? 0 : small(random, 1, 20);
    shape.slow_start = random.one_in(2) ? 0 : small(random, 1, 50);
    if (random.one_in(4)) shape.fail_at = random.below(std::uint64_t{16} << random.below(9));
    bool const one_order =
        channel.ordered && channel.routing == RoutingKind::Broadcast && channel.sources > 1;
    bool const by_mover = channel.routing == RoutingKind::Balance || one_order;
    if (!channel.by_reference && !by_mover && random.one_in(2)) {
        channel.near = small(random, 1, channel.destinations);
    }
    channel.mail = !channel.by_reference && random.one_in(2);
    if (channel.mail && random.one_in(3)) channel.queued = small(random, 1, channel.sources);
    bool const by_rule =
        channel.routing == RoutingKind::Partition || channel.routing == RoutingKind::Broadcast;
    shape.names = by_rule && shape.sorters == 0 && random.one_in(2);
    return shape;
}

std::string describe(Shape const& shape) {
    static char const* const kinds[]{"partition", "broadcast", "direct", "balance"};
    auto const& c = shape.channel;
    auto const number = [](std::uint64_t n) { return std::to_string(n); };
    std::string text =
        std::string(to_string(shape.policy)) + ": " +
        (c.by_reference ? "by reference, " : "by copy, ") + kinds[static_cast<int>(c.routing)] +
        (c.ordered ? ", ordered" : "") + (c.layout == Layout::Rows ? ", layout of rows" : "") +
        (shape.structs ? ", row structs" : "") + (shape.names ? ", some sends named" : "") + ", " +
        number(c.sources) + " sources, " + number(c.destinations) + " destinations" +
        (shape.loopback ? ", loopback" : "") + ", " + number(shape.groups) + " groups of " +
        number(shape.threads) + ", segments of " + number(c.segment_rows) + ", " + number(c.slots) +
        " slots, tiles of " + number(c.tile_rows) + (c.staged ? " in scratch" : "") +
        ", chunks of " + number(c.chunk_rows);
    if (!c.by_reference) {
        text += ", " + number(c.credits) + " credits, " + number(shape.movers) + " movers";
        if (c.near != 0) text += ", " + number(c.near) + " destinations read in place";
        if (c.mail) text += ", by mail";
        if (c.queued != 0) text += ", " + number(c.queued) + " sources by the queue";
    }
    if (shape.sorters != 0) {
        text += ", " + number(shape.sorters) + (shape.helped ? " helped" : "") + " sorters" +
                (shape.by_row ? " (send_row)" : "");
        if (shape.by_row) text += ", " + number(shape.staged_rows) + " staged rows a thread";
    }
    text += ", up to " + number(shape.most_rows) + " rows a group";
    if (shape.push_one_in != 0) text += ", push at 1 call in " + number(shape.push_one_in);
    if (shape.slow_receiver != 0) text += ", slow receivers";
    if (c.start != 0) text += ", sequences from " + number(c.start);
    if (c.rows_start != 0) text += ", row counters from " + number(c.rows_start);
    if (shape.fail_at) text += ", fails at step " + number(*shape.fail_at);
    return text + ", (" + shape.schema.to_string() + ")";
}

}  // namespace mgi::hostile
