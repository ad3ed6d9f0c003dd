// The kernels of a join: build a table of one side's rows, find the partners of the other's and count, write pairs of
// rows, gather their columns. One source for g++ and nvcc.
#pragma once

#include "operators/gpu/text_table.hpp"
#include "operators/join_rules.hpp"

namespace mgi::operators::on_gpu {

// What belongs to a key: the last row that was put there, plus 1. The rows of a key are a chain: `next` of a
// row is the one that was put there before it, plus 1, or 0.
// In the place's memory: kernels get its address, since a thread's own copy would be in memory as well.
struct JoinTable {
    HashTable table;
    KeyCode build;
    KeyCode probe;
    u32* next = nullptr;  // by built row
    u8* marks =
        nullptr;  // by built row, whether it has a partner; null unless built rows come out alone

    [[nodiscard]] MGI_HD u32* head(u64 index) const {
        return reinterpret_cast<u32*>(table.values(index));
    }
};

// What a table's keys are.
enum class Keys : u8 { Word, Words, Text };

struct JoinCounts {
    u64 pairs = 0;       // rows of the result
    u32 duplicates = 0;  // some key is there twice
};

// Puts rows into the table.
template <Keys kKeys>
struct BuildTable {
    MGI_HD void operator()(device::Group const& group, device::Shared&, JoinTable const* at,
                           PartToSend rows, JoinCounts* counts) const {
        JoinTable const& join = *at;
        u64 const step = u64{group.threads} * group.blocks;
        u64 const first = u64{group.block} * group.threads + group.thread;
        bool duplicates = false;
        auto const put = [&](u64 row, u64 index) {
            u32 before = 0;
            if (index != kNotThere) {
                before = shared_word(join.head(index)).exchange(u32(row) + 1, device::relaxed);
            }
            join.next[row] = before;
            duplicates = duplicates || before != 0;
        };
        if constexpr (kKeys == Keys::Text) {
            ColumnView const& view = rows.columns[join.build.parts[0].column];
            each_text_key(view, first, step, rows.rows, [&](TextKeys const& at_once) {
                for (u32 k = 0; k < kTextsAtOnce; ++k) {
                    TextKey const& key = at_once.keys[k];
                    if (at_once.rows[k] == rows.rows) break;
                    put(at_once.rows[k], key.there ? insert_text(join.table, key) : kNotThere);
                }
            });
        } else {
            for (u64 i = first; i < rows.rows; i += step) {
                put(i,
                    insert_row < kKeys == Keys::Words > (join.table, join.build, rows.columns, i));
            }
        }
        if (duplicates) shared_word(&counts->duplicates).store(1, device::relaxed);
    }
};

struct ProbeArgs {
    JoinTable const* join = nullptr;
    PartToSend rows;
    bool unique = false;         // no key is there twice in the table
    bool pairs = true;           // pairs come out
    Alone alone = Alone::None;   // which probing rows come out alone
    u32* heads = nullptr;        // by probing row: the first of its chain, plus 1, or 0
    u64* tile_firsts = nullptr;  // by tile: where its pairs begin
    JoinCounts* counts = nullptr;

