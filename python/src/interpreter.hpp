/// \file
/// Living with Python's interpreter: waits that let the GIL go and see Ctrl-C, and Python objects
/// that C++ threads drop.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <mgi/device/group.hpp>

namespace mgi::python {

namespace nb = nanobind;
using Clock = std::chrono::steady_clock;

/// How long a wait goes on before it looks for signals (DESIGN section 7).
inline constexpr std::chrono::milliseconds kSignalInterval{50};

/// Lets the GIL go for a scope. When the interpreter ends meanwhile, a thread other than the one that
/// ends it stays here for good: taking the GIL back would make Python unwind it through C++ frames,
/// which aborts the process. Called with the GIL.
class Unlocked {
public:
    Unlocked();
    ~Unlocked();
    Unlocked(Unlocked const&) = delete;
    Unlocked& operator=(Unlocked const&) = delete;

private:
    PyThreadState* state_;
};

/// Takes the GIL for a scope, in any thread. Not once the interpreter ends: then it is false.
class Locked {
public:
    Locked();
    ~Locked();
    Locked(Locked const&) = delete;
    Locked& operator=(Locked const&) = delete;
    explicit operator bool() const { return state_.has_value(); }

private:
    std::optional<PyGILState_STATE> state_;
};

/// When a call stops waiting.
class Deadline {
public:
    /// `seconds` from now; nothing: never. Throws Error(InvalidArgument) if negative or not a number.
    explicit Deadline(std::optional<double> seconds);

    /// Whether to give up after an attempt. A call that does not wait at all (0 seconds) still goes
    /// on while its attempts make progress.
    [[nodiscard]] bool over(bool progress) const {
        return at_ && !(progress && at_once_) && Clock::now() >= *at_;
    }

private:
    std::optional<Clock::time_point> at_;
    bool at_once_ = false;
};

/// What one attempt of a wait came to.
enum class Attempt { Done, Progress, Nothing };

/// Repeats `attempt` without the GIL until it is Done (true) or the deadline has passed (false); it
/// is made at least once. Looks for signals every 50 ms; when one raises (Ctrl-C), `stop` is called
/// without the GIL and the Python exception thrown. Called with the GIL.
template <class Try, class Stop>
bool wait_for(Try&& attempt, Deadline const& deadline, Stop&& stop) {
    for (;;) {
        Attempt outcome = Attempt::Nothing;
        {
            Unlocked const unlocked;
            Clock::time_point const pause = Clock::now() + kSignalInterval;
            for (unsigned round = 0;; ++round) {
                outcome = attempt();
                bool const progress = outcome == Attempt::Progress;
                if (outcome == Attempt::Done || Clock::now() >= pause) break;
                if (deadline.over(progress)) break;
                if (progress) round = 0;
                device::backoff(round);
            }
        }
        if (outcome == Attempt::Done) return true;
        if (PyErr_CheckSignals() != 0) {
            {
                Unlocked const unlocked;
                stop();
            }
            throw nb::python_error();
        }
        if (deadline.over(outcome == Attempt::Progress)) return false;
    }
}

/// A thread that runs `work`. Throws Error(OutOfMemory) that names the limits of this process.
std::thread started(std::function<void()> work);

/// Runs `work(cancel)` on a thread of its own and waits for it without the GIL. When a signal raises
/// (Ctrl-C), `cancel` becomes true, `stop` is called without the GIL, the work is given ten seconds to
/// end, and the Python exception thrown; what still runs then is left behind, and owns all it uses.
/// The work makes no Python call, but where it takes the GIL for that (Locked).
template <class Result>
Result run_beside(std::function<Result(std::atomic<bool> const& cancel)> work,
                  std::function<void()> const& stop = {}) {
    struct Shared {
        std::mutex mutex;
        std::condition_variable ended;
        bool done = false;
        std::optional<Result> result;
        std::exception_ptr failure;
        std::atomic<bool> cancel{false};
    };
    auto shared = std::make_shared<Shared>();
    std::thread thread = started([shared, work = std::move(work)]() mutable {
        std::optional<Result> result;
        std::exception_ptr failure;
        try {
            result.emplace(work(shared->cancel));
        } catch (...) {
            failure = std::current_exception();
        }
        work = nullptr;
        std::lock_guard const lock(shared->mutex);
        shared->result = std::move(result);
        shared->failure = failure;
        shared->done = true;
        shared->ended.notify_all();
    });
    auto const wait = [&](std::chrono::milliseconds limit) {
        Unlocked const unlocked;
        std::unique_lock lock(shared->mutex);
        bool const done = shared->ended.wait_for(lock, limit, [&] { return shared->done; });
        lock.unlock();
        if (done) thread.join();
        return done;
    };
    while (!wait(kSignalInterval)) {
        if (PyErr_CheckSignals() == 0) continue;
        shared->cancel.store(true);
        if (stop) {
            Unlocked const unlocked;
            stop();
        }
        if (!wait(std::chrono::seconds(10))) thread.detach();
        throw nb::python_error();
    }
    if (shared->failure) std::rethrow_exception(shared->failure);
    return std::move(*shared->result);
}

/// Releases and frees a buffer, which was allocated with new. From any thread, with the GIL or
/// without: then it is queued, and the interpreter drops it soon after. Nothing happens once the
/// interpreter has ended.
void release_buffer(Py_buffer* buffer) noexcept;
/// Keeps an object while a copy of this lives; dropped as a buffer is. Called with the GIL.
std::shared_ptr<void const> hold_object(nb::object object);
/// Drops what is queued. Called with the GIL.
void release_queued() noexcept;
/// From now on nothing is given back to the interpreter, which the calling thread is about to end,
/// and no other thread comes back from where it let the GIL go. Called with the GIL.
void interpreter_ends() noexcept;

}  // namespace mgi::python
