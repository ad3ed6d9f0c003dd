// Groups on CPU devices: an OS thread for each group thread, all resident at once.
#include <pthread.h>
#include <sched.h>

#include <set>
#include <system_error>
#include <thread>

#include <mgi/device/assert.hpp>

#include "core/log.hpp"
#include "core/process_limits.hpp"
#include "runtime/host_groups.hpp"
#include "runtime/registry.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

// Scratch that kernels get at least: room for what they take themselves.
constexpr std::uint32_t kLeastScratch = 4096;

using Body = std::function<void(device::Group const&, device::Shared&)>;

// What the threads of one group share.
struct GroupRun {
    GroupRun(std::uint32_t threads, std::size_t scratch_bytes)
        : barrier(threads), scratch(scratch_bytes), running(threads) {}

    device::HostBarrier barrier;
    std::vector<std::byte> scratch;
    std::mutex mutex;
    std::uint32_t running;  // with the mutex, as the exception
    std::exception_ptr exception;
    std::atomic<bool> aborted{false};  // a thread waited for one that had left
};

void pin_to(std::vector<int> const& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int const core : cores) CPU_SET(static_cast<unsigned>(core), &set);
    if (int const code = pthread_setaffinity_np(pthread_self(), sizeof(set), &set); code != 0) {
        log::warn("cannot pin a group thread: {}", std::system_category().message(code));
    }
}

// What `make` gives, or the exception that making it threw.
template <class Make>
std::exception_ptr exception_of(Make const& make) noexcept {
    try {
        return std::make_exception_ptr(make());
    } catch (...) {
        return std::current_exception();
    }
}

// `count` threads of a group are over; with the last one the group is.
void threads_ended(Registry& registry, Launch::State& launch, GroupRun& run, std::uint32_t block,
                   std::uint32_t count) {
    std::exception_ptr exception;
    {
        // The thread that takes it last follows what all others did.
        std::lock_guard const lock(run.mutex);
        MGI_ASSERT(run.running >= count, run.running, count, block);
        run.running -= count;
        if (run.running != 0) return;
        exception = run.exception;
    }
    if (exception == nullptr && run.aborted) {
        exception = exception_of([&] {
            return Error(ErrorCode::GroupFailed,
                         "a thread of group " + std::to_string(block) + " on endpoint " +
                             std::to_string(launch.endpoint.id) +
                             " returned while others waited for it in a group barrier; all threads "
                             "of a group make each device call");
        });
    }
    end_groups(registry, launch, block, 1, exception);
}

// Body of one group thread.
void run_thread(std::shared_ptr<Registry> const& registry,
                std::shared_ptr<Launch::State> const& launch, std::shared_ptr<GroupRun> const& run,
                device::Group group, std::shared_ptr<Body> body) {
    try {
        device::Shared shared{run->scratch.data(), static_cast<std::uint32_t>(run->scratch.size())};
        (*body)(group, shared);
    } catch (device::GroupAborted const&) {
        // If another thread of the group has failed, its failure is the one that counts.
        run->aborted = true;
    } catch (...) {
        std::lock_guard const lock(run->mutex);
        if (run->exception == nullptr) run->exception = std::current_exception();
    }
    run->barrier.leave();
    body.reset();  // what the kernel captured is gone before anybody is told that it has ended
    threads_ended(*registry, *launch, *run, group.block, 1);
}

// The threads of a group from number `started` on, and all groups behind it, could not be started.
void give_up(Registry& registry, Launch::State& launch,
             std::vector<std::shared_ptr<GroupRun>> const& runs, std::uint32_t group,
             std::uint32_t started, std::uint32_t threads, char const* reason) {
    auto const exception = exception_of([&] {
        return Error(ErrorCode::OutOfMemory, "cannot start thread " + std::to_string(started) +
                                                 " of group " + std::to_string(group) +
                                                 " on endpoint " +
                                                 std::to_string(launch.endpoint.id) + ": " +
                                                 no_thread_text(reason) + "; launch fewer groups");
    });
    for (std::uint32_t g = group; g < launch.groups; ++g) {
        {
            std::lock_guard const lock(runs[g]->mutex);
            if (runs[g]->exception == nullptr) runs[g]->exception = exception;
        }
        runs[g]->barrier.leave();
        threads_ended(registry, launch, *runs[g], g, g == group ? threads - started : threads);
    }
}

}  // namespace

void end_groups(Registry& registry, Launch::State& launch, std::uint32_t first, std::uint32_t count,
                std::exception_ptr const& exception) {
    if (exception != nullptr) launch.fail(exception);
    {
        std::lock_guard const lock(launch.mutex);
        std::fill_n(launch.group_runs.begin() + first, count, false);
    }
    try {
        registry.groups_ended(launch, first, count, exception);
    } catch (std::exception const& error) {
        log::error("the end of groups {} to {} on endpoint {} could not be looked into: {}", first,
                   first + count - 1, launch.endpoint.id, error.what());
        registry.fail_all_of(launch.endpoint);
        launch.fail(std::current_exception());
    }
    // What the launch held goes before who waits is told: memory must not be freed behind their backs, beside
    // kernels that they start next.
    for (;;) {
        std::vector<std::shared_ptr<ChannelImpl>> channels;  // die behind the lock
        std::lock_guard const lock(launch.mutex);
        MGI_ASSERT(launch.running >= count, first, count, launch.running);
        if (launch.running > count || launch.channels.empty()) {
            launch.running -= count;
            if (launch.running == 0) launch.ended.notify_all();
            return;
        }
        channels.swap(launch.channels);
    }
}

