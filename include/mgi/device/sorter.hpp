/// \file
/// Sorters: they take staged segments (stage.hpp) and partition them into the channel's lanes with the
/// block-collective routine (paper section 5.4).
///
/// A sorter of one thread works in a *seat*. Whoever takes the seat is the sorter until it leaves it:
/// the sorter's own thread, or a sender that has just filled a stage segment, finds no room in its
/// stage, pushes or flushes. So what a sender has staged is mostly sorted where it still is in cache,
/// and a sender that shares its core with the sorter need not wait for its turn. Nobody waits for a
/// seat.
#pragma once

#include <mgi/device/receive.hpp>
#include <mgi/device/send.hpp>

namespace mgi::device {

/// The columns of a received batch, to be sent on: by one thread, for all that read them.
MGI_HD inline void columns_of(ReceivedBatch const& batch, ColumnView* columns) {
    SegmentLayout const& layout = *batch.layout;
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
            columns[c].bytes = batch.segment + layout.bytes_offset;
            columns[c].buffers = &columns[c].bytes;
        }
    }
}

/// A sorter's work: who it is, and what it has in hand. Not thread-safe.
template <class A>
class Sorting {
public:
    Sorting() = default;
    /// Sorts the stage's buffers group.block, group.block + group.blocks and so on into a source's
    /// lanes. `columns` has room for the channel's; the group shares it.
    MGI_HD Sorting(Group const& group, Shared const& shared, ChannelState<A>& channel, u32 source,
                   ChannelState<A>& stage, ColumnView* columns)
        : group_(group),
          shared_(shared),
          channel_(&channel),
          source_(source),
          stage_(&stage),
          columns_(columns) {}

    /// Sorts what is in hand, else the next segment of a buffer, as far as there is room. Ok: rows
    /// moved; Pending: none could, or there were none; End: that buffer will have no more.
    MGI_HD Status step(u32 buffer) {
        if (rows_.count == 0) {
            ReceiveCall<A> call(group_, shared_, *stage_, buffer);
            Status const status = call.receive(batch_, code_);
            if (status != Status::Ok) return status;
            buffer_ = buffer;
            hold();
        }
        SendCall<A> call(group_, shared_, *channel_, source_);
        code_ = call.enter(false);
        if (code_ != ErrorCode::Ok) return Status::Error;
        SendResult const sent = call.send(rows_, -1);
        if (sent.status == Status::Error) {
            code_ = sent.code;
            return Status::Error;
        }
        skip(sent.rows);
        if (rows_.count == 0) ReceiveCall<A>(group_, shared_, *stage_, buffer_).release(batch_);
        return sent.rows != 0 ? Status::Ok : Status::Pending;
    }

    /// A step for each buffer; once none of them will have more, a flush. End: every row stands in its
    /// receive queue, there is nothing left to do.
    MGI_HD Status round() {
        if (flushed_) return Status::End;
        bool moved = false;
        bool ended = true;
        for (u32 b = group_.block; b < stage_->destination_count; b += group_.blocks) {
            Status const status = step(b);
            if (status == Status::Error) return status;
            moved = moved || status == Status::Ok;
            ended = ended && status == Status::End;
            if (rows_.count != 0) break;  // no room for more
        }
        if (ended) return flush();
        return moved ? Status::Ok : Status::Pending;
    }

    /// Publishes half-full segments: their rows wait for nobody. False when not all had room.
    MGI_HD bool push() {
        SendCall<A> call(group_, shared_, *channel_, source_);
        if (call.enter(true) != ErrorCode::Ok) return false;
        return call.push() == Status::Ok && rows_.count == 0;
    }

    /// Why the last step was an error.
    [[nodiscard]] MGI_HD ErrorCode code() const { return code_; }

private:
    MGI_HD Status flush() {
        SendCall<A> call(group_, shared_, *channel_, source_);
        code_ = call.enter(true);
        if (code_ != ErrorCode::Ok) return Status::Error;
        flushed_ = call.flush() == Status::Ok;
        return flushed_ ? Status::End : Status::Pending;
    }

    /// Takes what has been received in hand.
    MGI_HD void hold() {
        SegmentLayout const& layout = *batch_.layout;
        MGI_ASSERT(rows_.count == 0 && batch_.rows != 0, rows_.count, batch_.rows);
        rows_ = Batch{};
        rows_.count = batch_.rows;
        if (layout.rows_together) {
            rows_.rows = batch_.structs<char>();
            rows_.row_stride = layout.row_bytes;
            return;
        }
        rows_.columns = columns_;
        // The send before ended, and the next one begins, with an agreement of the threads, which all read them.
        if (group_.leads()) columns_of(batch_, columns_);
    }

    /// The first `count` rows in hand are sent.
    MGI_HD void skip(u64 count) {
        MGI_ASSERT(count <= rows_.count, count, rows_.count, source_);
        rows_.count -= count;
        if (rows_.rows != nullptr) {
            rows_.rows += count * rows_.row_stride;
            return;
        }
        if (!group_.leads()) return;  // as of `hold`
        for (u32 c = 0; c < channel_->layout.column_count; ++c) columns_[c].offset += count;
    }

