// The kernels of a sort: words of rows, and what is left to do where they are equal. One source for g++ and nvcc.
#pragma once

#include <cuda/std/bit>

#include "operators/gpu/sort_keys.hpp"
#include "operators/gpu/text_kernels.hpp"

namespace mgi::operators::on_gpu {

// Rows and their keys, in the place's memory.
struct RowKeys {
    ColumnView const* columns = nullptr;
    KeyPiece const* pieces = nullptr;
    u32 piece_count = 0;
    u64 rows = 0;

    [[nodiscard]] MGI_HD u64 word(PieceAt at, u64 row) const {
        return piece_word(columns, pieces[at.piece], at.level, row);
    }
    [[nodiscard]] MGI_HD bool says_more(PieceAt at, u64 row) const {
        return on_gpu::says_more(columns, pieces[at.piece], at.level, row);
    }
};

// As each_of, of `use(i, load(i))`, with several loads of a thread on their way together.
template <class Load, class Use>
MGI_HD void each_loaded(device::Group const& group, u64 count, Load&& load, Use&& use) {
    constexpr u32 kAhead = 4;
    u64 const step = u64{group.threads} * group.blocks;
    u64 i = u64{group.block} * group.threads + group.thread;
    for (; i + (kAhead - 1) * step < count; i += kAhead * step) {
        decltype(load(i)) loaded[kAhead];
        for (u32 a = 0; a < kAhead; ++a) loaded[a] = load(i + a * step);
        for (u32 a = 0; a < kAhead; ++a) use(i + a * step, loaded[a]);
    }
    for (; i < count; i += step) use(i, load(i));
}

MGI_HD inline void add_word(WordFacts& facts, u64 word) {
    facts.least = device::min_of(facts.least, word);
    facts.most = device::max_of(facts.most, word);
    facts.any |= word;
    facts.all &= word;
}

// Joins in what each thread has found. `here` is in the group's scratch. Most threads have found nothing that others had not, and
// need not queue up to say so.
MGI_HD inline void join_facts(device::Group const& group, WordFacts* here, WordFacts const& mine,
                              WordFacts* to) {
    auto const join = [](WordFacts* into, WordFacts const& more) {
        auto const least = shared_word(&into->least);
        auto const most = shared_word(&into->most);
        auto const any = shared_word(&into->any);
        auto const all = shared_word(&into->all);
        if (least.load(device::relaxed) > more.least) least.fetch_min(more.least, device::relaxed);
        if (most.load(device::relaxed) < more.most) most.fetch_max(more.most, device::relaxed);
        if ((more.any & ~any.load(device::relaxed)) != 0) any.fetch_or(more.any, device::relaxed);
        if ((all.load(device::relaxed) & ~more.all) != 0) all.fetch_and(more.all, device::relaxed);
    };
    group.sync();
    if (group.leads()) *here = {};
    group.sync();
    join(here, mine);
    group.sync();
    if (group.leads()) join(to, *here);
}

// Looks at the words of all rows at some places.
struct SurveyPieces {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, RowKeys keys,
                           PieceAt const* places, u32 count, WordFacts* facts) const {
        auto* const here = shared.take<WordFacts>(1);
        for (u32 p = 0; p < count; ++p) {
            PieceAt const at = places[p];
            WordFacts mine;
            each_loaded(
                group, keys.rows, [&](u64 row) { return keys.word(at, row); },
                [&](u64 row, u64 word) {
                    if (keys.says_more(at, row)) add_word(mine, word);
                });
            join_facts(group, here, mine, &facts[p]);
        }
    }
    static constexpr u32 scratch_bytes() { return sizeof(WordFacts) + 16; }
};

// Makes one word of those at some places, of which no more than 64 bits differ, and numbers the rows.
struct PackPieces {
    MGI_HD void operator()(device::Group const& group, device::Shared&, RowKeys keys,
                           PieceAt const* places, WordBits const* bits, u32 count, u64* words,
                           u32* rows) const {
        each_loaded(
            group, keys.rows,
            [&](u64 row) {
                u64 packed = 0;
                for (u32 p = 0; p < count; ++p) {
                    if (bits[p].bits == 0) continue;
                    u64 const word = keys.word(places[p], row);
                    u64 const kept = keys.says_more(places[p], row) ? bits[p].keep(word) : 0;
                    packed = bits[p].bits == 64 ? kept : packed << bits[p].bits | kept;
                }
                return packed;
            },
            [&](u64 row, u64 packed) {
                words[row] = packed;
                rows[row] = u32(row);
            });
    }
};

// Rows that are not alone yet, in the order so far: groups of rows that are equal up to where those go on.
struct Ties {
    u32* rows = nullptr;
    u32* slots = nullptr;     // their places in the order
    u32* groups = nullptr;    // 0, 1, ...
    PieceAt* next = nullptr;  // by group
    u64 count = 0;
    u64 group_count = 0;
};

