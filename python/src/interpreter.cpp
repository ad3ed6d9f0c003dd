#include "interpreter.hpp"

#include <cmath>
#include <sstream>
#include <vector>

#include <mgi/error.hpp>

namespace mgi::python {
namespace {

/// Buffers that threads without the GIL are done with.
struct Queue {
    std::mutex mutex;
    std::vector<Py_buffer*> buffers;
    std::atomic<bool> ended{false};
};

/// Never destroyed: a thread that outlives the interpreter may still come here.
Queue& queue() {
    static Queue* const instance = new Queue;
    return *instance;
}

void release_now(Py_buffer* buffer) {
    PyBuffer_Release(buffer);
    delete buffer;
}

}  // namespace

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
    Queue& waiting = queue();
    if (waiting.ended.load()) return;
    if (PyGILState_Check() != 0) {
        release_now(buffer);
        return;
    }
    {
        std::lock_guard const lock(waiting.mutex);
        waiting.buffers.push_back(buffer);
    }
    // Refused when too many calls wait: then the next call of ours drops the buffer.
    Py_AddPendingCall(
        [](void*) {
            release_queued();
            return 0;
        },
        nullptr);
}

void release_queued() noexcept {
    std::vector<Py_buffer*> buffers;
    {
        std::lock_guard const lock(queue().mutex);
        buffers.swap(queue().buffers);
    }
    for (Py_buffer* const buffer : buffers) release_now(buffer);
}

void interpreter_ends() noexcept {
    release_queued();
    queue().ended.store(true);
}

}  // namespace mgi::python
