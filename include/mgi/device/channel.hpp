/// \file
/// A channel as a kernel sees it: the paper's device API (section 3.1). Same source for CPU and GPU.
#pragma once

#include <mgi/device/receive.hpp>
#include <mgi/device/send.hpp>
#include <mgi/device/stage.hpp>

namespace mgi::device {

/// Scratch that calls on a channel need.
template <class A>
[[nodiscard]] MGI_HD u32 shared_bytes_of(ChannelState<A> const& state) {
    u32 const direct_way = tile_shape(state).scratch_bytes();
    if (state.stages == nullptr) return max_of(direct_way, 256u);
    return max_of(direct_way, tile_shape(*state.stages[0]).scratch_bytes());
}

/// A channel, seen from one endpoint. A plain handle to be passed to kernels by value; it is valid
/// while the channel exists. At an endpoint on a GPU what it names lies on that GPU: there host code calls nothing of it but
/// `is_source`, `is_destination`, `source` and `destination`. Every call is made by all threads of a group alike, with the group's
/// scratch; none blocks but `flush_wait`. Different groups may call at the same time.
///
/// An exchange loop (the paper's Figure 3):
///
///     u64 sent = 0;
///     bool flushed = false;
///     for (u32 idle = 0;;) {
///         if (sent < rows) sent += channel.send_rows(group, shared, mine + sent, rows - sent).rows;
///         if (sent == rows && !flushed) flushed = channel.flush(group, shared) != Status::Pending;
///         ReceivedBatch batch;
///         Status const status = channel.recv(group, shared, batch);
///         if (status == Status::Ok) { use(batch); channel.release(group, shared, batch); idle = 0; }
///         else if (status == Status::Pending) backoff(idle++);
///         else break;  // End, or Error
///     }
template <class A>
class BasicChannel {
public:
    BasicChannel() = default;
    MGI_HD BasicChannel(ChannelState<A>* state, u32 source, u32 destination)
        : state_(state), source_(source), destination_(destination) {}

    static constexpr u32 kNone = 0xffffffffu;

    /// Sends rows by the channel's routing. Always a prefix of what was offered is accepted; Pending
    /// says that there is no room now for more, or that a group of several threads has sent what one call sends
    /// (TileShape::kMostTiles), or has first placed rows that found no room before, and taken none: receive, if this group
    /// does, and call again. Error: code Closed (after this group's flush, or a
    /// group that the source does not know), Refused (the row at `rows` can never fit a segment; the
    /// ones before it are accepted), InvalidArgument (not a source here, scratch too small), or why
    /// the channel failed.
    MGI_HD SendResult send(Group const& group, Shared& shared, Batch const& rows) const {
        if (direct()) return {0, Status::Error, ErrorCode::InvalidArgument};
        return send_in_lane(group, shared, rows, -1);
    }

    /// Sends row structs with the schema's layout (Schema::row_bytes, natural alignment).
    template <class Row>
    MGI_HD SendResult send_rows(Group const& group, Shared& shared, Row const* rows,
                                u64 count) const {
        return send(group, shared, structs(rows, count));
    }

    /// Sends rows to one destination alone, named by its endpoint id, whatever the channel's routing says of them.
    /// InvalidArgument if that endpoint is not a destination, on Balance channels, on channels with sorters, and on a
    /// Broadcast of more than Content::kMaxAddress destinations; else as of `send`. On a Broadcast channel each call takes
    /// segments of its own, of which the last one is as full as its rows make it, and each destination gives its part of
    /// them back: so send many rows with a call, or in bulk by a Direct channel between the same endpoints. There a call
    /// that finds no room accepts nothing. See the paper, section 3.1.
    MGI_HD SendResult send_to(Group const& group, Shared& shared, u32 endpoint,
                              Batch const& rows) const {
        u32 const to = takes_names() ? index_of(endpoint) : kNone;
        if (to == kNone) return {0, Status::Error, ErrorCode::InvalidArgument};
        return send_in_lane(group, shared, rows, to);
    }
    template <class Row>
    MGI_HD SendResult send_rows_to(Group const& group, Shared& shared, u32 endpoint,
                                   Row const* rows, u64 count) const {
        return send_to(group, shared, endpoint, structs(rows, count));
    }

    /// Sends one row struct from one thread, through the stage buffer of its group: threads may call
    /// it divergently, without the group. Ok says that the row is taken; the first 16 threads of a group
    /// hand on up to 256 rows at a time, so `push` or `flush` must follow for all of them to be seen.
    /// Only on channels with sorters (InvalidArgument otherwise).
    template <class Row>
    MGI_HD SendResult send_row(Group const& group, Row const& row) const {
        bool const fits = sizeof(Row) == state_->layout.row_bytes;
        if (source_ == kNone || !fits || state_->stages == nullptr) {
            return {0, Status::Error, ErrorCode::InvalidArgument};
        }
        ChannelState<A>& stage = *state_->stages[source_];
        StagedRows* const mine = staged_rows(stage, group);
        if (mine != nullptr && mine->take(row, group.launch)) return {1, Status::Ok, ErrorCode::Ok};
        return StageThread<A>(group, stage).append(row);
    }

