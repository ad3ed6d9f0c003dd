#include "simulation/fluid.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <mgi/error.hpp>

namespace mgi::simulation {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Links that fill within this of each other fill together: sums of doubles are no better.
constexpr double kTogether = 1e-12;
/// A sum of which less is left, after subtractions, is summed up anew.
constexpr double kLost = 1e-3;

/// Which flows are on each link, and their rates while only some of them are active.
class Sharing {
public:
    Sharing(std::vector<double> const& capacities, std::vector<FluidFlow> const& flows)
        : capacities_(capacities), flows_(flows), flows_on_(capacities.size()) {
        for (double const capacity : capacities) {
            if (!(capacity >= 0)) {
                throw Error(ErrorCode::InvalidArgument,
                            "a link of " + std::to_string(capacity) + " GB/s; expected 0 or more");
            }
        }
        for (std::uint32_t f = 0; f < flows.size(); ++f) {
            if (!(flows[f].weight > 0)) {
                throw Error(ErrorCode::InvalidArgument,
                            "flow " + std::to_string(f) + " has weight " +
                                std::to_string(flows[f].weight) + "; expected more than 0");
            }
            for (std::uint32_t const link : flows[f].links) {
                if (link >= capacities.size()) {
                    throw Error(ErrorCode::InvalidArgument, "flow " + std::to_string(f) +
                                                                " is on link " +
                                                                std::to_string(link) + " of " +
                                                                std::to_string(capacities.size()));
                }
                flows_on_[link].push_back(f);
            }
        }
    }

    /// Rates of flows that are not active are 0.
    void share(std::vector<bool> const& active, std::vector<double>& rates) {
        growing_ = active;
        left_ = capacities_;
        weight_.assign(capacities_.size(), 0);
        level_ = 0;
        count_.assign(capacities_.size(), 0);
        open_.clear();
        std::fill(rates.begin(), rates.end(), 0);
        for (std::uint32_t f = 0; f < flows_.size(); ++f) {
            if (active[f] && flows_[f].links.empty()) rates[f] = kInfinity;
        }
        for (std::uint32_t link = 0; link < capacities_.size(); ++link) {
            for (std::uint32_t const f : flows_on_[link]) {
                if (!active[f]) continue;
                weight_[link] += flows_[f].weight;
                ++count_[link];
            }
            if (count_[link] > 0) open_.push_back(link);
        }
        summed_ = weight_;
        while (!open_.empty()) {
            double level = kInfinity;
            for (std::uint32_t const link : open_) level = std::min(level, level_of(link));
            level_ = level;
            double const full = level * (1 + kTogether);
            // A link's level only grows as flows of others' links stop, so the order here is free.
            for (std::uint32_t const link : open_) {
                if (count_[link] > 0 && level_of(link) <= full) fill(link, rates);
            }
            std::erase_if(open_, [&](std::uint32_t link) { return count_[link] == 0; });
        }
    }

private:
    /// The rate for each unit of weight at which what is left of the link is used up; not below that
    /// of links filled before, but for rounding.
    [[nodiscard]] double level_of(std::uint32_t link) const {
        return std::max(left_[link] / weight_[link], level_);
    }

    void fill(std::uint32_t full, std::vector<double>& rates) {
        for (std::uint32_t const f : flows_on_[full]) {
            if (!growing_[f]) continue;
            growing_[f] = false;
            rates[f] = flows_[f].weight * level_;
            for (std::uint32_t const link : flows_[f].links) {
                left_[link] -= rates[f];
                weight_[link] -= flows_[f].weight;
                --count_[link];
                if (count_[link] > 0 && weight_[link] < kLost * summed_[link]) sum_anew(link);
            }
        }
    }

    void sum_anew(std::uint32_t link) {
        weight_[link] = 0;
        for (std::uint32_t const f : flows_on_[link]) {
            if (growing_[f]) weight_[link] += flows_[f].weight;
        }
        summed_[link] = weight_[link];
    }

    std::vector<double> const& capacities_;
    std::vector<FluidFlow> const& flows_;
    std::vector<std::vector<std::uint32_t>> flows_on_;
    // Of the sharing at hand: of each link what is not given away, and its flows that still grow.
    std::vector<double> left_;
    std::vector<double> weight_;
    std::vector<double> summed_;  ///< weight_ when it was last summed up
    std::vector<std::uint32_t> count_;
    std::vector<std::uint32_t> open_;  ///< links that some growing flow is on
    std::vector<bool> growing_;
    double level_ = 0;  ///< of the links filled last
};

}  // namespace

std::vector<double> fair_rates(std::vector<double> const& capacities,
                               std::vector<FluidFlow> const& flows) {
    std::vector<double> rates(flows.size());
    Sharing(capacities, flows).share(std::vector<bool>(flows.size(), true), rates);
    return rates;
}

std::vector<double> finish_times(std::vector<double> const& capacities,
                                 std::vector<FluidFlow> const& flows, double resolution) {
    Sharing sharing(capacities, flows);
    std::vector<double> finish(flows.size(), 0);
    std::vector<double> left(flows.size());
    std::vector<double> rates(flows.size());
    std::vector<bool> active(flows.size(), false);
    std::vector<std::uint32_t> waiting(flows.size());
    std::vector<std::uint32_t> running;
    for (std::uint32_t f = 0; f < flows.size(); ++f) {
        left[f] = flows[f].gigabytes;
        waiting[f] = f;
    }
    // The next to start is the last.
    std::sort(waiting.begin(), waiting.end(),
              [&](std::uint32_t a, std::uint32_t b) { return flows[a].start > flows[b].start; });

    double now = 0;
    while (!running.empty() || !waiting.empty()) {
        while (!waiting.empty() && flows[waiting.back()].start <= now) {
            running.push_back(waiting.back());
            active[waiting.back()] = true;
            waiting.pop_back();
        }
        sharing.share(active, rates);
        double next = waiting.empty() ? kInfinity : flows[waiting.back()].start;
        for (std::uint32_t const f : running) {
            double const end = left[f] == 0 ? now : now + left[f] / rates[f];
            next = std::min(next, end);
        }
        if (next == kInfinity) {
            throw Error(ErrorCode::InvalidArgument,
                        "flow " + std::to_string(running.front()) +
                            " never ends: a link on its way has no capacity");
        }
        double const until = next * (1 + std::max(resolution, kTogether));
        std::erase_if(running, [&](std::uint32_t f) {
            double const end = left[f] == 0 ? now : now + left[f] / rates[f];
            if (end <= until) {
                finish[f] = end;
                active[f] = false;
                return true;
            }
            left[f] -= rates[f] * (until - now);
            return false;
        });
        now = until;
    }
    return finish;
}

}  // namespace mgi::simulation
