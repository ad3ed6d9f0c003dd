// Groups on a GPU: thread blocks of a kernel that the runtime starts.
#include "gpu/memory.hpp"
#include "gpu/peers.hpp"
#include "runtime/gpu_kernels.hpp"
#include "runtime/kernel_watch.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

constexpr std::uint32_t kWarp = 32;
constexpr std::uint32_t kMostThreads = 1024;

void check_compiled(Endpoint endpoint, Device const& device, bool compiled) {
    if (compiled) return;
    throw Error(ErrorCode::InvalidArgument,
                "the kernel for endpoint " + std::to_string(endpoint.id) + " on " + device.name +
                    " was not compiled for GPUs; compile the file that launches it with nvcc");
}

}  // namespace

void check_kernel(Endpoint endpoint, Device const& device, std::uint32_t threads) {
    if (threads != 0 && threads % kWarp == 0 && threads <= kMostThreads) return;
    throw Error(ErrorCode::InvalidArgument,
                "groups for endpoint " + std::to_string(endpoint.id) + " on " + device.name +
                    " have " + std::to_string(threads) +
                    " threads; thread blocks have 32, 64, ... 1024, and 256 is a good number");
}

GpuOfThread::GpuOfThread(int gpu) : current_(std::make_unique<gpu::Current const>(gpu)) {}

GpuOfThread::~GpuOfThread() = default;

bool gpus_reach_each_other(int one, int other) {
    return one == other || gpu::connect_peers(one, other);
}

void throw_gpu_error(int error, int gpu, std::string const& name, std::string const& what) {
    Error const failure = gpu::error_of(error, name, what, gpu);
    // What is no failure of the GPU's is what was asked of it.
    bool const refused = failure.code() == ErrorCode::Internal;
    throw Error(refused ? ErrorCode::InvalidArgument : failure.code(), failure.what());
}

Launch Runtime::Impl::start_on_gpu(std::shared_ptr<Launch::State> const& launch,
                                   Device const& device, LaunchOptions const& options,
                                   std::uint32_t scratch, GpuStart const& on_gpu,
                                   std::function<void()> const& after) {
    check_compiled(launch->endpoint, device, on_gpu != nullptr);
    check_kernel(launch->endpoint, device, options.threads);
    load_gpu_kernels(device.ordinal);
    if (!launch->sorts) start_gpu_sorters(*launch);
    std::uint32_t const beside = gpu_sorters_on(device);
    auto const stream = reserve_->stream(device.ordinal);
    auto const watch = KernelWatch::start(watch_threads_, registry_, launch, device);
    std::list<KernelWatch::Kernel> made;  // before the kernel, which must not run unwatched
    try {
        made.push_back({0, options.groups, [stream, after] {
                            if (!stream->is_done()) return false;
                            if (after) after();
                            return true;
                        }});
        {
            std::lock_guard const lock(registry_->mutex);
            registry_->launches.push_back(launch);
        }
        gpu::Current const here(device.ordinal);
        on_gpu({device.ordinal, stream->get(), options.groups, options.threads, scratch,
                launch->first_number, beside});
    } catch (...) {
        watch->never_ran();
        throw;
    }
    watch->add(std::move(made));
    return Launch(launch);
}

std::uint32_t Runtime::Impl::fitting(Endpoint endpoint, LaunchOptions const& options,
                                     std::vector<device::Channel> const& channels,
                                     GpuFit const& on_gpu) const {
    Device const& device = device_of(endpoint);
    if (device.kind != VertexKind::Gpu) return UINT32_MAX;
    check_compiled(endpoint, device, on_gpu != nullptr);
    check_kernel(endpoint, device, options.threads);
    auto const launch = new_launch(endpoint, 0, channels, false);
    std::uint32_t const scratch = scratch_of(*launch, options.shared_bytes);
    std::uint32_t beside = gpu_sorters_on(device);
    // Those that the launch would start first.
    for (auto const& [channel, source] : without_gpu_sorters(*launch)) {
        beside += channel->spec().options.sorters;
    }
    gpu::Current const here(device.ordinal);
    return on_gpu({device.ordinal, nullptr, 0, options.threads, scratch, 0, beside});
}

std::uint32_t Runtime::fitting(Endpoint endpoint, LaunchOptions const& options,
                               std::vector<device::Channel> const& channels,
                               GpuFit const& on_gpu) const {
    return impl_->fitting(endpoint, options, channels, on_gpu);
}

}  // namespace mgi
