/// \file
/// Channels as host code sees them: what to ask for, and what to do with one (paper section 3.1,
/// "Host API").
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/device.hpp>
#include <mgi/device/range.hpp>
#include <mgi/endpoint.hpp>
#include <mgi/error.hpp>
#include <mgi/plan.hpp>
#include <mgi/schema.hpp>

namespace mgi {

enum class Hash : std::uint8_t { Modulo, Murmur3 };

/// A key of an order, as ORDER BY has it: integers, dates and decimals by value, false before true, NaN behind all other
/// floats and -0.0 like 0.0, texts and binary by their bytes.
struct SortKey {
    std::string column;
    bool descending = false;
    bool nulls_first = false;  ///< whatever the direction

    friend bool operator==(SortKey const&, SortKey const&) = default;
};

/// Rows that part an order into ranges, in the form that channels compare them by. Plain values.
struct Splitters {
    std::vector<Type> types;                    ///< of the keys
    std::vector<device::SplitterValue> values;  ///< splitter by splitter, of each its keys
    std::string bytes;                          ///< that values of texts and binary name

    /// How many there are.
    [[nodiscard]] std::size_t count() const {
        return types.empty() ? 0 : values.size() / types.size();
    }

    friend bool operator==(Splitters const&, Splitters const&) = default;
};

/// Where a channel's rows go.
struct Routing {
    device::RoutingKind kind = device::RoutingKind::Broadcast;
    std::vector<std::string> keys;
    Hash hash = Hash::Murmur3;
    /// Of a Partition: keys fall into as many parts as there are numbers here (at most 65535), and
    /// part p goes to the destination of index owners[p]. Empty: as many parts as destinations, each
    /// to its own. So channels with other destinations may put the same keys together.
    std::vector<std::uint32_t> owners;
    std::vector<SortKey> order;  ///< of a Range
    Splitters splitters;         ///< of a Range

    /// Each row to the destination that its key's hash names. Modulo takes one integer key and sends
    /// key k to destination k mod n; Murmur3 takes one or more keys of any type.
    static Routing partition(std::string key, Hash hash = Hash::Murmur3);
    static Routing partition(std::vector<std::string> keys, Hash hash = Hash::Murmur3);
    /// For `partition({"a", "b"})`, which would also be one string made from two iterators.
    static Routing partition(std::initializer_list<std::string> keys, Hash hash = Hash::Murmur3) {
        return partition(std::vector<std::string>(keys), hash);
    }
    /// Every row to every destination.
    static Routing broadcast();
    /// Each send names its destination.
    static Routing direct();
    /// Each row to whichever destination has room.
    static Routing balance();
    /// Destination i gets the rows that are at or behind splitter i - 1 and before splitter i, in the order of
    /// the keys: N destinations want N - 1 splitters. Those are the table's rows, which are copied, in this
    /// order; equal ones leave nothing for destinations between them. The table has the keys' columns, of the
    /// channel's types. Throws Error(InvalidArgument) for no keys, a key given twice, and a table without a
    /// key's column; that splitters are in order, and how many, is looked at when the channel is created.
    static Routing range(std::vector<SortKey> order, Table const& splitters);
    static Routing range(std::vector<SortKey> order, RecordBatch const& splitters);

