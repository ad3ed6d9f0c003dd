#include "support/flow_runtimes.hpp"

#include <algorithm>

#include "support/random.hpp"

namespace mgi::test {

namespace {

RuntimeOptions options_of(FlowSetup const& setup) {
    RuntimeOptions options;
    options.cpu_devices = setup.devices;
    options.pin = false;
    return options;
}

}  // namespace

FlowRuntimes::FlowRuntimes(FlowSetup const& setup)
    : members(setup.processes, options_of(setup), setup.servers) {
    std::uint32_t const shared = setup.loopback ? std::min(setup.sources, setup.destinations) : 0;
    std::vector<Owned> sources;
    std::vector<Owned> destinations;
    for (std::uint32_t i = 0; i < setup.sources + setup.destinations - shared; ++i) {
        endpoints.push_back(members.create_endpoint(i % setup.processes));
        if (i < setup.sources) sources.push_back(endpoints.back());
        if (i < shared || i >= setup.sources) destinations.push_back(endpoints.back());
    }
    for (Owned const& to : destinations) destination_ids.push_back(to.endpoint.id);
    ChannelSpec spec;
    spec.schema = setup.schema;
    spec.routing = setup.routing;
    spec.options = setup.options;
    if (spec.options.max_groups == 0) spec.options.max_groups = setup.groups;
    if (setup.processes == 1) {
        spec = Members::seen_from(0, spec, sources, destinations);
        channels.push_back(members.runtime(0).create_channel(spec));
    } else {
        channels = members.open(spec, sources, destinations);
    }
}

void FlowRuntimes::leave(std::uint64_t seed) {
    Random random(seed);
    std::vector<std::uint32_t> there(members.count());
    for (std::uint32_t m = 0; m < there.size(); ++m) there[m] = m;
    while (!there.empty()) {
        for (std::uint32_t const m : there) EXPECT_NO_THROW(channels[m].check());
        auto const next = there.begin() + std::ptrdiff_t(random.below(there.size()));
        members.runtime(*next).delete_channel(channels[*next]);
        there.erase(next);
    }
}

}  // namespace mgi::test
