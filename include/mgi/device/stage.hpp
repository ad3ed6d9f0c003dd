/// \file
/// Stage buffers and sorters, the second way to send (paper sections 5.1 and 5.4): threads append rows
/// to a stage buffer of their block, and sorter groups partition what is staged into lanes. It costs
/// one more write and read of every row, and serves threads that send on their own, divergently.
///
/// The stage of a source is an inner channel: its lanes are the stage buffers (block b appends to
/// buffer b modulo their number), its destinations are what the sorters poll.
#pragma once

#include <mgi/device/receive.hpp>
#include <mgi/device/send.hpp>

namespace mgi::device {

/// The stage buffer that a group appends to.
template <class A>
MGI_HD u32 stage_lane(ChannelState<A> const& stage, Group const& group) {
    return group.block % stage.lane_count;
}

/// One thread's rows on their way into the stage buffer of its group. Threads of a group may call it
/// divergently, and at any time before the group flushes. Rows are claimed, written and committed
/// some dozens at a time: three atomic operations for each would cost more than all the rest.
template <class A>
class StageThread {
public:
    MGI_HD StageThread(Group const& group, ChannelState<A>& stage)
        : group_(group), stage_(stage), source_(stage.sources[0]) {}

    /// Takes one row struct: Ok, Pending (no room now), or Error.
    template <class Row>
    MGI_HD SendResult append(Row const& row) {
        StagedRows* const mine = staged();
        bool const known = mine != nullptr && mine->launch == group_.launch + 1;
        if (known && mine->rows < mine->capacity) return take(*mine, row);
        ErrorCode const code = admit_group(stage_, source_, group_, false);
        if (code != ErrorCode::Ok) return {0, Status::Error, code};
        if (mine == nullptr) {
            Batch batch;
            batch.rows = reinterpret_cast<char const*>(&row);
            batch.row_stride = sizeof(Row);
            batch.count = 1;
            return append_one(batch);
        }
        if (mine->rows == mine->capacity) {
            drain();
            if (mine->rows == mine->capacity) return {0, Status::Pending, ErrorCode::Ok};
        }
        mine->launch = group_.launch + 1;
        return take(*mine, row);
    }

    /// This thread appends no more. True when nothing of it is left outside.
    MGI_HD bool close() {
        if (StagedRows* const mine = staged(); mine != nullptr) mine->launch = 0;
        return drain();
    }

