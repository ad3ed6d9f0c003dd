// The kernels of a join: build a table of the right rows, find the partner of each left one and count,
// write pairs of rows, gather their columns. One source for g++ and nvcc.
#pragma once

#include "operators/gpu/hash_table.hpp"

namespace mgi::operators::on_gpu {

// What belongs to a key: the last row that was put there, plus 1. The rows of a key are a chain: `next` of a
// row is the one that was put there before it, plus 1, or 0.
// In the place's memory: kernels get its address, since a thread's own copy would be in memory as well.
struct JoinTable {
    HashTable table;
    KeyCode build;
    KeyCode probe;
    u32* next = nullptr;  // by right row

    [[nodiscard]] MGI_HD u32* head(u64 index) const {
        return reinterpret_cast<u32*>(table.values(index));
    }
};

struct JoinCounts {
    u64 pairs = 0;
    u32 duplicates = 0;  // some key is there twice on the right
};

// Puts rows of the right into the table.
template <bool kWide>
struct BuildTable {
    MGI_HD void operator()(device::Group const& group, device::Shared&, JoinTable const* at,
                           PartToSend right, JoinCounts* counts) const {
        JoinTable const& join = *at;
        u64 const step = u64{group.threads} * group.blocks;
        bool duplicates = false;
        for (u64 i = u64{group.block} * group.threads + group.thread; i < right.rows; i += step) {
            u64 const index = insert_row<kWide>(join.table, join.build, right.columns, i);
            u32 before = 0;
            if (index != kNotThere) {
                before = shared_word(join.head(index)).exchange(u32(i) + 1, device::relaxed);
            }
            join.next[i] = before;
            duplicates = duplicates || before != 0;
        }
        if (duplicates) shared_word(&counts->duplicates).store(1, device::relaxed);
    }
};

struct ProbeArgs {
    JoinTable const* join = nullptr;
    PartToSend left;
    bool unique = false;         // no key is there twice on the right
    u32* heads = nullptr;        // by left row: the first of its chain, plus 1, or 0
    u64* tile_firsts = nullptr;  // by tile: where its pairs begin
    JoinCounts* counts = nullptr;
};

inline constexpr u32 kProbeTile = 4096;  // rows

// How long a chain is.
MGI_HD inline u64 length_of(JoinTable const& join, u32 head, bool unique) {
    if (unique) return head != 0 ? 1 : 0;
    u64 length = 0;
    for (u32 at = head; at != 0; at = join.next[at - 1]) ++length;
    return length;
}

// Calls `each(tile, first, end)` for each tile of rows that is this group's; `word`, in its scratch, is 0 then.
template <class T, class Each>
MGI_HD void each_tile(device::Group const& group, u64 rows, T* word, Each&& each) {
    for (u64 tile = group.block; tile * kProbeTile < rows; tile += group.blocks) {
        group.sync();
        if (group.leads()) *word = 0;
        group.sync();
        u64 const first = tile * kProbeTile;
        each(tile, first, device::min_of<u64>(first + kProbeTile, rows));
    }
}

// Finds the chain of each left row, and reserves room for the pairs of each tile.
template <bool kWide>
struct FindPartners {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           ProbeArgs args) const {
        u64* const sum = shared.take<u64>(1);
        each_tile(group, args.left.rows, sum, [&](u64 tile, u64 first, u64 end) {
            u64 mine = 0;
            for (u64 i = first + group.thread; i < end; i += group.threads) {
                u64 const index =
                    find_row<kWide>(args.join->table, args.join->probe, args.left.columns, i);
                u32 const head = index == kNotThere ? 0 : *args.join->head(index);
                args.heads[i] = head;
                mine += length_of(*args.join, head, args.unique);
            }
            if (mine != 0) shared_word(sum).fetch_add(mine, device::relaxed);
            group.sync();
            if (group.leads()) {
                args.tile_firsts[tile] =
                    shared_word(&args.counts->pairs).fetch_add(*sum, device::relaxed);
            }
        });
    }
    static constexpr u32 scratch_bytes() { return 32; }
};

// A row of the result: its left and its right row.
struct Pair {
    u32 left;
    u32 right;
};

struct WritePairs {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, ProbeArgs args,
                           Pair* pairs) const {
        u32* const cursor = shared.take<u32>(1);
        each_tile(group, args.left.rows, cursor, [&](u64 tile, u64 first, u64 end) {
            Pair* const to = pairs + args.tile_firsts[tile];
            for (u64 i = first + group.thread; i < end; i += group.threads) {
                for (u32 at = args.heads[i]; at != 0;) {
                    to[device::shared_add(cursor, 1)] = {u32(i), at - 1};
                    at = args.unique ? 0 : args.join->next[at - 1];
                }
            }
        });
    }
    static constexpr u32 scratch_bytes() { return 32; }
};

// A column of the result, of which side's column it is.
struct Gathered {
    ColumnView from;
    OutputColumn to;
    bool left = true;
};

struct GatherPairs {
    MGI_HD void operator()(device::Group const& group, device::Shared&, Pair const* pairs,
                           u64 count, Gathered const* columns, u32 column_count) const {
        u64 const step = u64{group.threads} * group.blocks;
        for (u64 i = u64{group.block} * group.threads + group.thread; i < count; i += step) {
            Pair const pair = pairs[i];
            for (u32 c = 0; c < column_count; ++c) {
                Gathered const& column = columns[c];
                copy_value(column.to, i, column.from, column.left ? pair.left : pair.right);
            }
        }
    }
};

}  // namespace mgi::operators::on_gpu