Launch Runtime::start(Endpoint endpoint, LaunchOptions const& options,
                      std::vector<device::Channel> const& channels, Body body,
                      GpuStart const& on_gpu) {
    return impl_->start(endpoint, options, channels, std::move(body), on_gpu);
}

Launch Runtime::Impl::start(Endpoint endpoint, LaunchOptions const& options,
                            std::vector<device::Channel> const& channels, Body body,
                            GpuStart const& on_gpu, bool sorts) {
    if (options.groups == 0 || options.threads == 0) {
        throw Error(ErrorCode::InvalidArgument,
                    "a launch needs at least one group of one thread, not " +
                        std::to_string(options.groups) + " groups of " +
                        std::to_string(options.threads));
    }
    Device const& device = device_of(endpoint);
    auto const launch = new_launch(endpoint, options.groups, channels, sorts);
    std::uint32_t const scratch = scratch_of(*launch, options.shared_bytes);
    if (device.kind == VertexKind::Gpu) {
        return start_on_gpu(launch, device, options, scratch, on_gpu);
    }
    std::vector<std::shared_ptr<GroupRun>> runs;
    runs.reserve(options.groups);
    for (std::uint32_t g = 0; g < options.groups; ++g) {
        runs.push_back(std::make_shared<GroupRun>(options.threads, scratch));
    }
    auto shared_body = std::make_shared<Body>(std::move(body));
    auto const cores = options_.pin ? device.cores : std::vector<int>{};
    {
        std::lock_guard const lock(registry_->mutex);
        registry_->launches.push_back(launch);
    }
    for (std::uint32_t g = 0; g < options.groups; ++g) {
        for (std::uint32_t t = 0; t < options.threads; ++t) {
            device::Group group;
            group.block = g;
            group.blocks = options.groups;
            group.thread = t;
            group.threads = options.threads;
            group.launch = launch->first_number + g;
            group.barrier = options.threads == 1 ? nullptr : &runs[g]->barrier;
            try {
                std::thread([registry = registry_, launch, run = runs[g], group, cores,
                             shared_body]() mutable {
                    if (!cores.empty()) pin_to(cores);
                    run_thread(registry, launch, run, group, std::move(shared_body));
                }).detach();
            } catch (std::exception const& error) {
                give_up(*registry_, *launch, runs, g, t, options.threads, error.what());
                return Launch(launch);
            }
        }
    }
    return Launch(launch);
}

std::shared_ptr<Launch::State> Runtime::Impl::new_launch(
    Endpoint endpoint, std::uint32_t groups, std::vector<device::Channel> const& channels,
    bool sorts) const {
    registry_->forget_launches();
    auto launch = std::make_shared<Launch::State>();
    launch->endpoint = endpoint;
    launch->sorts = sorts;
    launch->on_gpu = devices_[endpoint.device].kind == VertexKind::Gpu;
    launch->groups = groups;
    launch->running = groups;
    launch->group_runs.assign(groups, true);
    launch->first_number = take_group_numbers(groups);
    for (device::Channel const& channel : channels) launch->given.push_back(&channel.state());
    return launch;
}

// Scratch that the kernels' channel calls need, and `more` of their own. Holds on to the channels that the launch was given;
// throws Error(NotFound) for one that does not exist.
std::uint32_t Runtime::Impl::scratch_of(Launch::State& launch, std::uint32_t more) const {
    std::uint32_t scratch = kLeastScratch;
    std::size_t given = 0;
    std::lock_guard const lock(registry_->mutex);
    for (auto const& [id, channel] : registry_->channels) {
        // Kernels have it as it is at their endpoint; all others know it as it is on the host.
        for (mgi::State const*& named : launch.given) {
            State const* const known = channel->state_of(named);
            if (known == nullptr) continue;
            scratch = std::max(scratch, device::shared_bytes_of(*known));
            named = &channel->state();
        }
        bool const is_given = launch.was_given(channel->state());
        if (is_given) launch.channels.push_back(channel);
        given += is_given ? 1 : 0;
        if (!is_given && !has_endpoint(*channel, launch.endpoint)) continue;
        scratch = std::max(scratch, device::shared_bytes_of(channel->state_at(launch.endpoint)));
    }
    std::set<State const*> const distinct(launch.given.begin(), launch.given.end());
    if (given != distinct.size()) {
        throw Error(ErrorCode::NotFound,
                    "the kernel for endpoint " + std::to_string(launch.endpoint.id) +
                        " was given a channel that does not exist in this runtime (deleted?)");
    }
    // A multiple of 16, as what is taken from its end has to be.
    std::uint64_t const all = (std::uint64_t{scratch} + more + 15) / 16 * 16;
    if (all <= UINT32_MAX) return static_cast<std::uint32_t>(all);
    throw Error(ErrorCode::InvalidArgument, "a group's scratch of " +
                                                std::to_string(std::uint64_t{scratch} + more) +
                                                " bytes is more than 4 GiB");
}

void Launch::wait(std::chrono::milliseconds timeout) {
    std::unique_lock lock(state_->mutex);
    auto const over = [&] { return state_->running == 0; };
    if (timeout == std::chrono::milliseconds::max()) {
        state_->ended.wait(lock, over);
    } else if (!state_->ended.wait_for(lock, timeout, over)) {
        throw Error(ErrorCode::Timeout,
                    std::to_string(state_->running) + " of " + std::to_string(state_->groups) +
                        " groups on endpoint " + std::to_string(state_->endpoint.id) +
                        " still run after " + std::to_string(timeout.count()) + " ms");
    }
    if (state_->failure != nullptr) std::rethrow_exception(state_->failure);
}

bool Launch::done() const {
    return !state_->runs();
}

}  // namespace mgi
