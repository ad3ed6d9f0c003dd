#include "topology/gpu_graph.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "topology/rates.hpp"

namespace mgi::topology {
namespace {

struct Place {
    std::uint32_t vertex = 0;
    Gpu const* gpu = nullptr;
};

std::string switch_of(Gpu const& gpu) {
    if (!gpu.nvml || gpu.nvml->to_switch == 0) return {};
    return gpu.nvml->domain.empty() ? "nvswitch" : "nvlink domain " + gpu.nvml->domain;
}

bool reaches(Gpu const& from, Gpu const& to) {
    return std::size_t(to.ordinal) < from.reaches.size() && from.reaches[std::size_t(to.ordinal)];
}

class Connector {
public:
    Connector(std::vector<Device> const& devices, std::vector<Gpu> const& gpus, Graph& graph)
        : devices_(devices), graph_(graph) {
        for (Device const& device : devices) {
            if (device.kind != VertexKind::Gpu) continue;
            auto const at = std::find_if(gpus.begin(), gpus.end(), [&](Gpu const& gpu) {
                return gpu.ordinal == device.ordinal;
            });
            if (at != gpus.end()) places_.push_back({device.index, &*at});
        }
    }

    void connect() {
        for (Place const& place : places_) {
            add(place.vertex, place.vertex, place.gpu->memory_gbps / 2, "memory");
            connect_cpus(place);
            for (Place const& other : places_) {
                if (other.vertex != place.vertex) connect_peer(place, other);
            }
        }
        for (Place const& place : places_) connect_switch(place);
    }

private:
    void connect_cpus(Place const& place) {
        auto const is_cpu = [](Device const& device) { return device.kind == VertexKind::Cpu; };
        auto const near = [&](Device const& device) {
            return is_cpu(device) && device.numa_node >= 0 &&
                   device.numa_node == place.gpu->numa_node;
        };
        bool const known = std::any_of(devices_.begin(), devices_.end(), near);
        for (Device const& device : devices_) {
            if (!(known ? near(device) : is_cpu(device))) continue;
            add(place.vertex, device.index, place.gpu->pcie_gbps, "pcie");
            add(device.index, place.vertex, place.gpu->pcie_gbps, "pcie");
        }
    }

    void connect_peer(Place const& from, Place const& to) {
        if (!reaches(*from.gpu, *to.gpu)) return;
        if (std::uint32_t const links = links_between(*from.gpu, *to.gpu); links > 0) {
            add(from.vertex, to.vertex, links * nvlink_gbps(from.gpu->sm), "nvlink");
            return;
        }
        std::string const shared = switch_of(*from.gpu);
        if (!shared.empty() && shared == switch_of(*to.gpu)) return;
        add(from.vertex, to.vertex, std::min(from.gpu->pcie_gbps, to.gpu->pcie_gbps), "pcie");
    }

    static std::uint32_t links_between(Gpu const& from, Gpu const& to) {
        if (!from.nvml) return 0;
        auto const at = from.nvml->to_gpus.find(to.bus_id);
        return at == from.nvml->to_gpus.end() ? 0 : at->second;
    }

    void connect_switch(Place const& place) {
        std::string const name = switch_of(*place.gpu);
        if (name.empty() || is_cut_off(place, name)) return;
        auto const id = std::uint32_t(graph_.vertices.size());
        auto const [at, is_new] = switches_.try_emplace(name, id);
        if (is_new) graph_.vertices.push_back({id, name, VertexKind::Switch, false});
        double const gbps = place.gpu->nvml->to_switch * nvlink_gbps(place.gpu->sm);
        add(place.vertex, at->second, gbps, "nvlink");
        add(at->second, place.vertex, gbps, "nvlink");
    }

    /// Whether it reaches no GPU on its switch, though there are some.
    [[nodiscard]] bool is_cut_off(Place const& place, std::string const& name) const {
        bool alone = true;
        for (Place const& other : places_) {
            if (other.vertex == place.vertex || switch_of(*other.gpu) != name) continue;
            if (reaches(*place.gpu, *other.gpu)) return false;
            alone = false;
        }
        return !alone;
    }

    void add(std::uint32_t from, std::uint32_t to, double gbps, char const* kind) {
        graph_.edges.push_back({from, to, gbps, kind});
    }

    std::vector<Device> const& devices_;
    Graph& graph_;
    std::vector<Place> places_;
    std::map<std::string, std::uint32_t> switches_;
};

}  // namespace

void connect_gpus(std::vector<Device> const& devices, std::vector<Gpu> const& gpus, Graph& graph) {
    Connector(devices, gpus, graph).connect();
}

}  // namespace mgi::topology
