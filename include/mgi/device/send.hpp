/// \file
/// The block-collective send: a tile of rows is sorted by lane in group-shared memory, each lane's
/// rows are claimed at once and written straight into segments (DESIGN section 5; in the paper's
/// section 5.4 this takes the stage buffer, the sorter and the sort buffer).
#pragma once

#include <mgi/device/delivery.hpp>
#include <mgi/device/segment_writer.hpp>

namespace mgi::device {

/// Registers a group at its source, at its first call; the source then knows how many groups will
/// flush. Any thread of the group may be the first. `closing` calls are allowed after a flush.
template <class A>
MGI_HD ErrorCode admit_group(ChannelState<A>& state, Source<A>& source, Group const& group,
                             bool closing) {
    if (ErrorCode const failed = state.error(); failed != ErrorCode::Ok) return failed;
    if (group.blocks > state.max_groups || group.block >= group.blocks) {
        return ErrorCode::InvalidArgument;
    }
    GroupState<A>& mine = source.groups[group.block];
    u64 const me = group.launch + 1;
    u64 known = mine.launch.load(relaxed);
    if (known == 0) {
        // relaxed, both: how many groups there are, and whose place this is, are facts once set.
        u32 expected = 0;
        if (!source.groups_expected.compare_exchange_strong(expected, group.blocks, relaxed,
                                                            relaxed) &&
            expected != group.blocks) {
            return ErrorCode::Closed;
        }
        if (mine.launch.compare_exchange_strong(known, me, relaxed, relaxed)) return ErrorCode::Ok;
    }
    if (known != me) return ErrorCode::Closed;
    return closing || mine.flushed.load(relaxed) == 0 ? ErrorCode::Ok : ErrorCode::Closed;
}

/// One group's sending calls on one source of a channel. Lives for the length of a call; all of the
/// group's threads make one with equal arguments.
template <class A>
class SendCall {
public:
    MGI_HD SendCall(Group const& group, Shared const& shared, ChannelState<A>& state, u32 source)
        : group_(group),
          state_(state),
          source_index_(source),
          source_(state.sources[source]),
          mine_(state.sources[source].groups[min_of(group.block, state.max_groups - 1)]),
          scratch_(Tile::in(shared, state.tile_rows, state.lane_count)),
          tile_(scratch_),
          scratch_fits_(shared.bytes >= Tile::scratch_bytes(state.tile_rows, state.lane_count)) {}

    /// Checks that this group may go on sending, and registers it at its first call.
    MGI_HD ErrorCode enter(bool closing) {
        ErrorCode code = ErrorCode::Ok;
        if (group_.leads()) code = admit_group(state_, source_, group_, closing);
        if (!scratch_fits_) return code == ErrorCode::Ok ? ErrorCode::InvalidArgument : code;
        return ErrorCode(agree(group_, tile_.agreed, u32(code)));
    }

    /// Sends a prefix of the batch; `lane` >= 0 sends all of it there.
    MGI_HD SendResult send(Batch const& batch, i64 lane) {
        if (!place_carry()) {
            bool push_now = false;
            if (group_.leads())
                push_now = (mine_.starved.fetch_add(1, relaxed) + 1) % kStarvedSends == 0;
            if (agree(group_, tile_.agreed, push_now ? 1 : 0) != 0) seal_lanes();
            return {0, Status::Pending, ErrorCode::Ok};
        }
        if (group_.leads() && mine_.starved.load(relaxed) != 0) mine_.starved.store(0, relaxed);
        u64 accepted = 0;
        while (accepted < batch.count) {
            u32 const rows = take_tile(batch, accepted, lane);
            if (rows == 0) return {finish(accepted), Status::Error, ErrorCode::Refused};
            u32 const left = place(batch, accepted);
            if (left != 0) keep(batch, accepted);
            accepted += rows;
            if (left != 0) return {finish(accepted), Status::Pending, ErrorCode::Ok};
            // Agreed, since the channel may fail between two threads' looks.
            if (agree(group_, tile_.agreed, state_.failed.load(relaxed)) != 0) break;
        }
        return {finish(accepted), Status::Ok, ErrorCode::Ok};
    }

    /// The leader's answer, for all of the group's threads.
    MGI_HD bool agreed(bool answer) { return agree(group_, tile_.agreed, answer ? 1 : 0) != 0; }

    MGI_HD bool all_agreed(bool mine) { return all_agree(group_, tile_.agreed, mine); }

    /// Publishes what is buffered, as far as there is room.
    MGI_HD Status push() {
        bool const placed = place_carry();
        seal_lanes();
        return placed ? Status::Ok : Status::Pending;
    }

