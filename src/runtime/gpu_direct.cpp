#include "runtime/gpu_direct.hpp"

#include <set>
#include <utility>

#include <mgi/device/state.hpp>
#include <mgi/error.hpp>

#include "core/variable.hpp"
#include "gpu/nic_writes.hpp"
#include "runtime/checks.hpp"

namespace mgi {

namespace {

enum class Wish : std::uint8_t { Auto, On, Off };

Wish wish() {
    return Wish(word_in_variable("MGI_GPU_DIRECT", {"auto", "on", "off"}));
}

std::set<int> gpus_of(ChannelSpec const& spec, std::vector<Device> const& devices) {
    std::set<int> gpus;
    for (auto const* endpoints : {&spec.sources, &spec.destinations}) {
        for (Endpoint const endpoint : *endpoints) {
            bool const is_here = endpoint.device < devices.size();
            if (!is_here || devices[endpoint.device].kind != VertexKind::Gpu) continue;
            gpus.insert(devices[endpoint.device].ordinal);
        }
    }
    return gpus;
}

std::string why_not_direct(std::set<int> const& gpus, ChannelNetwork& network,
                           DirectRefusal const& refusal) {
    if (wish() == Wish::Off) return "MGI_GPU_DIRECT is off there";
    if (std::string why = refusal.why(); !why.empty()) return why;
    if (std::string why = network.why_no_nic_is_direct(); !why.empty()) return why;
    for (int const gpu : gpus) {
        if (std::string why = gpu::why_no_nic(gpu); !why.empty()) return why;
    }
    return network.wires().why_not_gpus();
}

// What a process has to do with a flow.
class FlowEnds {
public:
    FlowEnds(PartMembers const& members, std::vector<DirectCard> const& cards)
        : members_(members), cards_(cards) {}

    // From a GPU of one server to a GPU of another.
    [[nodiscard]] bool are_between_gpus(std::size_t source, std::size_t destination) const {
        std::uint32_t const from = members_.source_member[source];
        std::uint32_t const to = members_.destination_member[destination];
        return members_.source_on_gpu[source] && members_.destination_on_gpu[destination] &&
               members_.machine_of(from) != members_.machine_of(to);
    }
    // By a link that brings them along.
    [[nodiscard]] bool are_far(std::size_t source, std::size_t destination) const {
        std::uint32_t const from = members_.source_member[source];
        return from != members_.destination_member[destination] &&
               !members_.writes_into(from, std::uint32_t(destination));
    }
    // Why NICs do not carry one; empty: they can.
    [[nodiscard]] std::string why_not(std::size_t source, std::size_t destination) const {
        if (!are_between_gpus(source, destination)) {
            return "it is also for " + members_.name(members_.destination_member[destination]) +
                   ", and not from a GPU of one server to a GPU of another";
        }
        for (std::uint32_t const m :
             {members_.source_member[source], members_.destination_member[destination]}) {
            if (!cards_[m].why_not.empty()) return members_.name(m) + ": " + cards_[m].why_not;
        }
        return "";
    }

private:
    PartMembers const& members_;
    std::vector<DirectCard> const& cards_;
};

}  // namespace

void DirectRefusal::note(std::string why) {
    std::lock_guard const lock(mutex_);
    why_ = std::move(why);
}

std::string DirectRefusal::why() const {
    std::lock_guard const lock(mutex_);
    return why_;
}

bool insists_on_gpu_direct() {
    return wish() == Wish::On;
}

DirectCard direct_card(ChannelSpec const& spec, std::vector<Device> const& devices,
                       ChannelNetwork& network, DirectRefusal const& refusal) {
    std::set<int> const gpus = gpus_of(spec, devices);
    if (gpus.empty()) return {false, "it has no GPU in the channel"};
    return {insists_on_gpu_direct(), why_not_direct(gpus, network, refusal)};
}

void note_direct(PartMembers& members, std::vector<DirectCard> const& cards,
                 ChannelSpec const& spec) {
    FlowEnds const flows(members, cards);
    std::size_t const destinations = members.destination_member.size();
    bool const own_lanes = device::has_own_lanes(spec.routing.kind);
    members.direct.assign(members.source_member.size(), std::vector<bool>(destinations));
    for (std::size_t s = 0; s < members.source_member.size(); ++s) {
        // A lane that is for all destinations lies in one memory.
        std::string of_lane;
        for (std::size_t d = 0; d < destinations && !own_lanes; ++d) {
            if (of_lane.empty() && flows.are_far(s, d)) of_lane = flows.why_not(s, d);
        }
        for (std::size_t d = 0; d < destinations; ++d) {
            if (!flows.are_between_gpus(s, d)) continue;
            std::string const why = own_lanes ? flows.why_not(s, d) : of_lane;
            members.direct[s][d] = why.empty();
            std::uint32_t const from = members.source_member[s];
            std::uint32_t const to = members.destination_member[d];
            bool const by_from = cards[from].insists;
            if (why.empty() || (!by_from && !cards[to].insists)) continue;
            throw Error(ErrorCode::InvalidArgument,
                        name_of(spec) + ": MGI_GPU_DIRECT is on for " +
                            members.name(by_from ? from : to) +
                            ", and no NIC carries what goes from the GPU of " + members.name(from) +
                            " to that of " + members.name(to) + ": " + why +
                            "; see to that, or set MGI_GPU_DIRECT=auto, with which it goes by the "
                            "host's memory");
        }
    }
}

}  // namespace mgi
