#include "planner/congestion.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

using Links = std::vector<std::uint32_t>;

/// A link's price is the power of its load, relative to the highest: the higher the power, the less
/// counts whatever is not the most loaded. Each power starts from where the one before has ended.
constexpr double kFirstPower = 4;
constexpr double kLastPower = 65536;
constexpr double kNextPower = 1.4;
constexpr int kRounds = 60;    ///< of each power: over a hundred random cases none needed more
constexpr int kHalvings = 30;  ///< of a move that went too far

class Balance {
public:
    Balance(std::span<Commodity const> commodities, std::span<double const> capacities,
            std::span<double const> load)
        : commodities_(commodities),
          capacities_(capacities),
          load_(load.begin(), load.end()),
          side_(capacities.size(), 0) {
        load_.resize(std::max(load.size(), capacities.size()), 0);
        split_.reserve(commodities.size());
        for (std::size_t c = 0; c < commodities.size(); ++c) split_.push_back(first_split(c));
        for (std::size_t link = 0; link < load_.size(); ++link) {
            if (load_[link] > 0) check(std::uint32_t(link));
        }
    }

    PathWeights solve(double tolerance) {
        PathWeights best;
        bool done = false;
        for (power_ = kFirstPower; power_ <= kLastPower && !done; power_ *= kNextPower) {
            for (int round = 0; round < kRounds && !done; ++round) {
                highest_ = congestion();
                if (best.weights.empty() || highest_ < best.congestion) {
                    best.weights = split_;
                    best.congestion = highest_;
                }
                if (highest_ > 0) best.bound = std::max(best.bound, bound());
                done = best.congestion <= best.bound * (1 + tolerance);
                for (std::size_t c = 0; c < commodities_.size() && !done; ++c) rebalance(c);
            }
        }
        for (std::size_t c = 0; c < commodities_.size(); ++c) {
            if (commodities_[c].demand == 0) continue;
            for (double& weight : best.weights[c]) weight /= commodities_[c].demand;
        }
        return best;
    }

private:
    void check(std::uint32_t link) const {
        if (link >= capacities_.size() || !(capacities_[link] > 0)) {
            throw Error(ErrorCode::InvalidArgument,
                        "traffic on link " + std::to_string(link) + ", which has no capacity");
        }
    }

    /// In proportion to what the paths carry alone. Without a demand these are the weights.
    std::vector<double> first_split(std::size_t c) {
        Commodity const& commodity = commodities_[c];
        if (!(commodity.demand >= 0 && std::isfinite(commodity.demand))) {
            throw Error(ErrorCode::InvalidArgument,
                        "commodity " + std::to_string(c) + " has a demand of " +
                            std::to_string(commodity.demand) + "; expected 0 or more");
        }
        if (commodity.demand > 0 && commodity.paths.empty()) {
            throw Error(ErrorCode::InvalidArgument,
                        "commodity " + std::to_string(c) + " has a demand and no path");
        }
        std::vector<double> split;
        double all = 0;
        for (Links const& path : commodity.paths) {
            double least = 1e9;  // of a path on no link: more than any link has
            for (std::uint32_t const link : path) {
                check(link);
                least = std::min(least, capacities_[link]);
            }
            split.push_back(least);
            all += least;
        }
        for (std::size_t p = 0; p < split.size(); ++p) {
            split[p] *= (commodity.demand > 0 ? commodity.demand : 1) / all;
            if (commodity.demand == 0) continue;
            for (std::uint32_t const link : commodity.paths[p]) load_[link] += split[p];
        }
        return split;
    }

    [[nodiscard]] double congestion() const {
        double most = 0;
        for (std::size_t link = 0; link < load_.size(); ++link) {
            if (load_[link] > 0) most = std::max(most, load_[link] / capacities_[link]);
        }
        return most;
    }

    [[nodiscard]] double price(std::uint32_t link, double load) const {
        return std::pow(load / capacities_[link] / highest_, power_ - 1) / capacities_[link];
    }
    [[nodiscard]] double price(Links const& path) const {
        double sum = 0;
        for (std::uint32_t const link : path) sum += price(link, load_[link]);
        return sum;
    }

