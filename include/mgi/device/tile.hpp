/// \file
/// A tile: the rows that one pass of `send` partitions, sorted by lane in group-shared memory. The
/// default path sends a tile straight into lanes; sorters call the same routine (DESIGN section 5,
/// "Block-collective partition").
#pragma once

#include <mgi/device/counting_sort.hpp>
#include <mgi/device/group.hpp>
#include <mgi/device/hash.hpp>
#include <mgi/device/state.hpp>
#include <mgi/device/values.hpp>

namespace mgi::device {

/// A column of fixed-width values on its way from a batch into segments, or whole row structs.
struct alignas(16) ColumnMove {
    char const* from = nullptr;  ///< the value of the tile's first row
    u32 from_stride = 0;
    u32 to_offset = 0;  ///< from a segment's start to row 0
    u32 to_stride = 0;
    u32 width = 0;  ///< bytes of a value
    u32 unit = 0;   ///< of them, those that are moved at once

    ColumnMove() = default;
    /// Segments lie at multiples of 64.
    MGI_HD ColumnMove(char const* start, u32 start_stride, u32 offset, u32 stride, u32 bytes)
        : from(start),
          from_stride(start_stride),
          to_offset(offset),
          to_stride(stride),
          width(bytes),
          unit(
              unit_of(u64(reinterpret_cast<std::uintptr_t>(start)) | start_stride | offset | stride,
                      bytes)) {}

    [[nodiscard]] MGI_HD bool packed() const { return from_stride == width && to_stride == width; }
};

/// What moves a column of fixed-width values, those of the batch's rows from `first` on; a width of 0 for
/// any other.
MGI_HD inline ColumnMove move_of(ColumnLayout const& column, Batch const& batch, u32 c, u64 first) {
    if (column.storage != Storage::Fixed) return {};
    return {batch.fixed(column, c, first), batch.fixed_stride(column), column.offset, column.stride,
            column.width};
}

/// Where the claimed rows of a lane go: those from position `begin` of the tile on, so many.
struct alignas(16) LaneTarget {
    char* segment = nullptr;
    u32 shift = 0;  ///< position + shift is the row in the segment; wraps
    u16 begin = 0;
    u16 rows = 0;

    LaneTarget() = default;
    MGI_HD LaneTarget(char* start, Claim const& claim, u32 next)
        : segment(start), shift(claim.row - next), begin(u16(next)), rows(u16(claim.rows)) {
        MGI_ASSERT(begin == next && rows == claim.rows, next, claim.rows);
    }

    /// Whether the row at that position of the tile is among them.
    [[nodiscard]] MGI_HD bool has(u32 position) const { return position - begin < rows; }
};

/// Where a column's values come from.
struct ColumnSource {
    char const* values = nullptr;  ///< the first row's of the batch
    u32 staged_at = 0;             ///< where a tile's are brought, from `Tile::staged` on
    bool brought = false;          ///< else they stay where they are
};

/// What a tile needs of a group's scratch.
struct TileShape {
    u32 rows = 0;
    u32 lanes = 0;
    bool text = true;  ///< there may be long strings
    u32 columns = 0;   ///< with `staged`: columns of the channel
    u32 staged = 0;    ///< bytes of the rows' values; see passes.hpp

    /// Tiles that a call of a group of several threads sends at most: who offers more, and receives as well, is to look
    /// at what has come before all lanes are full, since rows that find no room cost more than all else.
    static constexpr u32 kMostTiles = 4;

    static constexpr u32 kPlanBytes =
        256;  ///< with `staged`: what is the same for all tiles of a call
    static constexpr u32 kFormBytes = 24;  ///< with `staged`: a LaneForm

