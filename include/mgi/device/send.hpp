/// \file
/// The block-collective send: a tile of rows is sorted by lane in group-shared memory, each lane's
/// rows are claimed at once and written straight into segments (DESIGN section 5; in the paper's
/// section 5.4 this takes the stage buffer, the sorter and the sort buffer).
#pragma once

#include <mgi/device/addressed.hpp>
#include <mgi/device/admission.hpp>
#include <mgi/device/passes.hpp>

namespace mgi::device {

/// One group's sending calls on one source of a channel. Lives for the length of a call; all of the
/// group's threads make one with equal arguments.
template <class A>
class SendCall {
public:
    MGI_HD SendCall(Group const& group, Shared const& shared, ChannelState<A>& state, u32 source)
        : group_(group),
          shared_(shared),
          state_(state),
          source_index_(source),
          source_(state.sources[source]),
          lanes_(source_.lanes),
          lane_count_(state.lane_count),
          form_(group.thread < lane_count_ ? lanes_[group.thread].form() : LaneForm<A>{}),
          pool_(state.pool),
          layout_(&state.layout),
          mine_(source_.groups[min_of(group.block, state.max_groups - 1)]),
          owner_(&mine_),
          tile_(Tile::in(shared, tile_shape(state))),
          scratch_fits_(shared.bytes >= tile_shape(state).scratch_bytes()) {}

    /// Checks that this group may go on sending, and registers it at its first call. Comes before all others.
    MGI_HD ErrorCode enter(bool closing) {
        // First: a group that is refused here must not be one that the source waits for.
        if (!scratch_fits_) return ErrorCode::InvalidArgument;
        u32 word = 0;
        if (group_.leads()) {
            ErrorCode const code = admit_group(state_, source_, group_, closing);
            word = u32(code);
            if (code != ErrorCode::Ok) {
                // Then this is no place of ours.
            } else if (mine_.carried.load(relaxed) != 0) {
                word |= kCarries;
            } else if (mine_.has_kept) {
                // acquire: what another group has placed of ours lies behind us, and it has done with what is ours. Once
                // only, since an acquire has a GPU forget what it has at hand.
                (void)mine_.carried.load(acquire);
                mine_.has_kept = false;
            }
        }
        word = agree(group_, tile_.agreed, word);
        carries_ = (word & kCarries) != 0;
        return ErrorCode(word & ~kCarries);
    }

    /// Sends a prefix of the batch; `lane` >= 0 sends all of it there, of a broadcast to the destination with that number.
    /// A call of several threads that had rows to carry on takes none of the batch: lanes that were full lately are full
    /// again soon, and a group that receives as well is to make room first.
    MGI_HD SendResult send(Batch const& batch, i64 lane) {
        if (carries_) {
            bool const placed = place_own();
            u32 const round = placed ? 0 : starved_round();
            if (round != 0) push_for(group_, shared_, state_, source_index_, round);
            if (!placed || (group_.threads > 1 && batch.count != 0)) {
                return {0, Status::Pending, ErrorCode::Ok};
            }
        }
        if (lane >= 0 && !state_.own_lanes()) {
            return send_addressed(group_, shared_, state_, source_index_, batch, u32(lane));
        }
        if (group_.leads() && mine_.starved.load(relaxed) != 0) mine_.starved.store(0, relaxed);
        // Behind the carried rows; there may be no columns, either.
        if (batch.count == 0) return {0, Status::Ok, ErrorCode::Ok};
        if (state_.staged_bytes != 0 && lane < 0) {
            return send_in_passes(group_, shared_, state_, source_index_, batch);
        }
        return send_in_tiles(group_, shared_, state_, source_index_, batch, lane);
    }

    /// The leader's answer, for all of the group's threads.
    MGI_HD bool agreed(bool answer) { return agree(group_, tile_.agreed, answer ? 1 : 0) != 0; }

    MGI_HD bool all_agreed(bool mine) { return all_agree(group_, tile_.agreed, mine); }

    /// Publishes what is buffered, as far as there is room.
    MGI_HD Status push() {
        bool const placed = place_own();
        push_lanes();
        group_.sync();  // each thread looks at what others have published
        // Rows that another group carries may lie between ours and who is to see them.
        return placed && all_agreed(are_published()) ? Status::Ok : Status::Pending;
    }

