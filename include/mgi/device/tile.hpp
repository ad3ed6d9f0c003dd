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

/// What a tile needs of a group's scratch.
struct TileShape {
    u32 rows = 0;
    u32 lanes = 0;
    bool text = true;  ///< there may be long strings
    u32 columns = 0;   ///< with `staged`: columns of the channel
    u32 staged = 0;    ///< bytes of the rows' values

    [[nodiscard]] MGI_HD constexpr u32 scratch_bytes() const {
        u32 const by_lane = u32(sizeof(Claim)) + 3 * u32(sizeof(u32));
        u32 const by_row = 3 * u32(sizeof(u16)) + (text ? u32(sizeof(u32)) : 0);
        u32 const bytes = columns * u32(sizeof(ColumnView)) + lanes * by_lane + 16 + rows * by_row +
                          4 * TileOps::kSlack;
        return staged + (bytes + 15) / 16 * 16;
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
    char* staged = nullptr;         ///< its values; null where they stay where they are
    ColumnView* columns = nullptr;  ///< with `staged`: the columns of it
    u16* lane = nullptr;            ///< by row: its lane; null when there is only one
    u16* order = nullptr;           ///< rows sorted by lane; null when they lie so already
    u16* rank = nullptr;            ///< by row: how many of its lane come before it
    u32* text =
        nullptr;  ///< by row: bytes of its long strings, later where they go; null without any
    u32* next = nullptr;      ///< by lane: first position in `order` still to be placed
    u32* end = nullptr;       ///< by lane: behind its last position
    u32* count = nullptr;     ///< by lane: its rows
    Claim* claims = nullptr;  ///< by lane
    u32* agreed = nullptr;    ///< a word for `agree`
    u32 rows = 0;

    [[nodiscard]] MGI_HD u32 row_at(u32 position) const {
        return order == nullptr ? position : order[position];
    }
    [[nodiscard]] MGI_HD u32 lane_at(u32 position) const {
        return lane == nullptr ? 0 : lane[row_at(position)];
    }

    /// Lays the arrays into the group's scratch.
    MGI_HD static Tile in(Shared const& shared, TileShape const& shape) {
        Tile tile;
        char* at = reinterpret_cast<char*>(shared.data);
        if (shape.staged != 0) {
            tile.staged = at;
            at += shape.staged;
            tile.columns = reinterpret_cast<ColumnView*>(at);
            at += shape.columns * sizeof(ColumnView);
        }
        tile.claims = reinterpret_cast<Claim*>(at);
        at += shape.lanes * sizeof(Claim);
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

/// Scratch for the values of a tile's rows.
MGI_HD inline u32 staged_tile_bytes(SegmentLayout const& layout, u32 rows) {
    u32 columns = 0;
    for (u32 c = 0; c < layout.column_count; ++c) {
        if (layout.columns[c].storage != Storage::Fixed) continue;
        columns += scratch_for_copy(rows * layout.columns[c].width);
    }
    return max_of(columns, scratch_for_copy(rows * layout.row_bytes));
}

/// Starts to bring the tile's rows, the batch's from `first` on, into the scratch: row structs, and columns
/// of fixed width without nulls. Returns the batch they then are, the others where they lie; its rows count
/// from 0. `wait_for_copies` and a group barrier must follow.
MGI_HD inline Batch stage_tile(Group const& group, Tile const& tile, SegmentLayout const& layout,
                               Batch const& batch, u64 first) {
    Batch out;
    out.count = tile.rows;
    if (batch.rows != nullptr) {
        out.rows = copy_to_scratch(group, tile.staged, batch.rows + first * batch.row_stride,
                                   tile.rows * batch.row_stride);
        out.row_stride = batch.row_stride;
        return out;
    }
    char* to = tile.staged;
    for (u32 c = 0; c < layout.column_count; ++c) {
        ColumnLayout const& column = layout.columns[c];
        ColumnView view = batch.columns[c];
        view.offset += first;
        if (column.storage == Storage::Fixed && view.validity == nullptr) {
            view.values =
                copy_to_scratch(group, to, batch.fixed(column, c, first), tile.rows * column.width);
            view.offset = 0;
            to += scratch_for_copy(tile.rows * column.width);
        }
        if (group.leads()) tile.columns[c] = view;
    }
    out.columns = tile.columns;
    return out;
}

/// Writes the part that every row's key falls into. `rows` counts from `first` in the batch.
template <class A>
MGI_HD void find_parts(Group const& group, ChannelState<A> const& state, Batch const& batch,
                       u64 first, u32 rows, u32 parts, u16* part) {
    ColumnLayout const* columns = state.layout.columns;
    u32 const key = state.keys[0];
    ColumnLayout const& layout = columns[key];
    if (state.hash == HashKind::Modulo) {
        for (u32 i = group.thread; i < rows; i += group.threads) {
            part[i] = u16(destination_of_modulo(batch, layout, key, first + i, parts));
        }
        return;
    }
    bool const plain = layout.key == KeyKind::Signed && layout.width == 8;
    if (state.key_count == 1 && plain && batch.all_valid(key)) {
        char const* at = batch.fixed(layout, key, first);
        u32 const stride = batch.fixed_stride(layout);
        if (state.ops() != nullptr && group.threads == 1) {
            return state.ops()->route(at, stride, rows, parts, part);
        }
        for (u32 i = group.thread; i < rows; i += group.threads) {
            u64 const value = load_value<u64>(at + u64(i) * stride);
            part[i] = u16(destination_of_hash(murmur3_mix(value), parts));
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

/// Writes every row's lane: that of its part. Each thread of a group writes the same rows in both
/// steps, so there is no barrier between them.
template <class A>
MGI_HD void route_rows(Group const& group, ChannelState<A> const& state, Batch const& batch,
                       u64 first, u32 rows, u16* lane) {
    bool const own = state.owners == nullptr;
    find_parts(group, state, batch, first, rows, own ? state.lane_count : state.part_count, lane);
    if (own) return;
    for (u32 i = group.thread; i < rows; i += group.threads) lane[i] = state.owners[lane[i]];
}

/// Behind `route_rows`, without a barrier between: sorts the rows by lane, which fills `order`, `next`
/// and `end`; a lane's `next` and `end` are written by the thread that has it, of those that deal lanes out
/// among them. Keeps the order of rows within a lane when `stable`, or when the group is one thread. A group
/// barrier must follow.
MGI_HD inline void sort_tile(Group const& group, Tile& tile, u32 lanes, bool stable,
                             TileOps const* ops) {
    if (group.threads == 1) {
        if (ops != nullptr) {
            return ops->sort(tile.lane, tile.rows, lanes, tile.order, tile.next, tile.end);
        }
        return counting_sort(tile.lane, tile.rows, lanes, tile.order, tile.next, tile.end);
    }
    for (u32 d = group.thread; d < lanes; d += group.threads) tile.count[d] = 0;
    group.sync();
    for (u32 i = group.thread; i < tile.rows; i += group.threads) {
        tile.rank[i] = u16(shared_count(tile.count, tile.lane[i], lanes));
    }
    group.sync();
    for (u32 d = group.thread; d < lanes; d += group.threads) {
        u32 start = 0;
        for (u32 e = 0; e < d; ++e) start += tile.count[e];
        tile.next[d] = start;
        tile.end[d] = start + tile.count[d];
    }
    group.sync();
    if (stable) {
        for (u32 d = group.thread; d < lanes; d += group.threads) {
            u32 at = tile.next[d];
            for (u32 i = 0; i < tile.rows; ++i) {
                if (tile.lane[i] == d) tile.order[at++] = u16(i);
            }
        }
    } else {
        for (u32 i = group.thread; i < tile.rows; i += group.threads) {
            tile.order[tile.next[tile.lane[i]] + tile.rank[i]] = u16(i);
        }
    }
}

/// All rows of the tile in one lane, in the order they came. A group barrier must follow.
MGI_HD inline void aim_tile(Group const& group, Tile& tile, u32 lanes, u32 lane) {
    tile.order = nullptr;
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
