#include "runtime/cluster_coordinator.hpp"

#include <set>

#include "core/log.hpp"
#include "core/process_limits.hpp"
#include "runtime/checks.hpp"

namespace mgi {

namespace {

// Brings word of the cluster to the channels of a runtime, as long as there is one.
class RegistryListener final : public ClusterListener {
public:
    explicit RegistryListener(std::weak_ptr<Registry> registry) : registry_(std::move(registry)) {}

    void channel_ended(std::uint32_t id, bool failed, std::string const& why) override {
        auto const registry = registry_.lock();
        if (registry == nullptr) return;
        std::lock_guard const lock(registry->mutex);
        auto const found = registry->channels.find(id);
        if (found == registry->channels.end()) return;
        found->second->fail(failed ? ErrorCode::GroupFailed : ErrorCode::Deleted, why);
    }

    void endpoint_lost(std::uint32_t id, std::string const& why) override {
        log::warn("endpoint {} is the cluster's no more: {}; channels with it cannot be made", id,
                  why);
    }

    std::vector<ClusterUse> usage() override {
        auto const registry = registry_.lock();
        std::vector<ClusterUse> figures;
        if (registry == nullptr) return figures;
        std::lock_guard const lock(registry->mutex);
        for (auto const& [id, channel] : registry->channels) {
            if (id >= Registry::kFirstInner) continue;
            figures.push_back(registry->counters[id].use(*channel, Counters::Clock::now()));
        }
        return figures;
    }

private:
    std::weak_ptr<Registry> registry_;
};

// Channels with other processes take files: memory, and sockets for each wire.
ClusterOptions with_files(ClusterOptions options) {
    allow_most_files();
    return options;
}

}  // namespace

ClusterCoordinator::ClusterCoordinator(ClusterOptions const& options,
                                       std::vector<Device> const& devices,
                                       std::shared_ptr<Registry> const& registry)
    : job_(options.job),
      client_(with_files(options), std::make_shared<RegistryListener>(registry)) {
    std::vector<std::string> cpus;
    std::set<std::string> gpus;  // by their bus ids, which the graph of a machine names them by
    for (ClusterDevice const& device : client_.devices()) {
        if (device.gpu) {
            gpus.insert(device.name);
        } else {
            cpus.push_back(device.name);
        }
    }
    if (cpus.empty()) {
        throw Error(ErrorCode::NotFound, "server " + client_.server() +
                                             " has no CPU in its agent's graph, so this process' "
                                             "devices have no place there; see `mgi topo`");
    }
    for (Device const& device : devices) {
        std::size_t const place =
            device.numa_node >= 0 ? std::size_t(device.numa_node) : device.index;
        bool const is_known_gpu = device.kind == VertexKind::Gpu && gpus.contains(device.bus_id);
        places_.push_back(is_known_gpu ? device.bus_id : cpus[place % cpus.size()]);
    }
    log::info("a runtime of the cluster, on server {}", client_.server());
}

std::uint32_t ClusterCoordinator::create_endpoint(Device const& device) {
    return client_.create_endpoint(places_[device.index]).id;
}

std::uint32_t ClusterCoordinator::create_channel(ChannelSpec const& spec) {
    ClusterChannelSpec asked;
    asked.name = spec.options.name;
    for (Endpoint const endpoint : spec.sources) asked.sources.push_back(endpoint.id);
    for (Endpoint const endpoint : spec.destinations) asked.destinations.push_back(endpoint.id);
    asked.routing = static_cast<std::uint32_t>(spec.routing.kind);
    asked.schema = schema_of(spec).to_string();
    ClusterPlan const plan = client_.create_channel(asked);
    log::info("{}: the cluster's channel {}, generation {}", name_of(spec), plan.channel,
              plan.generation);
    return plan.channel;
}

std::string ClusterCoordinator::elsewhere() const {
    return "or another process' of which gather_endpoints has not told";
}

}  // namespace mgi
