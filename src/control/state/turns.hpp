/// \file
/// Channels that wait for one thing, of several owners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace mgi::control {

/// The owners come in turn, so that nobody waits for all that another one has asked for. Of one owner's,
/// new channels and those that run come in turn, so that neither waits for all of the other, however many
/// there are; of each the lowest channel comes first.
class Turns {
public:
    void add(std::string const& owner, std::uint32_t channel, bool runs) {
        Waiting& waiting = waiting_[owner];
        (runs ? waiting.running : waiting.created).insert(channel);
    }
    /// Whether it waits or not.
    void remove(std::string const& owner, std::uint32_t channel) {
        auto const found = waiting_.find(owner);
        if (found == waiting_.end()) return;
        found->second.created.erase(channel);
        found->second.running.erase(channel);
        if (found->second.empty()) waiting_.erase(found);
    }
    /// Takes out whose turn it is. Not where none waits.
    std::uint32_t take() {
        auto next = waiting_.upper_bound(last_);
        if (next == waiting_.end()) next = waiting_.begin();
        last_ = next->first;
        std::uint32_t const channel = next->second.take();
        if (next->second.empty()) waiting_.erase(next);
        return channel;
    }
    [[nodiscard]] bool empty() const { return waiting_.empty(); }
    /// Calls `see` with each owner, its channel, and whether that runs.
    template <class See>
    void for_each(See const& see) const {
        for (auto const& [owner, waiting] : waiting_) {
            for (std::uint32_t const channel : waiting.created) see(owner, channel, false);
            for (std::uint32_t const channel : waiting.running) see(owner, channel, true);
        }
    }

private:
    /// Of one owner.
    struct Waiting {
        [[nodiscard]] bool empty() const { return created.empty() && running.empty(); }
        std::uint32_t take() {
            bool const run = created.empty() || (!running.empty() && !last_ran);
            last_ran = run;
            auto& first = run ? running : created;
            return first.extract(first.begin()).value();
        }
        std::set<std::uint32_t> created;
        std::set<std::uint32_t> running;
        bool last_ran = true;  ///< of the last one whose turn it was
    };

    std::map<std::string, Waiting> waiting_;
    std::string last_;  ///< whose turn it was
};

}  // namespace mgi::control
