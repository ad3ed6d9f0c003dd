#include "runtime/kernel_watch.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/memory.hpp"

namespace mgi {

namespace {

constexpr auto kKernelPoll = std::chrono::microseconds(50);

}  // namespace

KernelWatch::KernelWatch(std::shared_ptr<Registry> registry, std::shared_ptr<Launch::State> launch,
                         int gpu)
    : registry_(std::move(registry)),
      launch_(std::move(launch)),
      gpu_(gpu),
      left_(launch_->groups) {}

std::shared_ptr<KernelWatch> KernelWatch::start(std::shared_ptr<Registry> registry,
                                                std::shared_ptr<Launch::State> launch,
                                                Device const& device) {
    std::shared_ptr<KernelWatch> watch(
        new KernelWatch(std::move(registry), std::move(launch), device.ordinal));
    try {
        std::thread([watch] { watch->run(); }).detach();
    } catch (std::system_error const& error) {
        throw Error(ErrorCode::OutOfMemory, "cannot start the thread that watches a kernel on " +
                                                device.name + ": " + error.what());
    }
    return watch;
}

void KernelWatch::add(std::uint32_t first, std::uint32_t count, Over over) {
    std::list<Kernel> made;
    made.push_back({first, count, std::move(over)});
    add(std::move(made));
}

void KernelWatch::add(std::list<Kernel>&& made) noexcept {
    {
        std::lock_guard const lock(mutex_);
        coming_.splice(coming_.end(), made);
    }
    changed_.notify_all();
}

void KernelWatch::end(std::uint32_t first, std::uint32_t count,
                      std::exception_ptr const& exception) {
    for (std::uint32_t block = first; block < first + count; ++block) {
        end_group(*registry_, *launch_, block, exception);
    }
    {
        std::lock_guard const lock(mutex_);
        left_ -= count;
    }
    changed_.notify_all();
}

void KernelWatch::never_ran() {
    {
        std::lock_guard const lock(mutex_);
        left_ = 0;
    }
    changed_.notify_all();
    std::vector<std::shared_ptr<ChannelImpl>> channels;  // die behind the lock
    {
        std::lock_guard const lock(launch_->mutex);
        launch_->running = 0;
        launch_->group_runs.assign(launch_->groups, false);
        channels.swap(launch_->channels);
        launch_->ended.notify_all();
    }
    registry_->forget_launches();
}

void KernelWatch::run() {
    std::list<Kernel> kernels;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (kernels.empty()) {
                changed_.wait(lock, [&] { return left_ == 0 || !coming_.empty(); });
            }
            kernels.splice(kernels.end(), coming_);
            if (left_ == 0) return;
        }
        end_those_over(kernels);
        if (!kernels.empty()) std::this_thread::sleep_for(kKernelPoll);
    }
}

void KernelWatch::end_those_over(std::list<Kernel>& kernels) {
    std::exception_ptr failure;
    auto const is_over = [&](Kernel const& kernel) {
        try {
            gpu::Current const here(gpu_);
            return kernel.over();
        } catch (...) {
            failure = std::current_exception();
            return true;
        }
    };
    for (auto kernel = kernels.begin(); kernel != kernels.end();) {
        failure = nullptr;
        if (!is_over(*kernel)) {
            ++kernel;
            continue;
        }
        // Its stream or event goes before who waits is told, and may end the process.
        std::uint32_t const first = kernel->first;
        std::uint32_t const count = kernel->count;
        kernel = kernels.erase(kernel);
        end(first, count, failure);
    }
}

}  // namespace mgi