    /// Appends what this thread has taken to the stage buffer. True when nothing is left.
    MGI_HD bool drain() {
        StagedRows* const mine = staged();
        if (mine == nullptr || mine->rows == 0) return true;
        Batch batch;
        batch.rows = mine->data;
        batch.row_stride = stage_.layout.row_bytes;
        u32 done = 0;
        while (done < mine->rows) {
            u32 const wanted = mine->rows - done;
            Claim const claim =
                claim_rows([&](u32 room, u32) { return Room{min_of(room, wanted), 0}; });
            if (claim.rows == 0) break;
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
    MGI_HD static SendResult take(StagedRows& mine, Row const& row) {
        memcpy(mine.data + u64(mine.rows) * sizeof(Row), &row, sizeof(Row));
        ++mine.rows;
        return {1, Status::Ok, ErrorCode::Ok};
    }

    struct Room {
        u32 rows;
        u32 units;
    };

    MGI_HD StagedRows* staged() const {
        u32 const threads = ChannelState<A>::kStagingThreads;
        if (stage_.staged == nullptr || group_.thread >= threads) return nullptr;
        return &stage_.staged[u64(group_.block) * threads + group_.thread];
    }

    MGI_HD SendResult append_one(Batch const& row) {
        u64 const text = stage_.layout.has_views ? text_bytes(row, stage_.layout, 0) : 0;
        u64 const units = (text + Ticket::kUnitBytes - 1) / Ticket::kUnitBytes;
        if (units > stage_.layout.units) return {0, Status::Error, ErrorCode::Refused};
        Claim const claim = claim_rows(
            [&](u32, u32 room) { return units <= room ? Room{1, u32(units)} : Room{0, 0}; });
        if (claim.rows == 0) return {0, Status::Pending, ErrorCode::Ok};
        write(row, 0, claim);
        return {1, Status::Ok, ErrorCode::Ok};
    }

    template <class Fit>
    MGI_HD Claim claim_rows(Fit const& fit) {
        u32 const l = stage_lane(stage_, group_);
        return source_.lanes[l].claim(fit,
                                      [&](u64 sequence) { publish_slot(stage_, 0, l, sequence); });
    }

    /// Writes the batch's rows from `first` on into a claim, and commits it.
    MGI_HD void write(Batch const& batch, u64 first, Claim const& claim) {
        u32 const l = stage_lane(stage_, group_);
        u32 next = 0;
        u32 at = claim.unit * Ticket::kUnitBytes;  // strings come one row at a time
        Claim claims = claim;
        Tile tile;
        tile.rows = claim.rows;
        tile.next = &next;
        tile.claims = &claims;
        tile.text = &at;
        write_claimed(Group{}, tile, 1, batch, first, stage_.layout, stage_.ops(),
                      [&](u32) { return stage_.pool + claim.offset; });
        if (source_.lanes[l].commit(claim.slot, claim.rows, 0, claim.units)) {
            publish_slot(stage_, 0, l, claim.sequence);
        }
        source_.groups[group_.block].rows_accepted.fetch_add(claim.rows, relaxed);
    }

    Group const group_;
    ChannelState<A>& stage_;
    Source<A>& source_;
};

/// Whether all sorters of a source have put every row into its receive queue.
template <class A>
MGI_HD bool sorters_done(Source<A> const& source) {
    u32 const sorters = source.groups_expected.load(relaxed);
    if (sorters == 0 || source.groups_flushed.load(relaxed) != sorters) return false;
    for (u32 g = 0; g < sorters; ++g) {
        // acquire: what the sorter saw delivered is there for us too.
        if (source.groups[g].flushed.load(acquire) != 2) return false;
    }
    return true;
}

/// The columns of a received batch, to be sent on. `columns` has room for all of them; `bytes` lives
/// as long as the result.
MGI_HD inline Batch batch_of(ReceivedBatch const& batch, ColumnView* columns, char const** bytes) {
    SegmentLayout const& layout = *batch.layout;
    Batch out;
    out.count = batch.rows;
    if (layout.rows_together) {
        out.rows = batch.structs<char>();
        out.row_stride = layout.row_bytes;
        return out;
    }
    *bytes = batch.segment + layout.bytes_offset;
    for (u32 c = 0; c < layout.column_count; ++c) {
        ColumnLayout const& column = layout.columns[c];
        columns[c] = ColumnView{};
        columns[c].values = batch.segment + column.offset;
        columns[c].offset = batch.row;
        if (column.nullable()) {
            columns[c].validity = reinterpret_cast<u8 const*>(batch.segment) + column.validity;
        }
        if (column.storage == Storage::Views) {
            columns[c].encoding = InputEncoding::Views;
            columns[c].buffers = bytes;
        }
    }
    out.columns = columns;
    return out;
}

/// The sorter kernel: takes staged segments and partitions them into the channel's lanes with the
/// block-collective routine. Runs beside the user's kernels until every group of the source has
/// flushed; returns why it had to stop before that, which then must fail the channel.
template <class A>
class Sorter {
public:
    MGI_HD ErrorCode operator()(Group const& group, Shared& shared, ChannelState<A>* channel,
                                u32 source, ChannelState<A>* stage) const {
        u32 const columns_of_group = channel->layout.column_count * group.threads;
        ColumnView* columns = shared.template take<ColumnView>(columns_of_group);
        if (columns == nullptr) return ErrorCode::InvalidArgument;
        columns += channel->layout.column_count * group.thread;
        for (u32 idle = 0;;) {
            bool moved = false;
            u32 ended = 0;
            u32 buffers = 0;
            for (u32 d = group.block; d < stage->destination_count; d += group.blocks) {
                ReceivedBatch batch;
                ErrorCode code;
                ReceiveCall<A> receive(group, shared, *stage, d);
                Status const status = receive.receive(batch, code);
                ++buffers;
                if (status == Status::Error) return code;
                if (status == Status::End) ++ended;
                if (status != Status::Ok) continue;
                code = sort(group, shared, *channel, source, batch, columns);
                if (code != ErrorCode::Ok) return code;
                receive.release(batch);
                moved = true;
            }
            if (ended == buffers) return flush(group, shared, *channel, source);
            idle = moved ? 0 : idle + 1;
            if (moved) continue;
            // Rows in half-full segments, or in the carry buffer, wait for nobody.
            if (idle % kIdlePush == 0) push(group, shared, *channel, source);
            A::backoff(idle);
        }
    }

private:
    /// Polls without rows after which half-full segments are published.
    static constexpr u32 kIdlePush = 32;

    MGI_HD static ErrorCode sort(Group const& group, Shared& shared, ChannelState<A>& channel,
                                 u32 source, ReceivedBatch const& batch, ColumnView* columns) {
        char const* bytes = nullptr;
        Batch rows = batch_of(batch, columns, &bytes);
        for (u32 round = 0;; ++round) {
            SendCall<A> call(group, shared, channel, source);
            if (ErrorCode const code = call.enter(false); code != ErrorCode::Ok) return code;
            SendResult const sent = call.send(rows, -1);
            if (sent.status == Status::Error) return sent.code;
            if (sent.rows == rows.count) return ErrorCode::Ok;
            if (sent.rows != 0) round = 0;
            rows.count -= sent.rows;
            if (rows.rows != nullptr) {
                rows.rows += sent.rows * rows.row_stride;
            } else {
                for (u32 c = 0; c < channel.layout.column_count; ++c)
                    columns[c].offset += sent.rows;
            }
            A::backoff(round);
        }
    }

    MGI_HD static ErrorCode flush(Group const& group, Shared& shared, ChannelState<A>& channel,
                                  u32 source) {
        for (u32 round = 0;; ++round) {
            SendCall<A> call(group, shared, channel, source);
            if (ErrorCode const code = call.enter(true); code != ErrorCode::Ok) return code;
            if (call.flush() != Status::Pending) return ErrorCode::Ok;
            A::backoff(round);
        }
    }

    MGI_HD static void push(Group const& group, Shared& shared, ChannelState<A>& channel,
                            u32 source) {
        SendCall<A> call(group, shared, channel, source);
        if (call.enter(true) == ErrorCode::Ok) call.push();
    }
};

}  // namespace mgi::device
