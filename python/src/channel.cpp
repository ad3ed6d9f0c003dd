#include "channel.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

#include "bindings.hpp"
#include "buffers.hpp"
#include "errors.hpp"
#include "interpreter.hpp"
#include "report.hpp"

namespace mgi::python {
namespace {

/// Rows to send: columns, or row structs.
using Rows = std::variant<RecordBatch, RowStructs>;
using OptionalEndpoint = std::optional<EndpointPair>;
using Seconds = std::optional<double>;

/// A single attempt to send takes at most about so many bytes, so that signals are seen in between.
constexpr std::int64_t kAttemptBytes = std::int64_t(16) << 20;

std::int64_t rows_of(Rows const& rows) {
    return std::visit([](auto const& some) { return some.rows; }, rows);
}

/// Rows of this schema that one attempt offers.
std::int64_t attempt_rows(Schema const& schema) {
    return std::max<std::int64_t>(kAttemptBytes / std::max(schema.row_bytes(), 1u), 1);
}

/// Offers rows [first, first + most) once; returns how many were accepted.
std::int64_t offer(Sender& sender, std::optional<Endpoint> destination, Rows const& rows,
                   std::int64_t first, std::int64_t most) {
    if (auto const* const batch = std::get_if<RecordBatch>(&rows)) {
        // Cut behind, not before: messages count rows from the batch's start.
        RecordBatch const part = batch->slice(0, std::min(first + most, batch->rows));
        return destination ? sender.try_send_to(*destination, part, first)
                           : sender.try_send(part, first);
    }
    RowStructs const& structs = std::get<RowStructs>(rows);
    std::int64_t const count = std::min(most, structs.rows - first);
    void const* const at = structs.buffer.data + first * std::int64_t(structs.row_bytes);
    return destination ? sender.try_send_rows_to(*destination, at, structs.row_bytes, count)
                       : sender.try_send_rows(at, structs.row_bytes, count);
}

/// The channel as messages call it.
std::string who(ChannelHolder const& holder) {
    std::string const& name = holder.channel().name();
    std::string const id = std::to_string(holder.channel().id());
    return name.empty() ? "channel (" + id + ")" : "channel '" + name + "' (" + id + ")";
}

/// Why a wait on this channel was given up: every other call on it ends, too.
auto interrupt(ChannelHolder const& holder, char const* what) {
    return [&holder, what] {
        holder.channel().fail(ErrorCode::Interrupted,
                              std::string("a signal (Ctrl-C) interrupted ") + what);
    };
}

/// The rows of a list of `Batch` and `RowStructs` objects.
std::vector<Rows> rows_in(nb::list const& list) {
    std::vector<Rows> parts;
    parts.reserve(list.size());
    for (nb::handle const item : list) {
        if (nb::isinstance<RowStructs>(item)) {
            parts.emplace_back(nb::cast<RowStructs const&>(item));
        } else {
            parts.emplace_back(nb::cast<RecordBatch const&>(item));
        }
    }
    return parts;
}

std::int64_t send(ChannelHolder& holder, nb::list const& list, EndpointPair source,
                  OptionalEndpoint const& destination, Seconds timeout) {
    release_queued();
    std::vector<Rows> const parts = rows_in(list);
    Deadline const deadline(timeout);
    std::optional<Endpoint> const to =
        destination ? std::optional(endpoint_of(*destination)) : std::nullopt;
    std::shared_ptr<HostGroup<Sender>> sender;
    std::int64_t total = 0;
    std::int64_t accepted = 0;
    std::size_t part = 0;
    std::int64_t first = 0;
    for (Rows const& rows : parts) total += rows_of(rows);

    auto const attempt = [&] {
        if (part == parts.size()) return Attempt::Done;
        if (sender == nullptr) sender = holder.sender(endpoint_of(source));
        Rows const& rows = parts[part];
        std::int64_t sent = 0;
        {
            std::lock_guard const lock(sender->mutex);
            sent = offer(sender->group, to, rows, first, attempt_rows(holder.channel().schema()));
        }
        accepted += sent;
        first += sent;
        if (first == rows_of(rows)) {
            first = 0;
            ++part;
            return part == parts.size() ? Attempt::Done : Attempt::Progress;
        }
        return sent != 0 ? Attempt::Progress : Attempt::Nothing;
    };
    bool sent_all = false;
    try {
        sent_all = wait_for(attempt, deadline, interrupt(holder, "send"));
    } catch (Error const& error) {
        throw SendError(error.code(), error.what(), accepted);
    }
    bool const patient = !timeout || *timeout > 0;
    if (!sent_all && patient) {
        throw SendError(ErrorCode::Timeout,
                        who(holder) + ": endpoint " + std::to_string(source.first) + " sent " +
                            std::to_string(accepted) + " of " + std::to_string(total) +
                            " rows before its time was up: its lanes are full; are the "
                            "destinations receiving?",
                        accepted);
    }
    return accepted;
}

bool send_bytes(ChannelHolder& holder, nb::handle message, EndpointPair source,
                OptionalEndpoint const& destination, Seconds timeout) {
    Deadline const deadline(timeout);
    InputBuffer const held = hold_buffer(message);
    std::optional<Endpoint> const to =
        destination ? std::optional(endpoint_of(*destination)) : std::nullopt;
    std::shared_ptr<HostGroup<Sender>> sender;
    auto const attempt = [&] {
        if (sender == nullptr) sender = holder.sender(endpoint_of(source));
        std::lock_guard const lock(sender->mutex);
        return sender->group.try_send_bytes(held.data, held.size, to) ? Attempt::Done
                                                                      : Attempt::Nothing;
    };
    if (wait_for(attempt, deadline, interrupt(holder, "send_bytes"))) return true;
    if (timeout && *timeout == 0) return false;
    throw Error(ErrorCode::Timeout, who(holder) + ": no room for a message of " +
                                        std::to_string(held.size) +
                                        " bytes in time; are the destinations receiving?");
}

bool push(ChannelHolder& holder, EndpointPair source) {
    Unlocked const unlocked;
    std::shared_ptr<HostGroup<Sender>> const sender = holder.sender(endpoint_of(source));
    std::lock_guard const lock(sender->mutex);
    return sender->group.push();
}

void flush(ChannelHolder& holder, EndpointPair source, Seconds timeout) {
    release_queued();
    Deadline const deadline(timeout);
    std::shared_ptr<HostGroup<Sender>> sender;
    auto const attempt = [&] {
        if (sender == nullptr) sender = holder.sender(endpoint_of(source));
        std::lock_guard const lock(sender->mutex);
        return sender->group.try_flush() ? Attempt::Done : Attempt::Nothing;
    };
    if (wait_for(attempt, deadline, interrupt(holder, "flush"))) return;
    throw Error(ErrorCode::Timeout,
                who(holder) + ": endpoint " + std::to_string(source.first) +
                    " still has rows that stand in no receive queue; are the destinations "
                    "receiving? Call flush again to go on waiting");
}

std::optional<RecordBatch> recv(ChannelHolder& holder, EndpointPair destination, Seconds timeout) {
    release_queued();
    Deadline const deadline(timeout);
    std::shared_ptr<HostGroup<Receiver>> receiver;
    std::optional<RecordBatch> batch(std::in_place);
    auto const attempt = [&] {
        if (receiver == nullptr) receiver = holder.receiver(endpoint_of(destination));
        std::lock_guard const lock(receiver->mutex);
        device::Status const status = receiver->group.try_recv(*batch);
        if (status == device::Status::Pending) return Attempt::Nothing;
        if (status == device::Status::End) batch.reset();
        return Attempt::Done;
    };
    if (wait_for(attempt, deadline, interrupt(holder, "recv"))) return batch;
    throw Error(ErrorCode::Timeout, who(holder) + ": nothing came for endpoint " +
                                        std::to_string(destination.first) + " in time");
}

nb::dict stats(ChannelHolder const& holder) {
    ChannelStats figures;
    {
        Unlocked const unlocked;
        figures = holder.channel().stats();
    }
    return as_dict(figures);
}

}  // namespace

void bind_channel(nb::module_& module) {
    nb::class_<ChannelHolder>(module, "Channel")
        .def_prop_ro("id", [](ChannelHolder const& holder) { return holder.channel().id(); })
        .def_prop_ro("name", [](ChannelHolder const& holder) { return holder.channel().name(); })
        .def_prop_ro("schema",
                     [](ChannelHolder const& holder) { return holder.channel().schema(); })
        .def("send", send, nb::arg("rows"), nb::arg("source"), nb::arg("destination").none(),
             nb::arg("timeout").none())
        .def("send_bytes", send_bytes, nb::arg("message"), nb::arg("source"),
             nb::arg("destination").none(), nb::arg("timeout").none())
        .def("push", push, nb::arg("source"))
        .def("flush", flush, nb::arg("source"), nb::arg("timeout").none())
        .def("recv", recv, nb::arg("destination"), nb::arg("timeout").none())
        .def("stats", stats)
        .def("plan", [](ChannelHolder const& holder) { return as_dict(holder.channel().plan()); });
}

}  // namespace mgi::python