    /// Linear programming's dual: whatever the prices, all bytes by their cheapest paths cost no more
    /// than all links earn in the time. What no path here explains was on the links before.
    [[nodiscard]] double bound() const {
        double earned = 0;
        std::vector<double> prices(load_.size());
        for (std::uint32_t link = 0; link < capacities_.size(); ++link) {
            if (load_[link] == 0) continue;
            prices[link] = price(link, load_[link]);
            earned += prices[link] * capacities_[link];
        }
        double spent = 0;
        std::vector<double> fixed = load_;
        for (std::size_t c = 0; c < commodities_.size(); ++c) {
            if (commodities_[c].demand == 0) continue;
            double cheapest = INFINITY;
            for (std::size_t p = 0; p < commodities_[c].paths.size(); ++p) {
                double sum = 0;
                for (std::uint32_t const link : commodities_[c].paths[p]) {
                    sum += prices[link];
                    fixed[link] -= split_[c][p];
                }
                cheapest = std::min(cheapest, sum);
            }
            spent += commodities_[c].demand * cheapest;
        }
        for (std::size_t link = 0; link < fixed.size(); ++link) {
            spent += std::max(fixed[link], 0.0) * prices[link];
        }
        return spent / earned;
    }

    void rebalance(std::size_t c) {
        auto const& paths = commodities_[c].paths;
        if (paths.size() < 2 || commodities_[c].demand == 0) return;
        // Each path once: the cheapest may be another one after every move.
        for (std::size_t moves = 0; moves < paths.size(); ++moves) {
            std::size_t cheap = 0, dear = paths.size();
            double least = INFINITY, most = 0;
            for (std::size_t p = 0; p < paths.size(); ++p) {
                double const sum = price(paths[p]);
                if (sum < least) least = sum, cheap = p;
                if (split_[c][p] > 0 && sum > most) most = sum, dear = p;
            }
            if (dear == paths.size() || dear == cheap) return;
            move(c, dear, cheap);
        }
    }

    /// Moves bytes until both paths cost the same, or all of them.
    void move(std::size_t c, std::size_t dear, std::size_t cheap) {
        Links const& from = commodities_[c].paths[dear];
        Links const& to = commodities_[c].paths[cheap];
        // Links of both keep their load.
        for (std::uint32_t const link : from) ++side_[link];
        for (std::uint32_t const link : to) --side_[link];
        double dearer = 0, cheaper = 0, slope_dear = 0, slope_cheap = 0;
        for (std::uint32_t const link : from) {
            if (side_[link] <= 0) continue;
            double const cost = price(link, load_[link]);
            dearer += cost;
            slope_dear += (power_ - 1) * cost / load_[link];
        }
        for (std::uint32_t const link : to) {
            if (side_[link] >= 0 || load_[link] == 0) continue;
            double const cost = price(link, load_[link]);
            cheaper += cost;
            slope_cheap += (power_ - 1) * cost / load_[link];
        }
        double bytes = dearer > cheaper ? split_[c][dear] : 0;
        if (bytes > 0 && cheaper > 0) {
            // Newton's step on the prices' logarithms, which are close to straight lines.
            double const slope = slope_dear / dearer + slope_cheap / cheaper;
            bytes = std::min(bytes, (std::log(dearer) - std::log(cheaper)) / slope);
        }
        for (int halvings = 0; bytes > 0 && after(to, -1, bytes) > after(from, 1, -bytes);) {
            bytes = ++halvings < kHalvings ? bytes / 2 : 0;
        }
        for (std::uint32_t const link : from) {
            if (side_[link] > 0) load_[link] = std::max(load_[link] - bytes, 0.0);
        }
        for (std::uint32_t const link : to) {
            if (side_[link] < 0) load_[link] += bytes;
        }
        split_[c][cheap] += bytes;
        split_[c][dear] -= bytes;
        for (std::uint32_t const link : from) side_[link] = 0;
        for (std::uint32_t const link : to) side_[link] = 0;
    }

    /// The price of a path's own links with so many bytes more.
    [[nodiscard]] double after(Links const& path, int side, double bytes) const {
        double sum = 0;
        for (std::uint32_t const link : path) {
            if (side_[link] * side > 0) sum += price(link, std::max(load_[link] + bytes, 0.0));
        }
        return sum;
    }

    std::span<Commodity const> commodities_;
    std::span<double const> capacities_;
    std::vector<double> load_;
    std::vector<std::vector<double>> split_;
    std::vector<int> side_;  ///< of each link: on the one path, on the other, or on both or none
    double power_ = kFirstPower;
    double highest_ = 0;  ///< time of the most loaded link
};

}  // namespace

PathWeights least_congestion(std::span<Commodity const> commodities,
                             std::span<double const> capacities, double tolerance,
                             std::span<double const> load) {
    return Balance(commodities, capacities, load).solve(tolerance);
}

}  // namespace mgi::planner
