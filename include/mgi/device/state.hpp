/// \file
/// The tables a channel consists of, as its device calls see them. Built by the runtime when the
/// channel is created and never moved after; everything that changes is an atomic word.
#pragma once

#include <mgi/device/batch_view.hpp>
#include <mgi/device/lane.hpp>
#include <mgi/device/layout.hpp>
#include <mgi/device/range.hpp>
#include <mgi/device/receive_queue.hpp>
#include <mgi/device/status.hpp>
#include <mgi/device/tile_ops.hpp>

namespace mgi::device {

enum class RoutingKind : u8 { Partition, Broadcast, Direct, Balance, Range };
enum class HashKind : u8 { Modulo, Murmur3 };

/// Whether each destination has a lane of its own, or one lane of a source is for all of them.
[[nodiscard]] MGI_HD constexpr bool has_own_lanes(RoutingKind kind) {
    return kind == RoutingKind::Partition || kind == RoutingKind::Direct ||
           kind == RoutingKind::Range;
}

/// What one group of a source keeps between its calls. Touched by that group only, but for the words; what it carries, and
/// `last` with it, by the group that holds `placing`.
template <class A>
struct GroupState {
    typename A::template System<u64> launch{0};   ///< `Group::launch` of who registered, plus 1
    typename A::template System<u32> flushed{0};  ///< 1: will send no more, 2: saw `done`
    typename A::template System<u64> rows_accepted{0};
    /// Calls in a row that could not go on for want of room.
    typename A::template System<u32> starved{0};
    /// Rows waiting in the carry buffer. Without long strings they have been taken of their lanes, so that others'
    /// rows in the same segments wait for them; any group of the source may place them.
    typename A::template Device<u32> carried{0};
    typename A::template Device<u32> placing{0};  ///< held by who does; nobody waits for it
    bool has_kept = false;      ///< has carried rows since it last saw them placed; the leader's
    u64* last = nullptr;        ///< by lane: highest sequence + 1 with rows of this group
    u64* carry_at = nullptr;    ///< by lane: where its next carry row was taken; see Lane::take
    u16* carry_lane = nullptr;  ///< by carry row
    u32* carry_next = nullptr;  ///< by lane: next carry row to place
    u32* carry_end = nullptr;   ///< by lane: behind its last carry row
    char* carry = nullptr;      ///< one segment of the carry layout
    ColumnView const* carry_columns = nullptr;  ///< its columns, as they are sent again

    static constexpr u32 kHeld = 0xffffffffu;
    /// Rows that the group carries, for the caller to place; kHeld while another group places them.
    MGI_HD u32 hold_carry() {
        if (carried.load(acquire) == 0) return 0;
        // acquire: how far others have got with it.
        if (placing.exchange(1, acquire) != 0) return kHeld;
        u32 const rows = carried.load(acquire);
        if (rows == 0) placing.store(0, cuda::std::memory_order_release);
        return rows;
    }
};

/// What changes of a source endpoint.
template <class A>
struct alignas(64) SourceWords {
    typename A::template System<u32> groups_expected{0};  ///< 0 until the first group registers
    typename A::template System<u32> groups_flushed{0};
};

/// One source endpoint of a channel. Copies name the same one.
template <class A>
struct Source {
    Lane<A>* lanes = nullptr;
    GroupState<A>* groups = nullptr;
    SourceWords<A>* words = nullptr;
    char* pool = nullptr;  ///< what its slots' offsets count from, as ChannelState::pool
};

/// A ring of segments that a destination reads: a source's lane itself, or a receive pool's part for
/// that source.
template <class A>
struct ReadRing {
    Slot<A>* slots = nullptr;
    u32 size = 0;
    bool in_place = false;  ///< a lane's slots: who frees one zeroes its bit regions before
    /// By slot: its sequence once more, for a mover that cannot look at the slot itself; else null.
    typename A::template System<u64>* freed = nullptr;
    Inbox<A>* inbox = nullptr;  ///< where groups find its segments; null: in the receive queue

