// Sending from host code.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "core/batch_input.hpp"
#include "runtime/channel_impl.hpp"
#include "runtime/host_groups.hpp"
#include "runtime/patience.hpp"

namespace mgi {

using device::Status;

namespace {

std::int64_t nulls_in(Column const& column, std::int64_t rows) {
    if (column.validity == nullptr) return 0;
    std::int64_t valid = 0;
    for (std::int64_t i = column.offset; i < column.offset + rows; ++i) {
        bool const whole_byte = i % 8 == 0 && i + 8 <= column.offset + rows;
        valid += whole_byte ? std::popcount(column.validity[i / 8])
                            : (column.validity[i / 8] >> (i % 8)) & 1;
        if (whole_byte) i += 7;
    }
    return rows - valid;
}

void check_columns(ChannelImpl const& channel, RecordBatch const& batch) {
    Schema const& schema = channel.columns();
    if (schema.holds(batch.schema)) return;
    throw Error(ErrorCode::InvalidArgument, channel.describe() + " carries (" + schema.to_string() +
                                                "), the batch has (" + batch.schema.to_string() +
                                                ")");
}

void check_nulls(ChannelImpl const& channel, RecordBatch const& batch) {
    Schema const& schema = channel.columns();
    for (std::size_t c = 0; c < schema.size(); ++c) {
        if (schema[c].nullable) continue;
        if (auto const nulls = nulls_in(batch.columns[c], batch.rows); nulls != 0) {
            throw Error(ErrorCode::InvalidArgument,
                        channel.describe() + ": column '" + schema[c].name +
                            "' is not nullable, the batch has " + std::to_string(nulls) +
                            " nulls in it; make the channel's field nullable");
        }
    }
}

// So many rows that have no columns, or as many as one call takes of them, as they lie in a segment.
RecordBatch bare_rows(std::int64_t rows) {
    static constexpr std::array<std::uint8_t, 8192> bits{};
    RecordBatch batch;
    batch.rows = std::min<std::int64_t>(rows, 8 * bits.size());
    batch.columns.emplace_back().values = bits.data();
    return batch;
}

// Why a call came to nothing: the channel's failure, or `code`, which says what is wrong with a group
// that wants to `call` here.
[[noreturn]] void refuse(HostGroup& self, ErrorCode code, char const* call) {
    ChannelImpl& channel = self.channel();
    channel.check();
    auto const& group = self.group();
    std::string const why =
        code == ErrorCode::Closed
            ? "it has flushed, or the first call at this source came from another number of groups "
              "than " +
                  std::to_string(group.blocks)
        : group.blocks > channel.plan().max_groups
            ? "the channel was made for at most " + std::to_string(channel.plan().max_groups) +
                  " groups a source (max_groups)"
            : std::string("a Direct channel wants send_to");
    throw Error(code, channel.describe() + ": group " + std::to_string(group.block) + " may not " +
                          call + " here: " + why);
}

// Rows accepted, or the error that the result stands for.
std::int64_t accepted(HostGroup& self, device::SendResult const& result, std::int64_t first,
                      char const* what) {
    if (result.status != Status::Error) return static_cast<std::int64_t>(result.rows);
    ChannelImpl& channel = self.channel();
    channel.check();
    if (result.rows != 0) return static_cast<std::int64_t>(result.rows);
    if (result.code != ErrorCode::Refused) refuse(self, result.code, "send");
    device::SegmentLayout const& layout = channel.state().layout;
    throw Error(result.code,
                channel.describe() + ": " + what + " " + std::to_string(first) +
                    " has more characters of long strings than the " +
                    std::to_string(layout.bytes_of(layout.units)) +
                    " bytes a segment holds; raise text_bytes_per_row or segment_bytes "
                    "(docs/limits.md)");
}

std::uint32_t destination_of(ChannelImpl const& channel, Endpoint destination) {
    ChannelSpec const& spec = channel.spec();
    bool const to_any = spec.routing.kind == device::RoutingKind::Balance;
    bool const to_all = spec.routing.kind == device::RoutingKind::Broadcast;
    char const* const why = to_any ? "has Balance routing, which finds whoever is free"
                            : spec.options.sorters != 0
                                ? "has sorters, which find the destination of each row"
                            : to_all && spec.destinations.size() > device::Content::kMaxAddress
                                ? "has Broadcast routing and more than 16383 destinations"
                                : nullptr;
    if (why != nullptr) {
        throw Error(ErrorCode::InvalidArgument,
                    channel.describe() + " " + why + ": a send cannot name endpoint " +
                        std::to_string(destination.id) +
                        "; send to it on a Direct channel between the same endpoints");
    }
    if (channel.destination_index(destination) == ChannelImpl::kNone) {
        throw Error(ErrorCode::InvalidArgument, channel.describe() + ": endpoint " +
                                                    std::to_string(destination.id) +
                                                    " is not among its destinations");
    }
    return destination.id;
}

std::int64_t send_some(HostGroup& self, RecordBatch const& batch, std::int64_t first,
                       std::optional<Endpoint> destination) {
    std::lock_guard const lock(self.mutex);
    self.channel().check();
    if (first < 0 || first > batch.rows) {
        throw Error(ErrorCode::InvalidArgument,
                    self.channel().describe() + ": row " + std::to_string(first) +
                        " is not in a batch of " + std::to_string(batch.rows) + " rows");
    }
    check_columns(self.channel(), batch);
    if (first == 0) check_nulls(self.channel(), batch);
    // Those of a batch without columns are all alike.
    RecordBatch const bare = batch.columns.empty() ? bare_rows(batch.rows - first) : RecordBatch();
    BatchInput const input(batch.columns.empty() ? bare : batch, batch.columns.empty() ? 0 : first);
    auto const result =
        destination ? self.view().send_to(self.group(), self.shared(),
                                          destination_of(self.channel(), *destination), input.get())
                    : self.view().send(self.group(), self.shared(), input.get());
    return accepted(self, result, first, "row");
}

void send_all(HostGroup& self, RecordBatch const& batch, std::optional<Endpoint> destination,
              std::chrono::milliseconds timeout) {
    Patience patience(timeout);
    std::int64_t first = 0;
    while (true) {
        std::int64_t const rows = send_some(self, batch, first, destination);
        first += rows;
        if (first >= batch.rows) return;
        if (rows != 0) {
            patience.reset();
        } else if (!patience.wait()) {
            throw Error(ErrorCode::Timeout, self.channel().describe() + ": no room for " +
                                                std::to_string(timeout.count()) + " ms after " +
                                                std::to_string(first) + " of " +
                                                std::to_string(batch.rows) +
                                                " rows; does every destination receive?");
        }
    }
}

}  // namespace

std::int64_t Sender::try_send(RecordBatch const& batch, std::int64_t first) {
    return send_some(*state_, batch, first, std::nullopt);
}

std::int64_t Sender::try_send_to(Endpoint destination, RecordBatch const& batch,
                                 std::int64_t first) {
    return send_some(*state_, batch, first, destination);
}

void Sender::send(RecordBatch const& batch, std::chrono::milliseconds timeout) {
    send_all(*state_, batch, std::nullopt, timeout);
}

void Sender::send_to(Endpoint destination, RecordBatch const& batch,
                     std::chrono::milliseconds timeout) {
    send_all(*state_, batch, destination, timeout);
}

namespace {

std::int64_t send_structs(HostGroup& self, void const* rows, std::uint32_t row_bytes,
                          std::int64_t count, std::optional<Endpoint> destination,
                          char const* what) {
    std::lock_guard const lock(self.mutex);
    ChannelImpl& channel = self.channel();
    channel.check();
    if (count < 0) {
        throw Error(ErrorCode::InvalidArgument,
                    channel.describe() + ": " + std::to_string(count) + " rows cannot be sent");
    }
    if (row_bytes != channel.state().layout.row_bytes) {
        throw Error(ErrorCode::InvalidArgument,
                    channel.describe() + ": rows of (" + channel.schema().to_string() + ") take " +
                        std::to_string(channel.state().layout.row_bytes) + " bytes, not " +
                        std::to_string(row_bytes));
    }
    device::Batch batch;
    batch.rows = static_cast<char const*>(rows);
    batch.row_stride = row_bytes;
    batch.count = static_cast<device::u64>(count);
    auto const result = destination
                            ? self.view().send_to(self.group(), self.shared(),
                                                  destination_of(channel, *destination), batch)
                            : self.view().send(self.group(), self.shared(), batch);
    return accepted(self, result, 0, what);
}

}  // namespace

std::int64_t Sender::try_send_rows(void const* rows, std::uint32_t row_bytes, std::int64_t count) {
    return send_structs(*state_, rows, row_bytes, count, std::nullopt, "row");
}

std::int64_t Sender::try_send_rows_to(Endpoint destination, void const* rows,
                                      std::uint32_t row_bytes, std::int64_t count) {
    return send_structs(*state_, rows, row_bytes, count, destination, "row");
}

bool Sender::try_send_bytes(void const* data, std::size_t size,
                            std::optional<Endpoint> destination) {
    ChannelImpl const& channel = state_->channel();
    if (channel.spec().schema.has_value()) {
        throw Error(ErrorCode::InvalidArgument, channel.describe() + " has a schema (" +
                                                    channel.schema().to_string() +
                                                    "); raw messages need a channel without one");
    }
    device::RowBytes const message{static_cast<char const*>(data), size};
    return send_structs(*state_, &message, sizeof(message), 1, destination, "message") == 1;
}

bool Sender::push() {
    std::lock_guard const lock(state_->mutex);
    state_->channel().check();
    auto const result = state_->view().push(state_->group(), state_->shared());
    if (result == Status::Error) refuse(*state_, result.code, "push");
    return result == Status::Ok;
}

bool Sender::try_flush() {
    std::lock_guard const lock(state_->mutex);
    state_->channel().check();
    auto const result = state_->view().flush(state_->group(), state_->shared());
    if (result == Status::Error) refuse(*state_, result.code, "flush");
    return result == Status::Ok;
}

void Sender::flush(std::chrono::milliseconds timeout) {
    Patience patience(timeout);
    while (!try_flush()) {
        if (patience.wait()) continue;
        throw Error(ErrorCode::Timeout,
                    state_->channel().describe() + ": rows were not delivered within " +
                        std::to_string(timeout.count()) + " ms; does every destination receive?");
    }
}

}  // namespace mgi
