/// \file
/// Writes the claimed rows of a tile into segments, column by column. Every value is read once and
/// written once.
#pragma once

#include <mgi/device/tile.hpp>

namespace mgi::device {

/// Calls `visit(lane, position, row_in_segment)` for the group's share of the claimed rows.
template <class Visit>
MGI_HD void for_each_claimed(Group const& group, Tile const& tile, u32 lanes, Visit&& visit) {
    if (group.threads == 1) {
        for (u32 d = 0; d < lanes; ++d) {
            Claim const& claim = tile.claims[d];
            u32 const from = tile.next[d];
            for (u32 k = 0; k < claim.rows; ++k) visit(d, from + k, claim.row + k);
        }
        return;
    }
    for (u32 p = group.thread; p < tile.rows; p += group.threads) {
        u32 const d = tile.lane_at(p);
        u32 const k = p - tile.next[d];  // wraps for rows that are placed already
        if (k < tile.claims[d].rows) visit(d, p, tile.claims[d].row + k);
    }
}

/// Where the segments lie that a tile has claimed rows in, by lane.
struct ClaimedSegments {
    char* pool;
    Claim const* claims;
    MGI_HD char* operator()(u32 lane) const { return pool + claims[lane].offset; }
};

/// The targets that a tile's claims come to.
template <class Base>
struct ClaimedTargets {
    Tile const& tile;
    Base const& base;
    MGI_HD LaneTarget operator()(u32 lane, u32 /*position*/) const {
        return {base(lane), tile.claims[lane], tile.next[lane]};
    }
};

/// Some of the claimed rows, those that one thread moves at a time: for each column it then knows where.
struct PlacedRows {
    static constexpr u32 kAtOnce = 4;
    char* segment[kAtOnce];  ///< null: none
    u32 row[kAtOnce];        ///< in the segment
    u32 from[kAtOnce];       ///< in the tile
};

/// Moves values of a fixed-width type T.
template <class T>
MGI_HD void write_values(PlacedRows const& placed, ColumnMove const& move) {
    T value[PlacedRows::kAtOnce];  // all are read before any is written: none waits for another
    for (u32 k = 0; k < PlacedRows::kAtOnce; ++k) {
        value[k] = load_value<T>(move.from + u64(placed.from[k]) * move.from_stride);
    }
    for (u32 k = 0; k < PlacedRows::kAtOnce; ++k) {
        if (placed.segment[k] == nullptr) continue;
        store_to_segment(placed.segment[k] + move.to_offset + u64(placed.row[k]) * move.to_stride,
                         value[k]);
    }
}

/// Moves values that are moved at once; none where the width is 0.
MGI_HD inline void write_values(PlacedRows const& placed, ColumnMove const& move) {
    switch (move.unit) {
        case 1: return write_values<u8>(placed, move);
        case 2: return write_values<u16>(placed, move);
        case 4: return write_values<u32>(placed, move);
        case 8: return write_values<u64>(placed, move);
        case 16: return write_values<Wide16>(placed, move);
        default: return;
    }
}

/// Moves values in pieces of type T, neighbouring ones by neighbouring threads.
template <class T, class TargetOf>
MGI_HD void write_pieces(Group const& group, Tile const& tile, ColumnMove const& move,
                         TargetOf const& target_of) {
    u32 constexpr kAtOnce = PlacedRows::kAtOnce;
    u32 const pieces = move.width / u32(sizeof(T));
    bool const power = (pieces & (pieces - 1)) == 0;
    u32 const shift = log2_of(pieces);
    u32 const count = tile.rows * pieces;
    for (u32 first = group.thread; first < count; first += kAtOnce * group.threads) {
        // Step by step, as in write_together.
        u32 position[kAtOnce];
        u32 at[kAtOnce];
        u32 from[kAtOnce];
        for (u32 k = 0; k < kAtOnce; ++k) {
            u32 const i = min_of(first + k * group.threads, count - 1);
            position[k] = power ? i >> shift : i / pieces;
            at[k] = (i - position[k] * pieces) * u32(sizeof(T));
            from[k] = tile.row_at(position[k]);
        }
        LaneTarget target[kAtOnce];
        T value[kAtOnce];
        for (u32 k = 0; k < kAtOnce; ++k) {
            target[k] = target_of(tile.lane == nullptr ? 0 : tile.lane[from[k]], position[k]);
            value[k] = load_value<T>(move.from + u64(from[k]) * move.from_stride + at[k]);
        }
        for (u32 k = 0; k < kAtOnce; ++k) {
            if (first + k * group.threads >= count || !target[k].has(position[k])) continue;
            u32 const row = position[k] + target[k].shift;
            store_to_segment(target[k].segment + move.to_offset + u64(row) * move.to_stride + at[k],
                             value[k]);
        }
    }
}

/// Moves values of any width at any place, by several threads.
template <class TargetOf>
MGI_HD void write_bytes(Group const& group, Tile const& tile, ColumnMove const& move,
                        TargetOf const& target_of) {
    for (u32 p = group.thread; p < tile.rows; p += group.threads) {
        u32 const from = tile.row_at(p);
        LaneTarget const target = target_of(tile.lane == nullptr ? 0 : tile.lane[from], p);
        if (!target.has(p)) continue;
        memcpy(target.segment + move.to_offset + u64(p + target.shift) * move.to_stride,
               move.from + u64(from) * move.from_stride, move.width);
    }
}

/// Moves a column whose values are not moved at once, by several threads.
template <class TargetOf>
MGI_HD void write_in_pieces(Group const& group, Tile const& tile, ColumnMove const& move,
                            TargetOf const& target_of) {
    switch (move.unit) {
        case 4: return write_pieces<u32>(group, tile, move, target_of);
        case 8: return write_pieces<u64>(group, tile, move, target_of);
        case 16: return write_pieces<Wide16>(group, tile, move, target_of);
        default: return write_bytes(group, tile, move, target_of);
    }
}

/// Moves values that lie side by side on both ends, by one thread: a run of each lane at a time.
/// While it does so it fetches the part of the column that the next tile starts with.
template <class Base>
MGI_HD void write_runs(Tile const& tile, u32 lanes, ColumnMove const& move, TileOps const& ops,
                       Base const& base) {
    u32 const shift = log2_of(move.width);
    for (u32 d = 0; d < lanes; ++d) {
        Claim const& claim = tile.claims[d];
        if (claim.rows == 0) continue;
        u32 const first = tile.next[d];
        char* const to = base(d) + move.to_offset + (u64(claim.row) << shift);
        if (!tile.sorted) {
            memcpy(to, move.from + (u64(first) << shift), u64(claim.rows) << shift);
        } else {
            char const* const ahead = move.from + (u64(tile.rows + first) << shift);
            ops.gather[shift](to, move.from, tile.order + first, claim.rows, ahead);
        }
    }
}

/// Moves a column, by one thread.
template <class Base>
MGI_HD void write_column(Tile const& tile, u32 lanes, ColumnMove const& move, TileOps const* ops,
                         Base const& base) {
    bool const power = (move.width & (move.width - 1)) == 0 && move.width <= 64;
    if (ops != nullptr && power && move.packed()) return write_runs(tile, lanes, move, *ops, base);
    for_each_claimed(Group{}, tile, lanes, [&tile, &move, &base](u32 d, u32 position, u32 row) {
        memcpy(base(d) + move.to_offset + u64(row) * move.to_stride,
               move.from + u64(tile.row_at(position)) * move.from_stride, move.width);
    });
}

/// Moves columns 0 to `columns` - 1, as `move_of(column)` says (a width of 0: not that one), to where
/// `target_of(lane, position)` says, by several threads: each finds out once where its rows go.
template <class MoveOf, class TargetOf>
MGI_HD void write_together(Group const& group, Tile const& tile, u32 columns, MoveOf const& move_of,
                           TargetOf const& target_of) {
    u32 constexpr kAtOnce = PlacedRows::kAtOnce;
    u32 const step = group.threads;
    bool pieces = false;
    for (u32 c = 0; c < columns; ++c) {
        ColumnMove const move = move_of(c);
        pieces = pieces || move.unit != move.width;
    }
    for (u32 first = group.thread; first < tile.rows; first += kAtOnce * step) {
        PlacedRows placed;
        // All of the rows at once, step by step: each step waits for the one before.
        u32 lane[kAtOnce];
        for (u32 k = 0; k < kAtOnce; ++k) {
            placed.from[k] = tile.row_at(min_of(first + k * step, tile.rows - 1));
        }
        for (u32 k = 0; k < kAtOnce; ++k) {
            lane[k] = tile.lane == nullptr ? 0 : tile.lane[placed.from[k]];
        }
        for (u32 k = 0; k < kAtOnce; ++k) {
            u32 const p = first + k * step;
            LaneTarget const target = target_of(lane[k], p);
            placed.row[k] = p + target.shift;
            placed.segment[k] = p < tile.rows && target.has(p) ? target.segment : nullptr;
        }
        for (u32 c = 0; c < columns; ++c) {
            ColumnMove const move = move_of(c);
            if (move.unit == move.width) write_values(placed, move);
        }
    }
    if (!pieces) return;
    for (u32 c = 0; c < columns; ++c) {
        ColumnMove const move = move_of(c);
        if (move.unit != move.width && move.width != 0) {
            write_in_pieces(group, tile, move, target_of);
        }
    }
}

/// The same of columns whose values are all of type T, side by side in the scratch and in segments.
template <class T, class TargetOf>
MGI_HD void write_packed(Group const& group, Tile const& tile, u32 columns,
                         TargetOf const& target_of) {
    u32 constexpr kAtOnce = PlacedRows::kAtOnce;
    u32 const step = group.threads;
    for (u32 first = group.thread; first < tile.rows; first += kAtOnce * step) {
        u32 from[kAtOnce];
        u32 lane[kAtOnce];
        char* to[kAtOnce];
        for (u32 k = 0; k < kAtOnce; ++k) {
            from[k] = tile.order[min_of(first + k * step, tile.rows - 1)];
        }
        for (u32 k = 0; k < kAtOnce; ++k) lane[k] = tile.lane[from[k]];
        for (u32 k = 0; k < kAtOnce; ++k) {
            u32 const p = first + k * step;
            LaneTarget const target = target_of(lane[k], p);
            to[k] = nullptr;
            if (p < tile.rows && target.has(p)) {
                to[k] = target.segment + u64(p + target.shift) * sizeof(T);
            }
        }
        for (u32 c = 0; c < columns; ++c) {
            ColumnMove const& move = tile.moves[c];
            u32 const offset = move.to_offset;
            T const* const values = in_scratch(reinterpret_cast<T const*>(move.from));
            T value[kAtOnce];
            for (u32 k = 0; k < kAtOnce; ++k) value[k] = load_value<T>(values + from[k]);
            for (u32 k = 0; k < kAtOnce; ++k) {
                if (to[k] != nullptr) store_to_segment(to[k] + offset, value[k]);
            }
        }
    }
}

/// Moves columns as `write_together` does, by however many threads there are.
template <class MoveOf, class Base>
MGI_HD void write_columns(Group const& group, Tile const& tile, u32 lanes, u32 columns,
                          MoveOf const& move_of, TileOps const* ops, Base const& base) {
    if (group.threads != 1) {
        return write_together(group, tile, columns, move_of, ClaimedTargets<Base>{tile, base});
    }
    for (u32 c = 0; c < columns; ++c) {
        ColumnMove const move = move_of(c);
        if (move.width != 0) write_column(tile, lanes, move, ops, base);
    }
}

/// Sets bits of claimed rows: whole words are stored, words shared with other claims get their bits
/// by fetch-or (they were zeroed before the slot was freed). `bit(row)` reads the source.
template <class Bit, class Base>
MGI_HD void write_bits(Group const& group, Tile const& tile, u32 lanes, u32 to_offset,
                       Bit const& bit, Base const& base) {
    for (u32 d = 0; d < lanes; ++d) {
        Claim const& claim = tile.claims[d];
        if (claim.rows == 0) continue;
        u32 const end = claim.row + claim.rows;
        u32 const first_word = claim.row / 64;
        u32 const words = (end - 1) / 64 + 1 - first_word;
        u64* const to = reinterpret_cast<u64*>(base(d) + to_offset) + first_word;
        for (u32 w = group.thread; w < words; w += group.threads) {
            u32 const low = max_of(claim.row, (first_word + w) * 64);
            u32 const high = min_of(end, (first_word + w + 1) * 64);
            u64 bits = 0;
            for (u32 row = low; row < high; ++row) {
                u32 const position = tile.next[d] + (row - claim.row);
                bits |= u64(bit(tile.row_at(position)) ? 1 : 0) << (row % 64);
            }
            if (high - low == 64) {
                to[w] = bits;
            } else if (bits != 0) {
                shared_or(&to[w], bits);
            }
        }
    }
}

/// Writes Arrow views and copies long strings behind them. `tile.text` holds, by row, where in the
/// segment's bytes region they go.
template <class Base>
MGI_HD void write_views(Group const& group, Tile const& tile, u32 lanes, Batch const& batch,
                        u64 first, SegmentLayout const& layout, Base const& base) {
    for_each_claimed(
        group, tile, lanes, [&tile, &batch, first, &layout, &base](u32 d, u32 position, u32 row) {
            char* const segment = base(d);
            u32 const source_row = tile.row_at(position);
            u32 at = tile.text[source_row];
            for (u32 c = 0; c < layout.column_count; ++c) {
                ColumnLayout const& column = layout.columns[c];
                if (column.storage != Storage::Views) continue;
                Text const text = batch.text(column, c, first + source_row);
                StringView16 view;
                view.length = text.size;
                if (text.size <= StringView16::kInline) {
                    memset(view.text, 0, StringView16::kInline);
                    if (text.size != 0) memcpy(view.text, text.data, text.size);
                } else {
                    MGI_ASSERT(layout.bytes_offset + u64(at) + text.size <= layout.size, at,
                               text.size, layout.bytes_offset, layout.size);
                    memcpy(view.ref.prefix, text.data, 4);
                    view.ref.buffer = 0;
                    view.ref.offset = at;
                    memcpy(segment + layout.bytes_offset + at, text.data, text.size);
                    at += text.size;
                }
                memcpy(segment + column.offset + u64(row) * column.stride, &view, sizeof(view));
            }
        });
}

/// What of `write_claimed` is of no fixed width.
template <class Base>
MGI_HD MGI_COLD void write_bits_and_views(Group group, Tile tile, u32 lanes, Batch batch, u64 first,
                                          SegmentLayout const& layout, Base base) {
    for (u32 c = 0; c < layout.column_count; ++c) {
        ColumnLayout const& column = layout.columns[c];
        if (column.nullable()) {
            write_bits(
                group, tile, lanes, column.validity,
                [&batch, c, first](u32 row) { return batch.valid(c, first + row); }, base);
        }
        if (column.storage == Storage::Bits) {
            write_bits(
                group, tile, lanes, column.offset,
                [&batch, &column, c, first](u32 row) { return batch.bit(column, c, first + row); },
                base);
        }
    }
    if (layout.has_views) write_views(group, tile, lanes, batch, first, layout, base);
}

/// Writes all columns of the tile's claimed rows. `base(lane)` is the start of the claimed segment;
/// `first` the batch row that the tile starts at; `ops` may be null.
template <class Base>
MGI_HD void write_claimed(Group const& group, Tile const& tile, u32 lanes, Batch const& batch,
                          u64 first, SegmentLayout const& layout, TileOps const* ops,
                          Base const& base) {
    if (layout.rows_together && batch.rows != nullptr && batch.row_stride == layout.row_bytes) {
        ColumnMove const rows{batch.rows + first * batch.row_stride, batch.row_stride,
                              layout.columns[0].offset - layout.columns[0].row_offset,
                              layout.row_bytes, layout.row_bytes};
        return write_columns(group, tile, lanes, 1, [&rows](u32) { return rows; }, ops, base);
    }
    write_columns(
        group, tile, lanes, layout.column_count,
        [&batch, first, &layout](u32 c) { return move_of(layout.columns[c], batch, c, first); },
        ops, base);
    if (layout.bit_bytes != 0 || layout.has_views) {
        write_bits_and_views(group, tile, lanes, batch, first, layout, base);
    }
}

}  // namespace mgi::device