    Group group_;
    Shared shared_;
    ChannelState<A>* channel_ = nullptr;
    u32 source_ = 0;
    ChannelState<A>* stage_ = nullptr;
    ColumnView* columns_ = nullptr;
    ErrorCode code_ = ErrorCode::Ok;
    bool flushed_ = false;
    // What is in hand: a staged segment, and the rows of it that are still to be sent.
    ReceivedBatch batch_;
    u32 buffer_ = 0;
    Batch rows_;
};

/// The place of a sorter of one thread. On cache lines of its own.
template <class A>
struct alignas(64) SorterSeat {
    /// 1: somebody is the sorter. At first its own thread, which has yet to come.
    typename A::template Device<u32> taken{1};
    Sorting<A> work;  ///< touched by who has taken the seat

    /// Takes the seat if it is free.
    [[nodiscard]] MGI_HD bool take() {
        // acquire: what the one before has done comes before what we do.
        return taken.load(relaxed) == 0 && taken.exchange(1, acquire) == 0;
    }
    MGI_HD void leave() { taken.store(0, cuda::std::memory_order_release); }
};

/// Sorts a segment of a stage buffer in its sorter's place. True when rows moved. What fails here the
/// sorter itself runs into, and tells.
template <class A>
MGI_HD bool help_sorter(ChannelState<A>& stage, u32 buffer) {
    SorterSeat<A>* const seat = stage.seat(buffer);
    if (seat == nullptr || !seat->take()) return false;
    Status const status = seat->work.step(buffer);
    seat->leave();
    return status == Status::Ok;
}

/// Does in the sorters' places what is left to be done of a flush.
template <class A>
MGI_HD void help_flush(ChannelState<A>& stage) {
    for (u32 s = 0; s < stage.seat_count; ++s) {
        SorterSeat<A>* const seat = stage.seat(s);
        if (seat == nullptr || !seat->take()) continue;
        seat->work.round();
        seat->leave();
    }
}

/// The same of a push: everything staged goes to the receive queues. False when there was no room for
/// some of it, or somebody else is in a sorter's seat, who need not push.
template <class A>
MGI_HD bool help_push(ChannelState<A>& stage) {
    bool all = true;
    for (u32 s = 0; s < stage.seat_count; ++s) {
        SorterSeat<A>* const seat = stage.seat(s);
        if (seat == nullptr) continue;
        if (!seat->take()) {
            all = false;
            continue;
        }
        Status status = Status::Ok;
        // A round takes a segment of each buffer, of which others may go on filling more.
        for (u32 i = 0; status == Status::Ok && i <= stage.sources[0].lanes[0].mask + 1; ++i) {
            status = seat->work.round();
        }
        // Other segments may be staged behind those rounds; what fails here the sorter runs into.
        bool const left = status == Status::Ok || status == Status::Error;
        if (status != Status::Error && !seat->work.push()) all = false;
        if (left) all = false;
        seat->leave();
    }
    return all;
}

/// Whether all sorters of a source have put every row into its receive queue.
template <class A>
MGI_HD bool sorters_done(Source<A> const& source) {
    u32 const sorters = source.words->groups_expected.load(relaxed);
    if (sorters == 0 || source.words->groups_flushed.load(relaxed) != sorters) return false;
    for (u32 g = 0; g < sorters; ++g) {
        // acquire: what the sorter saw delivered is there for us too.
        if (source.groups[g].flushed.load(acquire) != 2) return false;
    }
    return true;
}

/// The sorter kernel. Runs beside the user's kernels until every group of the source has flushed;
/// returns why it had to stop before that, which then must fail the channel.
template <class A>
class Sorter {
public:
    MGI_HD ErrorCode operator()(Group const& group, Shared& shared, ChannelState<A>* channel,
                                u32 source, ChannelState<A>* stage) const {
        auto* const columns = shared.template take<ColumnView>(channel->layout.column_count);
        if (columns == nullptr) return ErrorCode::InvalidArgument;
        SorterSeat<A>* const seat = group.threads == 1 ? stage->seat(group.block) : nullptr;
        Sorting<A> own;
        Sorting<A>& work = seat == nullptr ? own : seat->work;
        work = Sorting<A>(group, shared, *channel, source, *stage, columns);
        if (seat != nullptr) seat->leave();
        for (u32 idle = 0;;) {
            Status status = Status::Pending;
            if (seat == nullptr || seat->take()) {
                status = work.round();
                // The seat stays taken: our scratch goes with us.
                if (status == Status::Error) return work.code();
                if (status == Status::End) return ErrorCode::Ok;
                bool const push = seat != nullptr || idle % kIdlePush == kIdlePush - 1;
                if (status == Status::Pending && push) work.push();
                if (seat != nullptr) seat->leave();
            }
            idle = status == Status::Ok ? 0 : idle + 1;
            // With a seat the senders do the work, and we look whether they do. Were we to look often, the
            // system would place them as if we were working, too: two of them on one core.
            if (idle != 0) A::backoff(seat != nullptr ? u32(kRest) : idle);
        }
    }

private:
    /// Polls without rows after which half-full segments are published.
    static constexpr u32 kIdlePush = 32;
};

}  // namespace mgi::device
