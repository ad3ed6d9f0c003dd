// Which transfers have arrived, so that none does twice.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <mgi/device/assert.hpp>

#include "mover/link/types.hpp"

namespace mgi::mover::link {

// A flow is what a source sends a destination on a channel. Its memory is bounded: a sequence far
// ahead of one that is missing is nothing a peer that keeps to its credits sends.
class Arrivals {
public:
    static constexpr std::uint64_t kMostAhead = 1U << 16;

    [[nodiscard]] bool has(Key const& key) const {
        auto const at = flows_.find(name_of(key));
        if (at == flows_.end()) return false;
        return key.sequence < at->second.below || at->second.ahead.contains(key.sequence);
    }
    [[nodiscard]] bool is_absurd(Key const& key) const {
        auto const at = flows_.find(name_of(key));
        std::uint64_t const below = at == flows_.end() ? 0 : at->second.below;
        return key.sequence >= below + kMostAhead;
    }
    void add(Key const& key) {
        Flow& flow = flows_[name_of(key)];
        bool const fresh = key.sequence >= flow.below && flow.ahead.insert(key.sequence).second;
        MGI_ASSERT(fresh, key.channel, key.source, key.destination, key.sequence, flow.below);
        while (!flow.ahead.empty() && *flow.ahead.begin() == flow.below) {
            flow.ahead.erase(flow.ahead.begin());
            ++flow.below;
        }
    }

private:
    using Name = std::pair<std::uint64_t, std::uint64_t>;  // channel, source and destination
    static Name name_of(Key const& key) {
        return {key.channel, std::uint64_t(key.source) << 32 | key.destination};
    }
    struct Flow {
        std::uint64_t below = 0;  // all sequences below this one have arrived
        std::set<std::uint64_t> ahead;
    };
    std::map<Name, Flow> flows_;
};

}  // namespace mgi::mover::link