    /// This group will send no more; Ok when every row it sent stands in its receive queue.
    MGI_HD Status flush() {
        if (!place_own()) {
            u32 const round = starved_round();
            round != 0 ? push_in(round) : seal_lanes(Seal::Waiting);
            return Status::Pending;
        }
        bool closes = false;
        if (group_.leads() && mine_.flushed.load(relaxed) == 0) {
            mine_.flushed.store(1, relaxed);
            // acq_rel: the last group sees every other one's claims before it closes the lanes.
            u32 const flushed = source_.words->groups_flushed.fetch_add(1, acq_rel) + 1;
            u32 const expected = source_.words->groups_expected.load(relaxed);
            MGI_ASSERT(flushed <= expected, flushed, expected, group_.block);
            closes = flushed == expected;
        }
        if (agreed(closes)) {
            close_lanes();
            group_.sync();  // as of `push`
        }
        constexpr u32 kDone = ~0u;
        u32 next = 0;  // the round, unless done
        bool done = all_agreed(have_come());
        if (group_.leads()) {
            for (u32 l = 0; l < lane_count_ && done; ++l) {
                if (lanes_[l].came != nullptr) continue;
                done = mine_.last[l] <= delivered_below(state_, lanes_[l]);
            }
            // release: who sees 2 (the staging group, see sorters_done) finds the rows in the queue.
            if (done) mine_.flushed.store(2, cuda::std::memory_order_release);
            // Rows in a half-full segment must not wait for groups that go on sending, perhaps for
            // ever: somebody may wait for this very group's flush.
            next = done ? kDone : count_starved();
        }
        next = agree(group_, tile_.agreed, next);
        if (next == kDone) return Status::Ok;
        if (next != 0) push_in(next);
        return Status::Pending;
    }

private:
    /// Of so many calls in a row that had no room, or wait, one sees to others' rows: a round. It helps so many groups, since
    /// others wait for the rows of the one that helps, too; one round of so many helps all.
    static constexpr u32 kStarvedSends = 16;
    static constexpr u32 kHelped = 8;
    static constexpr u32 kAllHelped = 8;
    static constexpr u32 kCarries = 1u << 31;  ///< beside an ErrorCode

    // What is done seldom is done by a call of its own, which shares nothing but the scratch: so this one
    // can stay in registers.

    /// Sends tiles that are brought to the scratch. A call of its own as well: so its registers are its own.
    MGI_HD MGI_COLD static SendResult send_in_passes(Group group, Shared shared,
                                                     ChannelState<A>& state, u32 source,
                                                     Batch batch) {
        Passes<A> passes(group, shared, state, source, batch);
        auto const sent = passes.send();
        if (group.leads() && sent.accepted != 0) {
            state.sources[source].groups[group.block].rows_accepted.fetch_add(sent.accepted,
                                                                              relaxed);
        }
        Status const status = sent.accepted == batch.count ? Status::Ok : Status::Pending;
        if (!sent.left) return {sent.accepted, status, ErrorCode::Ok};
        Tile tile = passes.tile();
        tile.rows = sent.tile_rows;
        keep_rest(group, shared, state, source, batch, sent.accepted - sent.tile_rows, tile);
        return {sent.accepted, Status::Pending, ErrorCode::Ok};
    }

    /// Sends tiles that are gathered from where they lie.
    MGI_HD MGI_COLD static SendResult send_in_tiles(Group group, Shared shared,
                                                    ChannelState<A>& state, u32 source, Batch batch,
                                                    i64 lane) {
        SendCall call(group, shared, state, source);
        Router const router(state);
        u64 accepted = 0;
        u32 const most = group.threads == 1 ? ~0u : TileShape::kMostTiles;
        for (u32 tiles = 0; accepted < batch.count && tiles < most; ++tiles) {
            u32 const rows = call.take_tile(router, batch, accepted, lane);
            if (rows == 0) return {call.finish(accepted), Status::Error, ErrorCode::Refused};
            // Agreed, since the channel may fail between two threads' looks.
            bool const stop = call.place(batch, accepted, group.leads() && call.has_failed());
            accepted += rows;
            if (!stop) continue;
            if (call.rows_left() != 0) {
                keep_rest(group, shared, state, source, batch, accepted - rows, call.tile_);
                return {call.finish(accepted), Status::Pending, ErrorCode::Ok};
            }
            if (agree(group, call.tile_.agreed, state.failed.load(relaxed)) != 0) break;
        }
        Status const status = accepted == batch.count ? Status::Ok : Status::Pending;
        return {call.finish(accepted), status, ErrorCode::Ok};
    }