    // Whether a probing row comes out alone.
    [[nodiscard]] MGI_HD bool gives_alone(u32 head) const {
        return alone == (head != 0 ? Alone::Matched : Alone::Unmatched);
    }
};

inline constexpr u32 kProbeTile = 4096;  // rows

// How many rows of the result a probing row has.
MGI_HD inline u64 results_of(ProbeArgs const& args, u32 head) {
    if (head == 0 || !args.pairs) return args.gives_alone(head) ? 1 : 0;
    if (args.unique) return 1;
    u64 length = 0;
    for (u32 at = head; at != 0; at = args.join->next[at - 1]) ++length;
    return length;
}

// The whole chain has a partner. A thread that finds its head marked leaves the rest to who marked that.
MGI_HD inline void mark_chain(JoinTable const& join, u32 head) {
    if (shared_word(&join.marks[head - 1]).load(device::relaxed) != 0) return;
    for (u32 at = head; at != 0; at = join.next[at - 1]) {
        shared_word(&join.marks[at - 1]).store(u8{1}, device::relaxed);
    }
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

// Adds what the group's threads have counted of a tile, `mine` of each, and reserves that much room in the result.
MGI_HD inline void reserve(device::Group const& group, u64* sum, u64 mine, u64* tile_first,
                           JoinCounts* counts) {
    if (mine != 0) shared_word(sum).fetch_add(mine, device::relaxed);
    group.sync();
    if (group.leads()) *tile_first = shared_word(&counts->pairs).fetch_add(*sum, device::relaxed);
}

// Finds the chain of each probing row, and reserves room for the pairs of each tile.
template <Keys kKeys>
struct FindPartners {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           ProbeArgs args) const {
        u64* const sum = shared.take<u64>(1);
        each_tile(group, args.rows.rows, sum, [&](u64 tile, u64 first, u64 end) {
            u64 mine = 0;
            auto const found = [&](u64 row, u64 index) {
                u32 const head = index == kNotThere ? 0 : *args.join->head(index);
                args.heads[row] = head;
                mine += results_of(args, head);
                if (head != 0 && args.join->marks != nullptr) mark_chain(*args.join, head);
            };
            if constexpr (kKeys == Keys::Text) {
                find_texts(group, args, first, end, found);
            } else {
                for (u64 i = first + group.thread; i < end; i += group.threads) {
                    found(i, find_row < kKeys == Keys::Words > (args.join->table, args.join->probe,
                                                                args.rows.columns, i));
                }
            }
            reserve(group, sum, mine, &args.tile_firsts[tile], args.counts);
        });
    }
    static constexpr u32 scratch_bytes() { return 32; }

private:
    template <class Found>
    MGI_HD static void find_texts(device::Group const& group, ProbeArgs const& args, u64 first,
                                  u64 end, Found const& found) {
        HashTable const& table = args.join->table;
        ColumnView const& view = args.rows.columns[args.join->probe.parts[0].column];
        u64 const begin = first + group.thread;
        each_text_key(view, begin, group.threads, end, [&](TextKeys const& at_once) {
            u64 index[kTextsAtOnce];
            on_gpu::find_texts(table, at_once, index);
            for (u32 k = 0; k < kTextsAtOnce; ++k) {
                if (at_once.rows[k] != end) found(at_once.rows[k], index[k]);
            }
        });
    }
};

// A row of the result: its probing and its built row.
struct Pair {
    static constexpr u32 kNone = ~u32{0};
    u32 probing;
    u32 built;
};

struct WritePairs {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, ProbeArgs args,
                           Pair* pairs) const {
        u32* const cursor = shared.take<u32>(1);
        each_tile(group, args.rows.rows, cursor, [&](u64 tile, u64 first, u64 end) {
            Pair* const to = pairs + args.tile_firsts[tile];
            for (u64 i = first + group.thread; i < end; i += group.threads) {
                u32 const head = args.heads[i];
                if (args.gives_alone(head)) {
                    to[device::shared_add(cursor, 1)] = {u32(i), Pair::kNone};
                }
                for (u32 at = args.pairs ? head : 0; at != 0;) {
                    to[device::shared_add(cursor, 1)] = {u32(i), at - 1};
                    at = args.unique ? 0 : args.join->next[at - 1];
                }
            }
        });
    }
    static constexpr u32 scratch_bytes() { return 32; }
};

// Built rows that come out alone, once all marks are there.
struct AloneArgs {
    u8 const* marks = nullptr;
    u64 rows = 0;
    bool marked = false;         // those that have a partner, or those that have none
    u64* tile_firsts = nullptr;  // by tile
    JoinCounts* counts = nullptr;

    [[nodiscard]] MGI_HD bool gives(u64 row) const { return (marks[row] != 0) == marked; }
};

struct CountAlone {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           AloneArgs args) const {
        u64* const sum = shared.take<u64>(1);
        each_tile(group, args.rows, sum, [&](u64 tile, u64 first, u64 end) {
            u64 mine = 0;
            for (u64 i = first + group.thread; i < end; i += group.threads) mine += args.gives(i);
            reserve(group, sum, mine, &args.tile_firsts[tile], args.counts);
        });
    }
    static constexpr u32 scratch_bytes() { return 32; }
};

struct WriteAlone {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, AloneArgs args,
                           Pair* pairs) const {
        u32* const cursor = shared.take<u32>(1);
        each_tile(group, args.rows, cursor, [&](u64 tile, u64 first, u64 end) {
            Pair* const to = pairs + args.tile_firsts[tile];
            for (u64 i = first + group.thread; i < end; i += group.threads) {
                if (args.gives(i)) to[device::shared_add(cursor, 1)] = {Pair::kNone, u32(i)};
            }
        });
    }
    static constexpr u32 scratch_bytes() { return 32; }
};

// A column of the result, and which columns it comes from: one of a side, or a key of each, where the first that there is
// counts, since they are equal.
struct Gathered {
    ColumnView probing;
    ColumnView built;
    bool from_probing = false;
    bool from_built = false;
    OutputColumn to;
};

// `kLong`: see copy_value.
template <bool kLong>
struct GatherPairs {
    MGI_HD void operator()(device::Group const& group, device::Shared&, Pair const* pairs,
                           u64 count, Gathered const* columns, u32 column_count) const {
        u64 const step = u64{group.threads} * group.blocks;
        for (u64 i = u64{group.block} * group.threads + group.thread; i < count; i += step) {
            Pair const pair = pairs[i];
            for (u32 c = 0; c < column_count; ++c) {
                Gathered const& column = columns[c];
                if (column.from_probing && pair.probing != Pair::kNone) {
                    copy_value<kLong>(column.to, i, column.probing, pair.probing);
                } else if (column.from_built && pair.built != Pair::kNone) {
                    copy_value<kLong>(column.to, i, column.built, pair.built);
                } else {
                    store_null(column.to, i);
                }
            }
        }
    }
};

}  // namespace mgi::operators::on_gpu
