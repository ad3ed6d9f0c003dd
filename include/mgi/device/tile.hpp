/// \file
/// A tile: the rows that one pass of `send` partitions, sorted by lane in group-shared memory. The
/// default path sends a tile straight into lanes; sorters call the same routine (DESIGN section 5,
/// "Block-collective partition").
#pragma once

#include <mgi/device/counting_sort.hpp>
#include <mgi/device/group.hpp>
#include <mgi/device/hash.hpp>
#include <mgi/device/state.hpp>

namespace mgi::device {

/// Arrays of a tile in group-shared memory.
struct Tile {
    u16* lane = nullptr;   ///< by row: its lane; null when there is only one
    u16* order = nullptr;  ///< rows sorted by lane; null when they lie so already
    u32* text =
        nullptr;  ///< by row: bytes of its long strings, later where they go; null without any
    u32* next = nullptr;      ///< by lane: first position in `order` still to be placed
    u32* end = nullptr;       ///< by lane: behind its last position
    Claim* claims = nullptr;  ///< by lane
    u32* agreed = nullptr;    ///< a word for `agree`
    u32* moved = nullptr;     ///< rows claimed in this round, by all threads
    u32 rows = 0;

    [[nodiscard]] MGI_HD u32 row_at(u32 position) const {
        return order == nullptr ? position : order[position];
    }
    [[nodiscard]] MGI_HD u32 lane_at(u32 position) const {
        return lane == nullptr ? 0 : lane[row_at(position)];
    }

    /// Scratch that a tile of `rows` rows over `lanes` lanes takes.
    MGI_HD static constexpr u32 scratch_bytes(u32 rows, u32 lanes) {
        return (lanes * u32(sizeof(Claim)) + 8 * lanes + 16 + rows * 8 + 4 * TileOps::kSlack + 15) /
               16 * 16;
    }

    /// Lays the arrays into the group's scratch.
    MGI_HD static Tile in(Shared const& shared, u32 rows, u32 lanes) {
        Tile tile;
        char* at = reinterpret_cast<char*>(shared.data);
        tile.claims = reinterpret_cast<Claim*>(at);
        at += lanes * sizeof(Claim);
        tile.next = reinterpret_cast<u32*>(at);
        tile.end = tile.next + lanes;
        tile.agreed = tile.end + lanes;
        tile.moved = tile.agreed + 1;
        tile.text = tile.agreed + 4;
        tile.order = reinterpret_cast<u16*>(tile.text + rows);
        tile.lane = tile.order + rows + TileOps::kSlack;
        return tile;
    }
};

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
            u64 value;
            memcpy(&value, at + u64(i) * stride, 8);
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
/// and `end`. Keeps the order of rows within a lane when `stable`, or when the group is one thread.
MGI_HD inline void sort_tile(Group const& group, Tile& tile, u32 lanes, bool stable,
                             TileOps const* ops) {
    if (group.threads == 1) {
        if (ops != nullptr) {
            return ops->sort(tile.lane, tile.rows, lanes, tile.order, tile.next, tile.end);
        }
        return counting_sort(tile.lane, tile.rows, lanes, tile.order, tile.next, tile.end);
    }
    for (u32 d = group.thread; d < lanes; d += group.threads) tile.end[d] = 0;
    group.sync();
    for (u32 i = group.thread; i < tile.rows; i += group.threads) {
        shared_add(&tile.end[tile.lane[i]], 1);
    }
    group.sync();
    if (group.leads()) {
        u32 sum = 0;
        for (u32 d = 0; d < lanes; ++d) {
            u32 const count = tile.end[d];
            tile.next[d] = sum;
            tile.end[d] = sum;
            sum += count;
        }
    }
    group.sync();
    // `end` runs from a lane's start to its end while rows are dealt out.
    if (stable) {
        for (u32 d = group.thread; d < lanes; d += group.threads) {
            for (u32 i = 0; i < tile.rows; ++i) {
                if (tile.lane[i] == d) tile.order[tile.end[d]++] = u16(i);
            }
        }
    } else {
        for (u32 i = group.thread; i < tile.rows; i += group.threads) {
            tile.order[shared_add(&tile.end[tile.lane[i]], 1)] = u16(i);
        }
    }
    group.sync();
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
