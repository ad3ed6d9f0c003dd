#include "interpreter.hpp"

#include <unistd.h>

#include <sstream>
#include <system_error>
#include <vector>

#include <mgi/error.hpp>

#include "core/process_limits.hpp"

namespace mgi::python {
namespace {

/// What threads that do not hold the GIL share.
struct Outside {
    std::mutex mutex;
    std::vector<Py_buffer*> buffers;  ///< that they are done with
    std::vector<PyObject*> objects;   ///< the same
    std::atomic<int> threads{0};      ///< that let the GIL go and will want it back
    std::atomic<bool> ended{false};
    std::atomic<std::thread::id> ending_thread{};
};

/// Never destroyed: a thread that outlives the interpreter may still come here.
Outside& outside() {
    static Outside* const instance = new Outside;
    return *instance;
}

void release_now(Py_buffer* buffer) {
    PyBuffer_Release(buffer);
    delete buffer;
}

void release_now(PyObject* object) {
    Py_DECREF(object);
}

/// At once with the GIL, else when the interpreter comes to it.
template <class T>
void release(T* what, std::vector<T*>& queue) noexcept {
    Outside& all = outside();
    if (all.ended.load()) return;
    if (PyGILState_Check() != 0) {
        release_now(what);
        return;
    }
    {
        std::lock_guard const lock(all.mutex);
        queue.push_back(what);
    }
    // Refused when too many calls wait: then the next call of ours drops it.
    Py_AddPendingCall(
        [](void*) {
            release_queued();
            return 0;
        },
        nullptr);
}

}  // namespace

Unlocked::Unlocked() {
    outside().threads.fetch_add(1);
    state_ = PyEval_SaveThread();
}

Unlocked::~Unlocked() {
    Outside& all = outside();
    if (all.ended.load() && all.ending_thread.load() != std::this_thread::get_id()) {
        all.threads.fetch_sub(1);
        for (;;) pause();
    }
    PyEval_RestoreThread(state_);
    all.threads.fetch_sub(1);
}

Locked::Locked() {
    Outside& all = outside();
    all.threads.fetch_add(1);
    if (all.ended.load()) {
        all.threads.fetch_sub(1);
        return;
    }
    state_ = PyGILState_Ensure();
}

Locked::~Locked() {
    if (!state_) return;
    PyGILState_Release(*state_);
    outside().threads.fetch_sub(1);
}

Deadline::Deadline(std::optional<double> seconds) {
    if (!seconds) return;
    if (!(*seconds >= 0)) {
        std::ostringstream text;
        text << "timeout is " << *seconds << ": give seconds, 0 or more, or None to wait for ever";
        throw Error(ErrorCode::InvalidArgument, text.str());
    }
    constexpr double longest = 1e9;  // 31 years: longer is for ever
    if (*seconds > longest) return;
    at_once_ = *seconds == 0;
    at_ = Clock::now() +
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
}

void release_buffer(Py_buffer* buffer) noexcept {
    release(buffer, outside().buffers);
}

std::shared_ptr<void const> hold_object(nb::object object) {
    return {object.release().ptr(), [](void const* held) {
                release(static_cast<PyObject*>(const_cast<void*>(held)), outside().objects);
            }};
}

void release_queued() noexcept {
    std::vector<Py_buffer*> buffers;
    std::vector<PyObject*> objects;
    {
        std::lock_guard const lock(outside().mutex);
        buffers.swap(outside().buffers);
        objects.swap(outside().objects);
    }
    for (Py_buffer* const buffer : buffers) release_now(buffer);
    for (PyObject* const object : objects) release_now(object);
}

void interpreter_ends() noexcept {
    release_queued();
    Outside& all = outside();
    all.ending_thread.store(std::this_thread::get_id());
    PyThreadState* const state = PyEval_SaveThread();
    all.ended.store(true);
    // Who asks for the GIL right now gets it; who waits notices within a signal interval. A call that
    // takes longer than this stays where it is when it ends.
    auto const patience = Clock::now() + 4 * kSignalInterval;
    while (all.threads.load() != 0 && Clock::now() < patience) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    PyEval_RestoreThread(state);
}

std::thread started(std::function<void()> work) {
    try {
        return std::thread(std::move(work));
    } catch (std::system_error const& error) {
        throw Error(ErrorCode::OutOfMemory,
                    "cannot start a thread for this call: " + no_thread_text(error.what()));
    }
}

}  // namespace mgi::python
