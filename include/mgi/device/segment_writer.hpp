/// \file
/// Writes the claimed rows of a tile into segments, column by column. Every value is read once and
/// written once.
#pragma once

#include <mgi/device/tile.hpp>

namespace mgi::device {

/// A value of 16 bytes, moved as a whole.
struct alignas(8) Wide16 {
    u64 word[2];
};

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

/// A column of fixed-width values on its way from a batch into segments, or whole row structs.
struct ColumnMove {
    char const* from;  ///< the value of the tile's first row
    u32 from_stride;
    u32 to_offset;  ///< from a segment's start to row 0
    u32 to_stride;
    u32 width;  ///< bytes of a value

    [[nodiscard]] MGI_HD bool packed() const { return from_stride == width && to_stride == width; }
};

/// Moves values of a fixed-width type T.
template <class T, class Base>
MGI_HD void write_values(Group const& group, Tile const& tile, u32 lanes, ColumnMove const& move,
                         Base const& base) {
    for_each_claimed(group, tile, lanes, [&](u32 d, u32 position, u32 row) {
        T value;
        memcpy(&value, move.from + u64(tile.row_at(position)) * move.from_stride, sizeof(T));
        memcpy(base(d) + move.to_offset + u64(row) * move.to_stride, &value, sizeof(T));
    });
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
        if (tile.order == nullptr) {
            memcpy(to, move.from + (u64(first) << shift), u64(claim.rows) << shift);
        } else {
            char const* const ahead = move.from + (u64(tile.rows + first) << shift);
            ops.gather[shift](to, move.from, tile.order + first, claim.rows, ahead);
        }
    }
}

/// Moves values of any width.
template <class Base>
MGI_HD void write_column(Group const& group, Tile const& tile, u32 lanes, ColumnMove const& move,
                         TileOps const* ops, Base const& base) {
    struct Wide32 {
        Wide16 half[2];
    };
    struct Wide64 {
        Wide16 quarter[4];
    };
    bool const power = (move.width & (move.width - 1)) == 0 && move.width <= 64;
    if (ops != nullptr && group.threads == 1 && power && move.packed()) {
        return write_runs(tile, lanes, move, *ops, base);
    }
    switch (move.width) {
        case 1: return write_values<u8>(group, tile, lanes, move, base);
        case 2: return write_values<u16>(group, tile, lanes, move, base);
        case 4: return write_values<u32>(group, tile, lanes, move, base);
        case 8: return write_values<u64>(group, tile, lanes, move, base);
        case 16: return write_values<Wide16>(group, tile, lanes, move, base);
        case 32: return write_values<Wide32>(group, tile, lanes, move, base);
        case 64: return write_values<Wide64>(group, tile, lanes, move, base);
        default:
            for_each_claimed(group, tile, lanes, [&](u32 d, u32 position, u32 row) {
                memcpy(base(d) + move.to_offset + u64(row) * move.to_stride,
                       move.from + u64(tile.row_at(position)) * move.from_stride, move.width);
            });
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
    for_each_claimed(group, tile, lanes, [&](u32 d, u32 position, u32 row) {
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
        return write_column(group, tile, lanes, rows, ops, base);
    }
    for (u32 c = 0; c < layout.column_count; ++c) {
        ColumnLayout const& column = layout.columns[c];
        if (column.nullable()) {
            write_bits(
                group, tile, lanes, column.validity,
                [&](u32 row) { return batch.valid(c, first + row); }, base);
        }
        if (column.storage == Storage::Bits) {
            write_bits(
                group, tile, lanes, column.offset,
                [&](u32 row) { return batch.bit(column, c, first + row); }, base);
        } else if (column.storage == Storage::Fixed) {
            ColumnMove const values{batch.fixed(column, c, first), batch.fixed_stride(column),
                                    column.offset, column.stride, column.width};
            write_column(group, tile, lanes, values, ops, base);
        }
    }
    if (layout.has_views) write_views(group, tile, lanes, batch, first, layout, base);
}

}  // namespace mgi::device
