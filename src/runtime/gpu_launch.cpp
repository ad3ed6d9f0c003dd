// Groups on a GPU: thread blocks of one kernel. A thread of the launch polls until it is over, since what
// waits for a kernel in CUDA's own calls holds up other calls.
#include <future>
#include <system_error>
#include <thread>

#include "gpu/memory.hpp"
#include "runtime/registry.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

constexpr std::uint32_t kWarp = 32;
constexpr std::uint32_t kMostThreads = 1024;
constexpr auto kPoll = std::chrono::microseconds(50);

void check_launch(Endpoint endpoint, Device const& device, LaunchOptions const& options,
                  GpuStart const& on_gpu) {
    std::string const where = "endpoint " + std::to_string(endpoint.id) + " on " + device.name;
    if (!on_gpu) {
        throw Error(ErrorCode::InvalidArgument,
                    "the kernel for " + where +
                        " was not compiled for GPUs; compile the file that launches it with nvcc");
    }
    if (options.threads % kWarp != 0 || options.threads > kMostThreads) {
        throw Error(ErrorCode::InvalidArgument,
                    "groups for " + where + " have " + std::to_string(options.threads) +
                        " threads; thread blocks have 32, 64, ... 1024, and 256 is a good number");
    }
    gpu::Driver const& driver = gpu::Driver::get();
    gpu::LoadingMode mode = gpu::kEagerLoading;
    driver.check(driver.cuModuleGetLoadingMode(&mode), "ask how kernels are loaded");
    if (mode == gpu::kEagerLoading) return;
    throw Error(ErrorCode::InvalidArgument,
                "kernels are loaded when they are first launched, which would wait for ever for a "
                "kernel that waits for them; set CUDA_MODULE_LOADING=EAGER in the environment "
                "before the process starts");
}

// Polls until the kernel is over, and says so of all its groups.
void watch(Registry& registry, Launch::State& launch, gpu::OwnStream const& stream, int gpu) {
    std::exception_ptr failure;
    try {
        gpu::Current const here(gpu);
        while (!stream.is_done()) std::this_thread::sleep_for(kPoll);
    } catch (...) {
        failure = std::current_exception();
    }
    for (std::uint32_t block = 0; block < launch.groups; ++block) {
        end_group(registry, launch, block, failure);
    }
}

// Starts the thread that watches a kernel, once it is told that the kernel has been started.
void start_watcher(std::shared_ptr<Registry> const& registry,
                   std::shared_ptr<Launch::State> const& launch, Device const& device,
                   std::shared_ptr<gpu::OwnStream const> const& stream, std::future<bool> started) {
    try {
        std::thread([registry, launch, stream, gpu = device.ordinal,
                     started = std::move(started)]() mutable {
            if (started.get()) watch(*registry, *launch, *stream, gpu);
        }).detach();
    } catch (std::system_error const& error) {
        throw Error(ErrorCode::OutOfMemory, "cannot start the thread that watches a kernel on " +
                                                device.name + ": " + error.what());
    }
}

// No group of the launch ever ran, and nobody waits for it.
void never_ran(Registry& registry, Launch::State& launch) {
    std::vector<std::shared_ptr<ChannelImpl>> channels;  // die behind the lock
    {
        std::lock_guard const lock(launch.mutex);
        launch.running = 0;
        launch.group_runs.assign(launch.groups, false);
        channels.swap(launch.channels);
    }
    registry.forget_launches();
}

}  // namespace

Launch Runtime::Impl::start_on_gpu(std::shared_ptr<Launch::State> const& launch,
                                   Device const& device, LaunchOptions const& options,
                                   std::uint32_t scratch, GpuStart const& on_gpu) {
    check_launch(launch->endpoint, device, options, on_gpu);
    auto const stream = std::make_shared<gpu::OwnStream>(device.ordinal);
    std::promise<bool> started;
    {
        std::lock_guard const lock(registry_->mutex);
        registry_->launches.push_back(launch);
    }
    try {
        // Before the kernel: one that nobody can watch must not run.
        start_watcher(registry_, launch, device, stream, started.get_future());
        gpu::Current const here(device.ordinal);
        on_gpu({device.ordinal, stream->get(), options.groups, options.threads, scratch,
                launch->first_number});
    } catch (...) {
        started.set_value(false);
        never_ran(*registry_, *launch);
        throw;
    }
    started.set_value(true);
    return Launch(launch);
}

}  // namespace mgi
