/// \file
/// Rows for one destination of a broadcast, whose lane is for all of them: they take whole segments, which carry that
/// destination's address. To all others such a segment comes without rows, so that sequences, credits and counts go on.
#pragma once

#include <mgi/device/long_strings.hpp>
#include <mgi/device/segment_writer.hpp>

namespace mgi::device {

/// One group's call. All of its threads make one alike.
template <class A>
class AddressedSend {
public:
    MGI_HD AddressedSend(Group const& group, Shared const& shared, ChannelState<A>& state,
                         u32 source, u32 destination)
        : group_(group),
          state_(state),
          source_index_(source),
          destination_(destination),
          lane_(state.sources[source].lanes[0]),
          tile_(Tile::in(shared, tile_shape(state))) {
        tile_.lane = nullptr;
    }

    /// Sends a prefix of the batch: a segment, and more of them unless that was enough for a call. What finds no segment
    /// free is not accepted, so that nothing has to be kept.
    MGI_HD SendResult send(Batch const& batch) {
        u64 const most = group_.threads == 1 ? ~u64(0) : TileShape::kMostTiles * state_.tile_rows;
        u64 accepted = 0;
        while (accepted < batch.count && accepted < most) {
            begin_segment();
            u32 const rows = next_tile(batch, accepted);
            if (rows == 0) return {accepted, Status::Error, ErrorCode::Refused};
            if (!take_segment()) {
                had_no_room_ = accepted == 0;
                break;
            }
            accepted += fill(batch, accepted, rows);
            // Agreed, since the channel may fail between two threads' looks.
            if (agree(group_, tile_.agreed, state_.failed.load(relaxed)) != 0) break;
        }
        Status const status = accepted == batch.count ? Status::Ok : Status::Pending;
        return {accepted, status, ErrorCode::Ok};
    }

    /// Whether there was no segment for any row.
    [[nodiscard]] MGI_HD bool had_no_room() const { return had_no_room_; }

private:
    MGI_HD void begin_segment() {
        row_ = 0;
        unit_ = 0;
    }

    /// How many of the batch's rows from `first` on are the next tile of the segment, which may have no room for more.
    /// Every thread is done with the tile before.
    MGI_HD u32 next_tile(Batch const& batch, u64 first) {
        u32 const room = min_of(state_.tile_rows, state_.layout.rows - row_);
        u32 const rows = u32(min_of<u64>(batch.count - first, room));
        if (!state_.layout.has_views || rows == 0) return rows;
        return rows_of_text(group_, tile_, state_, batch, first, rows, state_.layout.units - unit_);
    }

    MGI_HD bool take_segment() {
        if (group_.leads()) {
            auto const publish = [this](u64 sequence) {
                publish_slot(state_, source_index_, 0, sequence);
            };
            segment_ = lane_.take_segment(publish);
            if (segment_.rows == 0 && finds_room(state_, lane_)) {
                segment_ = lane_.take_segment(publish);
            }
            if (segment_.rows == 0) lane_.waits.fetch_add(1, relaxed);
        }
        return agree(group_, tile_.agreed, segment_.rows != 0 ? 1 : 0) != 0;
    }

    /// Fills the segment that was taken, beginning with a tile of `rows`, and publishes it; how many rows are in it.
    MGI_HD u32 fill(Batch const& batch, u64 first, u32 rows) {
        while (rows != 0) {
            tile_.rows = rows;
            u32 units = 0;
            if (group_.leads()) units = aim(rows);
            group_.sync();
            write_claimed(group_, tile_, 1, batch, first + row_, state_.layout, state_.ops(),
                          ClaimedSegments{state_.pool, tile_.claims});
            group_.sync();
            row_ += rows;
            if (state_.layout.has_views) unit_ += agree(group_, tile_.agreed, units);
            rows = next_tile(batch, first + row_);
        }
        if (group_.leads()) {
            state_.sources[source_index_].groups[group_.block].last[0] = segment_.sequence + 1;
            lane_.note_alone(segment_, row_, unit_, destination_ + 1);
            publish_slot(state_, source_index_, 0, segment_.sequence);
        }
        return row_;
    }

    /// Says where the tile's rows go; how many units their long strings take.
    MGI_HD u32 aim(u32 rows) {
        Claim& claim = tile_.claims[0];
        claim = segment_;
        claim.row = row_;
        claim.rows = rows;
        claim.unit = unit_;
        tile_.next[0] = 0;
        tile_.end[0] = rows;
        return state_.layout.has_views ? lay_whole_text(tile_, state_.layout, 0, claim) : 0;
    }

    Group const group_;
    ChannelState<A>& state_;
    u32 const source_index_;
    u32 const destination_;
    Lane<A>& lane_;
    Tile tile_;
    Claim segment_;  ///< the leader's
    u32 row_ = 0;    ///< of the segment, that comes next
    u32 unit_ = 0;
    bool had_no_room_ = false;
};

}  // namespace mgi::device
