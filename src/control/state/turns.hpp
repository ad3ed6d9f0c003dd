/// \file
/// Channels that wait for one thing, of several owners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace mgi::control {

/// The owners come in turn, so that nobody waits for all that another one has asked for; of one owner's
/// channels the lowest comes first.
class Turns {
public:
    void add(std::string const& owner, std::uint32_t channel) { waiting_[owner].insert(channel); }
    /// Whether it waits or not.
    void remove(std::string const& owner, std::uint32_t channel) {
        auto const found = waiting_.find(owner);
        if (found == waiting_.end()) return;
        found->second.erase(channel);
        if (found->second.empty()) waiting_.erase(found);
    }
    /// Takes out whose turn it is. Not where none waits.
    std::uint32_t take() {
        auto next = waiting_.upper_bound(last_);
        if (next == waiting_.end()) next = waiting_.begin();
        last_ = next->first;
        std::uint32_t const channel = *next->second.begin();
        next->second.erase(next->second.begin());
        if (next->second.empty()) waiting_.erase(next);
        return channel;
    }
    [[nodiscard]] bool empty() const { return waiting_.empty(); }
    [[nodiscard]] std::map<std::string, std::set<std::uint32_t>> const& by_owner() const {
        return waiting_;
    }

private:
    std::map<std::string, std::set<std::uint32_t>> waiting_;
    std::string last_;  ///< whose turn it was
};

}  // namespace mgi::control
