/// \file
/// The way in: devices, endpoints, channels and launches of one process (paper section 3.1).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mgi/attach.hpp>
#include <mgi/channel.hpp>
#include <mgi/cluster.hpp>
#include <mgi/endpoint.hpp>
#include <mgi/gpu_allocator.hpp>
#include <mgi/graph.hpp>

namespace mgi {

struct RuntimeOptions {
    /// CPU devices to divide this process's cores into, round robin; 0: one for each NUMA node.
    std::uint32_t cpu_devices = 0;
    /// Most bytes of all channels together; 0: half of the machine's memory.
    std::uint64_t memory_limit = 0;
    /// Look for GPUs, which initializes NVIDIA's driver where there is one: a child made by fork() cannot
    /// use CUDA any more. CUDA_VISIBLE_DEVICES chooses.
    bool gpus = true;
    /// Pin group threads to the cores of their device. Off when a device has no core of its own.
    bool pin = true;
    /// This process' NICs for rows from and to other servers: addresses ("10.0.0.5") or names of
    /// interfaces ("eth0"), the same number in the same order on each server. Empty: $MGI_ADDRESSES,
    /// separated by commas. Nothing is listened on before a channel needs it, and only there.
    /// "eth0@cpu:1" says that eth0 is the device cpu:1's own, "eth0@cpu:0+cpu:1" that it is both's, and
    /// "eth0@" that it is no device's of this process: who does not own a NIC borrows it while its owners
    /// leave it idle. A NIC without "@" is that of the devices with cores on its NUMA node; where the
    /// machine does not say, anybody's.
    std::vector<std::string> addresses = {};
    /// Whether what goes between servers over TCP is encrypted (AES-256-GCM, docs/security.md): the same in all processes
    /// of a job, else they make no channel together (InvalidArgument). Nothing: $MGI_WIRE_ENCRYPTION, "on", "off", or
    /// "kernel" (on, by the kernel's TLS where it has that); off where that is not set. On with $MGI_WIRES=ucx is InvalidArgument for the first channel between servers.
    std::optional<bool> encrypt_wires = std::nullopt;
    /// The allocator of the GPUs' memory for channels, and for operators whose options name none; none: MGI takes it from the driver.
    /// What other processes or NICs reach MGI takes from the driver all the same (docs/gpu.md).
    GpuAllocator gpu_allocator = {};
};

/// How a kernel is launched on an endpoint.
struct LaunchOptions {
    /// All resident at once: an OS thread for each group thread; on a GPU thread blocks, as many as fit.
    std::uint32_t groups = 1;
    std::uint32_t threads = 1;  ///< of a group; on a GPU a multiple of 32, 256 is a good number
    std::uint32_t shared_bytes = 0;  ///< scratch beyond what channel calls need
};

/// What the launch of a kernel on a GPU is told.
struct GpuLaunch {
    int gpu = 0;               ///< N of "cuda:N"
    void* stream = nullptr;    ///< a cudaStream_t, not blocking
    std::uint32_t groups = 1;  ///< 0: as many as fit
    std::uint32_t threads = 1;
    std::uint32_t shared_bytes = 0;  ///< dynamic shared memory of a block
    std::uint64_t first_number = 0;  ///< Group::launch of block 0
    /// Multiprocessors that sorters have for themselves as long as they run.
    std::uint32_t beside = 0;
};
/// Starts a kernel on a GPU and returns at once; throws Error where it cannot. Empty where the kernel was
/// not compiled for GPUs.
using GpuStart = std::function<void(GpuLaunch const&)>;
/// How many groups of a kernel have room on a GPU at the same time, whatever `groups` says. Empty as above.
using GpuFit = std::function<std::uint32_t(GpuLaunch const&)>;

namespace gpu {
class Current;
}
/// Makes a GPU the calling thread's while it lives, for CUDA's runtime and driver. Then the thread has what it
/// had before, which may be nothing: cudaSetDevice cannot give that back, and makes a context on GPU 0 instead.
/// Throws Error: NotFound (no driver), InvalidArgument (no such GPU), GroupFailed (the GPU's context is lost).
class GpuOfThread {
public:
    explicit GpuOfThread(int gpu);
    ~GpuOfThread();
    GpuOfThread(GpuOfThread const&) = delete;
    GpuOfThread& operator=(GpuOfThread const&) = delete;

private:
    std::unique_ptr<gpu::Current const> current_;
};
/// Whether kernels of each of two GPUs of this process may read and write the other's memory, which is so from here on for
/// the life of the process. The first call for a pair tries it with some bytes, each way: where they arrive changed a
/// warning says so. Throws Error as GpuOfThread does. Thread-safe.
bool gpus_reach_each_other(int one, int other);
/// Throws Error for a call of CUDA's runtime that has failed: `error` is its cudaError_t, `name` that in words,
/// `what` what was tried. GroupFailed where the GPU's context is lost, OutOfMemory, NotFound (the GPU), else
/// InvalidArgument.
[[noreturn]] void throw_gpu_error(int error, int gpu, std::string const& name,
                                  std::string const& what);

/// A kernel of a source that nvcc has compiled, which stands for all that the source has: a CUfunction for a GPU that is
/// the calling thread's. Throws Error.
using GpuFunction = void* (*)(int gpu);
/// Makes such a source's kernels known: they are loaded on a GPU when the first endpoint is created there, since a
/// kernel that is loaded later waits for those that are resident. This header does it for each source that includes it.
/// Thread-safe.
bool know_gpu_kernels(GpuFunction of_module) noexcept;
/// For a library that is unloaded.
void forget_gpu_kernels(GpuFunction of_module) noexcept;

/// What the launch of a source's sorters on a GPU is told (ChannelOptions::sorters).
struct GpuSorters {
    using State = device::ChannelState<device::LibcuAtomics>;
    GpuLaunch launch;
    State* channel = nullptr;
    std::uint32_t source = 0;
    State* stage = nullptr;
    std::uint32_t* failures =
        nullptr;  ///< by block: an ErrorCode, why it had to stop; of the host's
};
using GpuSorterStart = void (*)(GpuSorters const&);
/// Says how sorters are started on GPUs: <mgi/gpu_sorters.hpp> calls it, and gives code that nvcc has
/// compiled. The last one counts. Thread-safe.
bool provide_gpu_sorters(GpuSorterStart start) noexcept;

/// Running groups. Copies name the same launch; the last one to die leaves the groups running.
class Launch {
public:
    struct State;
    explicit Launch(std::shared_ptr<State> state) : state_(std::move(state)) {}

