#include "runtime/host_groups.hpp"

#include <atomic>

#include "runtime/channel_impl.hpp"

namespace mgi {

std::uint64_t take_group_numbers(std::uint32_t count) {
    // 64 bits: a process that lives for months launches more than 2^32 groups, and a number that comes
    // again is taken for the group that had it.
    static std::atomic<std::uint64_t> next{0};
    return next.fetch_add(count, std::memory_order_relaxed);
}

HostGroup::HostGroup(std::shared_ptr<ChannelImpl> channel, std::uint32_t source,
                     std::uint32_t destination, std::uint32_t group, std::uint32_t groups,
                     std::uint64_t number)
    : channel_(std::move(channel)), view_(&channel_->state(), source, destination) {
    group_.block = group;
    group_.blocks = groups;
    group_.launch = number;
    scratch_.resize(view_.shared_bytes());
    shared_ = {scratch_.data(), static_cast<std::uint32_t>(scratch_.size())};
}

std::shared_ptr<Sender::State> ChannelImpl::sender(std::uint32_t source, std::uint32_t group,
                                                   std::uint32_t groups) {
    std::lock_guard const lock(mutex_);
    auto& known = senders_[{source, group}];
    if (auto state = known.state.lock()) return state;
    if (!known.number) known.number = take_group_numbers(1);
    auto state = std::make_shared<Sender::State>(shared_from_this(), source, kNone, group, groups,
                                                 *known.number);
    known.state = state;
    return state;
}

std::shared_ptr<Receiver::State> ChannelImpl::receiver(std::uint32_t destination,
                                                       std::uint32_t group) {
    std::lock_guard const lock(mutex_);
    auto& known = receivers_[{destination, group}];
    if (auto state = known.state.lock()) return state;
    if (!known.number) known.number = take_group_numbers(1);
    auto state = std::make_shared<Receiver::State>(shared_from_this(), kNone, destination, group,
                                                   group + 1, *known.number);
    known.state = state;
    return state;
}

}  // namespace mgi
