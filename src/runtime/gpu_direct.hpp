// Whether what goes between GPUs of different servers lies in these GPUs' memory, where their NICs read and write it
// (GPUDirect), or in the host's: decided before there is any, the same in all processes.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/graph.hpp>

#include "runtime/network.hpp"
#include "runtime/part.hpp"

namespace mgi {

// Of one process, of its endpoints on GPUs.
struct DirectCard {
    bool insists = false;  // it does without the channel otherwise
    std::string why_not;   // empty: its NICs reach all of these GPUs
};

// What a process has found when it made memory for that; it stays so, and the host's memory does. Thread-safe.
class DirectRefusal {
public:
    void note(std::string why);
    [[nodiscard]] std::string why() const;

private:
    mutable std::mutex mutex_;
    std::string why_;
};

// Whether $MGI_GPU_DIRECT is on; it may be off, or auto, as if nothing is said. Throws Error(InvalidArgument) for
// other words.
bool insists_on_gpu_direct();
// This process' card; its network has addresses. Throws as that.
DirectCard direct_card(ChannelSpec const& spec, std::vector<Device> const& devices,
                       ChannelNetwork& network, DirectRefusal const& refusal);
// Says which flows NICs carry, behind note_cards. Throws Error(InvalidArgument), the same in every process, where
// somebody insists on one that they cannot.
void note_direct(PartMembers& members, std::vector<DirectCard> const& cards,
                 ChannelSpec const& spec);

}  // namespace mgi