    friend bool operator==(Routing const&, Routing const&) = default;
};

/// How rows lie in a segment.
enum class Layout : std::uint8_t {
    Columns,  ///< columns apart: a small Arrow record batch
    Rows,     ///< row structs; fixed-width columns only, none nullable
};

/// Everything about a channel that has a default. Zero means: the planner decides.
struct ChannelOptions {
    std::string name;  ///< for logs and errors
    bool ordered =
        false;  ///< per source group and destination; with Broadcast one order everywhere
    bool by_reference = true;  ///< false: through receive pools and a mover, also in shared memory
    Layout layout = Layout::Columns;
    std::uint32_t segment_bytes = 0;
    std::uint32_t segment_rows = 0;  ///< wins over segment_bytes
    /// Payload that all sources send together, where that is known: segments on GPUs whose size is left to
    /// MGI are not so large that a lane could not fill one with twice its share. 0: not known.
    std::uint64_t expected_bytes = 0;
    std::uint32_t slots = 0;    ///< segments a lane owns; rounded up to a power of two
    std::uint32_t credits = 0;  ///< by copy: receive segments for each (source, destination)
    std::uint32_t tile_rows = 0;
    std::uint32_t chunk_rows = 0;  ///< rounded up to a multiple of 64
    std::uint32_t max_groups = 0;  ///< most groups of one endpoint
    /// Characters of long strings that a row has, all columns together; 0: 32 a column. Segments have room for so many in
    /// each row: without segment_bytes and segment_rows up to 4 MiB, or for one such row; 2 GiB at most. A row with more
    /// than a segment's room is Refused.
    std::uint32_t text_bytes_per_row = 0;
    /// Most bytes that received batches may keep beyond the pools (a growing pool, filled by
    /// detaching; 0: none).
    std::uint64_t receive_limit = 0;
    /// Fails the channel when no row moved for so long, whoever is alive; 0: never.
    std::chrono::milliseconds stall_limit{0};
    /// Fails the channel when no row moved for so long and who is awaited is gone.
    std::chrono::milliseconds gone_limit{5000};
    /// Sorter groups of each source, for `send_row` from divergent threads; 0: no stage buffers.
    std::uint32_t sorters = 0;
    /// Share of a NIC that several channels of a process want: bytes that leave by it are shared as 3 to 1
    /// by channels of weights 3 and 1. What one does not use the others have. From 0.001 to 1000.
    double weight = 1.0;
    /// Between two GPUs of a process segments may go through a third one's memory, and through the host's, where
    /// that adds capacity. Where two GPUs are no peers the host's is used all the same if nothing else is left.
    bool relay_gpus = true;
    bool relay_host = true;

    friend bool operator==(ChannelOptions const&, ChannelOptions const&) = default;
};

/// What `create_channel` is given. No schema makes a channel of raw byte messages (one Binary column
/// named "message").
struct ChannelSpec {
    std::vector<Endpoint> sources;
    std::vector<Endpoint> destinations;
    std::optional<Schema> schema;
    Routing routing;
    ChannelOptions options;

    friend bool operator==(ChannelSpec const&, ChannelSpec const&) = default;
};

struct LaneStats {
    std::uint32_t source = 0;       ///< endpoint id
    std::uint32_t destination = 0;  ///< endpoint id; of Broadcast and Balance the first one
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;  ///< payload
    std::uint64_t segments = 0;
    std::uint64_t waits = 0;  ///< claims that found no room
};

struct QueueStats {
    std::uint32_t destination = 0;
    std::uint64_t segments = 0;  ///< pushed so far
    std::uint64_t taken = 0;
    std::uint64_t rows = 0;  ///< received
};

/// Of what is on this server, where a channel is over several.
struct ChannelStats {
    std::string name;
    std::uint64_t rows = 0;  ///< published by all sources
    std::uint64_t bytes = 0;
    std::uint64_t segments = 0;
    std::uint64_t memory_bytes = 0;    ///< of the fixed pools
    std::uint64_t detached_bytes = 0;  ///< of the growing pool, in use
    std::vector<LaneStats> lanes;
    std::vector<QueueStats> queues;
};

class ChannelImpl;

/// Host code's own sending group at a source endpoint, outside of any launch. Whoever holds one means to
/// send: a source without any that has not flushed is taken to be gone (gone_limit). Not thread-safe; use
/// one per thread, with `group` in [0, groups).
class Sender {
public:
    /// Sends a prefix of the rows, as many as there is room for now; returns how many. Throws Error
    /// with the channel's failure, Refused (names the row that cannot fit a segment), Closed,
    /// InvalidArgument (the batch's schema differs, or a null in a column that is not nullable).
    std::int64_t try_send(RecordBatch const& batch, std::int64_t first = 0);
    /// The same to one destination alone, whatever the channel's routing says of the rows. On a Broadcast
    /// channel each call takes segments of its own, which all destinations give back: send many rows with a
    /// call, or in bulk by a Direct channel between the same endpoints. Throws InvalidArgument on Balance
    /// channels, on channels with sorters, and on a Broadcast to more than 16383 destinations, too.
    std::int64_t try_send_to(Endpoint destination, RecordBatch const& batch,
                             std::int64_t first = 0);
    /// The same for `count` row structs with the channel schema's layout (Schema::row_bytes);
    /// `row_bytes` is their size, and InvalidArgument says so where it is another one.
    std::int64_t try_send_rows(void const* rows, std::uint32_t row_bytes, std::int64_t count);
    std::int64_t try_send_rows_to(Endpoint destination, void const* rows, std::uint32_t row_bytes,
                                  std::int64_t count);
    /// Sends all rows, waiting for room at most `timeout` without any row accepted; throws
    /// Error(Timeout) that says how many rows were accepted.
    void send(RecordBatch const& batch, std::chrono::milliseconds timeout = kForever);
    void send_to(Endpoint destination, RecordBatch const& batch,
                 std::chrono::milliseconds timeout = kForever);
    /// Sends one message on a schemaless channel (`destination`: as of `try_send_to`).
    bool try_send_bytes(void const* data, std::size_t size,
                        std::optional<Endpoint> destination = std::nullopt);
    /// Publishes what is buffered, as far as there is room. True when that is all rows that this group sent:
    /// destinations in the same memory can see them, and movers take them to the others. Call it again until
    /// then; with sorters that may be never while other groups go on sending. Throws Error with the channel's
    /// failure, Closed (a group that its source does not count).
    bool push();
    /// Sends no more; true when every row stands in its receive queue. Call again until then. Throws as
    /// `push` does.
    bool try_flush();
    void flush(std::chrono::milliseconds timeout = kForever);

