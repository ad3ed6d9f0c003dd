#include "runtime/registry.hpp"

#include <new>
#include <set>

namespace mgi {

using device::relaxed;

namespace {

std::string text_of(std::exception_ptr const& exception) {
    try {
        std::rethrow_exception(exception);
    } catch (std::exception const& error) {
        return error.what();
    } catch (...) {
        return "an exception that is no std::exception";
    }
}

std::string group_name(Endpoint endpoint, std::uint32_t block) {
    return "group " + std::to_string(block) + " of endpoint " + std::to_string(endpoint.id);
}

// Whether a launch must keep a channel's memory although it was not given the channel. A kernel may have the
// handle of its endpoint from elsewhere: captured, in a struct, out of memory. And memory of GPUs cannot be freed
// beside resident kernels, whosever they are: freeing waits for all of them.
bool could_touch(Launch::State const& launch, ChannelImpl const& channel) {
    return has_endpoint(channel, launch.endpoint) || (launch.on_gpu && !channel.places().empty());
}

// Whether one of the groups may have called a channel, or was given it. A kernel that was given none may have it
// from elsewhere, and a lost GPU cannot be asked.
bool may_use(ChannelImpl& channel, Launch::State const& launch, std::uint32_t first,
             std::uint32_t count) {
    if (!has_endpoint(channel, launch.endpoint)) return false;
    if (!channel.refresh()) return true;
    if (launch.given.empty() || launch.was_given(channel.given_as())) return true;
    std::uint32_t const source = channel.source_index(launch.endpoint);
    std::uint32_t const destination = channel.destination_index(launch.endpoint);
    State const& state = channel.state();
    std::uint64_t const least = launch.first_number + first + 1;
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        if (source != ChannelImpl::kNone &&
            state.sources[source].groups[g].launch.load(relaxed) - least < count) {
            return true;
        }
        if (destination != ChannelImpl::kNone &&
            state.destinations[destination].receivers[g].load(relaxed) - least < count) {
            return true;
        }
    }
    return false;
}

}  // namespace

std::vector<std::uint64_t> Registry::groups_on(Endpoint endpoint, bool or_may_come) const {
    std::vector<std::uint64_t> numbers;
    for (auto const& launch : launches) {
        if (!(launch->endpoint == endpoint) || launch->sorts) continue;
        std::lock_guard const lock(launch->mutex);
        for (std::uint32_t g = 0; g < launch->groups; ++g) {
            if (launch->is_there(g, or_may_come)) numbers.push_back(launch->first_number + g);
        }
    }
    return numbers;
}

std::shared_ptr<ChannelImpl> Registry::remove_channel(std::uint32_t id) {
    std::lock_guard const lock(mutex);
    auto const at = channels.find(id);
    if (at == channels.end()) return nullptr;
    auto const channel = at->second;
    for (auto const& launch : launches) {
        std::lock_guard const launch_lock(launch->mutex);
        if (launch->running != 0 && could_touch(*launch, *channel)) {
            launch->channels.push_back(channel);
        }
    }
    channels.erase(at);
    return channel;
}

void Registry::forget_launches() noexcept {
    std::vector<std::shared_ptr<Launch::State>> gone;  // die behind the lock
    std::lock_guard const lock(mutex);
    auto const end = std::partition(launches.begin(), launches.end(),
                                    [](auto const& launch) { return launch->runs(); });
    try {
        gone.assign(end, launches.end());
    } catch (std::bad_alloc const&) {
        return;
    }
    launches.erase(end, launches.end());
}

void Registry::fail_all_of(Endpoint endpoint) noexcept {
    std::lock_guard const lock(mutex);
    for (auto const& [id, channel] : channels) {
        if (!has_endpoint(*channel, endpoint)) continue;
        (void)channel->refresh();
        if (channel->complete()) continue;
        channel->fail(ErrorCode::OutOfMemory, "no memory to look into the end of a group");
    }
}

void Registry::groups_ended(Launch::State& launch, std::uint32_t first, std::uint32_t count,
                            std::exception_ptr const& exception) {
    std::lock_guard const lock(mutex);
    if (exception != nullptr) return groups_threw(launch, first, count, text_of(exception));
    // Who runs is asked before who has registered: a group that has ended has registered before.
    std::vector<std::uint64_t> const running = groups_on(launch.endpoint, true);
    for (auto const& [id, channel] : channels) {
        std::uint32_t const source = channel->source_index(launch.endpoint);
        // All that can be missing is a flush.
        if (source == ChannelImpl::kNone || channel->has_sorters()) continue;
        if (channel->said_flushed(source)) continue;
        channel->refresh_words(source);
        if (channel->source_flushed(source)) continue;
        channel->refresh_at(launch.endpoint);
        if (channel->failed() || channel->complete()) continue;
        std::string const failure = lurch(*channel, source, launch, first, count, running);
        if (failure.empty()) continue;
        channel->fail(ErrorCode::GroupFailed, failure);
        launch.fail(std::make_exception_ptr(
            Error(ErrorCode::GroupFailed, channel->describe() + ": " + failure)));
    }
}

void Registry::groups_threw(Launch::State& launch, std::uint32_t first, std::uint32_t count,
                            std::string const& what) {
    for (auto const& [id, channel] : channels) {
        if (!may_use(*channel, launch, first, count)) continue;
        // Of attached groups the kernel may still come, whose launch nobody has told of.
        if (launch.on_gpu) channel->abandon_places();
        if (channel->failed() || channel->complete()) continue;
        channel->fail(ErrorCode::GroupFailed,
                      "the kernel of " + group_name(launch.endpoint, first) + " threw: " + what);
    }
    if (!launch.on_gpu) return;
    std::lock_guard const lock(launch.mutex);
    for (auto const& deleted : launch.channels) {
        if (may_use(*deleted, launch, first, count)) deleted->abandon_places();
    }
}

std::string Registry::lurch(ChannelImpl& channel, std::uint32_t source, Launch::State const& launch,
                            std::uint32_t first, std::uint32_t count,
                            std::vector<std::uint64_t> const& running) {
    auto const& state = channel.state();
    auto const& from = state.sources[source];
    std::uint32_t const expected = from.words->groups_expected.load(relaxed);
    std::string const who = group_name(launch.endpoint, first);
    if (expected == 0) {
        bool const nobody = running.empty() && !launch.sorts;
        return nobody && launch.was_given(channel.given_as())
                   ? who +
                         " ended, as all others of it have, and none has sent or flushed; a source "
                         "without rows must flush too"
                   : "";
    }
    std::set<std::uint64_t> may_flush(running.begin(), running.end());
    std::size_t known = 0;
    bool ours = false;
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        std::uint64_t const number = from.groups[g].launch.load(relaxed);
        if (number == 0) continue;
        ++known;
        may_flush.insert(number - 1);
        ours |= launch.has(number - 1);
        std::uint64_t const block = number - 1 - launch.first_number;
        if (block - first < count && from.groups[g].flushed.load(relaxed) == 0) {
            return "the kernel of " +
                   group_name(launch.endpoint, static_cast<std::uint32_t>(block)) +
                   " ended without having flushed; every group that sends must flush";
        }
    }
    if (!ours || may_flush.size() >= expected) return "";
    return who + " ended without having sent or flushed; " + std::to_string(expected) +
           " groups of this endpoint were to flush, " + std::to_string(known) + " are known";
}

}  // namespace mgi