    /// Gives a slot another segment; for who may free it.
    MGI_HD void set_offset(u32 slot, u64 offset) const {
        slots[slot].offset = offset;
        if (inbox != nullptr) inbox->offsets[slot] = offset;
    }
};

/// What changes of a destination endpoint.
template <class A>
struct alignas(64) DestinationWords {
    typename A::template System<u32> ended{0};
    typename A::template System<u64> rows_received{0};
    /// Ordered channels: `Group::launch` + 1 of the one group that may receive.
    typename A::template System<u64> consumer{0};
    /// Held by the thread that takes arrivals in, which is up to this position; nobody waits for it.
    typename A::template Device<u32> importing{0};
    typename A::template Device<u64> imported{0};
};

/// What a group of a destination keeps between its calls, of its inboxes.
template <class A>
struct alignas(64) Receiver {
    /// By source: a number that was drawn before its segment had come, plus 1; 0: none; kDrawing: the group is about to
    /// draw one. Any group may take it over.
    typename A::template System<u64>* holds = nullptr;
    typename A::template Device<u32> first{0};  ///< source to look at first
    typename A::template Device<u32> looks{0};

    static constexpr u64 kDrawing = ~u64(0);
    /// Whether a number is held that is such and above.
    [[nodiscard]] MGI_HD static constexpr bool is_above(u64 held, u64 numbers) {
        return held > numbers && held != kDrawing;
    }
};

/// One destination endpoint of a channel. Copies name the same one.
template <class A>
struct Destination {
    ReceiveQueue<A>* queue =
        nullptr;                   ///< shared by all destinations of a Balance channel by reference
    bool has_queue = true;         ///< false: all that comes here comes by inboxes
    ReadRing<A>* rings = nullptr;  ///< by source
    /// By source: number of segments it sent here, plus 1; 0 while not known. Idempotent.
    typename A::template System<u64>* counts = nullptr;
    DestinationWords<A>* words = nullptr;
    /// By block: `Group::launch` + 1 of who receives here; for the runtime to know who is alive.
    typename A::template System<u64>* receivers = nullptr;
    /// By block; null without inboxes.
    Receiver<A>* inbox_receivers = nullptr;
    /// What movers bring that cannot look at queue and inboxes themselves; else null.
    Arrivals<A>* arrivals = nullptr;
    char* pool = nullptr;  ///< what its receive rings' offsets count from, as ChannelState::pool
};

/// Rows that one thread has sent through a stage buffer and not yet appended to it, as row structs.
/// Touched by that thread only.
struct alignas(64) StagedRows {
    char* data = nullptr;
    u32 rows = 0;
    u32 capacity = 0;
    u64 launch = 0;  ///< `Group::launch` + 1 of who was admitted and has not flushed

