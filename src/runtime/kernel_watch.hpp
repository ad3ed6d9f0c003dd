// The thread that watches kernels on a GPU: it polls until each is over, since what waits for a kernel in CUDA's
// own calls holds up other calls, and ends the groups that the kernel had.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include <mgi/graph.hpp>

#include "core/kept_threads.hpp"
#include "runtime/registry.hpp"

namespace mgi {

// Of one launch, whose groups may be several kernels'. Lives until every group has ended, or none will come.
// Thread-safe.
class KernelWatch {
public:
    // Whether a kernel is over; throws what it failed with.
    using Over = std::function<bool()>;

    // On one of the threads; before the kernels, as one that nobody can watch must not run. Throws
    // Error(OutOfMemory).
    static std::shared_ptr<KernelWatch> start(KeptThreads& threads,
                                              std::shared_ptr<Registry> registry,
                                              std::shared_ptr<Launch::State> launch,
                                              Device const& device);
    // The kernel with groups [first, first + count) has been launched.
    void add(std::uint32_t first, std::uint32_t count, Over over);
    // The same in two steps: what needs memory comes before the kernel is started.
    struct Kernel {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
        Over over;
    };
    void add(std::list<Kernel>&& made) noexcept;
    // These end at once, with the exception if there is one; they never ran.
    void end(std::uint32_t first, std::uint32_t count, std::exception_ptr const& exception);
    // None of the launch's groups ever runs, and nobody waits for them.
    void never_ran();

private:
    KernelWatch(std::shared_ptr<Registry> registry, std::shared_ptr<Launch::State> launch, int gpu);
    void run();
    // Whether there were any.
    bool end_those_over(std::list<Kernel>& kernels);

    std::shared_ptr<Registry> const registry_;
    std::shared_ptr<Launch::State> const launch_;
    int const gpu_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::list<Kernel> coming_;
    std::uint32_t left_;  // groups that have not ended
};

}  // namespace mgi