    static constexpr std::chrono::milliseconds kForever = std::chrono::milliseconds::max();

    struct State;
    explicit Sender(std::shared_ptr<State> state) : state_(std::move(state)) {}

private:
    std::shared_ptr<State> state_;
};

/// Host code's own receiving group at a destination endpoint. Whoever holds one, or a batch in place,
/// means to receive: a destination without any and without a launch is taken to be gone (gone_limit).
/// Not thread-safe; use one per thread.
class Receiver {
public:
    /// Next rows, or nothing yet (Pending), or End. A batch is a view of its segment: when the last
    /// copy of it dies the room goes back to its producers. On a channel with a growing pool it is
    /// detached instead and can be kept. Throws Error with the channel's failure, Refused (a second
    /// consumer group of an ordered channel), or OutOfMemory (and loses no row) while kept batches have
    /// reached the growing pool's limit.
    device::Status try_recv(RecordBatch& batch);
    /// Waits for rows; nothing at the end. Throws Error(Timeout).
    std::optional<RecordBatch> recv(
        std::chrono::milliseconds timeout = std::chrono::milliseconds::max());

    struct State;
    explicit Receiver(std::shared_ptr<State> state) : state_(std::move(state)) {}

private:
    std::shared_ptr<State> state_;
};

/// A channel. Copies name the same one. Thread-safe. The memory lives until the channel was deleted
/// and nothing uses it any more: no launch runs that was given it or is at an endpoint of it, where it has memory on
/// GPUs none on any GPU, and no batch of it is held.
class Channel {
public:
    Channel() = default;
    explicit Channel(std::shared_ptr<ChannelImpl> impl) : impl_(std::move(impl)) {}

    [[nodiscard]] std::uint32_t id() const;
    [[nodiscard]] std::string const& name() const;
    [[nodiscard]] Schema const& schema() const;
    [[nodiscard]] Plan const& plan() const;
    [[nodiscard]] ChannelStats stats() const;

    /// The channel as kernels of this endpoint see it, and only those may use it; throws
    /// Error(InvalidArgument) if it is neither source nor destination, Error(Deleted).
    [[nodiscard]] device::Channel on(Endpoint endpoint) const;
    [[nodiscard]] Sender sender(Endpoint source, std::uint32_t group = 0,
                                std::uint32_t groups = 1) const;
    [[nodiscard]] Receiver receiver(Endpoint destination, std::uint32_t group = 0) const;

    /// Turns a batch that a kernel on a CPU received into a RecordBatch, taking over its release:
    /// detached where the channel has a growing pool, else a view in place. Throws Error(OutOfMemory)
    /// at the pool's limit; the batch is released all the same.
    [[nodiscard]] RecordBatch keep(Endpoint destination, device::ReceivedBatch const& batch) const;

    /// Fails the channel: every call on every endpoint returns the error from now on. The first
    /// failure stays.
    void fail(ErrorCode code, std::string const& message) const;
    /// Throws the channel's failure, if it has failed.
    void check() const;

    [[nodiscard]] std::shared_ptr<ChannelImpl> const& impl() const { return impl_; }
    explicit operator bool() const noexcept { return impl_ != nullptr; }

private:
    std::shared_ptr<ChannelImpl> impl_;
};

}  // namespace mgi