    [[nodiscard]] MGI_HD constexpr u32 staged_bytes() const {
        if (staged == 0) return 0;
        u32 const by_lane =
            2 * u32(sizeof(LaneTarget)) + u32(sizeof(Claim)) + kFormBytes + u32(sizeof(u32));
        u32 const by_column = u32(sizeof(ColumnMove) + sizeof(ColumnSource) + sizeof(ColumnLayout));
        return staged + kPlanBytes + (lanes * by_lane + columns * by_column + 15) / 16 * 16;
    }
    [[nodiscard]] MGI_HD constexpr u32 scratch_bytes() const {
        u32 const by_lane = u32(sizeof(Claim) + sizeof(u64)) + 3 * u32(sizeof(u32));
        u32 const by_row = 3 * u32(sizeof(u16)) + (text ? u32(sizeof(u32)) : 0);
        u32 const bytes = lanes * by_lane + 16 + rows * by_row + 4 * TileOps::kSlack;
        return staged_bytes() + (bytes + 15) / 16 * 16;
    }
};

/// The tiles of a channel.
template <class A>
MGI_HD TileShape tile_shape(ChannelState<A> const& state) {
    return {state.tile_rows, state.lane_count, state.layout.has_views,
            state.staged_bytes == 0 ? 0 : state.layout.column_count, state.staged_bytes};
}

/// Arrays of a tile in group-shared memory.
struct Tile {
    // With `staged`, for passes.hpp.
    char* staged = nullptr;  ///< its values
    LaneTarget* targets =
        nullptr;  ///< by lane; behind all lanes', by lane, where the second claim's rows go
    Claim* seconds = nullptr;     ///< by lane: what is claimed in the slot behind that of `claims`
    ColumnMove* moves = nullptr;  ///< what moves each column, or one that moves whole structs
    ColumnSource* sources = nullptr;  ///< by column
    ColumnLayout* columns = nullptr;  ///< the channel's, at hand
    void* forms = nullptr;            ///< by lane: its LaneForm
    u32* start = nullptr;             ///< by lane: its first position in `order`

    u16* lane = nullptr;   ///< by row: its lane; null when there is only one
    u16* order = nullptr;  ///< rows sorted by lane, when `sorted`
    u16* rank = nullptr;   ///< by row: how many of its lane come before it
    u32* text =
        nullptr;  ///< by row: bytes of its long strings, later where they go; null without any
    u32* next = nullptr;      ///< by lane: first position in `order` still to be placed
    u32* end = nullptr;       ///< by lane: behind its last position
    u32* count = nullptr;     ///< by lane: its rows
    Claim* claims = nullptr;  ///< by lane
    u64* at = nullptr;        ///< by lane: where its row at `next` was taken; see Lane::take
    u32* agreed = nullptr;    ///< a word for `agree`
    u32 rows = 0;
    bool sorted = false;  ///< else the rows lie by lane already

    [[nodiscard]] MGI_HD u32 row_at(u32 position) const {
        return sorted ? order[position] : position;
    }
    [[nodiscard]] MGI_HD u32 lane_at(u32 position) const {
        return lane == nullptr ? 0 : lane[row_at(position)];
    }

    /// Lays the arrays into the group's scratch.
    MGI_HD static Tile in(Shared const& shared, TileShape const& shape) {
        Tile tile;
        char* at = reinterpret_cast<char*>(shared.data);
        if (shape.staged != 0) {
            char* own = at + TileShape::kPlanBytes;
            tile.staged = own;
            own += shape.staged;
            tile.targets = reinterpret_cast<LaneTarget*>(own);
            own += 2 * shape.lanes * sizeof(LaneTarget);
            tile.moves = reinterpret_cast<ColumnMove*>(own);
            own += shape.columns * sizeof(ColumnMove);
            tile.sources = reinterpret_cast<ColumnSource*>(own);
            own += shape.columns * sizeof(ColumnSource);
            tile.forms = own;
            own += shape.lanes * TileShape::kFormBytes;
            tile.seconds = reinterpret_cast<Claim*>(own);
            own += shape.lanes * sizeof(Claim);
            tile.columns = reinterpret_cast<ColumnLayout*>(own);
            own += shape.columns * sizeof(ColumnLayout);
            tile.start = reinterpret_cast<u32*>(own);
            at += shape.staged_bytes();
        }
        tile.claims = reinterpret_cast<Claim*>(at);
        at += shape.lanes * sizeof(Claim);
        tile.at = reinterpret_cast<u64*>(at);
        at += shape.lanes * sizeof(u64);
        tile.next = reinterpret_cast<u32*>(at);
        tile.end = tile.next + shape.lanes;
        tile.count = tile.end + shape.lanes;
        tile.agreed = tile.count + shape.lanes;
        u32* const text = tile.agreed + 4;
        if (shape.text) tile.text = text;
        tile.order = reinterpret_cast<u16*>(text + (shape.text ? shape.rows : 0));
        tile.lane = tile.order + shape.rows + TileOps::kSlack;
        tile.rank = tile.lane + shape.rows + TileOps::kSlack;
        return tile;
    }
};

/// Scratch for a column's values of so many rows; those of other storage stay where they are.
MGI_HD inline u32 staged_column_bytes(ColumnLayout const& column, u32 rows) {
    return column.storage == Storage::Fixed ? scratch_for_copy(rows * column.width) : 0;
}

/// Scratch for the values of a tile's rows; 0 where tiles never go in passes (passes.hpp): in these each row
/// has a lane by its key, and each lane's rows are claimed at once, as those with long strings cannot be.
template <class A>
MGI_HD u32 staged_tile_bytes(ChannelState<A> const& state) {
    SegmentLayout const& layout = state.layout;
    bool const by_key =
        (state.routing == RoutingKind::Partition || state.routing == RoutingKind::Range) &&
        state.lane_count > 1;
    if (!by_key || layout.has_views) return 0;
    u32 columns = 0;
    for (u32 c = 0; c < layout.column_count; ++c) {
        columns += staged_column_bytes(layout.columns[c], state.tile_rows);
    }
    return max_of(columns, scratch_for_copy(state.tile_rows * layout.row_bytes));
}

/// `find_parts` of keys of any kind.
template <class A>
MGI_HD MGI_COLD void find_parts_of_any(Group group, ChannelState<A> const& state, Batch batch,
                                       u64 first, u32 rows, u32 parts, u16* part) {
    ColumnLayout const* columns = state.layout.columns;
    if (state.routing == RoutingKind::Range) {
        return find_ranges(group, state.range, batch, columns, first, rows, part);
    }
    u32 const key = state.keys[0];
    ColumnLayout const& layout = columns[key];
    if (state.hash == HashKind::Modulo) {
        for (u32 i = group.thread; i < rows; i += group.threads) {
            part[i] = u16(destination_of_modulo(batch, layout, key, first + i, parts));
        }
        return;
    }
    for (u32 i = group.thread; i < rows; i += group.threads) {
        u64 hash = hash_value(batch, layout, key, first + i);
        for (u32 k = 1; k < state.key_count; ++k) {
            u32 const column = state.keys[k];
            hash = hash_combine(hash, hash_value(batch, columns[column], column, first + i));
        }
        part[i] = u16(destination_of_hash(hash, parts));
    }
}

/// What a channel's rows are routed by, at hand.
struct Router {
    bool plain = false;  ///< by the hash of one 64-bit column
    u32 key = 0;         ///< that column
    u32 parts = 0;       ///< that keys fall into
    u16 const* owners = nullptr;

