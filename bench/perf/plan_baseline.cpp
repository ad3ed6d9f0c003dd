#include "perf/plan_baseline.hpp"

#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "planner/max_flow.hpp"

namespace mgi::perf {

using namespace planner;

BaselineTime run_baseline(Cluster const& cluster, std::span<Place const> places, double seconds,
                          std::uint64_t seed, std::atomic<bool> const* cancel) {
    // Vertex 0 is the network.
    std::vector<std::uint32_t> offset(cluster.next_server());
    std::vector<Arc> arcs;
    std::uint32_t vertices = 1;
    for (ServerId const server : cluster.servers()) {
        Shape const& shape = *cluster.shape(server);
        offset[server] = vertices;
        auto const whole = [&](std::uint32_t v) {
            return v == shape.network() ? 0 : offset[server] + v;
        };
        for (Arc const& arc : shape.arcs()) {
            arcs.push_back({whole(arc.from), whole(arc.to), arc.capacity});
        }
        vertices += std::uint32_t(shape.vertices().size());
    }
    FlowNetwork network(vertices, std::move(arcs));

    std::uint64_t const pairs = places.size() * (places.size() - 1);
    BaselineTime time;
    double spent = 0;
    std::uint64_t carried = 0;  // so that no compiler leaves the work out
    auto const measure = [&](Place from, Place to) {
        auto const begin = std::chrono::steady_clock::now();
        std::uint32_t const source = offset[from.server] + from.vertex;
        std::uint32_t const sink = offset[to.server] + to.vertex;
        carried += network.paths(network.max_flow(source, sink), source, sink).size();
        spent += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        ++time.measured;
    };
    auto const stopped = [&] { return cancel != nullptr && cancel->load(); };
    if (pairs <= 10'000) {
        for (std::size_t i = 0; i < places.size() && !stopped(); ++i) {
            if (i > 0 && spent >= seconds) break;
            for (std::size_t j = 0; j < places.size(); ++j) {
                if (i != j) measure(places[i], places[j]);
            }
        }
    } else {
        std::mt19937_64 random(seed);
        while ((time.measured < 3 || spent < seconds) && time.measured < pairs && !stopped()) {
            std::size_t const i = random() % places.size();
            std::size_t const j = random() % places.size();
            if (i != j) measure(places[i], places[j]);
        }
    }
    if (time.measured > 0 && carried > 0) {
        time.ms = spent * 1e3 * (double(pairs) / double(time.measured));
    }
    return time;
}

}  // namespace mgi::perf
