/// \file
/// A channel as Python holds it, with the host's sending and receiving groups at its endpoints.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <mgi/channel.hpp>

namespace mgi::python {

/// The host's group at one endpoint. Senders and receivers belong to one thread at a time; several
/// Python threads may use an endpoint, so each single call takes the lock. Nobody waits holding it.
template <class Group>
struct HostGroup {
    explicit HostGroup(Group made) : group(std::move(made)) {}

    std::mutex mutex;
    Group group;
};

/// A channel and its host groups, which are made at their first use. Thread-safe; every function is
/// called without the GIL.
class ChannelHolder {
public:
    explicit ChannelHolder(Channel channel) : channel_(std::move(channel)) {}

    [[nodiscard]] Channel const& channel() const { return channel_; }
    std::shared_ptr<HostGroup<Sender>> sender(Endpoint source) {
        return group_at(senders_, source, [&] { return channel_.sender(source); });
    }
    std::shared_ptr<HostGroup<Receiver>> receiver(Endpoint destination) {
        return group_at(receivers_, destination, [&] { return channel_.receiver(destination); });
    }

private:
    template <class Groups, class Make>
    typename Groups::mapped_type group_at(Groups& groups, Endpoint endpoint, Make&& make) {
        using Held = typename Groups::mapped_type::element_type;
        std::lock_guard const lock(mutex_);
        auto& found = groups[{endpoint.id, endpoint.device}];
        if (found == nullptr) found = std::make_shared<Held>(make());
        return found;
    }

    using Key = std::pair<std::uint32_t, std::uint32_t>;
    Channel channel_;
    std::mutex mutex_;
    std::map<Key, std::shared_ptr<HostGroup<Sender>>> senders_;
    std::map<Key, std::shared_ptr<HostGroup<Receiver>>> receivers_;
};

}  // namespace mgi::python
