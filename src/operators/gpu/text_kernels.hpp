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
class WriteTexts {
public:
    MGI_HD void operator()(device::Group const& group, device::Shared& shared, PackArgs args,
                           Offset* offsets, char* characters) const {
        u64* const sums = shared.take<u64>(group.threads);
        Tile tile;
        tile.begins = shared.take<u64>(PackArgs::kTileRows + 1);
        tile.texts = shared.take<device::Text>(PackArgs::kTileRows);
        for (u64 t = group.block; t < args.tile_count(); t += group.blocks) {
            u64 const first = t * PackArgs::kTileRows;
            tile.rows = u32(device::min_of<u64>(PackArgs::kTileRows, args.rows - first));
            for (u32 i = group.thread; i < tile.rows; i += group.threads) {
                tile.texts[i] = device::view_text(args.texts, first + i);
            }
            group.sync();
            u32 const each = (tile.rows + group.threads - 1) / group.threads;
            u32 const from = device::min_of(each * group.thread, tile.rows);
            u32 const to = device::min_of(from + each, tile.rows);
            u64 mine = 0;
            for (u32 i = from; i < to; ++i) mine += tile.texts[i].size;
            u64 const begin = reinterpret_cast<u64>(characters);
            u64 at = begin + args.tiles[t] + sum_before(group, sums, mine);
            for (u32 i = from; i < to; ++i) {
                tile.begins[i] = at;
                at += tile.texts[i].size;
            }
            if (group.leads()) tile.begins[tile.rows] = begin + args.tiles[t + 1];
            group.sync();
            for (u32 i = group.thread; i < tile.rows; i += group.threads) {
                offsets[first + i] = Offset(tile.begins[i] - begin);
            }
            write(group, tile);
            group.sync();  // nobody reads the tile any more
        }
        if (group.block == 0 && group.leads()) {
            offsets[args.rows] = Offset(args.tiles[args.tile_count()]);
        }
    }
    static u32 scratch_bytes(u32 threads) {
        return 8 * threads + (8 + u32(sizeof(device::Text))) * PackArgs::kTileRows + 80;
    }

private:
    // In the group's scratch. `begins`: addresses, and behind the last one where the tile ends.
    struct Tile {
        device::Text* texts = nullptr;
        u64* begins = nullptr;
        u32 rows = 0;

        // The row that has the character at an address.
        [[nodiscard]] MGI_HD u32 row_of(u64 address) const {
            u32 first = 0;
            for (u32 count = rows; count > 1;) {
                u32 const half = count / 2;
                if (begins[first + half] <= address) first += half;
                count -= half;
            }
            return first;
        }
        // Up to 8 characters from an address on, which are row `row`'s, and those of rows behind it.
        [[nodiscard]] MGI_HD u64 load(u32& row, u64 address, u32 bytes) const {
            u64 word = 0;
            for (u32 have = 0; have < bytes;) {
                u64 const at = address + have;
                while (begins[row + 1] <= at) ++row;
                u32 const some = u32(device::min_of<u64>(bytes - have, begins[row + 1] - at));
                word |= load_some(texts[row].data + (at - begins[row]), some) << (8 * have);
                have += some;
            }
            return word;
        }
    };

    // A thread writes a whole sector of the memory at a time, wherever its characters come from: threads that copied a text
    // each would part where their sizes do.
    MGI_HD static void write(device::Group const& group, Tile const& tile) {
        constexpr u32 kSector = 32;
        u64 const begin = tile.begins[0];
        u64 const end = tile.begins[tile.rows];
        u64 const step = u64{kSector} * group.threads;
        for (u64 at = begin / kSector * kSector + u64{kSector} * group.thread; at < end;
             at += step) {
            u64 const from = device::max_of(at, begin);
            u64 const to = device::min_of(at + kSector, end);
            u32 row = tile.row_of(from);
            if (to - from == kSector) {
                Unit16 units[2];
                for (u32 u = 0; u < 2; ++u) {
                    units[u].low = tile.load(row, at + 16 * u, 8);
                    units[u].high = tile.load(row, at + 16 * u + 8, 8);
                }
                auto* const sector = reinterpret_cast<Unit16*>(at);  // NOLINT
                sector[0] = units[0];
                sector[1] = units[1];
                continue;
            }
            for (u64 next = from; next < to;) {
                u32 const bytes = u32(device::min_of(8 - next % 8, to - next));
                u64 const word = tile.load(row, next, bytes);
                store_piece(reinterpret_cast<char*>(next), bytes, word);  // NOLINT
                next += bytes;
            }
        }
    }
};

}  // namespace mgi::operators::on_gpu
