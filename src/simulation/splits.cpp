#include "simulation/splits.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::simulation {
namespace {

/// A link's price is the power of its load, relative to the highest: the higher the power, the less
/// counts whatever is not the most loaded. Each power starts from where the one before has ended.
constexpr double kFirstPower = 4;
constexpr double kLastPower = 65536;
constexpr double kNextPower = 1.4;
constexpr int kRounds = 60;    ///< of each power: over a hundred random cases none needed more
constexpr int kHalvings = 30;  ///< of a move that went too far

class Balance {
public:
    Balance(std::vector<double> const& capacities, std::vector<Commodity> const& commodities,
            std::vector<double> load)
        : capacities_(capacities),
          commodities_(commodities),
          load_(std::move(load)),
          side_(capacities.size(), 0) {
        load_.resize(capacities.size(), 0);
        split_.reserve(commodities.size());
        for (std::size_t c = 0; c < commodities.size(); ++c) split_.push_back(first_split(c));
        for (std::size_t link = 0; link < load_.size(); ++link) {
            if (load_[link] > 0) check(std::uint32_t(link));
        }
    }

    Splits solve(double tolerance) {
        Splits best;
        for (power_ = kFirstPower; power_ <= kLastPower; power_ *= kNextPower) {
            for (int round = 0; round < kRounds; ++round) {
                highest_ = time();
                if (best.gigabytes.empty() || highest_ < best.seconds) {
                    best.gigabytes = split_;
                    best.seconds = highest_;
                }
                if (highest_ == 0) return best;
                best.least_seconds = std::max(best.least_seconds, bound());
                if (best.seconds <= best.least_seconds * (1 + tolerance)) return best;
                for (std::size_t c = 0; c < commodities_.size(); ++c) rebalance(c);
            }
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

    /// In proportion to what the routes carry alone.
    std::vector<double> first_split(std::size_t c) {
        Commodity const& commodity = commodities_[c];
        if (commodity.gigabytes > 0 && commodity.routes.empty()) {
            throw Error(ErrorCode::InvalidArgument,
                        "commodity " + std::to_string(c) + " has bytes and no route");
        }
        std::vector<double> split;
        double all = 0;
        for (Route const& route : commodity.routes) {
            double least = 1e9;  // of a route on no link: more than any link has
            for (std::uint32_t const link : route) {
                check(link);
                least = std::min(least, capacities_[link]);
            }
            split.push_back(least);
            all += least;
        }
        for (std::size_t r = 0; r < split.size(); ++r) {
            split[r] *= commodity.gigabytes / all;
            for (std::uint32_t const link : commodity.routes[r]) load_[link] += split[r];
        }
        return split;
    }

    [[nodiscard]] double time() const {
        double most = 0;
        for (std::size_t link = 0; link < load_.size(); ++link) {
            if (load_[link] > 0) most = std::max(most, load_[link] / capacities_[link]);
        }
        return most;
    }

    [[nodiscard]] double price(std::uint32_t link, double load) const {
        return std::pow(load / capacities_[link] / highest_, power_ - 1) / capacities_[link];
    }
    [[nodiscard]] double price(Route const& route) const {
        double sum = 0;
        for (std::uint32_t const link : route) sum += price(link, load_[link]);
        return sum;
    }

    /// Linear programming's dual: whatever the prices, all bytes by their cheapest routes cost no more
    /// than all links earn in the time. What no route here explains was on the links before.
    [[nodiscard]] double bound() const {
        double earned = 0;
        std::vector<double> prices(capacities_.size());
        for (std::uint32_t link = 0; link < capacities_.size(); ++link) {
            if (load_[link] == 0) continue;
            prices[link] = price(link, load_[link]);
            earned += prices[link] * capacities_[link];
        }
        double spent = 0;
        std::vector<double> fixed = load_;
        for (std::size_t c = 0; c < commodities_.size(); ++c) {
            if (commodities_[c].gigabytes == 0) continue;
            double cheapest = INFINITY;
            for (std::size_t r = 0; r < commodities_[c].routes.size(); ++r) {
                double sum = 0;
                for (std::uint32_t const link : commodities_[c].routes[r]) {
                    sum += prices[link];
                    fixed[link] -= split_[c][r];
                }
                cheapest = std::min(cheapest, sum);
            }
            spent += commodities_[c].gigabytes * cheapest;
        }
        for (std::size_t link = 0; link < fixed.size(); ++link) {
            spent += std::max(fixed[link], 0.0) * prices[link];
        }
        return spent / earned;
    }

    void rebalance(std::size_t c) {
        auto const& routes = commodities_[c].routes;
        if (routes.size() < 2 || commodities_[c].gigabytes == 0) return;
        // Each route once: the cheapest may be another one after every move.
        for (std::size_t moves = 0; moves < routes.size(); ++moves) {
            std::size_t cheap = 0, dear = routes.size();
            double least = INFINITY, most = 0;
            for (std::size_t r = 0; r < routes.size(); ++r) {
                double const sum = price(routes[r]);
                if (sum < least) least = sum, cheap = r;
                if (split_[c][r] > 0 && sum > most) most = sum, dear = r;
            }
            if (dear == routes.size() || dear == cheap) return;
            move(c, dear, cheap);
        }
    }

    /// Moves bytes until both routes cost the same, or all of them.
    void move(std::size_t c, std::size_t dear, std::size_t cheap) {
        Route const& from = commodities_[c].routes[dear];
        Route const& to = commodities_[c].routes[cheap];
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

    /// The price of a route's own links with so many bytes more.
    [[nodiscard]] double after(Route const& route, int side, double bytes) const {
        double sum = 0;
        for (std::uint32_t const link : route) {
            if (side_[link] * side > 0) sum += price(link, std::max(load_[link] + bytes, 0.0));
        }
        return sum;
    }

    std::vector<double> const& capacities_;
    std::vector<Commodity> const& commodities_;
    std::vector<double> load_;
    std::vector<std::vector<double>> split_;
    std::vector<int> side_;  ///< of each link: on the one route, on the other, or on both or none
    double power_ = kFirstPower;
    double highest_ = 0;  ///< time of the most loaded link
};

}  // namespace

Splits least_congestion(std::vector<double> const& capacities,
                        std::vector<Commodity> const& commodities, std::vector<double> load,
                        double tolerance) {
    return Balance(capacities, commodities, std::move(load)).solve(tolerance);
}

}  // namespace mgi::simulation
