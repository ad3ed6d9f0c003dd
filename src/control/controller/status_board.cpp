#include "control/controller/status_board.hpp"

namespace mgi::control {

void StatusBoard::refresh(std::shared_ptr<Engine const> const& engine) {
    auto const now = clock_();
    if (snapshot_ != nullptr && of_.lock() == engine && now - taken_ < kKept) return;
    json_.reset();
    snapshot_ = std::make_shared<Snapshot const>(engine->snapshot());
    of_ = engine;
    taken_ = now;
}

std::shared_ptr<Snapshot const> StatusBoard::snapshot(std::shared_ptr<Engine const> const& engine) {
    std::lock_guard const lock(mutex_);
    refresh(engine);
    return snapshot_;
}

std::shared_ptr<std::string const> StatusBoard::json(std::shared_ptr<Engine const> const& engine,
                                                     About const& about) {
    std::lock_guard const lock(mutex_);
    refresh(engine);
    if (json_ == nullptr) {
        json_ = std::make_shared<std::string const>(status_json(*snapshot_, about));
    }
    return json_;
}

}  // namespace mgi::control
