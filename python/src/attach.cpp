// Kernels that Python code starts by itself, with CuPy, Numba and the like.
#include <mgi/attach.hpp>
#include <mgi/device/c_api.hpp>
#include <mgi/runtime.hpp>

#include <algorithm>
#include <memory>

#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "channel.hpp"
#include "interpreter.hpp"
#include "runtime.hpp"

namespace mgi::python {
namespace {

/// Groups that a user's kernels have, and the channels they were given.
struct AttachmentHolder {
    Attachment attachment;
    Endpoint endpoint;
    std::vector<Channel> channels;
};

AttachmentHolder* attach(RuntimeHolder& holder, EndpointPair endpoint, std::uint32_t groups,
                         std::uint32_t threads, std::vector<ChannelHolder const*> const& given,
                         std::uint32_t shared_bytes) {
    Endpoint const at = endpoint_of(endpoint);
    AttachOptions options;
    options.groups = groups;
    options.threads = threads;
    std::uint32_t columns = 0;
    std::vector<Channel> channels;
    for (ChannelHolder const* const channel : given) {
        channels.push_back(channel->channel());
        options.channels.push_back(channel->channel().on(at));
        columns = std::max(columns, std::uint32_t(channel->channel().schema().size()));
    }
    // Kernels that are not written in C++ want some of the scratch for themselves, whose end is a multiple
    // of 16.
    options.shared_bytes = device::ceil_div(shared_bytes, 16) * 16 + device::c_api_bytes(columns);
    Runtime runtime = holder.get();
    Unlocked const unlocked;
    return new AttachmentHolder{runtime.attach(at, options), at, std::move(channels)};
}

/// The members of a KernelGroups in their order.
std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t> numbers_of(
    AttachmentHolder const& holder) {
    device::KernelGroups const groups = holder.attachment.groups();
    static_assert(sizeof(groups) == 24);
    return {groups.first_number, groups.first, groups.count, groups.blocks, groups.shared_bytes};
}

/// The members of a device::Channel in their order.
std::tuple<std::uint64_t, std::uint32_t, std::uint32_t> channel_numbers(
    AttachmentHolder const& holder, ChannelHolder const& channel) {
    bool const given =
        std::any_of(holder.channels.begin(), holder.channels.end(),
                    [&](Channel const& one) { return one.id() == channel.channel().id(); });
    if (!given) {
        throw Error(ErrorCode::InvalidArgument,
                    "channel '" + channel.channel().name() +
                        "' is none of those that the groups were attached with");
    }
    device::Channel const on_device = channel.channel().on(holder.endpoint);
    static_assert(sizeof(on_device) == 16);
    return {reinterpret_cast<std::uint64_t>(&on_device.state()), on_device.source(),
            on_device.destination()};
}

void launched(AttachmentHolder& holder, std::uintptr_t stream, std::uint32_t first,
              std::optional<std::uint32_t> count) {
    Unlocked const unlocked;
    auto* const handle = reinterpret_cast<void*>(stream);
    if (count) {
        holder.attachment.launched(handle, first, *count);
    } else {
        std::uint32_t const all = holder.attachment.groups().blocks;
        holder.attachment.launched(handle, first, first < all ? all - first : 0);
    }
}

void wait(AttachmentHolder& holder, std::optional<double> seconds) {
    auto const attempt = [&] {
        return holder.attachment.done() ? Attempt::Done : Attempt::Nothing;
    };
    // The kernels' calls end with an error then, and so do the kernels.
    auto const stop = [&] {
        for (Channel const& channel : holder.channels) {
            channel.fail(ErrorCode::Interrupted,
                         "a signal (Ctrl-C) interrupted the wait for kernels");
        }
    };
    wait_for(attempt, Deadline(seconds), stop);
    Unlocked const unlocked;
    // Throws what they failed with, or that they still run.
    holder.attachment.wait(std::chrono::milliseconds(0));
}

}  // namespace

void bind_attach(nb::module_& module) {
    nb::class_<AttachmentHolder>(module, "Attachment")
        .def("numbers", numbers_of)
        .def("channel_numbers", channel_numbers, nb::arg("channel"))
        .def("launched", launched, nb::arg("stream"), nb::arg("first"), nb::arg("count").none())
        .def(
            "abandon", [](AttachmentHolder& holder) { holder.attachment.abandon(); },
            nb::call_guard<Unlocked>())
        .def("wait", wait, nb::arg("timeout").none())
        .def("done", [](AttachmentHolder const& holder) { return holder.attachment.done(); });
    module.def("attach", attach, nb::arg("runtime"), nb::arg("endpoint"), nb::arg("groups"),
               nb::arg("threads"), nb::arg("channels"), nb::arg("shared_bytes"));
    static_assert(sizeof(device::ColumnView) == 48);
}

}  // namespace mgi::python
