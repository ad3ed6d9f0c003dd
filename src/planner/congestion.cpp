#include "planner/congestion.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

using Links = std::vector<std::uint32_t>;

void check(std::span<Commodity const> commodities, std::span<double const> capacities) {
    for (std::size_t e = 0; e < capacities.size(); ++e) {
        if (capacities[e] > 0 && std::isfinite(capacities[e])) continue;
        throw Error(ErrorCode::InvalidArgument,
                    "link " + std::to_string(e) + " has a capacity of " +
                        std::to_string(capacities[e]) + "; expected more than 0");
    }
    for (std::size_t k = 0; k < commodities.size(); ++k) {
        Commodity const& commodity = commodities[k];
        std::string const who = "commodity " + std::to_string(k);
        if (!(commodity.demand >= 0 && std::isfinite(commodity.demand))) {
            throw Error(ErrorCode::InvalidArgument, who + " has a demand of " +
                                                        std::to_string(commodity.demand) +
                                                        "; expected 0 or more");
        }
        if (commodity.demand > 0 && commodity.paths.empty()) {
            throw Error(ErrorCode::InvalidArgument, who + " has a demand and no path");
        }
        for (Links const& path : commodity.paths) {
            for (std::uint32_t const e : path) {
                if (e < capacities.size()) continue;
                throw Error(ErrorCode::InvalidArgument, who + " uses link " + std::to_string(e) +
                                                            " of " +
                                                            std::to_string(capacities.size()));
            }
        }
    }
}

/// Links of `path` that are not on `other`; both are short.
void without(Links const& path, Links const& other, Links& rest) {
    rest.clear();
    for (std::uint32_t const e : path) {
        if (std::find(other.begin(), other.end(), e) == other.end()) rest.push_back(e);
    }
}

class Balancing {
public:
    Balancing(std::span<Commodity const> commodities, std::span<double const> capacities)
        : commodities_(commodities),
          capacities_(capacities),
          load_(capacities.size(), 0),
          price_(capacities.size(), 0) {
        // At first each path gets what it could carry alone, so that wide ones start with more.
        for (Commodity const& commodity : commodities) {
            auto& weights = weights_.emplace_back();
            double sum = 0;
            for (Links const& path : commodity.paths) {
                double width = path.empty() ? 1 : capacities[path.front()];
                for (std::uint32_t const e : path) width = std::min(width, capacities[e]);
                weights.push_back(width);
                sum += width;
            }
            for (double& weight : weights) weight /= sum;
        }
        add_loads();
    }

    PathWeights run(double tolerance, std::uint32_t most_rounds) {
        PathWeights made;
        double const steepest = 4 * std::log(double(load_.size()) + 2) / tolerance;
        double steepness = std::min(8.0, steepest);
        for (; made.rounds < most_rounds; ++made.rounds) {
            made.congestion = congestion();
            if (made.congestion == 0) break;
            set_prices(made.congestion, steepness);
            Costs const costs = all_costs();
            made.bound = std::max(made.bound, costs.least / costs.links);
            if (made.congestion <= (1 + tolerance) * made.bound) break;
            // Steeper prices see the most loaded links more sharply and move less at once: only when
            // flow has hardly anywhere cheaper to go at those in use.
            if (costs.spent <= (1 + tolerance / 4) * costs.least) {
                steepness = std::min(steepness * 2, steepest);
            }
            for (std::size_t k = 0; k < commodities_.size(); ++k) shift(k);
            // What was added and taken a thousand times is summed up anew.
            add_loads();
        }
        made.congestion = congestion();
        made.weights = std::move(weights_);
        return made;
    }

private:
    void add_loads() {
        std::fill(load_.begin(), load_.end(), 0);
        for (std::size_t k = 0; k < commodities_.size(); ++k) {
            for (std::size_t p = 0; p < commodities_[k].paths.size(); ++p) {
                double const flow = commodities_[k].demand * weights_[k][p];
                for (std::uint32_t const e : commodities_[k].paths[p]) load_[e] += flow;
            }
        }
    }
    [[nodiscard]] double congestion() const {
        double most = 0;
        for (std::size_t e = 0; e < load_.size(); ++e) {
            most = std::max(most, load_[e] / capacities_[e]);
        }
        return most;
    }
    void set_prices(double most, double steepness) {
        scale_ = steepness / most;
        most_ = most;
        for (std::size_t e = 0; e < load_.size(); ++e) set_price(e);
    }
    void set_price(std::size_t e) {
        price_[e] = std::exp(scale_ * (load_[e] / capacities_[e] - most_)) / capacities_[e];
    }
    [[nodiscard]] double cost(Links const& path) const {
        double sum = 0;
        for (std::uint32_t const e : path) sum += price_[e];
        return sum;
    }
    struct Costs {
        double spent = 0;  ///< what the traffic costs as it runs
        double least = 0;  ///< what it would if all took their cheapest paths at these prices
        double links = 0;  ///< what all links cost when they are full
    };
    [[nodiscard]] Costs all_costs() const {
        Costs costs;
        for (Commodity const& commodity : commodities_) {
            if (commodity.demand == 0) continue;
            double least = cost(commodity.paths.front());
            for (Links const& path : commodity.paths) least = std::min(least, cost(path));
            costs.least += commodity.demand * least;
        }
        for (std::size_t e = 0; e < price_.size(); ++e) {
            costs.spent += price_[e] * load_[e];
            costs.links += price_[e] * capacities_[e];
        }
        return costs;
    }

