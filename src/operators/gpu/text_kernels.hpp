// The kernels that lay texts out as results have them: characters of all rows one behind the other, and offsets. One source for
// g++ and nvcc.
#pragma once

#include "operators/gpu/columns.hpp"

namespace mgi::operators::on_gpu {

// Copies characters by all lanes of a text, see each_text: by words where the target has whole ones, and what is before and
// behind them. Each of those is one load, so that a text takes few turns.
MGI_HD inline void copy_text(char* to, device::Text text, u32 lane, u32 lanes) {
    u32 const size = text.size;
    u32 const head = device::min_of(size, u32(0 - reinterpret_cast<u64>(to)) & 7);
    u32 const before = head != 0 ? 1 : 0;
    u32 const units = before + (size - head + 7) / 8;
    for (u32 u = lane; u < units; u += lanes) {
        bool const first = u < before;
        u32 const begin = first ? 0 : head + 8 * (u - before);
        u32 const bytes = first ? head : device::min_of(size - begin, 8u);
        store_piece(to + begin, bytes, load_some(text.data + begin, bytes));
    }
}

// Calls `each(i, lane, lanes)` for i in [0, count): several threads of the group, the lanes, share each of them.
template <class Each>
MGI_HD void each_text(device::Group const& group, u32 count, Each&& each) {
    u32 const lanes = group.threads % 4 == 0 ? 4 : 1;
    for (u32 i = group.thread / lanes; i < count; i += group.threads / lanes) {
        each(i, group.thread % lanes, lanes);
    }
}

// Spans of texts, to be laid out.
struct PackArgs {
    static constexpr u32 kTileRows = 1024;

    ColumnView texts;
    u64 rows = 0;
    u64* tiles =
        nullptr;  // by tile: its characters, then where they begin; behind the last one all there are

    [[nodiscard]] MGI_HD u64 tile_count() const { return (rows + kTileRows - 1) / kTileRows; }
};

// What a sum of characters with a longer text is beyond.
inline constexpr u64 kTooLong = u64{1} << 50;

// Counts each tile's characters.
struct CountTexts {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           PackArgs args) const {
        u64* const sum = shared.take<u64>(1);
        for (u64 tile = group.block; tile < args.tile_count(); tile += group.blocks) {
            group.sync();
            if (group.leads()) *sum = 0;
            group.sync();
            u64 const first = tile * PackArgs::kTileRows;
            u64 const end = device::min_of<u64>(first + PackArgs::kTileRows, args.rows);
            u64 mine = 0;
            for (u64 i = first + group.thread; i < end; i += group.threads) {
                u32 const size = device::view_text(args.texts, i).size;
                mine += size > kLongestText ? kTooLong : size;
            }
            if (mine != 0) shared_word(sum).fetch_add(mine, device::relaxed);
            group.sync();
            if (group.leads()) args.tiles[tile] = *sum;
        }
    }
    static constexpr u32 scratch_bytes() { return 32; }
};

// Exclusive sums of a group's numbers, one of each thread; `sums` is in its scratch. Returns the thread's.
MGI_HD inline u64 sum_before(device::Group const& group, u64* sums, u64 mine) {
    sums[group.thread] = mine;
    group.sync();
    for (u32 step = 1; step < group.threads; step *= 2) {
        u64 const more = group.thread >= step ? sums[group.thread - step] : 0;
        group.sync();
        sums[group.thread] += more;
        group.sync();
    }
    return sums[group.thread] - mine;
}

// Makes of the tiles' sizes where each begins. By the first group alone.
struct PlaceTiles {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           PackArgs args) const {
        if (group.block != 0) return;
        u64* const sums = shared.take<u64>(group.threads);
        u64 const tiles = args.tile_count();
        u64 const each = (tiles + group.threads - 1) / group.threads;
        u64 const first = device::min_of(each * group.thread, tiles);
        u64 const end = device::min_of(first + each, tiles);
        u64 mine = 0;
        for (u64 t = first; t < end; ++t) mine += args.tiles[t];
        u64 at = sum_before(group, sums, mine);
        for (u64 t = first; t < end; ++t) {
            u64 const size = args.tiles[t];
            args.tiles[t] = at;
            at += size;
        }
        if (group.thread + 1 == group.threads) args.tiles[tiles] = at;
    }
    static u32 scratch_bytes(u32 threads) { return 8 * threads + 32; }
};

// Writes offsets, of one more than there are rows, and characters.
template <class Offset>
struct WriteTexts {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, PackArgs args,
                           Offset* offsets, char* characters) const {
        u64* const sums = shared.take<u64>(group.threads);
        u64* const begins = shared.take<u64>(PackArgs::kTileRows);
        auto* const texts = shared.take<device::Text>(PackArgs::kTileRows);
        for (u64 tile = group.block; tile < args.tile_count(); tile += group.blocks) {
            u64 const first = tile * PackArgs::kTileRows;
            u32 const rows = u32(device::min_of<u64>(PackArgs::kTileRows, args.rows - first));
            for (u32 i = group.thread; i < rows; i += group.threads) {
                texts[i] = device::view_text(args.texts, first + i);
            }
            group.sync();
            u32 const each = (rows + group.threads - 1) / group.threads;
            u32 const from = device::min_of(each * group.thread, rows);
            u32 const to = device::min_of(from + each, rows);
            u64 mine = 0;
            for (u32 i = from; i < to; ++i) mine += texts[i].size;
            u64 at = args.tiles[tile] + sum_before(group, sums, mine);
            for (u32 i = from; i < to; ++i) {
                begins[i] = at;
                at += texts[i].size;
            }
            group.sync();
            for (u32 i = group.thread; i < rows; i += group.threads) {
                offsets[first + i] = Offset(begins[i]);
            }
            each_text(group, rows, [&](u32 i, u32 lane, u32 lanes) {
                copy_text(characters + begins[i], texts[i], lane, lanes);
            });
            group.sync();  // nobody reads the tile any more
        }
        if (group.block == 0 && group.leads()) {
            offsets[args.rows] = Offset(args.tiles[args.tile_count()]);
        }
    }
    static u32 scratch_bytes(u32 threads) {
        return 8 * threads + (8 + u32(sizeof(device::Text))) * PackArgs::kTileRows + 64;
    }
};

}  // namespace mgi::operators::on_gpu
