// The kernel of a placed exchange: rows that were counted before go straight to their final places in the results of
// their owners, which may be other GPUs' memory. It waits for nobody. One source for g++ and nvcc.
#pragma once

#include <mgi/device/tile.hpp>

#include "operators/gpu/owners.hpp"
#include "operators/gpu/text_kernels.hpp"

namespace mgi::operators::on_gpu {

struct PlaceArgs {
    ColumnView const* columns = nullptr;
    u32 column_count = 0;
    u64 rows = 0;
    Owners owners;
    OutputColumn const* results = nullptr;  // by endpoint and column
    u64* next = nullptr;       // by endpoint: the row of its result where this part's next one goes
    u64 const* end = nullptr;  // by endpoint: behind the last one that was counted
    // By endpoint and column, of texts: where this part's next characters go, and behind the last ones.
    u64* next_character = nullptr;
    u64 const* character_end = nullptr;
};

// A group takes a tile of rows, finds each one's owner and its position among the tile's rows by owner. Then, column by
// column, it brings values into its scratch in that order, so that each owner's are one run, and stores each run by 16 bytes
// at a time, as links like it best.
// `kLong`: whether some column's values are longer than a word, or texts.
template <bool kLong>
class PlaceRows {
public:
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           PlaceArgs args) const {
        u32 const owners = args.owners.count;
        Tile tile;
        tile.staged = shared.take<u64>(kTileRows);
        tile.owner = shared.take<u16>(kTileRows);
        tile.position = shared.take<u16>(kTileRows);
        tile.places = shared.take<u64>(owners);
        tile.count = shared.take<u32>(owners);
        tile.start = shared.take<u32>(owners);
        tile.words = shared.take<u32>(owners);
        tile.first_word = shared.take<u32>(owners);
        tile.characters = shared.take<u64>(owners);
        u64 const step = u64{group.blocks} * kTileRows;
        for (u64 first = u64{group.block} * kTileRows; first < args.rows; first += step) {
            tile.first = first;
            tile.rows = u32(device::min_of<u64>(kTileRows, args.rows - first));
            arrange(group, args, tile);
            for (u32 c = 0; c < args.column_count; ++c) place_column(group, args, c, tile);
        }
    }

    static u32 scratch_bytes(u32 owners) {
        constexpr u32 by_row = sizeof(u64) + 2 * sizeof(u16);
        constexpr u32 by_owner = 2 * sizeof(u64) + 4 * sizeof(u32);
        return by_row * kTileRows + by_owner * owners + 9 * 16;
    }

private:
    // On H100s 2048 and 4096 are as good, with the shorter runs of four GPUs as well; 8192 is not.
    static constexpr u32 kTileRows = 2048;
    // Loads of a thread that are on their way together.
    static constexpr u32 kAhead = 8;

    // Rows [begin, end) of a result.
    struct Run {
        u64 begin;
        u64 end;
    };
    // In the group's scratch.
    struct Tile {
        u64 first = 0;  // row of the part
        u32 rows = 0;
        u64* staged = nullptr;      // a column's values, by position
        u16* owner = nullptr;       // by row
        u16* position = nullptr;    // by row: among the tile's rows by owner
        u64* places = nullptr;      // by owner: the row of its result that position 0 would be
        u32* count = nullptr;       // by owner: its rows
        u32* start = nullptr;       // by owner: its first position
        u32* words = nullptr;       // by owner: words of 16 bytes that its run touches
        u32* first_word = nullptr;  // by owner, likewise
        u64* characters = nullptr;  // by owner: where its characters of a column go

        // Where the tile's rows of an owner go.
        [[nodiscard]] MGI_HD Run run_of(u32 d) const {
            u64 const begin = places[d] + start[d];
            return {begin, begin + count[d]};
        }
    };
    struct alignas(16) Word {
        u64 low;
        u64 high;
    };

    MGI_HD static void arrange(device::Group const& group, PlaceArgs const& args,
                               Tile const& tile) {
        u32 const owners = args.owners.count;
        group.sync();  // nobody looks at the tile before any more
        for (u32 d = group.thread; d < owners; d += group.threads) tile.count[d] = 0;
        group.sync();
        find_owners(group, args, tile);
        group.sync();
        device::shared_sums(group, tile.count, owners, tile.start);
        group.sync();
        // Each thread the rows whose ranks it has found.
        for (u32 i = group.thread; i < tile.rows; i += group.threads) {
            tile.position[i] = u16(tile.position[i] + tile.start[tile.owner[i]]);
        }
        for (u32 d = group.thread; d < owners; d += group.threads) claim(args, tile, d);
    }

