/// \file
/// Room in segments for rows with long strings: how many fit, and where their characters go.
#pragma once

#include <mgi/device/delivery.hpp>
#include <mgi/device/tile.hpp>

namespace mgi::device {

/// Measures the rows' long strings; returns how many rows fit so many units of a segment's bytes region.
template <class A>
MGI_HD MGI_COLD u32 rows_of_text(Group group, Tile tile, ChannelState<A> const& state, Batch batch,
                                 u64 first, u32 rows, u32 units) {
    u64 const limit = state.layout.bytes_of(units);
    for (u32 i = group.thread; i < rows; i += group.threads) {
        tile.text[i] = u32(min_of(text_bytes(batch, state.layout, first + i), limit + 1));
    }
    group.sync();
    u32 fitting = 0;
    if (group.leads()) {
        u64 sum = 0;
        while (fitting < rows && (sum += tile.text[fitting]) <= limit) ++fitting;
    }
    return agree(group, tile.agreed, fitting);
}

/// Turns the sizes in `text` of claimed rows into offsets in the bytes region.
MGI_HD inline void lay_text(Tile const& tile, SegmentLayout const& layout, u32 next,
                            Claim const& taken) {
    u32 at = u32(layout.bytes_of(taken.unit));
    for (u32 k = 0; k < taken.rows; ++k) {
        u32& text = tile.text[tile.row_at(next + k)];
        u32 const size = text;
        text = at;
        at += size;
    }
}

/// The same of rows that have their place in a bytes region; how many units they take of it.
MGI_HD inline u32 lay_whole_text(Tile const& tile, SegmentLayout const& layout, u32 next,
                                 Claim const& taken) {
    u64 sum = 0;
    for (u32 k = 0; k < taken.rows; ++k) sum += tile.text[tile.row_at(next + k)];
    lay_text(tile, layout, next, taken);
    return layout.units_of(sum);
}

/// Claims room for what is left of a lane's rows, as far as their long strings go, and says where those go.
template <class A>
MGI_HD MGI_COLD Claim claim_text(Tile tile, ChannelState<A>& state, u32 source, u32 l) {
    struct Fitting {
        u32 rows;
        u32 units;
    };
    u32 const next = tile.next[l];
    u32 const wanted = tile.end[l] - next;
    SegmentLayout const& layout = state.layout;
    auto const fit = [&tile, &layout, next, wanted](u32 rows, u32 units) -> Fitting {
        u64 const room = layout.bytes_of(units);
        u32 const most = min_of(rows, wanted);
        u64 sum = 0;
        u32 k = 0;
        for (; k < most; ++k) {
            u64 const with = sum + tile.text[tile.row_at(next + k)];
            if (with > room) break;
            sum = with;
        }
        return {k, layout.units_of(sum)};
    };
    Lane<A>& lane = state.sources[source].lanes[l];
    auto const publish = [&state, source, l](u64 sequence) {
        publish_slot(state, source, l, sequence);
    };
    Claim taken = lane.claim_fitting(fit, publish);
    if (taken.rows == 0 && finds_room(state, lane)) taken = lane.claim_fitting(fit, publish);
    lay_text(tile, layout, next, taken);
    return taken;
}

}  // namespace mgi::device
