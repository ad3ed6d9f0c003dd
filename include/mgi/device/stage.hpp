/// \file
/// Stage buffers and sorters, the second way to send (paper sections 5.1 and 5.4): threads append rows
/// to a stage buffer of their block, and sorter groups partition what is staged into lanes. It costs
/// one more write and read of every row, and serves threads that send on their own, divergently.
///
/// The stage of a source is an inner channel: its lanes are the stage buffers (block b appends to
/// buffer b modulo their number), its destinations are what the sorters poll.
#pragma once

#include <mgi/device/sorter.hpp>
#include <mgi/device/together.hpp>

namespace mgi::device {

/// The stage buffer that a group appends to.
template <class A>
MGI_HD u32 stage_lane(ChannelState<A> const& stage, Group const& group) {
    return group.block % stage.lane_count;
}

/// What a thread of a group gathers rows in; null when it must append each by itself, if it may.
template <class A>
MGI_HD StagedRows* staged_rows(ChannelState<A> const& stage, Group const& group) {
    u32 const threads = ChannelState<A>::kStagingThreads;
    bool const known = group.thread < threads && group.block < stage.max_groups;
    if (stage.staged == nullptr || !known) return nullptr;
    return &stage.staged[u64(group.block) * threads + group.thread];
}

/// One thread's rows on their way into the stage buffer of its group. Threads of a group may call it
/// divergently, and at any time before the group flushes. Rows are claimed, written and committed
/// some dozens at a time: three atomic operations for each would cost more than all the rest. On a CPU a thread
/// gathers them first; on a GPU a warp's threads have some dozens together.
template <class A>
class StageThread {
public:
    MGI_HD StageThread(Group const& group, ChannelState<A>& stage)
        : group_(group), stage_(stage), source_(stage.sources[0]) {}

    /// Takes one row struct: Ok, Pending (no room now), or Error. For a thread's first row, and for
    /// each that finds no room among those it has gathered.
    template <class Row>
    MGI_HD SendResult append(Row const& row) {
        StagedRows* const mine = staged_rows(stage_, group_);
        if (mine == nullptr && !stage_.layout.has_views) return append_together(row);
        ErrorCode const code = admit_group(stage_, source_, group_, false);
        if (code != ErrorCode::Ok) return {0, Status::Error, code};
        if (mine == nullptr) return append_text(batch_of_one(row));
        if (mine->rows == mine->capacity) drain();
        mine->launch = group_.launch + 1;
        if (!mine->take(row, group_.launch)) return {0, Status::Pending, ErrorCode::Ok};
        return {1, Status::Ok, ErrorCode::Ok};
    }

    /// This thread appends no more. True when nothing of it is left outside.
    MGI_HD bool close() {
        if (StagedRows* const mine = staged_rows(stage_, group_); mine != nullptr) mine->launch = 0;
        return drain();
    }

    /// Appends what this thread has taken to the stage buffer. True when nothing is left.
    MGI_HD bool drain() {
        StagedRows* const mine = staged_rows(stage_, group_);
        if (mine == nullptr || mine->rows == 0) return true;
        Batch batch;
        batch.rows = mine->data;
        batch.row_stride = stage_.layout.row_bytes;
        u32 done = 0;
        while (done < mine->rows) {
            u32 const wanted = mine->rows - done;
            Claim const claim = lane().claim_now(wanted);
            if (claim.rows == 0) {
                if (help_sorter(stage_, stage_lane(stage_, group_))) continue;
                break;
            }
            MGI_ASSERT(claim.rows <= wanted, claim.rows, wanted);
            write(batch, done, claim);
            done += claim.rows;
        }
        mine->rows -= done;
        // Downwards, so that no row is written before it was read.
        for (u32 row = 0; done != 0 && row < mine->rows; ++row) {
            memcpy(mine->data + u64(row) * batch.row_stride,
                   mine->data + u64(done + row) * batch.row_stride, batch.row_stride);
        }
        return mine->rows == 0;
    }

private:
    template <class Row>
    MGI_HD static Batch batch_of_one(Row const& row) {
        Batch batch;
        batch.rows = reinterpret_cast<char const*>(&row);
        batch.row_stride = sizeof(Row);
        batch.count = 1;
        return batch;
    }

