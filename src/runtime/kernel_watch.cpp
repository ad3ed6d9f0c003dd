#include "runtime/kernel_watch.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/process_limits.hpp"
#include "gpu/memory.hpp"

namespace mgi {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLongestPause = std::chrono::microseconds(50);
// Shorter ones take longer than they say: so a kernel's first 0.6 ms are polled without any.
constexpr auto kShortestSleep = std::chrono::microseconds(20);

// Until the next look at kernels that were new at `since`: short for those that may soon be over, and never long
// beside what they have taken.
void pause(Clock::time_point since) {
    auto const wanted = std::min<Clock::duration>((Clock::now() - since) / 32, kLongestPause);
    if (wanted < kShortestSleep) {
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(wanted);
    }
}

}  // namespace

KernelWatch::KernelWatch(std::shared_ptr<Registry> registry, std::shared_ptr<Launch::State> launch,
                         int gpu)
    : registry_(std::move(registry)),
      launch_(std::move(launch)),
      gpu_(gpu),
      left_(launch_->groups) {}

std::shared_ptr<KernelWatch> KernelWatch::start(KeptThreads& threads,
                                                std::shared_ptr<Registry> registry,
                                                std::shared_ptr<Launch::State> launch,
                                                Device const& device) {
    std::shared_ptr<KernelWatch> watch(
        new KernelWatch(std::move(registry), std::move(launch), device.ordinal));
    try {
        threads.run([watch] { watch->run(); });
    } catch (std::system_error const& error) {
        throw Error(ErrorCode::OutOfMemory, "cannot start the thread that watches a kernel on " +
                                                device.name + ": " + no_thread_text(error.what()));
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
    end_groups(*registry_, *launch_, first, count, exception);
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
    // Without it a sleep takes 50 microseconds more.
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    std::list<Kernel> kernels;
    Clock::time_point since;  // the last change
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (kernels.empty()) {
                changed_.wait(lock, [&] { return left_ == 0 || !coming_.empty(); });
            }
            if (!coming_.empty()) since = Clock::now();
            kernels.splice(kernels.end(), coming_);
            if (left_ == 0) return;
        }
        if (end_those_over(kernels)) since = Clock::now();
        if (!kernels.empty()) pause(since);
    }
}

bool KernelWatch::end_those_over(std::list<Kernel>& kernels) {
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
    bool any = false;
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
        any = true;
    }
    return any;
}

}  // namespace mgi
