/// \file
/// What other threads bring to the agent's one.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "control/local/socket.hpp"

namespace mgi::control {

/// Thread-safe. Whoever posts may outlive who reads.
class Inbox {
public:
    using Event = std::function<void()>;

    void post(Event event) {
        {
            std::lock_guard const lock(mutex_);
            events_.push_back(std::move(event));
        }
        waker_.wake();
    }
    /// Everything that has come, in its order.
    std::vector<Event> take() {
        waker_.clear();
        std::lock_guard const lock(mutex_);
        return std::exchange(events_, {});
    }
    [[nodiscard]] int fd() const { return waker_.fd(); }
    void wake() noexcept { waker_.wake(); }

private:
    std::mutex mutex_;
    std::vector<Event> events_;
    Waker waker_;
};

}  // namespace mgi::control
