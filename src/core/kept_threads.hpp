// Threads that are kept for the next work: starting one takes longer than a short kernel.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace mgi {

// Thread-safe.
class KeptThreads {
public:
    using Work = std::function<void()>;  // throws nothing

    KeptThreads();
    // Threads that have no work end; those that have some end behind it.
    ~KeptThreads();
    KeptThreads(KeptThreads const&) = delete;
    KeptThreads& operator=(KeptThreads const&) = delete;

    // Has the work done by a thread that has none, or by a new one. Throws std::system_error where no thread can
    // be started.
    void run(Work work);
    // Has all of them done at the same time, the first one by the calling thread, which waits for the others. These may
    // throw: the first failure is thrown once all are over.
    void run_all(std::vector<std::function<void()>> const& all);

private:
    struct State;
    static void live(std::shared_ptr<State> const& state, Work work);

    std::shared_ptr<State> const state_;
};

}  // namespace mgi