    /// Sends to one destination of a broadcast.
    MGI_HD MGI_COLD static SendResult send_addressed(Group group, Shared shared,
                                                     ChannelState<A>& state, u32 source,
                                                     Batch batch, u32 destination) {
        AddressedSend<A> addressed(group, shared, state, source, destination);
        SendResult const result = addressed.send(batch);
        SendCall call(group, shared, state, source);
        if (addressed.had_no_room()) {
            // Nothing of this group's waits; others' rows, or an open segment, may be in its way.
            u32 const round = call.starved_round();
            if (round != 0) call.push_in(round);
        } else if (group.leads()) {
            call.mine_.starved.store(0, relaxed);
        }
        call.finish(result.rows);
        return result;
    }

    /// Publishes for others, whose calls find no room.
    MGI_HD MGI_COLD static void push_for(Group group, Shared shared, ChannelState<A>& state,
                                         u32 source, u32 round) {
        SendCall(group, shared, state, source).push_in(round);
    }

    /// Keeps the rows of the tile that are not placed.
    MGI_HD MGI_COLD static void keep_rest(Group group, Shared shared, ChannelState<A>& state,
                                          u32 source, Batch batch, u64 first, Tile tile) {
        SendCall call(group, shared, state, source);
        call.tile_ = tile;
        call.keep(batch, first);
    }

    /// This thread's share of the question whether all of the group's rows can be seen, or are the mover's.
    [[nodiscard]] MGI_HD bool are_published() const {
        for (u32 l = 0; l < lane_count_; ++l) {
            Lane<A> const& lane = lanes_[l];
            u64 const below = mine_.last[l];
            if (lane.came != nullptr) {
                if (!has_come(group_, lane, below)) return false;
            } else if (group_.leads() && below > lane.published.load(acquire)) {
                return false;
            }
        }
        return true;
    }

    /// This thread's share of the question whether all of the group's rows that go to inboxes have come there.
    [[nodiscard]] MGI_HD bool have_come() const {
        for (u32 l = 0; l < lane_count_; ++l) {
            Lane<A> const& lane = lanes_[l];
            if (lane.came != nullptr && !has_come(group_, lane, mine_.last[l])) return false;
        }
        return true;
    }

    /// Of this call, of those in a row that had no room, the round in which it sees to others' rows; 0: none. The leader's.
    MGI_HD u32 count_starved() {
        u32 const calls = mine_.starved.fetch_add(1, relaxed) + 1;
        return calls % kStarvedSends == 0 ? calls / kStarvedSends : 0;
    }
    MGI_HD u32 starved_round() {
        return agree(group_, tile_.agreed, group_.leads() ? count_starved() : 0);
    }

    [[nodiscard]] MGI_HD bool has_failed() const { return state_.failed.load(relaxed) != 0; }

    MGI_HD u64 finish(u64 accepted) {
        if (group_.leads() && accepted != 0) mine_.rows_accepted.fetch_add(accepted, relaxed);
        return accepted;
    }

    /// Puts the next rows of the batch into the tile, sorted by lane. Returns how many; 0 when the
    /// next row alone has longer strings than a segment holds.
    MGI_HD u32 take_tile(Router const& router, Batch const& batch, u64 first, i64 lane) {
        u32 rows = u32(min_of<u64>(batch.count - first, state_.tile_rows));
        // Every thread is done with the tile before: an agreement came behind it.
        if (layout_->has_views) {
            rows = rows_of_text(group_, tile_, state_, batch, first, rows, layout_->units);
            if (rows == 0) return 0;
        }
        tile_.rows = rows;
        for (u32 l = group_.thread; l < lane_count_; l += group_.threads) {
            tile_.at[l] = Lane<A>::kNotTaken;
        }
        bool const one_lane = lane_count_ == 1;
        if (lane >= 0 || one_lane) {
            aim_tile(group_, tile_, lane_count_, one_lane ? 0 : u32(lane));
            return rows;
        }
        route_rows(group_, router, state_, *layout_, batch, first, rows, tile_.lane);
        sort_tile(group_, tile_, lane_count_, state_.ordered, state_.ops());
        // Claims of rows with long strings go by the order.
        if (layout_->has_views) group_.sync();
        return rows;
    }