    /// A row of a thread without rows of its own: the threads of a warp that have one now append them with one
    /// claim and one commit. Those that find no room come again.
    template <class Row>
    MGI_HD SendResult append_together(Row const& row) {
        u32 const l = stage_lane(stage_, group_);
        Lane<A>& lane = source_.lanes[l];
        Together const threads(&lane);
        ErrorCode code = ErrorCode::Ok;
        Claim claim;
        if (threads.leads()) {
            code = admit_group(stage_, source_, group_, false);
            if (code == ErrorCode::Ok) claim = lane.claim_now(threads.count());
        }
        code = ErrorCode(threads.of_leader(u32(code)));
        if (code != ErrorCode::Ok) return {0, Status::Error, code};
        u32 const claimed = threads.of_leader(claim.rows);
        bool const taken = threads.rank() < claimed;
        u32 const first = threads.of_leader(claim.row);
        char* const segment = stage_.pool + threads.of_leader(claim.offset);
        if (taken) write_one(batch_of_one(row), segment, first + threads.rank());
        threads.sync();
        if (threads.leads()) {
            if (claimed != 0) {
                commit(l, claim);
            } else {
                help_sorter(stage_, l);
            }
        }
        if (!taken) return {0, Status::Pending, ErrorCode::Ok};
        return {1, Status::Ok, ErrorCode::Ok};
    }

    /// Writes one row without long strings.
    MGI_HD void write_one(Batch const& row, char* segment, u32 at) {
        SegmentLayout const& layout = stage_.layout;
        for (u32 c = 0; c < layout.column_count; ++c) {
            ColumnLayout const& column = layout.columns[c];
            if (column.storage != Storage::Fixed) continue;
            char const* const from = row.rows + column.row_offset;
            char* const to = segment + column.offset + u64(at) * column.stride;
            auto const places = reinterpret_cast<std::uintptr_t>(from) |
                                reinterpret_cast<std::uintptr_t>(to) | column.width;
            if (column.width == 8 && places % 8 == 0) {
                store_value(to, load_value<u64>(from));
            } else if (column.width == 4 && places % 4 == 0) {
                store_value(to, load_value<u32>(from));
            } else if (column.width == 16 && places % 16 == 0) {
                store_value(to, load_value<Wide16>(from));
            } else {
                memcpy(to, from, column.width);
            }
        }
        if (layout.bit_bytes == 0) return;
        u32 next = 0;
        Claim claim{};
        claim.row = at;
        claim.rows = 1;
        Tile tile;
        tile.rows = 1;
        tile.next = &next;
        tile.claims = &claim;
        write_bits_and_views(Group{}, tile, 1, row, 0, layout, [segment](u32) { return segment; });
    }

    /// A row with long strings, which are claimed with it.
    MGI_HD SendResult append_text(Batch const& row) {
        u64 const text = text_bytes(row, stage_.layout, 0);
        if (text > stage_.layout.bytes_of(stage_.layout.units))
            return {0, Status::Error, ErrorCode::Refused};
        Claim const claim = claim_text(stage_.layout.units_of(text));
        if (claim.rows == 0) {
            help_sorter(stage_, stage_lane(stage_, group_));
            return {0, Status::Pending, ErrorCode::Ok};
        }
        write(row, 0, claim);
        return {1, Status::Ok, ErrorCode::Ok};
    }

    [[nodiscard]] MGI_HD Lane<A>& lane() { return source_.lanes[stage_lane(stage_, group_)]; }

    MGI_HD Claim claim_text(u32 units) {
        struct Room {
            u32 rows;
            u32 units;
        };
        return lane().claim_fitting(
            [units](u32, u32 room) { return units <= room ? Room{1, units} : Room{0, 0}; },
            [this](u64 sequence) {
                publish_slot(stage_, 0, stage_lane(stage_, group_), sequence);
            });
    }

    /// Writes the batch's rows from `first` on into a claim, and commits it.
    MGI_HD void write(Batch const& batch, u64 first, Claim const& claim) {
        u32 const l = stage_lane(stage_, group_);
        u32 next = 0;
        u32 at = u32(stage_.layout.bytes_of(claim.unit));  // strings come one row at a time
        Claim claims = claim;
        Tile tile;
        tile.rows = claim.rows;
        tile.next = &next;
        tile.claims = &claims;
        tile.text = &at;
        write_claimed(Group{}, tile, 1, batch, first, stage_.layout, stage_.ops(),
                      [this, &claim](u32) { return stage_.pool + claim.offset; });
        commit(l, claim);
    }

    /// The claimed rows are written.
    MGI_HD void commit(u32 l, Claim const& claim) {
        source_.groups[group_.block].rows_accepted.fetch_add(claim.rows, relaxed);
        if (source_.lanes[l].commit(claim.slot, claim.rows, 0, claim.units)) {
            publish_slot(stage_, 0, l, claim.sequence);
            help_sorter(stage_, l);  // while the segment is in our cache
        }
    }

    Group const& group_;
    ChannelState<A>& stage_;
    Source<A>& source_;
};

}  // namespace mgi::device
