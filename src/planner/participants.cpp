#include "planner/participants.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

/// Finds a server's participant; places come in runs of one server.
class Gathering {
public:
    explicit Gathering(Cluster const& cluster)
        : cluster_(cluster), at_(cluster.next_server(), kNowhere) {}

    Participant& of(Place place) {
        if (!cluster_.is_endpoint(place)) cluster_.check_endpoint(place);
        std::uint32_t& at = at_[place.server];
        if (at == kNowhere) {
            at = std::uint32_t(found_.size());
            found_.push_back({place.server, {}, 0});
        }
        return found_[at];
    }
    std::vector<Participant> take() {
        auto const before = [](Participant const& a, Participant const& b) {
            return a.server < b.server;
        };
        if (!std::is_sorted(found_.begin(), found_.end(), before)) {
            std::sort(found_.begin(), found_.end(), before);
        }
        return std::move(found_);
    }

private:
    Cluster const& cluster_;
    std::vector<std::uint32_t> at_;
    std::vector<Participant> found_;
};

void check_count(std::uint64_t count, char const* of) {
    if (count == 0) {
        throw Error(ErrorCode::InvalidArgument, std::string("a channel without a ") + of);
    }
    if (count > kMostEndpoints) {
        throw Error(ErrorCode::InvalidArgument, "a channel of " + std::to_string(count) + " " + of +
                                                    "s; at most " + std::to_string(kMostEndpoints) +
                                                    " are possible");
    }
}

/// Servers with sources, and with destinations.
struct Count {
    std::uint64_t sources = 0;
    std::uint64_t destinations = 0;
    void add(Participant const& at) {
        sources += at.role.sources.empty() ? 0 : 1;
        destinations += at.role.destinations.empty() ? 0 : 1;
    }
    void remove(Participant const& at) {
        sources -= at.role.sources.empty() ? 0 : 1;
        destinations -= at.role.destinations.empty() ? 0 : 1;
    }
};

}  // namespace

Participants gather(Cluster const& cluster, std::span<Place const> sources,
                    std::span<Place const> destinations) {
    check_count(sources.size(), "source");
    check_count(destinations.size(), "destination");
    Participants made;
    Gathering gathering(cluster);
    for (Place const place : sources) {
        gathering.of(place).role.sources.insert(place.vertex);
        made.directory.sources.add(place);
    }
    for (Place const place : destinations) {
        Participant& at = gathering.of(place);
        at.role.destinations.insert(place.vertex);
        made.most_destinations = std::max(made.most_destinations, ++at.destinations);
        made.directory.destinations.add(place);
    }
    made.directory.sources.close();
    made.directory.destinations.close();
    made.servers = gathering.take();

    Count all;
    std::unordered_map<std::uint32_t, Count> by_domain;
    for (Participant const& at : made.servers) {
        all.add(at);
        if (cluster.domain(at.server) != 0) by_domain[cluster.domain(at.server)].add(at);
    }
    made.destination_servers = all.destinations;
    for (Participant& at : made.servers) {
        Count others = all;
        others.remove(at);
        Count near;
        if (cluster.domain(at.server) != 0) {
            near = by_domain[cluster.domain(at.server)];
            near.remove(at);
        }
        Role& role = at.role;
        bool const sends = !role.sources.empty();
        bool const receives = !role.destinations.empty();
        role.network_out = sends && others.destinations > 0;
        role.network_in = receives && others.sources > 0;
        role.domain_out = sends && near.destinations > 0;
        role.domain_in = receives && near.sources > 0;
    }
    return made;
}

}  // namespace mgi::planner