    // Finds each row's owner, and its rank among the rows of that one.
    MGI_HD static void find_owners(device::Group const& group, PlaceArgs const& args,
                                   Tile const& tile) {
        constexpr u32 kRows = device::kRowsAtOnce;
        u32 const owners = args.owners.count;
        OwnedRows const rows(args.owners, args.columns, args.rows);
        rows.with_first_keys([&](auto const& load) {
            device::for_rows_at_once(
                group, tile.rows, [&](u32 const(&row)[kRows], bool const(&counts)[kRows]) {
                    u64 key[kRows];
                    for (u32 k = 0; k < kRows; ++k) {
                        key[k] = counts[k] ? load(tile.first + row[k]) : 0;
                    }
                    u32 owner[kRows];
                    for (u32 k = 0; k < kRows; ++k) {
                        owner[k] = 0;
                        if (!counts[k]) continue;
                        u64 const at = tile.first + row[k];
                        owner[k] = rows.owner(at, rows.hash(at, key[k]));
                    }
                    u32 rank[kRows];
                    device::shared_ranks(tile.count, owners, owner, counts, rank);
                    for (u32 k = 0; k < kRows; ++k) {
                        if (!counts[k]) continue;
                        tile.owner[row[k]] = u16(owner[k]);
                        tile.position[row[k]] = u16(rank[k]);
                    }
                });
        });
    }

    // Takes room in an owner's result for the tile's rows. None where there are more than were counted: somebody has changed
    // the part.
    MGI_HD static void claim(PlaceArgs const& args, Tile const& tile, u32 d) {
        u32 const rows = tile.count[d];
        if (rows == 0) return;
        u64 const to = shared_word(&args.next[d]).fetch_add(u64{rows}, device::relaxed);
        tile.places[d] = to - tile.start[d];
        if (to + rows > args.end[d]) tile.count[d] = 0;
    }

    MGI_HD static void place_column(device::Group const& group, PlaceArgs const& args, u32 c,
                                    Tile const& tile) {
        ColumnView const view = args.columns[c];
        OutputColumn const* const results = args.results + c;
        u64 const first = view.offset + tile.first;
        auto const values_of = [&](u32 d) { return results[d * args.column_count].values; };
        bool const is_long = kLong && (results->text || results->wide);
        if constexpr (kLong) {
            if (results->text) place_texts(group, args, c, tile);
            if (results->wide) place_wide(group, args, c, tile);
        }
        if (is_long) {
            // They have gone.
        } else if (results->bits) {
            auto const* const bits = static_cast<u8 const*>(view.values);
            place<u8>(group, args, tile, values_of,
                      [&](u32 row) { return u8(device::bit_at(bits, first + row) ? 1 : 0); });
        } else {
            with_type_of(results->width, [&](auto type) {
                auto const* const values = static_cast<decltype(type) const*>(view.values) + first;
                place<decltype(type)>(group, args, tile, values_of,
                                      [&](u32 row) { return values[row]; });
            });
        }
        if (results->valid == nullptr) return;
        place<u8>(
            group, args, tile,
            [&](u32 d) { return reinterpret_cast<char*>(results[d * args.column_count].valid); },
            [&](u32 row) { return u8(is_valid(view, tile.first + row) ? 1 : 0); });
    }

    // Spans of texts, and their characters, which come to the owner in no order.
    MGI_HD static void place_texts(device::Group const& group, PlaceArgs const& args, u32 c,
                                   Tile const& tile) {
        constexpr u64 kNoRoom = ~u64{0};
        ColumnView const view = args.columns[c];
        u32 const owners = args.owners.count;
        auto const text_of = [&](u32 row) {
            u64 const at = tile.first + row;
            return is_valid(view, at) ? device::view_text(view, at) : device::Text();
        };
        group.sync();  // places are known, and the values before have gone
        for (u32 d = group.thread; d < owners; d += group.threads) tile.characters[d] = 0;
        group.sync();
        // Where a row's characters are among the tile's of its owner.
        for (u32 i = group.thread; i < tile.rows; i += group.threads) {
            tile.staged[i] = shared_word(&tile.characters[tile.owner[i]])
                                 .fetch_add(u64{text_of(i).size}, device::relaxed);
        }
        group.sync();
        for (u32 d = group.thread; d < owners; d += group.threads) {
            u64 const size = tile.characters[d];
            u32 const at = d * args.column_count + c;
            u64 const to = shared_word(&args.next_character[at]).fetch_add(size, device::relaxed);
            bool const fits = tile.count[d] != 0 && to + size <= args.character_end[at];
            tile.characters[d] = fits ? to : kNoRoom;
        }
        group.sync();
        each_text(group, tile.rows, [&](u32 i, u32 lane, u32 lanes) {
            u32 const d = tile.owner[i];
            if (tile.characters[d] == kNoRoom) return;
            OutputColumn const& to = args.results[d * args.column_count + c];
            device::Text const text = text_of(i);
            u64 const begin = tile.characters[d] + tile.staged[i];
            if (lane == 0) store_span(to, tile.places[d] + tile.position[i], begin, text.size);
            copy_text(to.characters + begin, text, lane, lanes);
        });
    }

