/// \file
/// What a server's applications do with its channels, as they say it about once a second, for the heartbeats.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <mgi/cluster.hpp>

#include "control/agent/ports.hpp"

namespace mgi::control {

/// Single-threaded.
class Usage {
public:
    /// Of a heartbeat, all channels together: those of the channels that are named first.
    static constexpr int kMostPaths = 1024;
    static constexpr int kMostWaits = 512;
    /// Further ones, which no server has, are left out.
    static constexpr std::size_t kMostNics = 256;

    /// `nics`: what the graph calls a NIC, by its interface's name.
    using NicNames = std::map<std::string, std::string>;
    explicit Usage(NicNames nics = {}) : nic_names_(std::move(nics)) {}

    /// From an application that has endpoints in the channel: of each it keeps what was said last.
    void take(ApplicationId application, ClusterUse use);
    /// An application has ended: what it has sent stays sent, and nothing of it waits.
    void application_left(ApplicationId application);
    /// The same of one channel that it does without from now on.
    void application_left(ApplicationId application, std::uint32_t channel);
    void forget_channel(std::uint32_t channel);
    /// Figures of each channel and of each NIC, of all applications together.
    void add_to(Heartbeat& heartbeat) const;

private:
    struct OfChannel {
        std::map<ApplicationId, ClusterUse> uses;
        FlowUse ended;  ///< of applications that are not there any more
    };
    void end(OfChannel& of, ApplicationId application);
    void rename(std::string& nic) const;
    void add_nics(Heartbeat& heartbeat) const;
    static void add_paths(ChannelUse& to, OfChannel const& of, std::size_t room);
    static void add_waits(ChannelUse& to, OfChannel const& of, std::size_t room);

    std::map<std::uint32_t, OfChannel> channels_;
    NicNames const nic_names_;
    std::map<std::string, FlowUse> past_;  ///< by NIC: of applications and channels that have ended
};

}  // namespace mgi::control