    /// Sends one message on a schemaless channel. `rows` of the result is 1 when it was accepted.
    MGI_HD SendResult send_bytes(Group const& group, Shared& shared, void const* data,
                                 u64 size) const {
        RowBytes const message{static_cast<char const*>(data), size};
        return send(group, shared, structs(&message, 1));
    }
    MGI_HD SendResult send_bytes_to(Group const& group, Shared& shared, u32 endpoint,
                                    void const* data, u64 size) const {
        RowBytes const message{static_cast<char const*>(data), size};
        return send_to(group, shared, endpoint, structs(&message, 1));
    }

    /// Publishes what is buffered now, for low latency: destinations in the same memory can see it then, and movers take
    /// it to the others. Pending while some of it has no room, rows of other groups before it are not complete, or
    /// another group is sorting it: call it again. Staged rows whose sorters are groups of several threads are
    /// published by those, soon. Error:
    /// code InvalidArgument or Closed as of `send`, or why the channel failed.
    MGI_HD CallResult push(Group const& group, Shared& shared) const {
        if (source_ == kNone) return CallResult::error(ErrorCode::InvalidArgument);
        return push_cold(*this, group, shared);
    }

    /// This group sends no more. Ok when every row it sent stands in its destination's receive queue,
    /// Pending until then; call it again, and receive in between if the group also receives. Error: as
    /// of `push`.
    MGI_HD CallResult flush(Group const& group, Shared& shared) const {
        if (source_ == kNone) return CallResult::error(ErrorCode::InvalidArgument);
        return flush_cold(*this, group, shared);
    }

    /// Flushes and waits, for groups that only send. Ends with an error when the channel fails, which
    /// the runtime sees to when nobody receives.
    MGI_HD CallResult flush_wait(Group const& group, Shared& shared) const {
        for (u32 round = 0;; ++round) {
            CallResult const result = flush(group, shared);
            if (result != Status::Pending) return result;
            A::backoff(round);
        }
    }

    /// Next rows for this group, in place: Ok with a batch that must be released, Pending when there
    /// is nothing yet, End when nothing will come. Error: code Refused (a second consumer group of an
    /// ordered channel), InvalidArgument (not a destination here, more groups than max_groups), or why
    /// the channel failed.
    MGI_HD CallResult recv(Group const& group, Shared& shared, ReceivedBatch& batch) const {
        if (destination_ == kNone) return CallResult::error(ErrorCode::InvalidArgument);
        CallResult result;
        ReceiveCall<A> call(group, shared, *state_, destination_);
        result.status = call.receive(batch, result.code);
        if (result == Status::Pending && group.leads()) state_->make_progress();
        return result;
    }

    /// Returns a batch's room to its producers.
    MGI_HD void release(Group const& group, Shared& shared, ReceivedBatch const& batch) const {
        ReceiveCall<A>(group, shared, *state_, destination_).release(batch);
    }

    /// The paper's form: copies the fixed-width columns of the next rows to `columns[c]`, each with
    /// room for `recv_into_rows()` values, and returns the room at once. `rows` says how many.
    MGI_HD CallResult recv_into(Group const& group, Shared& shared, void* const* columns,
                                u64& rows) const {
        ReceivedBatch batch;
        rows = 0;
        CallResult const result = recv(group, shared, batch);
        if (result != Status::Ok) return result;
        for (u32 c = 0; c < batch.layout->column_count; ++c) {
            ColumnLayout const& column = batch.layout->columns[c];
            if (column.storage != Storage::Fixed || columns[c] == nullptr) continue;
            char* const to = static_cast<char*>(columns[c]);
            for (u32 i = group.thread; i < batch.rows; i += group.threads) {
                memcpy(to + u64(i) * column.width, batch.value(c, i), column.width);
            }
        }
        rows = batch.rows;
        release(group, shared, batch);
        return result;
    }
    /// Most rows that one `recv` hands out.
    [[nodiscard]] MGI_HD u32 recv_into_rows() const { return state_->chunk_rows; }

