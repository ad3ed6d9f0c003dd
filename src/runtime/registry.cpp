#include "runtime/registry.hpp"

#include <algorithm>

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
        bool const member = source != ChannelImpl::kNone || destination != ChannelImpl::kNone;
        if (!member || channel->failed() || channel->complete()) continue;
        if (exception != nullptr) {
            channel->fail(ErrorCode::GroupFailed, "the kernel of " +
                                                      group_name(launch.endpoint, block) +
                                                      " threw: " + text_of(exception));
        } else if (source != ChannelImpl::kNone) {
            source_group_ended(*channel, source, launch, block);
        }
    }
}

void Registry::source_group_ended(ChannelImpl& channel, std::uint32_t source,
                                  Launch::State& launch, std::uint32_t block) {
    auto const& state = channel.state();
    auto const& from = state.sources[source];
    std::uint32_t const expected = from.groups_expected.load(device::acquire);
    if (expected == 0 || from.groups_flushed.load(device::acquire) == expected) return;
    std::string failure;
    std::uint32_t registered = 0;
    bool ours = false;
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        auto const& group = from.groups[g];
        std::uint32_t const number = group.launch.load(relaxed);
        if (number == 0) continue;
        ++registered;
        numbers.push_back(number - 1);
        ours |= launch.has(number - 1);
        if (number - 1 == launch.first_number + block && group.flushed.load(relaxed) == 0) {
            failure = "the kernel of " + group_name(launch.endpoint, block) +
                      " ended without having flushed; every group that sends must flush";
        }
    }
    if (failure.empty() && ours) {
        std::uint32_t may_register = 0;
        for (auto const& other : launches) {
            if (!(other->endpoint == launch.endpoint)) continue;
            std::lock_guard const lock(other->mutex);
            for (std::uint32_t g = 0; g < other->groups; ++g) {
                std::uint32_t const number = other->first_number + g;
                bool const known = std::find(numbers.begin(), numbers.end(), number) != numbers.end();
                may_register += other->group_runs[g] && !known ? 1 : 0;
            }
        }
        if (registered + may_register < expected) {
            failure = group_name(launch.endpoint, block) + " ended without having sent or flushed; " +
                      std::to_string(expected) + " groups of this endpoint were to flush, " +
                      std::to_string(registered) + " are known";
        }
    }
    if (failure.empty()) return;
    channel.fail(ErrorCode::GroupFailed, failure);
    launch.fail(std::make_exception_ptr(
        Error(ErrorCode::GroupFailed, channel.describe() + ": " + failure)));
}

}  // namespace mgi
