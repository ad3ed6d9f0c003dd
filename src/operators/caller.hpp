// Who called an operator, and may want to stop it.
#pragma once

#include <functional>

#include <mgi/operators.hpp>

namespace mgi::operators {

// Of OperatorOptions::cancel. Thread-safe.
class Caller {
public:
    // `what` starts the message: "join".
    Caller(std::string what, std::atomic<bool> const* cancel)
        : what_(std::move(what)), cancel_(cancel) {}

    [[nodiscard]] bool cancelled() const {
        return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed);
    }
    [[nodiscard]] Error interrupted() const;
    // Throws Error(Interrupted) if the caller wants to stop.
    void check() const {
        if (cancelled()) throw interrupted();
    }

    // Waits until all groups of the launch have ended. `record` gets what it threw, and Error(Interrupted) once if
    // the caller wants to stop while nothing has `failed`; it has to make them end.
    void wait_for(Launch& launch, std::function<bool()> const& failed,
                  std::function<void(std::exception_ptr)> const& record) const;

private:
    std::string what_;
    std::atomic<bool> const* cancel_;
};

}  // namespace mgi::operators