    /// Claims, writes and commits until every row of the tile is placed or no lane gives room. What is known
    /// of a lane's rows must be known to the thread that has the lane; ends with an agreement: whether rows
    /// are left, or `trouble` was any thread's.
    MGI_HD bool place(Batch const& batch, u64 first, bool trouble) {
        for (;;) {
            bool moved = false;
            for (u32 l = group_.thread; l < lane_count_; l += group_.threads) {
                tile_.claims[l] = claim(l);
                moved = moved || tile_.claims[l].rows != 0;
            }
            group_.sync();
            write_claimed(group_, tile_, lane_count_, batch, first, *layout_, state_.ops(),
                          ClaimedSegments{pool_, tile_.claims});
            group_.sync();
            bool left = false;
            for (u32 l = group_.thread; l < lane_count_; l += group_.threads) {
                Claim const& done = tile_.claims[l];
                if (done.rows != 0) {
                    tile_.next[l] += done.rows;
                    if (tile_.at[l] != Lane<A>::kNotTaken) tile_.at[l] += done.rows;
                    MGI_ASSERT(tile_.next[l] <= tile_.end[l] && tile_.end[l] <= tile_.rows,
                               tile_.next[l], tile_.end[l], tile_.rows, l);
                    owner_->last[l] = done.sequence + 1;
                    if (Lane<A>::commit(done.slot, done.rows, 0, done.units, form_of(l))) {
                        publish_slot(state_, source_index_, l, done.sequence);
                    }
                }
                left = left || tile_.next[l] != tile_.end[l];
            }
            if (!any_of(group_, tile_.agreed, left || trouble)) return false;
            if (!any_of(group_, tile_.agreed, left)) return true;
            if (!any_of(group_, tile_.agreed, moved)) return true;
        }
    }

    /// Rows of the tile that are not placed, for all threads.
    MGI_HD u32 rows_left() {
        u32 left = 0;
        for (u32 l = 0; l < lane_count_; ++l) left += tile_.end[l] - tile_.next[l];
        return left;
    }

    /// Each thread keeps the form of one lane, and the first threads have the first lanes.
    [[nodiscard]] MGI_HD LaneForm<A> form_of(u32 l) const {
        return l == group_.thread ? form_ : lanes_[l].form();
    }

    /// Claims room for what is left of a lane's rows, and says where their long strings go.
    MGI_HD Claim claim(u32 l) {
        u32 const wanted = tile_.end[l] - tile_.next[l];
        if (wanted == 0) return {};
        LaneForm<A> const form = form_of(l);
        if (form.units != 0) return claim_text(tile_, state_, source_index_, l);
        return take_and_claim(state_, lanes_[l], tile_.at[l], wanted, form);
    }

    /// Copies what is left of the tile into the group's carry buffer, sorted by lane.
    MGI_HD void keep(Batch const& batch, u64 first) {
        u32 const lanes = lane_count_;
        MGI_ASSERT(!group_.leads() || mine_.carried.load(relaxed) == 0, group_.block);
        for (u32 i = group_.thread; i < state_.carry_layout.bit_bytes; i += group_.threads) {
            mine_.carry[i] = 0;
        }
        u32 row = 0;
        if (group_.leads()) {
            u32 unit = 0;
            for (u32 l = 0; l < lanes; ++l) {
                u32 const rows = tile_.end[l] - tile_.next[l];
                Claim claim{0, 0, row, rows, unit, 0, 0};
                mine_.carry_at[l] = tile_.at[l];
                mine_.carry_next[l] = row;
                mine_.carry_end[l] = row + rows;
                if (state_.layout.has_views)
                    unit += lay_whole_text(tile_, state_.layout, tile_.next[l], claim);
                tile_.claims[l] = claim;
                row += rows;
            }
            MGI_ASSERT(row <= state_.carry_layout.rows, row, state_.carry_layout.rows);
        }
        group_.sync();
        for (u32 l = 0; l < lanes; ++l) {
            u32 const end = mine_.carry_end[l];
            u32 row_of_lane = mine_.carry_next[l] + group_.thread;
            for (; row_of_lane < end; row_of_lane += group_.threads) {
                mine_.carry_lane[row_of_lane] = u16(l);
            }
        }
        write_claimed(group_, tile_, lanes, batch, first, state_.carry_layout, state_.ops(),
                      ClaimedSegments{mine_.carry, tile_.claims});
        group_.sync();  // nobody reads the caller's columns or the scratch any more
        if (!group_.leads()) return;
        mine_.has_kept = true;
        // release: what the group has kept, for who places it.
        mine_.carried.store(row, cuda::std::memory_order_release);
    }

    /// Places what this group carries; true when none of that is left.
    MGI_HD bool place_own() {
        return !carries_ || place_carry(group_, shared_, state_, source_index_, mine_);
    }