    Router() = default;
    template <class A>
    MGI_HD explicit Router(ChannelState<A> const& state)
        : key(state.key_count == 1 ? state.keys[0] : 0),
          parts(state.owners == nullptr ? state.lane_count : state.part_count),
          owners(state.owners) {
        ColumnLayout const& layout = state.layout.columns[key];
        plain = state.routing == RoutingKind::Partition && state.key_count == 1 &&
                state.hash == HashKind::Murmur3 && layout.key == KeyKind::Signed &&
                layout.width == 8;
    }
};

/// Writes the part that every row's key falls into. `rows` counts from `first` in the batch.
template <class A>
MGI_HD void find_parts(Group const& group, Router const& router, ChannelState<A> const& state,
                       SegmentLayout const& layouts, Batch const& batch, u64 first, u32 rows,
                       u16* part) {
    u32 const parts = router.parts;
    u32 const key = router.key;
    if (!router.plain || !batch.all_valid(key)) {
        return find_parts_of_any(group, state, batch, first, rows, parts, part);
    }
    ColumnLayout const& layout = layouts.columns[key];
    char const* at = batch.fixed(layout, key, first);
    u32 const stride = batch.fixed_stride(layout);
    if (state.ops() != nullptr && group.threads == 1) {
        return state.ops()->route(at, stride, rows, parts, part);
    }
    for (u32 i = group.thread; i < rows; i += group.threads) {
        u64 const value = load_value<u64>(at + u64(i) * stride);
        part[i] = u16(destination_of_hash(murmur3_mix(value), parts));
    }
}

/// Writes every row's lane: that of its part. Each thread of a group writes the same rows in both
/// steps, so there is no barrier between them.
template <class A>
MGI_HD void route_rows(Group const& group, Router const& router, ChannelState<A> const& state,
                       SegmentLayout const& layout, Batch const& batch, u64 first, u32 rows,
                       u16* lane) {
    find_parts(group, router, state, layout, batch, first, rows, lane);
    if (router.owners == nullptr) return;
    for (u32 i = group.thread; i < rows; i += group.threads) lane[i] = router.owners[lane[i]];
}

/// How many rows a thread of several looks at together: what is done with each waits for the step before.
inline constexpr u32 kRowsAtOnce = 4;

/// Each of several threads its rows: `visit(rows, counts)` for kRowsAtOnce of them at a time, of which those
/// are there that `counts` says; all threads alike often.
template <class Visit>
MGI_HD void for_rows_at_once(Group const& group, u32 rows, Visit&& visit) {
    for (u32 first = 0; first < rows; first += kRowsAtOnce * group.threads) {
        u32 row[kRowsAtOnce];
        bool counts[kRowsAtOnce];
        for (u32 k = 0; k < kRowsAtOnce; ++k) {
            row[k] = first + k * group.threads + group.thread;
            counts[k] = row[k] < rows;
        }
        visit(row, counts);
    }
}

/// By several threads, once the rows' ranks in their lanes are known, and where each lane starts: fills `order`.
/// Without `stable` ranks may be in any order.
MGI_HD inline void order_rows(Group const& group, Tile const& tile, u32 lanes, u32 const* start,
                              bool stable) {
    if (stable) {
        for (u32 d = group.thread; d < lanes; d += group.threads) {
            u32 at = start[d];
            for (u32 i = 0; i < tile.rows; ++i) {
                if (tile.lane[i] == d) tile.order[at++] = u16(i);
            }
        }
        return;
    }
    for_rows_at_once(
        group, tile.rows,
        [&tile, start](u32 const(&row)[kRowsAtOnce], bool const(&counts)[kRowsAtOnce]) {
            u32 lane[kRowsAtOnce];
            u32 rank[kRowsAtOnce];
            for (u32 k = 0; k < kRowsAtOnce; ++k) {
                lane[k] = counts[k] ? tile.lane[row[k]] : 0;
                rank[k] = counts[k] ? tile.rank[row[k]] : 0;
            }
            for (u32 k = 0; k < kRowsAtOnce; ++k) rank[k] += start[lane[k]];
            for (u32 k = 0; k < kRowsAtOnce; ++k) {
                if (counts[k]) tile.order[rank[k]] = u16(row[k]);
            }
        });
}

/// Behind `route_rows`, without a barrier between: sorts the rows by lane, which fills `order`, `next`
/// and `end`; a lane's `end` is written by the thread that has it, of those that deal lanes out
/// among them. Keeps the order of rows within a lane when `stable`, or when the group is one thread. A group
/// barrier must follow.
MGI_HD inline void sort_tile(Group const& group, Tile& tile, u32 lanes, bool stable,
                             TileOps const* ops) {
    tile.sorted = true;
    if (group.threads == 1) {
        if (ops != nullptr) {
            return ops->sort(tile.lane, tile.rows, lanes, tile.order, tile.next, tile.end);
        }
        return counting_sort(tile.lane, tile.rows, lanes, tile.order, tile.next, tile.end);
    }
    for (u32 d = group.thread; d < lanes; d += group.threads) tile.count[d] = 0;
    group.sync();
    for_rows_at_once(
        group, tile.rows,
        [&tile, lanes](u32 const(&row)[kRowsAtOnce], bool const(&counts)[kRowsAtOnce]) {
            u32 lane[kRowsAtOnce];
            u32 rank[kRowsAtOnce];
            for (u32 k = 0; k < kRowsAtOnce; ++k) lane[k] = counts[k] ? tile.lane[row[k]] : 0;
            shared_ranks(tile.count, lanes, lane, counts, rank);
            for (u32 k = 0; k < kRowsAtOnce; ++k) {
                if (counts[k]) tile.rank[row[k]] = u16(rank[k]);
            }
        });
    group.sync();
    shared_sums(group, tile.count, lanes, tile.next);
    group.sync();
    for (u32 d = group.thread; d < lanes; d += group.threads) {
        tile.end[d] = tile.next[d] + tile.count[d];
    }
    order_rows(group, tile, lanes, tile.next, stable);
}

/// All rows of the tile in one lane, in the order they came. A group barrier must follow.
MGI_HD inline void aim_tile(Group const& group, Tile& tile, u32 lanes, u32 lane) {
    tile.sorted = false;
    for (u32 d = group.thread; d < lanes; d += group.threads) {
        tile.next[d] = 0;
        tile.end[d] = d == lane ? tile.rows : 0;
    }
    for (u32 i = group.thread; i < tile.rows; i += group.threads) tile.lane[i] = u16(lane);
}

/// Bytes that row's long strings take in a bytes region.
MGI_HD inline u64 text_bytes(Batch const& batch, SegmentLayout const& layout, u64 row) {
    u64 sum = 0;
    for (u32 c = 0; c < layout.column_count; ++c) {
        if (layout.columns[c].storage != Storage::Views) continue;
        u32 const size = batch.text(layout.columns[c], c, row).size;
        if (size > StringView16::kInline) sum += size;
    }
    return sum;
}

}  // namespace mgi::device