// Finds by how many levels each group's texts go on alike.
struct FindCommonLevels {
    MGI_HD void operator()(device::Group const& group, device::Shared&, RowKeys keys, Ties ties,
                           u32* levels) const {
        each_of(group, ties.count, [&](u64 i) {
            if (i == 0 || ties.groups[i] != ties.groups[i - 1]) return;
            u32 const of = ties.groups[i];
            PieceAt const at = ties.next[of];
            KeyPiece const& piece = keys.pieces[at.piece];
            u32 common = 0;
            if (piece.kind == PieceKind::Text) {
                ColumnView const& view = keys.columns[piece.order.column];
                common = common_levels(text_of(view, ties.rows[i]), text_of(view, ties.rows[i - 1]),
                                       at.level);
            }
            if (shared_word(&levels[of]).load(device::relaxed) > common) {
                shared_word(&levels[of]).fetch_min(common, device::relaxed);
            }
        });
    }
};
struct SkipLevels {
    MGI_HD void operator()(device::Group const& group, device::Shared&, Ties ties,
                           u32 const* levels) const {
        each_of(group, ties.group_count, [&](u64 g) { ties.next[g].level += levels[g]; });
    }
};

// The words by which rows that are equal so far may differ.
struct FindWords {
    MGI_HD void operator()(device::Group const& group, device::Shared&, RowKeys keys, Ties ties,
                           u64* words) const {
        each_loaded(
            group, ties.count,
            [&](u64 i) { return keys.word(ties.next[ties.groups[i]], ties.rows[i]); },
            [&](u64 i, u64 word) { words[i] = word; });
    }
};

// Looks at them: in which bits rows of one group differ, and where all of them lie.
struct SurveyTies {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, Ties ties,
                           u64 const* words, WordFacts* facts) const {
        WordFacts mine;
        mine.all = 0;
        each_of(group, ties.count, [&](u64 i) {
            u64 const word = words[i];
            mine.least = device::min_of(mine.least, word);
            mine.most = device::max_of(mine.most, word);
            if (i != 0 && ties.groups[i] == ties.groups[i - 1]) mine.any |= word ^ words[i - 1];
        });
        join_facts(group, shared.take<WordFacts>(1), mine, facts);
    }
    static constexpr u32 scratch_bytes() { return sizeof(WordFacts) + 16; }
};

// Words that are sorted, and groups ahead of them where `with_groups`; numbers the ties.
struct PackTies {
    MGI_HD void operator()(device::Group const& group, device::Shared&, Ties ties, u64 const* words,
                           WordBits bits, bool with_groups, u64* packed, u32* numbers) const {
        each_of(group, ties.count, [&](u64 i) {
            u64 const kept = bits.keep(words[i]);
            packed[i] =
                with_groups && bits.bits != 64 ? u64{ties.groups[i]} << bits.bits | kept : kept;
            numbers[i] = u32(i);
        });
    }
};
// The groups of ties that are sorted by the words behind.
struct GroupsOf {
    MGI_HD void operator()(device::Group const& group, device::Shared&, Ties ties,
                           u32 const* numbers, u64* groups) const {
        each_loaded(
            group, ties.count, [&](u64 i) { return u64{ties.groups[numbers[i]]}; },
            [&](u64 i, u64 of) { groups[i] = of; });
    }
};

// What was sorted: all rows, or ties.
struct Sorted {
    u64 const* packed = nullptr;  // in order; those that are equal are
    u32 const* numbers = nullptr;
    u64 count = 0;
    // Of ties.
    Ties ties;
    u64 const* words = nullptr;  // by tie: where it was not packed whole
    WordBits bits;
    // Of all rows: the place that they are sorted by last.
    PieceAt last;

    [[nodiscard]] MGI_HD bool is_of_ties() const { return ties.rows != nullptr; }
    [[nodiscard]] MGI_HD u32 row(u64 i) const {
        return is_of_ties() ? ties.rows[numbers[i]] : numbers[i];
    }
    [[nodiscard]] MGI_HD u32 slot(u64 i) const { return is_of_ties() ? ties.slots[i] : u32(i); }
    [[nodiscard]] MGI_HD PieceAt at(u64 i) const {
        return is_of_ties() ? ties.next[ties.groups[numbers[i]]] : last;
    }
    // Whether it is equal to the one before.
    [[nodiscard]] MGI_HD bool same(u64 i) const {
        if (i == 0 || i == count || packed[i] != packed[i - 1]) return false;
        return words == nullptr || bits.keep(words[numbers[i]]) == bits.keep(words[numbers[i - 1]]);
    }
    // Whether it stays a tie, and then where that goes on.
    [[nodiscard]] MGI_HD bool stays(RowKeys const& keys, u64 i, PieceAt& next) const {
        if (!same(i) && !same(i + 1)) return false;
        next = next_piece(keys.columns, keys.pieces, at(i), row(i));
        return next.piece != keys.piece_count;
    }
};

// Counts ties that stay and their groups, tile by tile; writes the order.
class CountTies {
public:
    static constexpr u32 kGroup = 32;  // how far up a sum of both has the groups