    /// This group will send no more; Ok when every row it sent stands in its receive queue.
    MGI_HD Status flush() {
        if (!place_carry()) {
            seal_lanes();
            return Status::Pending;
        }
        constexpr u32 kWait = 0;
        constexpr u32 kSeal = 1;
        constexpr u32 kDone = 2;
        u32 next = kWait;
        if (group_.leads()) {
            if (mine_.flushed.load(relaxed) == 0) {
                mine_.flushed.store(1, relaxed);
                // acq_rel: the last group sees every other one's claims before it closes the lanes.
                u32 const flushed = source_.groups_flushed.fetch_add(1, acq_rel) + 1;
                if (flushed == source_.groups_expected.load(relaxed)) {
                    close_source(state_, source_index_);
                }
            }
            bool done = true;
            for (u32 l = 0; l < state_.lane_count && done; ++l) {
                done = mine_.last[l] <= delivered_below(source_.lanes[l]);
            }
            // release: who sees 2 (the staging group, see sorters_done) finds the rows in the queue.
            if (done) mine_.flushed.store(2, cuda::std::memory_order_release);
            // Rows in a half-full segment must not wait for groups that go on sending, perhaps for
            // ever: somebody may wait for this very group's flush.
            next = done                                                             ? kDone
                   : (mine_.starved.fetch_add(1, relaxed) + 1) % kStarvedSends == 0 ? kSeal
                                                                                    : kWait;
        }
        next = agree(group_, tile_.agreed, next);
        if (next == kSeal) seal_lanes();
        return next == kDone ? Status::Ok : Status::Pending;
    }

private:
    static constexpr u32 kStarvedSends = 16;

    MGI_HD u64 finish(u64 accepted) {
        if (group_.leads() && accepted != 0) mine_.rows_accepted.fetch_add(accepted, relaxed);
        return accepted;
    }

    /// Puts the next rows of the batch into the tile, sorted by lane. Returns how many; 0 when the
    /// next row alone has longer strings than a segment holds.
    MGI_HD u32 take_tile(Batch const& batch, u64 first, i64 lane) {
        u32 rows = u32(min_of<u64>(batch.count - first, state_.tile_rows));
        tile_ = scratch_;
        // Every thread is done with the tile before: an agreement came behind it.
        if (state_.layout.has_views) {
            rows = rows_of_text(batch, first, rows);
            if (rows == 0) return 0;
        }
        tile_.rows = rows;
        bool const one_lane = state_.lane_count == 1;
        if (lane >= 0 || one_lane) {
            aim_tile(group_, tile_, state_.lane_count, one_lane ? 0 : u32(lane));
        } else {
            route_rows(group_, state_, batch, first, rows, tile_.lane);
            sort_tile(group_, tile_, state_.lane_count, state_.ordered, state_.ops());
        }
        return rows;
    }

    /// Measures the rows' long strings; returns how many rows fit one segment's bytes region.
    MGI_HD u32 rows_of_text(Batch const& batch, u64 first, u32 rows) {
        u64 const limit = u64(state_.layout.units) * Ticket::kUnitBytes;
        for (u32 i = group_.thread; i < rows; i += group_.threads) {
            tile_.text[i] = u32(min_of(text_bytes(batch, state_.layout, first + i), limit + 1));
        }
        group_.sync();
        u32 fitting = 0;
        if (group_.leads()) {
            u64 sum = 0;
            while (fitting < rows && (sum += tile_.text[fitting]) <= limit) ++fitting;
        }
        return agree(group_, tile_.agreed, fitting);
    }

    /// Claims, writes and commits until every row of the tile is placed or no lane gives room. Starts
    /// with a group barrier and ends with an agreement.
    /// Returns the rows left over.
    MGI_HD u32 place(Batch const& batch, u64 first) {
        u32 const lanes = state_.lane_count;
        for (;;) {
            if (group_.leads()) *tile_.moved = 0;
            group_.sync();
            for (u32 l = group_.thread; l < lanes; l += group_.threads) {
                tile_.claims[l] = claim(l);
                if (tile_.claims[l].rows != 0) shared_add(tile_.moved, tile_.claims[l].rows);
            }
            group_.sync();
            u32 const moved = *tile_.moved;
            if (moved != 0) {
                write_claimed(group_, tile_, lanes, batch, first, state_.layout, state_.ops(),
                              [&](u32 l) { return state_.pool + tile_.claims[l].offset; });
            }
            group_.sync();
            u32 left = 0;
            for (u32 l = group_.thread; l < lanes; l += group_.threads) {
                Claim const& done = tile_.claims[l];
                if (done.rows == 0) continue;
                tile_.next[l] += done.rows;
                mine_.last[l] = done.sequence + 1;
                if (source_.lanes[l].commit(done.slot, done.rows, 0, done.units)) {
                    publish_slot(state_, source_index_, l, done.sequence);
                }
            }
            group_.sync();
            if (group_.leads()) {
                for (u32 l = 0; l < lanes; ++l) left += tile_.end[l] - tile_.next[l];
            }
            left = agree(group_, tile_.agreed, left);
            if (left == 0 || moved == 0) return left;
        }
    }

