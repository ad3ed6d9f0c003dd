#include <utility>

#include <mgi/channel.hpp>

namespace mgi {

Routing Routing::partition(std::string key, Hash hash) {
    Routing routing;
    routing.kind = device::RoutingKind::Partition;
    routing.keys.push_back(std::move(key));
    routing.hash = hash;
    return routing;
}

Routing Routing::partition(std::vector<std::string> keys, Hash hash) {
    Routing routing;
    routing.kind = device::RoutingKind::Partition;
    routing.keys = std::move(keys);
    routing.hash = hash;
    return routing;
}

Routing Routing::broadcast() {
    Routing routing;
    routing.kind = device::RoutingKind::Broadcast;
    return routing;
}

Routing Routing::direct() {
    Routing routing;
    routing.kind = device::RoutingKind::Direct;
    return routing;
}

Routing Routing::balance() {
    Routing routing;
    routing.kind = device::RoutingKind::Balance;
    return routing;
}

}  // namespace mgi