    /// Moves flow of one commodity to its cheapest path.
    void shift(std::size_t k) {
        Commodity const& commodity = commodities_[k];
        if (commodity.demand == 0 || commodity.paths.size() < 2) return;
        std::size_t cheap = 0;
        std::size_t dear = 0;
        double least = std::numeric_limits<double>::infinity();
        double most = -1;
        for (std::size_t p = 0; p < commodity.paths.size(); ++p) {
            double const c = cost(commodity.paths[p]);
            if (c < least) {
                least = c;
                cheap = p;
            }
            if (weights_[k][p] > 0 && c > most) {
                most = c;
                dear = p;
            }
        }
        if (cheap == dear || most <= least) return;
        without(commodity.paths[cheap], commodity.paths[dear], gains_);
        without(commodity.paths[dear], commodity.paths[cheap], loses_);
        double const flow = best_shift(commodity.demand * weights_[k][dear]);
        double const part = std::min(weights_[k][dear], flow / commodity.demand);
        weights_[k][cheap] += part;
        weights_[k][dear] -= part;
        for (std::uint32_t const e : gains_) {
            load_[e] += flow;
            set_price(e);
        }
        for (std::uint32_t const e : loses_) {
            load_[e] = std::max(0.0, load_[e] - flow);
            set_price(e);
        }
    }
    /// Where both paths cost the same, or all of it: the one is convex and rises, the other falls.
    [[nodiscard]] double best_shift(double all) const {
        auto const dearer = [&](double flow) {
            double difference = 0;
            for (std::uint32_t const e : gains_) {
                difference += price_[e] * std::exp(scale_ * flow / capacities_[e]);
            }
            for (std::uint32_t const e : loses_) {
                difference -= price_[e] * std::exp(-scale_ * flow / capacities_[e]);
            }
            return difference > 0;
        };
        if (!dearer(all)) return all;
        double low = 0;
        double high = all;
        for (int step = 0; step < 20; ++step) {
            double const middle = (low + high) / 2;
            (dearer(middle) ? high : low) = middle;
        }
        return low;
    }

    std::span<Commodity const> commodities_;
    std::span<double const> capacities_;
    std::vector<std::vector<double>> weights_;
    std::vector<double> load_;
    std::vector<double> price_;
    double scale_ = 1;
    double most_ = 0;
    Links gains_;
    Links loses_;
};

}  // namespace

PathWeights least_congestion(std::span<Commodity const> commodities,
                             std::span<double const> capacities, double tolerance,
                             std::uint32_t most_rounds) {
    check(commodities, capacities);
    return Balancing(commodities, capacities).run(tolerance, most_rounds);
}

}  // namespace mgi::planner
