// The kernel of a placed exchange: rows that were counted before go straight to their final places in the results of
// their owners, which may be other GPUs' memory. It waits for nobody. One source for g++ and nvcc.
#pragma once

#include <mgi/device/tile.hpp>

#include "operators/gpu/owners.hpp"

namespace mgi::operators::on_gpu {

struct PlaceArgs {
    ColumnView const* columns = nullptr;
    u32 column_count = 0;
    u64 rows = 0;
    Owners owners;
    OutputColumn const* results = nullptr;  // by endpoint and column
    u64* next = nullptr;       // by endpoint: the row of its result where this part's next one goes
    u64 const* end = nullptr;  // by endpoint: behind the last one that was counted
};

class PlaceRows {
public:
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           PlaceArgs args) const {
        Scratch scratch;
        u32 const owners = args.owners.count;
        scratch.tile.lane = shared.take<u16>(kTileRows + device::TileOps::kSlack);
        scratch.tile.order = shared.take<u16>(kTileRows + device::TileOps::kSlack);
        scratch.tile.rank = shared.take<u16>(kTileRows + device::TileOps::kSlack);
        scratch.tile.next = shared.take<u32>(owners);
        scratch.tile.end = shared.take<u32>(owners);
        scratch.tile.count = shared.take<u32>(owners);
        scratch.places = shared.take<u64>(owners);
        u64 const step = u64{group.blocks} * kTileRows;
        for (u64 first = u64{group.block} * kTileRows; first < args.rows; first += step) {
            scratch.tile.rows = u32(device::min_of<u64>(kTileRows, args.rows - first));
            group.sync();  // nobody looks at the tile before any more
            find_owners(group, args, first, scratch.tile);
            device::sort_tile(group, scratch.tile, owners, false, nullptr);
            group.sync();
            claim(group, args, scratch);
            group.sync();
            for (u32 c = 0; c < args.column_count; ++c)
                place_column(group, args, first, c, scratch);
        }
    }

    static u32 scratch_bytes(u32 owners) {
        constexpr u32 by_row = 3 * sizeof(u16);
        constexpr u32 slack = 3 * sizeof(u16) * device::TileOps::kSlack;
        return by_row * kTileRows + slack + (3 * u32(sizeof(u32)) + u32(sizeof(u64))) * owners +
               7 * 16;
    }

private:
    // Runs of a column are kTileRows / owners values long.
    static constexpr u32 kTileRows = 4096;
    // Loads of a thread that are on their way together.
    static constexpr u32 kAhead = 8;
    static constexpr u64 kNowhere = u64{1} << 63;  // no row less a position

    struct Scratch {
        device::Tile tile;
        // By owner: the row of its result where the row at position 0 of the tile would go, if it were its.
        u64* places = nullptr;
    };

    MGI_HD static void find_owners(device::Group const& group, PlaceArgs const& args, u64 first,
                                   device::Tile const& tile) {
        device::Batch batch;
        batch.columns = args.columns;
        batch.count = args.rows;
        ColumnView const view = args.columns[args.owners.first_key()];
        ValueKind const kind = args.owners.first_kind();
        for (u32 begin = group.thread; begin < tile.rows; begin += kAhead * group.threads) {
            u64 words[kAhead];
            for (u32 a = 0; a < kAhead; ++a) {
                u32 const row = begin + a * group.threads;
                words[a] = row < tile.rows ? load_word(view, kind, first + row) : 0;
            }
            for (u32 a = 0; a < kAhead; ++a) {
                u32 const row = begin + a * group.threads;
                if (row >= tile.rows) break;
                u64 const hash = args.owners.hash(batch, first + row, words[a]);
                tile.lane[row] = u16(args.owners.owner(batch, first + row, hash));
            }
        }
    }

    // Room in each result for the tile's rows. None where there are more than were counted: somebody has changed the part.
    MGI_HD static void claim(device::Group const& group, PlaceArgs const& args,
                             Scratch const& scratch) {
        for (u32 d = group.thread; d < args.owners.count; d += group.threads) {
            u32 const start = scratch.tile.next[d];
            u32 const rows = scratch.tile.end[d] - start;
            u64 const to =
                rows == 0 ? 0 : shared_word(&args.next[d]).fetch_add(u64{rows}, device::relaxed);
            scratch.places[d] = to + rows <= args.end[d] ? to - start : kNowhere;
        }
    }

    MGI_HD static void place_column(device::Group const& group, PlaceArgs const& args, u64 first,
                                    u32 c, Scratch const& scratch) {
        ColumnView const view = args.columns[c];
        OutputColumn const* const results = args.results + c;
        u64 const from = view.offset + first;
        if (results->bits) {
            auto const* const bits = static_cast<u8 const*>(view.values);
            place_values<u8>(group, args, scratch, results,
                             [&](u32 row) { return u8(device::bit_at(bits, from + row) ? 1 : 0); });
        } else {
            switch (results->width) {
                case 1: place_words<u8>(group, args, scratch, results, view.values, from); break;
                case 2: place_words<u16>(group, args, scratch, results, view.values, from); break;
                case 4: place_words<u32>(group, args, scratch, results, view.values, from); break;
                default: place_words<u64>(group, args, scratch, results, view.values, from);
            }
        }
        if (results->valid == nullptr) return;
        place<u8>(
            group, args, scratch,
            [&](u32 row) {
                bool const valid =
                    view.validity == nullptr || device::bit_at(view.validity, from + row);
                return u8(valid ? 1 : 0);
            },
            [&](u32 d) { return results[d * args.column_count].valid; });
    }

    template <class T>
    MGI_HD static void place_words(device::Group const& group, PlaceArgs const& args,
                                   Scratch const& scratch, OutputColumn const* results,
                                   void const* values, u64 from) {
        T const* const at = static_cast<T const*>(values) + from;
        place_values<T>(group, args, scratch, results, [&](u32 row) { return at[row]; });
    }
    template <class T, class Load>
    MGI_HD static void place_values(device::Group const& group, PlaceArgs const& args,
                                    Scratch const& scratch, OutputColumn const* results,
                                    Load const& load) {
        place<T>(group, args, scratch, load, [&](u32 d) {
            return reinterpret_cast<T*>(results[d * args.column_count].values);
        });
    }

    // Values of the tile's rows in the order of their owners, so that threads next to each other write next to each other.
    template <class T, class Load, class To>
    MGI_HD static void place(device::Group const& group, PlaceArgs const&, Scratch const& scratch,
                             Load const& load, To const& to) {
        device::Tile const& tile = scratch.tile;
        for (u32 begin = group.thread; begin < tile.rows; begin += kAhead * group.threads) {
            T values[kAhead];
            u32 owners[kAhead];
            for (u32 a = 0; a < kAhead; ++a) {
                u32 const position = begin + a * group.threads;
                u32 const row = position < tile.rows ? tile.order[position] : 0;
                owners[a] = tile.lane[row];
                values[a] = load(row);
            }
            for (u32 a = 0; a < kAhead; ++a) {
                u32 const position = begin + a * group.threads;
                if (position >= tile.rows) break;
                u64 const place = scratch.places[owners[a]];
                if (place != kNowhere) to(owners[a])[place + position] = values[a];
            }
        }
    }
};

}  // namespace mgi::operators::on_gpu