    /// Why the channel failed; Ok while it has not.
    [[nodiscard]] MGI_HD ErrorCode error() const { return state_->error(); }
    [[nodiscard]] MGI_HD bool is_source() const { return source_ != kNone; }
    [[nodiscard]] MGI_HD bool is_destination() const { return destination_ != kNone; }
    [[nodiscard]] MGI_HD u32 destinations() const { return state_->destination_count; }
    /// Scratch that these calls need.
    [[nodiscard]] MGI_HD u32 shared_bytes() const { return shared_bytes_of(*state_); }
    /// For the runtime and its host-side calls.
    [[nodiscard]] MGI_HD ChannelState<A>& state() const { return *state_; }
    [[nodiscard]] MGI_HD u32 source() const { return source_; }
    [[nodiscard]] MGI_HD u32 destination() const { return destination_; }

private:
    // Everything by value, see MGI_COLD.
    MGI_HD MGI_COLD static CallResult push_cold(BasicChannel at, Group group, Shared shared) {
        SendCall<A> call(group, shared, at.sending_state(), at.sending_source());
        ErrorCode const code = call.enter(true);
        if (code != ErrorCode::Ok) return CallResult::error(code);
        bool const staged = at.stage_rows(group, call, false);
        Status const status = call.push();
        bool pushed = staged && status == Status::Ok;
        if (at.state_->stages != nullptr) {
            bool const helped = !group.leads() || help_push(at.sending_state());
            pushed = call.agreed(helped) && pushed;
        }
        if (!pushed && group.leads()) at.state_->make_progress();
        return {pushed ? Status::Ok : Status::Pending};
    }

    MGI_HD MGI_COLD static CallResult flush_cold(BasicChannel at, Group group, Shared shared) {
        SendCall<A> call(group, shared, at.sending_state(), at.sending_source());
        ErrorCode const code = call.enter(true);
        if (code != ErrorCode::Ok) return CallResult::error(code);
        if (!at.stage_rows(group, call, true)) return {Status::Pending};
        Status const status = call.flush();
        if (status != Status::Ok && group.leads()) at.state_->make_progress();
        if (at.state_->stages == nullptr) return {status};
        if (group.leads()) help_flush(at.sending_state());
        if (status != Status::Ok) return {status};
        // Staged rows stand in their receive queues when the sorters have flushed.
        bool const done = call.agreed(sorters_done(at.state_->sources[at.source_]));
        return {done ? Status::Ok : Status::Pending};
    }

    /// Rows that threads of the group have sent one by one go into the stage buffer. True when none
    /// are left outside.
    MGI_HD bool stage_rows(Group const& group, SendCall<A>& call, bool closing) const {
        if (state_->stages == nullptr) return true;
        StageThread<A> mine(group, *state_->stages[source_]);
        return call.all_agreed(closing ? mine.close() : mine.drain());
    }

    [[nodiscard]] MGI_HD bool direct() const { return state_->routing == RoutingKind::Direct; }

    /// Where this group's rows go first: the channel itself, or the stage of this source.
    [[nodiscard]] MGI_HD ChannelState<A>& sending_state() const {
        return state_->stages == nullptr ? *state_ : *state_->stages[source_];
    }
    [[nodiscard]] MGI_HD u32 sending_source() const {
        return state_->stages == nullptr ? source_ : 0;
    }

    template <class Row>
    MGI_HD static Batch structs(Row const* rows, u64 count) {
        Batch batch;
        batch.rows = reinterpret_cast<char const*>(rows);
        batch.row_stride = u32(sizeof(Row));
        batch.count = count;
        return batch;
    }

    /// Whether sends may name their destination.
    [[nodiscard]] MGI_HD bool takes_names() const {
        if (state_->stages != nullptr) return false;
        return state_->own_lanes() || (state_->routing == RoutingKind::Broadcast &&
                                       state_->destination_count <= Content::kMaxAddress);
    }

    MGI_HD u32 index_of(u32 endpoint) const {
        for (u32 d = 0; d < state_->destination_count; ++d) {
            if (state_->destination_ids[d] == endpoint) return d;
        }
        return kNone;
    }

    MGI_HD SendResult send_in_lane(Group const& group, Shared& shared, Batch const& rows,
                                   i64 lane) const {
        bool const fits = rows.rows == nullptr || rows.row_stride == state_->layout.row_bytes;
        if (source_ == kNone || !fits) return {0, Status::Error, ErrorCode::InvalidArgument};
        SendCall<A> call(group, shared, sending_state(), sending_source());
        ErrorCode const code = call.enter(false);
        if (code != ErrorCode::Ok) return {0, Status::Error, code};
        bool const staged = state_->stages != nullptr;
        u32 const buffer = staged ? stage_lane(sending_state(), group) : 0;
        SendResult const sent = call.send(rows, staged ? i64(buffer) : lane);
        if (staged && group.leads()) help_sorter(sending_state(), buffer);
        if (sent.status == Status::Pending && group.leads()) state_->make_progress();
        return sent;
    }

    ChannelState<A>* state_ = nullptr;
    u32 source_ = kNone;
    u32 destination_ = kNone;
};

/// The channel of production code.
using Channel = BasicChannel<LibcuAtomics>;

}  // namespace mgi::device