    /// Waits for all groups and throws the first failure: an exception of the kernel's as it was,
    /// Error for a group that ended without flushing. Throws Error(Timeout) and leaves them running.
    void wait(std::chrono::milliseconds timeout = std::chrono::milliseconds::max());
    [[nodiscard]] bool done() const;

private:
    std::shared_ptr<State> state_;
};

#if defined(__CUDACC__)
}  // namespace mgi
#include <mgi/gpu_launch.inl>
namespace mgi {
#endif

/// MGI in one process. Copies name the same runtime; thread-safe. When the last copy dies, every
/// channel fails with Deleted and running groups are given a bounded time to end.
class Runtime {
public:
    /// A runtime of this process alone; needs no service and opens no port.
    static Runtime local(RuntimeOptions const& options = {});
    /// A runtime of this process in a cluster, joined through this server's agent: endpoints and
    /// channels have the cluster's ids, channels are planned by its controller and fail when it says
    /// so (GroupFailed). While agent or controller are away, what there is goes on, and calls that
    /// need them wait until ClusterOptions::timeout. Channels may have endpoints of other processes
    /// (gather_endpoints). Throws Error as ClusterClient does; so do create and delete calls.
    static Runtime connect(ClusterOptions const& cluster = {}, RuntimeOptions const& options = {});

    [[nodiscard]] std::vector<Device> const& devices() const;
    [[nodiscard]] Graph const& graph() const;

    /// Bytes that channels may still take of the memory limit.
    [[nodiscard]] std::uint64_t memory_left() const;
    /// Frees what deleted channels had of GPUs' memory and of pinned memory: at most 1 GiB of each GPU and 64 MiB of
    /// pinned memory are kept for the next channels, so that making them takes microseconds. Waits for the kernels that are resident.
    /// Memory of RuntimeOptions::gpu_allocator is never kept.
    void trim();
    /// RuntimeOptions::gpu_allocator; without functions where there is none.
    [[nodiscard]] GpuAllocator const& gpu_allocator() const;

    /// An endpoint on a device ("cpu:0"), or on the first free one: a GPU ("cuda"), a CPU device ("cpu"), or a GPU where
    /// there is one (""). That is the one with the fewest endpoints of this runtime; of several the first. The
    /// processes that a job has on this server (<mgi/job.hpp>) share its GPUs out: each begins with its own share. Throws Error(NotFound) that lists the devices, and
    /// InvalidArgument as Job::from_environment does. Thread-safe. See the paper, section 3.1.
    Endpoint create_endpoint(std::string const& device = "");
    /// All endpoints of all processes of the job (<mgi/job.hpp>): each calls it with its own, and gets
    /// everybody's, in the order of the processes' ranks. Those of others have the device kElsewhere,
    /// and may be named in create_channel. Waits for the others until ClusterOptions::timeout; throws
    /// Error(Timeout) that names the ranks which have not come, InvalidArgument for endpoints that are
    /// not this runtime's, and for a runtime of a process alone in a job of several.
    std::vector<Endpoint> gather_endpoints(std::vector<Endpoint> const& mine);
    /// In place of gather_endpoints, where this process has failed before: the others' throws Error(why.code()) with this
    /// process' rank and `why`, at once or when they call it within ClusterOptions::timeout.
    void decline_endpoints(Error const& why);
    /// Throws Error(NotFound), or Error(InvalidArgument) while a channel uses it.
    void delete_endpoint(Endpoint endpoint);

