// Host code's own groups: what a Sender and a Receiver stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <mgi/channel.hpp>

namespace mgi {

// Numbers for `count` groups that no other group of this process ever has; the first of them.
std::uint64_t take_group_numbers(std::uint32_t count);

// A group of one thread with its scratch.
class HostGroup {
public:
    HostGroup(std::shared_ptr<ChannelImpl> channel, std::uint32_t source, std::uint32_t destination,
              std::uint32_t group, std::uint32_t groups, std::uint64_t number);

    [[nodiscard]] ChannelImpl& channel() { return *channel_; }
    [[nodiscard]] std::shared_ptr<ChannelImpl> const& owner() const { return channel_; }
    [[nodiscard]] device::Channel const& view() const { return view_; }
    [[nodiscard]] device::Group const& group() const { return group_; }
    [[nodiscard]] device::Shared& shared() { return shared_; }
    // Held for each call: two threads that share a Sender take turns.
    std::mutex mutex;

private:
    std::shared_ptr<ChannelImpl> channel_;
    device::Channel view_;
    device::Group group_;
    std::vector<std::byte> scratch_;
    device::Shared shared_;
};

struct Sender::State : HostGroup {
    using HostGroup::HostGroup;
};

struct Receiver::State : HostGroup {
    using HostGroup::HostGroup;
};

}  // namespace mgi
