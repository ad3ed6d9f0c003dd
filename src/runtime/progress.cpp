#include "runtime/progress.hpp"

#include <algorithm>

namespace mgi {

void Progress::add(transport::wire::WireThread& wires) {
    std::lock_guard const lock(mutex_);
    wires_ = &wires;
}

void Progress::add(mover::MoverThread& mover) {
    std::lock_guard const lock(mutex_);
    if (std::find(movers_.begin(), movers_.end(), &mover) == movers_.end()) {
        movers_.push_back(&mover);
    }
}

void Progress::close() {
    std::lock_guard const lock(mutex_);
    closed_ = true;
}

void Progress::make() noexcept {
    std::unique_lock const lock(mutex_, std::try_to_lock);
    if (!lock || closed_) return;
    auto const move = [this] {
        bool moved = false;
        for (mover::MoverThread* const mover : movers_) moved |= mover->drive();
        return moved;
    };
    move();
    if (wires_ == nullptr) return;
    wires_->drive();
    // What came may be what movers wait for: credits, and the end that they announce then.
    if (move()) wires_->drive();
}

}  // namespace mgi
