// What of a channel is on GPUs of several processes that reach each other's memory: each has the segments and tables of
// its own endpoints there, hands them to all others, and builds its tables with the addresses at which it has theirs.
#include <algorithm>
#include <numeric>

#include "gpu/peers.hpp"
#include "runtime/channel_impl.hpp"

namespace mgi {

namespace {

// What a member marks its own memory with.
unsigned char mark_of(std::uint32_t member) {
    return static_cast<unsigned char>(1 + member % 255);
}

}  // namespace

// Behind the segments, by which processes prove that they reach each other's memory: the owner's bytes, and each
// member's.
std::uint64_t ChannelImpl::proof_bytes() const {
    return (1 + std::uint64_t{part_->members().count}) * gpu::kProofBytes;
}

// All GPUs here do. Memory that was imported last is the member's.
void ChannelImpl::prove(std::uint32_t member, SharedGpuPool const& theirs) const {
    std::uint32_t const me = part_->members().me;
    std::uint64_t const at = theirs.used - proof_bytes();
    gpu::Proof const proof{at, mark_of(member), at + (1 + me) * gpu::kProofBytes};
    for (auto const& place : places_) {
        if (gpu::proves(place->gpu(), *imported_.back(), proof)) continue;
        throw NotSharedHere("bytes that cuda:" + std::to_string(place->gpu()) +
                            " writes to or reads from that memory are changed, though the driver "
                            "says that it reaches it (an IOMMU, or PCIe's ACS?); mgi topo --check "
                            "tries all GPUs");
    }
}

Here ChannelImpl::all_endpoints() const {
    if (!is_between_processes()) return here_;
    Here all;
    all.sources.resize(state_.source_count);
    all.destinations.resize(state_.destination_count);
    std::iota(all.sources.begin(), all.sources.end(), 0U);
    std::iota(all.destinations.begin(), all.destinations.end(), 0U);
    return all;
}

SharedGpus ChannelImpl::share_places(std::vector<std::string> const& doors) {
    SharedGpus shared;
    PartMembers const& members = part_->members();
    importers_ = std::make_shared<GpuImporters>();
    std::vector<int> memories;
    for (auto const& place : places_) {
        auto const& memory = place->share(importers_);
        SharedGpuPool& pool = shared.pools.emplace_back();
        pool.bytes = memory.shared_bytes();
        pool.mapped = true;
        pool.number = place->kept_number();
        pool.here = place->here();
        pool.used = place->shared_bytes();
        gpu::mark(memory, pool.used - proof_bytes(), mark_of(members.me));
        memories.push_back(memory.descriptor());
    }
    for (std::uint32_t m = 0; m < members.count; ++m) {
        if (m == members.me) continue;
        importers_->add(hand_over(doors.at(m), members.me, memories));
    }
    return shared;
}

// All processes go through the members, and a member's GPUs, in the same order.
std::map<std::uint32_t, std::string> ChannelImpl::build_between(
    std::vector<SharedGpus> const& by_member) {
    std::map<std::uint32_t, std::string> refused;
    std::vector<GpuPeer> all;
    for (std::uint32_t m = 0; m < by_member.size(); ++m) {
        try {
            auto const peers = peers_of(m, by_member[m]);
            all.insert(all.end(), peers.begin(), peers.end());
        } catch (NotSharedHere const& error) {
            refused[m] = error.what();
        }
    }
    for (auto& [m, handed] : handed_) handed.memories.clear();
    if (!refused.empty()) return refused;
    GpuPlace::build_peers(all, all_endpoints(), table_source(spec_, plan_),
                          [this](State& state) { fill_in(state, true); });
    adopt_places();
    return refused;
}

std::vector<GpuPeer> ChannelImpl::peers_of(std::uint32_t member, SharedGpus const& theirs) {
    std::vector<GpuPeer> peers;
    if (member == part_->members().me) {
        for (auto const& place : places_) peers.push_back({place->here(), place.get()});
        return peers;
    }
    for (SharedGpuPool const& pool : theirs.pools) peers.push_back({pool.here});
    check_peers(member, peers, theirs);
    GpuHandover const& handed = handed_[member];
    auto const& memories = handed.memories;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        Descriptor const* const memory = i < memories.size() ? &memories[i] : nullptr;
        imported_.push_back(import(theirs.pools[i], handed, memory));
        prove(member, theirs.pools[i]);
        peers[i].elsewhere = imported_.back()->data();
    }
    return peers;
}

// What a member shares is for all of its endpoints, each once, and laid out alike.
void ChannelImpl::check_peers(std::uint32_t member, std::vector<GpuPeer> const& peers,
                              SharedGpus const& theirs) const {
    PartMembers const& members = part_->members();
    State shape;
    fill_in(shape, true);
    std::vector<std::uint32_t> sources;
    std::vector<std::uint32_t> destinations;
    bool possible = true;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        Here const& here = peers[i].here;
        sources.insert(sources.end(), here.sources.begin(), here.sources.end());
        destinations.insert(destinations.end(), here.destinations.begin(), here.destinations.end());
        possible = possible && theirs.pools[i].mapped &&
                   std::is_sorted(here.sources.begin(), here.sources.end()) &&
                   std::is_sorted(here.destinations.begin(), here.destinations.end());
    }
    auto const of_member = [&](std::vector<std::uint32_t> const& owners) {
        std::vector<std::uint32_t> own;
        for (std::uint32_t i = 0; i < owners.size(); ++i) {
            if (owners[i] == member) own.push_back(i);
        }
        return own;
    };
    std::sort(sources.begin(), sources.end());
    std::sort(destinations.begin(), destinations.end());
    possible = possible && sources == of_member(members.source_member) &&
               destinations == of_member(members.destination_member);
    // Only now its numbers are known to be endpoints'.
    Here const all = all_endpoints();
    for (std::size_t i = 0; possible && i < peers.size(); ++i) {
        possible = GpuPlace::peer_bytes(shape, plan_, peers[i].here, all) + proof_bytes() ==
                       theirs.pools[i].used &&
                   theirs.pools[i].used <= theirs.pools[i].bytes;
    }
    if (possible) return;
    throw Error(ErrorCode::Internal,
                describe() + ": " + members.name(member) +
                    " shares GPU memory that is not laid out as this process would lay it out; let "
                    "all processes use the same build of MGI");
}

}  // namespace mgi
