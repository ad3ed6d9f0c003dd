// What threads that wait for a channel's rows do meanwhile: the work of their process' movers and wires.
#pragma once

#include <mutex>
#include <vector>

#include <mgi/device/state.hpp>

#include "mover/mover_thread.hpp"
#include "transport/wire/wire_thread.hpp"

namespace mgi {

// Thread-safe. Outlives the runtime, since its channels' calls may.
class Progress {
public:
    // Whose work is done from now on.
    void add(transport::wire::WireThread& wires);
    void add(mover::MoverThread& mover);
    // When this returns nobody touches movers and wires any more.
    void close();

    // A round, unless another thread makes one; never waits.
    void make() noexcept;
    // As a channel has it.
    [[nodiscard]] device::Progress hook() {
        return {[](void* context) { static_cast<Progress*>(context)->make(); }, this};
    }

private:
    std::mutex mutex_;
    transport::wire::WireThread* wires_ = nullptr;
    std::vector<mover::MoverThread*> movers_;
    bool closed_ = false;
};

}  // namespace mgi