    // `order`: of ties.
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, RowKeys keys,
                           Sorted sorted, PackArgs tiles, u32* order) const {
        u64* const sum = shared.take<u64>(1);
        for (u64 tile = group.block; tile < tiles.tile_count(); tile += group.blocks) {
            group.sync();
            if (group.leads()) *sum = 0;
            group.sync();
            u64 const first = tile * PackArgs::kTileRows;
            u64 const end = device::min_of<u64>(first + PackArgs::kTileRows, tiles.rows);
            u64 mine = 0;
            for (u64 i = first + group.thread; i < end; i += group.threads) {
                PieceAt next;
                if (sorted.is_of_ties()) order[sorted.slot(i)] = sorted.row(i);
                if (sorted.stays(keys, i, next)) {
                    mine += 1 + (sorted.same(i) ? 0 : u64{1} << kGroup);
                }
            }
            if (mine != 0) shared_word(sum).fetch_add(mine, device::relaxed);
            group.sync();
            if (group.leads()) tiles.tiles[tile] = *sum;
        }
    }
    static constexpr u32 scratch_bytes() { return 32; }
};

// Writes those ties, once it is known where each tile's begin.
struct WriteTies {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, RowKeys keys,
                           Sorted sorted, PackArgs tiles, Ties to) const {
        u64* const sums = shared.take<u64>(group.threads);
        for (u64 tile = group.block; tile < tiles.tile_count(); tile += group.blocks) {
            u64 const first = tile * PackArgs::kTileRows;
            u64 const end = device::min_of<u64>(first + PackArgs::kTileRows, tiles.rows);
            u64 const each = (end - first + group.threads - 1) / group.threads;
            u64 const from = device::min_of(first + each * group.thread, end);
            u64 const until = device::min_of(from + each, end);
            u64 mine = 0;
            PieceAt next;
            for (u64 i = from; i < until; ++i) {
                if (sorted.stays(keys, i, next)) {
                    mine += 1 + (sorted.same(i) ? 0 : u64{1} << CountTies::kGroup);
                }
            }
            u64 at = tiles.tiles[tile] + sum_before(group, sums, mine);
            for (u64 i = from; i < until; ++i) {
                if (!sorted.stays(keys, i, next)) continue;
                bool const begins = !sorted.same(i);
                if (begins) at += u64{1} << CountTies::kGroup;
                u32 const place = u32(at);
                u32 const number = u32(at >> CountTies::kGroup) - 1;
                to.rows[place] = sorted.row(i);
                to.slots[place] = sorted.slot(i);
                to.groups[place] = number;
                if (begins) to.next[number] = next;
                ++at;
            }
            group.sync();  // nobody reads the sums any more
        }
    }
    static u32 scratch_bytes(u32 threads) { return 8 * threads + 32; }
};

// Integers that the words have which rows were sorted by, so that nobody need look for them where the rows lie.
struct WordColumn {
    u64 const* words = nullptr;  // in order
    u32 shift = 0;
    u64 mask = 0;
    u64 least = 0;  // taken off before
    u64 flip = 0;   // bits that are another way around

    [[nodiscard]] MGI_HD u64 value(u64 i) const {
        return ((words[i] >> shift & mask) + least) ^ flip;
    }
};

// A column of the result, and where it comes from.
struct SortedColumn {
    ColumnView from;
    WordColumn in_words;  // where its words are there
    OutputColumn to;
};

// Ties that did not differ at a piece which is no text.
struct PassPiece {
    MGI_HD void operator()(device::Group const& group, device::Shared&, Ties ties) const {
        each_of(group, ties.group_count, [&](u64 g) { ++ties.next[g].piece; });
    }
};

// Gathers columns in the order of rows. `kLong`: see copy_value.
template <bool kLong>
struct GatherRows {
    MGI_HD void operator()(device::Group const& group, device::Shared&, u32 const* order, u64 count,
                           SortedColumn const* columns, u32 column_count) const {
        for (u32 c = 0; c < column_count; ++c) {
            SortedColumn const column = columns[c];
            if (column.in_words.words != nullptr) {
                each_loaded(
                    group, count, [&](u64 i) { return column.in_words.value(i); },
                    [&](u64 i, u64 word) { store_word(column.to, i, word); });
                continue;
            }
            if (kLong && (column.to.text || column.to.wide)) {
                each_of(group, count,
                        [&](u64 i) { copy_value<kLong>(column.to, i, column.from, order[i]); });
                continue;
            }
            if (column.to.bits) {
                each_loaded(
                    group, count, [&](u64 i) { return load_raw(column.from, column.to, order[i]); },
                    [&](u64 i, u64 bit) { column.to.values[i] = char(bit); });
            } else {
                with_type_of(column.to.width, [&](auto type) {
                    using T = decltype(type);
                    T const* const from = static_cast<T const*>(column.from.values);
                    T* const to = reinterpret_cast<T*>(column.to.values);
                    each_loaded(
                        group, count, [&](u64 i) { return from[column.from.offset + order[i]]; },
                        [&](u64 i, T value) { to[i] = value; });
                });
            }
            if (column.to.valid == nullptr) continue;
            each_loaded(
                group, count, [&](u64 i) { return is_valid(column.from, order[i]); },
                [&](u64 i, bool valid) { column.to.valid[i] = valid ? 1 : 0; });
        }
    }
};

}  // namespace mgi::operators::on_gpu
