/// \file
/// The cluster's status for all who ask: page, metrics, `mgi status`. However many they are, the
/// controller is asked, and its answer written down, once in a while.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "control/controller/engine.hpp"
#include "control/state/status_json.hpp"

namespace mgi::control {

/// Thread-safe. Who asks while another one is being answered waits for that one's answer.
class StatusBoard {
public:
    using Clock = std::function<std::chrono::steady_clock::time_point()>;

    /// For so long an answer is good for others, too.
    static constexpr std::chrono::milliseconds kKept{250};
    /// Texts that are kept so long: large ones, of a large cluster.
    static constexpr std::size_t kMostTexts = 16;

    explicit StatusBoard(Clock clock = std::chrono::steady_clock::now) : clock_(std::move(clock)) {}

    std::shared_ptr<Snapshot const> snapshot(std::shared_ptr<Engine const> const& engine);
    /// All of it, or what an owner may see. `about` must be the same for one engine.
    std::shared_ptr<std::string const> json(std::shared_ptr<Engine const> const& engine,
                                            About const& about,
                                            std::optional<std::string> const& owner = {});

private:
    /// With the lock held.
    void refresh(std::shared_ptr<Engine const> const& engine);

    Clock const clock_;
    std::mutex mutex_;
    std::weak_ptr<Engine const> of_;
    std::chrono::steady_clock::time_point taken_;
    std::shared_ptr<Snapshot const> snapshot_;
    /// Of that snapshot, for who has asked.
    std::map<std::optional<std::string>, std::shared_ptr<std::string const>> texts_;
};

}  // namespace mgi::control