    // Values that are longer than a word, unit by unit, to where they go at once: each of them is a run by itself.
    MGI_HD static void place_wide(device::Group const& group, PlaceArgs const& args, u32 c,
                                  Tile const& tile) {
        ColumnView const view = args.columns[c];
        u32 const width = args.results[c].width;
        char const* const from =
            static_cast<char const*>(view.values) + (view.offset + tile.first) * width;
        u16* const rows = reinterpret_cast<u16*>(tile.staged);  // by position
        group.sync();  // places are known, and the values before have gone
        for (u32 i = group.thread; i < tile.rows; i += group.threads) {
            rows[tile.position[i]] = u16(i);
        }
        group.sync();
        // The results' memory is aligned as well as any.
        with_unit(unit_of(width, from, nullptr), [&](auto type) {
            using T = decltype(type);
            u32 const units = width / u32(sizeof(T));
            u32 const all = tile.rows * units;
            for (u32 u = group.thread; u < all; u += group.threads) {
                u32 const position = u / units;
                u32 const unit = u % units;
                u32 const row = rows[position];
                u32 const d = tile.owner[row];
                if (position - tile.start[d] >= tile.count[d]) continue;
                OutputColumn const& to = args.results[d * args.column_count + c];
                char* const at = to.values + (tile.places[d] + position) * width;
                reinterpret_cast<T*>(at)[unit] =
                    reinterpret_cast<T const*>(from + u64{row} * width)[unit];
            }
        });
    }

    // Values of a column, `load(row)`, to where `to(owner)` has that column.
    template <class T, class To, class Load>
    MGI_HD static void place(device::Group const& group, PlaceArgs const& args, Tile const& tile,
                             To const& to, Load const& load) {
        constexpr u32 kInWord = sizeof(Word) / sizeof(T);
        u32 const owners = args.owners.count;
        group.sync();  // places are known, and the values before have gone
        T* const staged = reinterpret_cast<T*>(tile.staged);
        stage(group, tile, staged, load);
        for (u32 d = group.thread; d < owners; d += group.threads) {
            auto const [begin, end] = tile.run_of(d);
            tile.words[d] = begin == end ? 0 : u32((end + kInWord - 1) / kInWord - begin / kInWord);
        }
        group.sync();
        device::shared_sums(group, tile.words, owners, tile.first_word);
        group.sync();
        u32 const words = tile.first_word[owners - 1] + tile.words[owners - 1];
        u32 d = 0;
        for (u32 w = group.thread; w < words; w += group.threads) {
            while (d + 1 != owners && w >= tile.first_word[d + 1]) ++d;
            auto const [begin, end] = tile.run_of(d);
            u64 const row = (begin / kInWord + (w - tile.first_word[d])) * kInWord;
            store(reinterpret_cast<T*>(to(d)), row, begin, end, staged + tile.start[d]);
        }
    }

    template <class T, class Load>
    MGI_HD static void stage(device::Group const& group, Tile const& tile, T* staged,
                             Load const& load) {
        u32 i = group.thread;
        for (; i + (kAhead - 1) * group.threads < tile.rows; i += kAhead * group.threads) {
            T values[kAhead];
            for (u32 a = 0; a < kAhead; ++a) values[a] = load(i + a * group.threads);
            for (u32 a = 0; a < kAhead; ++a) {
                staged[tile.position[i + a * group.threads]] = values[a];
            }
        }
        for (; i < tile.rows; i += group.threads) staged[tile.position[i]] = load(i);
    }

    // Those of the rows of a word that are in [begin, end), whose values are at `from` on.
    template <class T>
    MGI_HD static void store(T* to, u64 row, u64 begin, u64 end, T const* from) {
        constexpr u32 kInWord = sizeof(Word) / sizeof(T);
        if (row >= begin && row + kInWord <= end) {
            T values[kInWord];
            for (u32 v = 0; v < kInWord; ++v) values[v] = from[row - begin + v];
            Word word;
            memcpy(&word, values, sizeof(word));
            *reinterpret_cast<Word*>(to + row) = word;
            return;
        }
        u64 const first = device::max_of(row, begin);
        u64 const last = device::min_of(row + kInWord, end);
        for (u64 r = first; r < last; ++r) to[r] = from[r - begin];
    }
};

}  // namespace mgi::operators::on_gpu