    /// Plans the channel and allocates all its memory. Throws Error: InvalidArgument (names the
    /// offending column, endpoint or option), NotFound, OutOfMemory.
    ///
    /// With endpoints of other processes, which gather_endpoints has told of, every process that has
    /// endpoints in it calls this with the same specification, in the same order where there are
    /// several such channels. It returns once all have the channel, or throws in all: also
    /// Error(Timeout) that names the ranks which have not come within ClusterOptions::timeout. With
    /// endpoints on several servers rows go over the NICs of RuntimeOptions::addresses, and
    /// InvalidArgument says so where a process has none.
    Channel create_channel(ChannelSpec const& spec);
    /// In place of create_channel with these endpoints, sources and destinations, where this
    /// process has failed before: the others' throws Error(why.code()) with this process' rank and `why`, as for
    /// decline_endpoints. What fails in create_channel itself the others hear by themselves.
    void decline_channel(std::vector<Endpoint> const& endpoints, Error const& why);
    /// Fails the channel with Deleted and forgets it. Throws Error(NotFound).
    ///
    /// With endpoints of other processes this one leaves the channel, which goes on for the others if
    /// its sources have flushed and its destinations have taken everything; else it fails everywhere.
    void delete_channel(Channel const& channel);

    /// Starts `kernel(group, shared, args...)` in every group of the endpoint's device. The kernel is
    /// shared by all threads and called as const, the arguments are copied for each call. A group
    /// that leaves with an exception, or without having flushed a channel it sent on, fails the
    /// channels it used: those it called, and those among `args` (a kernel that was given none may
    /// have captured any: an exception of it fails all of its endpoint's). When a launch has ended and
    /// no group of it has sent on a channel among `args` of which its endpoint is a source, that
    /// fails too.
    ///
    /// On an endpoint of a GPU every group is a thread block. The kernel and its arguments are copied to
    /// the GPU; what they point to must be its own, or managed, memory. Compile the launch with nvcc
    /// (InvalidArgument otherwise), as a functor whose call operator is MGI_HD. InvalidArgument as well when
    /// not all groups fit the GPU at the same time. What blocks while kernels are resident: docs/gpu.md.
    template <class Kernel, class... Args>
    Launch launch(Endpoint endpoint, LaunchOptions const& options, Kernel kernel, Args... args) {
        std::vector<device::Channel> channels;
        (note_channel(channels, args), ...);
        GpuStart on_gpu;
#if defined(__CUDACC__)
        on_gpu = [kernel, args...](GpuLaunch const& launch) {
            start_gpu_kernel(launch, kernel, args...);
        };
#endif
        return start(
            endpoint, options, channels,
            [kernel, args...](device::Group const& group, device::Shared& shared) {
                kernel(group, shared, args...);
            },
            on_gpu);
    }

    /// How many groups `launch` would take at most, if the same call were made now with as many: on a GPU
    /// those that have room beside its sorters at the same time, with the shared memory that the endpoint's channels
    /// need. Launches that wait for each other on one GPU share that number. On a CPU device any number will
    /// do, and it is 2^32 - 1. `options.groups` has no meaning. Throws Error as `launch` does.
    template <class Kernel, class... Args>
    std::uint32_t most_groups(Endpoint endpoint, LaunchOptions const& options, Kernel,
                              Args... args) const {
        std::vector<device::Channel> channels;
        (note_channel(channels, args), ...);
        GpuFit on_gpu;
#if defined(__CUDACC__)
        on_gpu = [](GpuLaunch const& launch) {
            std::lock_guard const lock(gpu_limit_mutex());
            return fitting_gpu_groups<Kernel, Args...>(launch);
        };
#endif
        return fitting(endpoint, options, channels, on_gpu);
    }

    /// Groups of an endpoint on a GPU that will run in kernels which the caller starts: cooperative or
    /// persistent ones, several that share the groups, on any streams, written in any language. As of
    /// `launch`, all of these groups must be resident at once, and what they point to must be the GPU's or
    /// managed memory. Needs no nvcc. Sorters of a channel that these groups send on are resident from
    /// here on: what waits for the whole GPU comes before. Throws Error: NotFound (endpoint, channel),
    /// InvalidArgument (not on a GPU, threads that no block has),
    /// OutOfMemory (no thread to watch the kernels).
    Attachment attach(Endpoint endpoint, AttachOptions const& options);

    class Impl;
    [[nodiscard]] std::shared_ptr<Impl> const& impl() const { return impl_; }

private:
    using Body = std::function<void(device::Group const&, device::Shared&)>;
    explicit Runtime(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
    Launch start(Endpoint endpoint, LaunchOptions const& options,
                 std::vector<device::Channel> const& channels, Body body, GpuStart const& on_gpu);
    std::uint32_t fitting(Endpoint endpoint, LaunchOptions const& options,
                          std::vector<device::Channel> const& channels, GpuFit const& on_gpu) const;

    template <class Arg>
    static void note_channel(std::vector<device::Channel>& channels, Arg const& arg) {
        if constexpr (std::is_same_v<Arg, device::Channel>) channels.push_back(arg);
    }

    std::shared_ptr<Impl> impl_;
};

/// Logging: level "trace", "debug", "info", "warn", "error" or "off"; the environment variable
/// MGI_LOG sets it at the start, default "warn". Throws Error(InvalidArgument).
void set_log_level(std::string const& level);

}  // namespace mgi