    /// Places rows that an earlier call of a group's could not; true when none are left. False, too, while
    /// another group is at it.
    MGI_HD MGI_COLD static bool place_carry(Group group, Shared shared, ChannelState<A>& state,
                                            u32 source, GroupState<A>& of) {
        return SendCall(group, shared, state, source).place_carry_of(of);
    }

    MGI_HD bool place_carry_of(GroupState<A>& of) {
        u32 const rows = agree(group_, tile_.agreed, group_.leads() ? of.hold_carry() : 0);
        if (rows == 0) return true;
        if (rows == GroupState<A>::kHeld) return false;
        Batch carry;
        carry.count = rows;
        if (state_.layout.rows_together) {
            carry.rows = of.carry + state_.carry_layout.columns[0].offset -
                         state_.carry_layout.columns[0].row_offset;
            carry.row_stride = state_.layout.row_bytes;
        } else {
            carry.columns = of.carry_columns;
        }
        owner_ = &of;
        tile_.lane = of.carry_lane;
        tile_.sorted = false;
        tile_.at = of.carry_at;
        tile_.next = of.carry_next;
        tile_.end = of.carry_end;
        tile_.rows = rows;
        if (state_.layout.has_views) {
            for (u32 i = group_.thread; i < rows; i += group_.threads) {
                tile_.text[i] = u32(text_bytes(carry, state_.carry_layout, i));
            }
            group_.sync();  // each lane's thread claims by the sizes of its rows
        }
        bool const left = place(carry, 0, false);
        if (group_.leads()) {
            // release, both: what was placed, and of the rest how far.
            if (!left) of.carried.store(0, cuda::std::memory_order_release);
            of.placing.store(0, cuda::std::memory_order_release);
        }
        return !left;
    }

    /// Places what so many other groups carry, as far as there is room, beginning so far behind this one: while a group
    /// waits to be called again, rows of all others in the same segments would wait with it. Rows with long strings,
    /// and a stage's, have no place yet.
    MGI_HD void help_others(u32 first, u32 count) {
        if (state_.layout.units != 0 || !state_.takes_ahead) return;
        u32 const groups = source_.words->groups_expected.load(relaxed);
        count = min_of(count, groups);
        auto const other = [block = group_.block, first, groups](u32 k) {
            return (block + 1 + first + k) % groups;
        };
        bool any = false;
        for (u32 k = group_.thread; k < count; k += group_.threads) {
            u32 const g = other(k);
            any = any || (g != group_.block && source_.groups[g].carried.load(relaxed) != 0);
        }
        if (!any_of(group_, tile_.agreed, any)) return;
        for (u32 k = 0; k < count; ++k) {
            u32 const g = other(k);
            if (g != group_.block) {
                place_carry(group_, shared_, state_, source_index_, source_.groups[g]);
            }
        }
    }

    /// Publishes what lies in open segments, as far as there is room.
    MGI_HD void push_lanes() {
        help_others(0, ~0u);
        seal_lanes(Seal::All);
    }

    /// What a group sees to that has had no room for so many rounds.
    MGI_HD void push_in(u32 round) {
        if (round % kAllHelped == 0) return push_lanes();
        help_others((round - 1) * kHelped, kHelped);
        seal_lanes(Seal::Waiting);
    }

    /// For the last group of the source. Each lane is a thread's, since what it says goes over a link.
    MGI_HD void close_lanes() {
        if (group_.leads() && state_.flushed != nullptr) {
            state_.flushed[source_index_].store(1, relaxed);
        }
        for (u32 l = group_.thread; l < lane_count_; l += group_.threads) {
            close_lane(state_, source_index_, l);
        }
    }

    /// Publishes lanes' open segments.
    MGI_HD void seal_lanes(Seal which) {
        for (u32 l = group_.thread; l < lane_count_; l += group_.threads) {
            seal_lane(state_, source_index_, l, which);
        }
    }

    Group const group_;
    Shared const shared_;
    ChannelState<A>& state_;
    u32 const source_index_;
    Source<A>& source_;
    Lane<A>* const lanes_;
    u32 const lane_count_;
    LaneForm<A> const form_;  ///< see form_of
    char* const pool_;
    SegmentLayout const* const layout_;
    GroupState<A>& mine_;
    GroupState<A>* owner_;  ///< whose rows are placed
    Tile tile_;
    bool const scratch_fits_;
    bool carries_ = false;  ///< as `enter` has found
};

}  // namespace mgi::device
