#include "control/controller/status_board.hpp"

namespace mgi::control {

void StatusBoard::refresh(std::shared_ptr<Engine const> const& engine) {
    auto const now = clock_();
    if (snapshot_ != nullptr && of_.lock() == engine && now - taken_ < kKept) return;
    texts_.clear();
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
                                                     About const& about,
                                                     std::optional<std::string> const& owner) {
    std::lock_guard const lock(mutex_);
    refresh(engine);
    auto const known = texts_.find(owner);
    if (known != texts_.end()) return known->second;
    if (texts_.size() >= kMostTexts) texts_.clear();
    auto text = std::make_shared<std::string const>(
        status_json(owner ? seen_by(*owner, *snapshot_) : *snapshot_, about));
    texts_.emplace(owner, text);
    return text;
}

}  // namespace mgi::control
