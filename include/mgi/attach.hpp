/// \file
/// Kernels on GPUs that host code starts by itself: cooperative and persistent ones, several on one GPU, on
/// streams of its own, or written in another language.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <mgi/device.hpp>
#include <mgi/device/kernel_groups.hpp>

namespace mgi {

/// What the kernels will have.
struct AttachOptions {
    std::uint32_t groups =
        1;  ///< thread blocks, of all these kernels together; all resident at once
    std::uint32_t threads = 256;  ///< of a block: a multiple of 32, at most 1024
    /// Those that the kernels are given: they fail when a group ends without having flushed, and their
    /// memory stays until the groups have ended.
    std::vector<device::Channel> channels = {};
    std::uint32_t shared_bytes = 0;  ///< scratch beyond what channel calls need
};

/// Groups of an endpoint that run in kernels of the user's own (Runtime::attach). Copies name the same
/// groups; thread-safe. Groups whose kernel was not told of are not there: where they are awaited, gone_limit
/// runs as if they had not been attached, and the error names them. When the last copy dies with such
/// groups, the channels that they were given fail with GroupFailed; groups that run go on.
///
///     mgi::Attachment attached = runtime.attach(endpoint, {.groups = 8, .channels = {channel.on(endpoint)}});
///     my_kernel<<<8, 256, attached.shared_bytes(), stream>>>(attached.groups(), channel.on(endpoint));
///     attached.launched(stream);
class Attachment {
public:
    class State;
    explicit Attachment(std::shared_ptr<State> state) : state_(std::move(state)) {}

    /// What the kernel is given.
    [[nodiscard]] device::KernelGroups groups() const;
    /// Dynamic shared memory that every block must be launched with, in bytes. More than 48 KiB wants
    /// cudaFuncAttributeMaxDynamicSharedMemorySize.
    [[nodiscard]] std::uint32_t shared_bytes() const { return groups().shared_bytes; }

    /// To be called as soon as the kernel with groups [first, first + count) was launched, by the thread that
    /// did so and before anything else is put into its stream (a cudaStream_t, or its number; nullptr is
    /// the legacy default stream): they end when the stream has done what is in it now. Never waits. Throws
    /// Error(InvalidArgument) for groups that are not there, or were told of before, and for what is no
    /// stream of the endpoint's GPU: then nothing has changed, and it may be told again.
    void launched(void* stream, std::uint32_t first, std::uint32_t count);
    /// The same of all groups.
    void launched(void* stream);

    /// The groups that were not told of never come (their launch failed). Where none has come nothing has
    /// happened; with others of them it is as if these had ended at once.
    void abandon();

    /// Waits for the groups, as Launch::wait; also for those that were not told of yet.
    void wait(std::chrono::milliseconds timeout = std::chrono::milliseconds::max());
    [[nodiscard]] bool done() const;

private:
    std::shared_ptr<State> state_;
};

}  // namespace mgi