    /// Takes a row, if the launch is known and there is room.
    template <class Row>
    MGI_HD bool take(Row const& row, u64 launch_number) {
        MGI_ASSERT(rows <= capacity, rows, capacity);
        if (launch != launch_number + 1 || rows == capacity) return false;
        // By its number: a pointer may not leave the caller's row.
        prefetch(reinterpret_cast<void const*>(reinterpret_cast<std::uintptr_t>(&row) + kAhead));
        memcpy(data + u64(rows) * sizeof(Row), &row, sizeof(Row));
        ++rows;
        return true;
    }

private:
    /// The next row is fetched so many bytes ahead, for threads that send an array's rows in turn: the
    /// little that is done with each is no match for the time to memory.
    static constexpr u32 kAhead = 1024;
};

template <class A>
struct SorterSeat;

/// CPU only: what a call that cannot go on does meanwhile, so that it need not be awaited: a round of its
/// process' movers and wires. Never waits.
struct Progress {
    void (*make)(void* context) = nullptr;
    void* context = nullptr;
};

/// A channel.
template <class A>
struct ChannelState {
    typename A::template System<u32> failed{0};  ///< an ErrorCode
    char* pool = nullptr;                        ///< every segment's offset counts from here
    SegmentLayout layout;
    SegmentLayout carry_layout;  ///< same columns, `tile_rows` rows
    u32 const* keys = nullptr;   ///< key columns of a Partition
    u32 key_count = 0;
    u32 part_count = 0;           ///< with `owners`: how many parts keys fall into
    u16 const* owners = nullptr;  ///< by part: its lane; null: a part is a lane
    RoutingKind routing = RoutingKind::Partition;
    HashKind hash = HashKind::Murmur3;
    bool ordered = false;
    u32 source_count = 0;
    u32 destination_count = 0;
    u32 lane_count = 0;  ///< of each source
    u32 tile_rows = 0;
    /// Scratch that a tile's values are brought into before they are dealt out; 0, and for sends that
    /// name their destination: they are gathered from where they lie. See `staged_tile_bytes`.
    u32 staged_bytes = 0;
    u32 chunk_rows = 0;
    u32 max_groups = 0;  ///< of each endpoint
    /// Whether groups take rows of lanes before the slots are free, and carry those rows. Of a stage not: its threads
    /// append rows on their own, nobody places what a group carries then, and those rows would wait behind it.
    bool takes_ahead = true;
    Source<A>* sources = nullptr;
    Destination<A>* destinations = nullptr;
    /// By source: 1 once all of its groups have called flush. In memory of a host that does not reach the source's words;
    /// else null.
    typename A::template System<u32>* flushed = nullptr;
    TileOps const* tile_ops = nullptr;     ///< CPU only: the tile's loops, or null
    u32 const* destination_ids = nullptr;  ///< endpoint ids, for `send_to`
    /// By source: the inner channel through which this one's stage buffers feed its sorters; null
    /// without sorters (see stage.hpp).
    ChannelState* const* stages = nullptr;
    /// A stage's: by block and by thread, `kStagingThreads` of them a block; null where rows must be
    /// appended one by one, since they name characters elsewhere.
    StagedRows* staged = nullptr;
    static constexpr u32 kStagingThreads = 16;
    /// A stage's: where its sorters work, if they are groups of one thread (see sorter.hpp).
    SorterSeat<A>* seats = nullptr;
    u32 seat_count = 0;
    RangeTable range;   ///< of a Range
    Progress progress;  ///< none where all is in memory that endpoints share
    /// With `one_order`: one thread delivers at a time for all sources, hence one order everywhere.
    typename A::template System<u32> delivering_all{0};

    /// The tile's loops for this machine; never any on a GPU, where the group's own are compiled.
    [[nodiscard]] MGI_HD TileOps const* ops() const {
#if defined(__CUDA_ARCH__)
        return nullptr;
#else
        return tile_ops;
#endif
    }
    /// The seat of the sorter of a stage buffer, null without one. Never any on a GPU, where sorters are
    /// thread blocks.
    [[nodiscard]] MGI_HD SorterSeat<A>* seat([[maybe_unused]] u32 buffer) const {
#if defined(__CUDA_ARCH__)
        return nullptr;
#else
        return seat_count == 0 ? nullptr : &seats[buffer % seat_count];
#endif
    }
    MGI_HD void make_progress() const {
#if !defined(__CUDA_ARCH__)
        if (progress.make != nullptr) progress.make(progress.context);
#endif
    }
    /// An ordered broadcast of several sources: all destinations see their rows in one order, which
    /// somebody has to make. That of one source is its lane's.
    [[nodiscard]] MGI_HD bool one_order() const {
        return ordered && routing == RoutingKind::Broadcast && source_count > 1;
    }
    /// Each destination has a lane of its own, which has its number.
    [[nodiscard]] MGI_HD bool own_lanes() const { return has_own_lanes(routing); }
    /// Destinations from `first` on and below `last`.
    struct Span {
        u32 first = 0;
        u32 last = 0;
    };
    /// Those that get a lane's segments, or may get them.
    [[nodiscard]] MGI_HD Span destinations_of(u32 lane) const {
        return own_lanes() ? Span{lane, lane + 1} : Span{0, destination_count};
    }
    /// Whether a destination reads what a source has for it in place; no destination on another server
    /// does.
    [[nodiscard]] MGI_HD bool reads_in_place(u32 source, u32 destination) const {
        ReadRing<A> const* const rings = destinations[destination].rings;
        return rings != nullptr && rings[source].in_place;
    }
    [[nodiscard]] MGI_HD ErrorCode error() const { return ErrorCode(failed.load(relaxed)); }

    /// Descriptor of a slot in a receive queue.
    MGI_HD static u64 describe(u32 source, u32 slot) { return u64(source) << 32 | slot; }
    [[nodiscard]] MGI_HD u32 chunks_of(u32 rows) const { return ceil_div(rows, chunk_rows); }
};

}  // namespace mgi::device
