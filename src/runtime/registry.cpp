#include "runtime/registry.hpp"

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

// Whether a group has called a channel, or was given it. A kernel that was given none may have it
// from elsewhere.
bool uses(ChannelImpl& channel, std::uint32_t source, std::uint32_t destination,
          Launch::State const& launch, std::uint32_t block) {
    if (launch.given.empty() || launch.was_given(channel.given_as())) return true;
    State const& state = channel.state();
    std::uint32_t const number = launch.first_number + block + 1;
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        if (source != ChannelImpl::kNone &&
            state.sources[source].groups[g].launch.load(relaxed) == number) {
            return true;
        }
        if (destination != ChannelImpl::kNone &&
            state.destinations[destination].receivers[g].load(relaxed) == number) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool Registry::launch_runs_on(Endpoint endpoint) const {
    return std::any_of(launches.begin(), launches.end(), [&](auto const& launch) {
        return launch->endpoint == endpoint && !launch->sorts && launch->runs();
    });
}

void Registry::forget_launches() {
    std::vector<std::shared_ptr<Launch::State>> gone;  // die behind the lock
    std::lock_guard const lock(mutex);
    auto const end = std::partition(launches.begin(), launches.end(),
                                    [](auto const& launch) { return launch->runs(); });
    gone.assign(end, launches.end());
    launches.erase(end, launches.end());
}

void Registry::group_ended(Launch::State& launch, std::uint32_t block,
                           std::exception_ptr const& exception) {
    std::lock_guard const lock(mutex);
    for (auto const& [id, channel] : channels) {
        std::uint32_t const source = channel->source_index(launch.endpoint);
        std::uint32_t const destination = channel->destination_index(launch.endpoint);
        if (channel->failed() || channel->complete()) continue;
        if (exception != nullptr) {
            if (!uses(*channel, source, destination, launch, block)) continue;
            channel->fail(ErrorCode::GroupFailed, "the kernel of " +
                                                      group_name(launch.endpoint, block) +
                                                      " threw: " + text_of(exception));
        } else if (source != ChannelImpl::kNone && channel->stages().empty()) {
            std::string const failure = lurch(*channel, source, launch, block);
            if (failure.empty()) continue;
            channel->fail(ErrorCode::GroupFailed, failure);
            launch.fail(std::make_exception_ptr(
                Error(ErrorCode::GroupFailed, channel->describe() + ": " + failure)));
        }
    }
}

std::uint32_t Registry::groups_that_may_send(Endpoint endpoint,
                                             std::vector<std::uint32_t> const& known) const {
    std::uint32_t count = 0;
    for (auto const& launch : launches) {
        if (!(launch->endpoint == endpoint) || launch->sorts) continue;
        std::lock_guard const lock(launch->mutex);
        for (std::uint32_t g = 0; g < launch->groups; ++g) {
            std::uint32_t const number = launch->first_number + g;
            bool const sends = std::find(known.begin(), known.end(), number) != known.end();
            count += launch->group_runs[g] && !sends ? 1 : 0;
        }
    }
    return count;
}

std::string Registry::lurch(ChannelImpl& channel, std::uint32_t source,
                            Launch::State const& launch, std::uint32_t block) const {
    auto const& state = channel.state();
    auto const& from = state.sources[source];
    std::uint32_t const expected = from.groups_expected.load(device::acquire);
    std::string const who = group_name(launch.endpoint, block);
    if (expected == 0) {
        bool const last = launch.was_given(channel.given_as()) && groups_that_may_send(launch.endpoint, {}) == 0;
        return last && !launch.sorts
                   ? who + " ended, as all others of it have, and none has sent or flushed; a source "
                           "without rows must flush too"
                   : "";
    }
    if (from.groups_flushed.load(device::acquire) == expected) return "";
    std::vector<std::uint32_t> known;
    bool ours = false;
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        std::uint32_t const number = from.groups[g].launch.load(relaxed);
        if (number == 0) continue;
        known.push_back(number - 1);
        ours |= launch.has(number - 1);
        if (number - 1 == launch.first_number + block && from.groups[g].flushed.load(relaxed) == 0) {
            return "the kernel of " + who +
                   " ended without having flushed; every group that sends must flush";
        }
    }
    if (!ours || known.size() + groups_that_may_send(launch.endpoint, known) >= expected) return "";
    return who + " ended without having sent or flushed; " + std::to_string(expected) +
           " groups of this endpoint were to flush, " + std::to_string(known.size()) + " are known";
}

}  // namespace mgi