    /// Claims room for what is left of a lane's rows, and says where their long strings go.
    MGI_HD Claim claim(u32 l) {
        u32 const next = tile_.next[l];
        u32 const wanted = tile_.end[l] - next;
        if (wanted == 0) return {};
        Lane<A>& lane = source_.lanes[l];
        if (lane.units == 0) return lane.claim(wanted);
        struct Fitting {
            u32 rows;
            u32 units;
        };
        auto const fit = [&](u32 rows, u32 units) -> Fitting {
            u32 const most = min_of(rows, wanted);
            u64 sum = 0;
            u32 k = 0;
            for (; k < most; ++k) {
                u64 const with = sum + tile_.text[tile_.row_at(next + k)];
                if (with > u64(units) * Ticket::kUnitBytes) break;
                sum = with;
            }
            return {k, u32((sum + Ticket::kUnitBytes - 1) / Ticket::kUnitBytes)};
        };
        Claim const taken = lane.claim_fitting(
            fit, [&](u64 sequence) { publish_slot(state_, source_index_, l, sequence); });
        lay_text(next, taken);
        return taken;
    }

    /// Turns the sizes in `text` of claimed rows into offsets in the bytes region.
    MGI_HD void lay_text(u32 next, Claim const& taken) {
        u32 at = taken.unit * Ticket::kUnitBytes;
        for (u32 k = 0; k < taken.rows; ++k) {
            u32& text = tile_.text[tile_.row_at(next + k)];
            u32 const size = text;
            text = at;
            at += size;
        }
    }

    /// Copies what is left of the tile into the group's carry buffer, sorted by lane.
    MGI_HD void keep(Batch const& batch, u64 first) {
        u32 const lanes = state_.lane_count;
        for (u32 i = group_.thread; i < state_.carry_layout.bit_bytes; i += group_.threads) {
            mine_.carry[i] = 0;
        }
        if (group_.leads()) {
            u32 row = 0;
            u32 unit = 0;
            for (u32 l = 0; l < lanes; ++l) {
                u32 const rows = tile_.end[l] - tile_.next[l];
                Claim claim{0, 0, row, rows, unit, 0, 0};
                mine_.carry_next[l] = row;
                mine_.carry_end[l] = row + rows;
                for (u32 k = 0; k < rows; ++k) mine_.carry_lane[row + k] = u16(l);
                if (state_.layout.has_views) unit += lay_carry_text(l, claim);
                tile_.claims[l] = claim;
                row += rows;
            }
            mine_.carry_rows = row;
        }
        group_.sync();
        write_claimed(group_, tile_, lanes, batch, first, state_.carry_layout, state_.ops(),
                      [&](u32) { return mine_.carry; });
    }

    MGI_HD u32 lay_carry_text(u32 l, Claim const& claim) {
        u64 sum = 0;
        for (u32 k = 0; k < claim.rows; ++k) sum += tile_.text[tile_.row_at(tile_.next[l] + k)];
        lay_text(tile_.next[l], claim);
        return u32((sum + Ticket::kUnitBytes - 1) / Ticket::kUnitBytes);
    }

    /// Places rows that an earlier call could not. True when none are left.
    MGI_HD bool place_carry() {
        u32 const rows = agree(group_, tile_.agreed, mine_.carry_rows);
        if (rows == 0) return true;
        Batch carry;
        carry.count = rows;
        if (state_.layout.rows_together) {
            carry.rows = mine_.carry + state_.carry_layout.columns[0].offset -
                         state_.carry_layout.columns[0].row_offset;
            carry.row_stride = state_.layout.row_bytes;
        } else {
            carry.columns = mine_.carry_columns;
        }
        tile_.lane = mine_.carry_lane;
        tile_.order = nullptr;
        tile_.next = mine_.carry_next;
        tile_.end = mine_.carry_end;
        tile_.rows = rows;
        if (state_.layout.has_views) {
            for (u32 i = group_.thread; i < rows; i += group_.threads) {
                tile_.text[i] = u32(text_bytes(carry, state_.carry_layout, i));
            }
        }
        u32 const left = place(carry, 0);
        if (left == 0 && group_.leads()) mine_.carry_rows = 0;
        return left == 0;
    }

    /// Publishes every lane's open segment.
    MGI_HD void seal_lanes() {
        for (u32 l = group_.thread; l < state_.lane_count; l += group_.threads) {
            u64 sequence = 0;
            if (source_.lanes[l].seal(sequence)) publish_slot(state_, source_index_, l, sequence);
        }
    }

    Group const group_;
    ChannelState<A>& state_;
    u32 const source_index_;
    Source<A>& source_;
    GroupState<A>& mine_;
    Tile const scratch_;
    Tile tile_;
    bool const scratch_fits_;
};

}  // namespace mgi::device
