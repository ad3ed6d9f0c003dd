// What there is in a runtime: endpoints, channels, running launches. Shared by the Runtime, the group
// threads and the watchdog, so that a thread that outlives its Runtime still finds it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "runtime/channel_impl.hpp"
#include "runtime/counters.hpp"

namespace mgi {

// A launch: its groups, who of them still runs, and the first failure.
struct Launch::State {
    Endpoint endpoint;
    std::uint32_t groups = 0;
    std::uint64_t first_number = 0;  // Group::launch of group 0; the others follow
    bool sorts = false;              // MGI's own sorters
    bool on_gpu = false;
    std::vector<mgi::State const*> given;  // channels among the kernel's arguments
    // Channels whose memory the groups may touch although nobody else holds it.
    std::vector<std::shared_ptr<ChannelImpl>> channels;

    mutable std::mutex mutex;
    std::condition_variable ended;
    std::uint32_t running = 0;  // groups
    std::vector<bool> group_runs;
    // Of an attachment: those whose kernel somebody has said to run. Empty where all do.
    std::vector<bool> group_launched;
    std::exception_ptr failure;

    [[nodiscard]] bool runs() const {
        std::lock_guard const lock(mutex);
        return running != 0;
    }
    // Whether a group is there, or at least may come. The caller holds the mutex, as for the next.
    [[nodiscard]] bool is_there(std::uint32_t group, bool or_may_come) const {
        return group_runs[group] &&
               (or_may_come || group_launched.empty() || group_launched[group]);
    }
    [[nodiscard]] std::uint32_t not_launched() const {
        std::uint32_t count = 0;
        for (std::uint32_t g = 0; g < groups; ++g) count += group_runs[g] && !is_there(g, false);
        return count;
    }
    [[nodiscard]] bool has(std::uint64_t number) const { return number - first_number < groups; }
    [[nodiscard]] bool was_given(mgi::State const& channel) const {
        return std::find(given.begin(), given.end(), &channel) != given.end();
    }
    void fail(std::exception_ptr const& exception) {
        std::lock_guard const lock(mutex);
        if (failure == nullptr) failure = exception;
    }
};

// Whether an endpoint is a source or destination of a channel.
inline bool has_endpoint(ChannelImpl const& channel, Endpoint endpoint) {
    return channel.source_index(endpoint) != ChannelImpl::kNone ||
           channel.destination_index(endpoint) != ChannelImpl::kNone;
}

class Registry {
public:
    std::mutex mutex;  // of all below
    std::map<std::uint32_t, Endpoint> endpoints;
    std::map<std::uint32_t, std::shared_ptr<ChannelImpl>> channels;
    std::vector<std::shared_ptr<Launch::State>> launches;  // that run
    std::map<std::uint32_t, Counters> counters;            // of channels; the watchdog keeps them
    // Inner channels (stages) are no channels of users' and count down from the last number.
    static constexpr std::uint32_t kFirstInner = 1u << 31;
    std::uint32_t next_inner = UINT32_MAX;

    // Groups [first, first + count) of a launch have returned or thrown: fails the channels that they leave in the
    // lurch.
    void groups_ended(Launch::State& launch, std::uint32_t first, std::uint32_t count,
                      std::exception_ptr const& exception);
    // The same where there is no memory to find out which those are: fails all of the endpoint's.
    void fail_all_of(Endpoint endpoint) noexcept;
    // Forgets launches that have ended; without memory for that, another time.
    void forget_launches() noexcept;
    // Numbers of the groups of users' launches that run on the endpoint, with those of attachments that may
    // still be launched or without. The caller holds the mutex.
    [[nodiscard]] std::vector<std::uint64_t> groups_on(Endpoint endpoint, bool or_may_come) const;
    // Takes a channel out; launches that could touch its memory keep it until they have ended. When it throws
    // (std::bad_alloc) the channel is still there.
    std::shared_ptr<ChannelImpl> remove_channel(std::uint32_t id);

private:
    void groups_threw(Launch::State& launch, std::uint32_t first, std::uint32_t count,
                      std::string const& what);
    // Why the end of groups leaves a source's other groups and its destinations in the lurch; empty
    // if it does not. `running` are the endpoint's groups.
    static std::string lurch(ChannelImpl& channel, std::uint32_t source,
                             Launch::State const& launch, std::uint32_t first, std::uint32_t count,
                             std::vector<std::uint64_t> const& running);
};

// Groups [first, first + count) of a launch are over, with the exception that they left with, if any; with the last
// ones the launch is.
void end_groups(Registry& registry, Launch::State& launch, std::uint32_t first, std::uint32_t count,
                std::exception_ptr const& exception);

}  // namespace mgi
