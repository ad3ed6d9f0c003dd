/// \file
/// What this server's applications hold: endpoints, and the plans of their channels. It outlives any
/// controller, and plans come in two steps (docs/control.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <mgi/cluster.hpp>

#include "control/agent/ports.hpp"

namespace mgi::control {

struct HeldPlace {
    std::uint32_t vertex = 0;
    ApplicationId application = 0;
    bool told = false;  ///< this session's controller knows of it
    std::string owner = {};
};

struct HeldPlans {
    std::string owner;                    ///< of it and of all of its endpoints
    std::optional<ClusterPlan> running;   ///< committed
    std::optional<ClusterPlan> prepared;  ///< a newer one
    std::optional<ClusterPlan> awaited;   ///< what was created here, until its plan comes (again)
    ApplicationId creator = 0;            ///< 0: of another server, or one that has ended
    bool created = false;                 ///< by an application of this server, ended or not
    bool creator_left = false;  ///< who created it has left it: this server is its creator no more
    std::set<std::uint32_t> left;     ///< endpoints of any server that have left it
    std::set<ApplicationId> leavers;  ///< whose endpoints have all left it; they wait for its end
    Fd part;                          ///< its memory on this server, for who asks
    bool told = false;

    /// The plan that says what it is.
    [[nodiscard]] ClusterPlan const* plan() const {
        return running ? &*running : prepared ? &*prepared : nullptr;
    }
};

/// Single-threaded.
class Holdings {
public:
    /// Generations count a channel's plans. A number that no channel comes to would keep all later plans
    /// of that channel out.
    static constexpr std::uint64_t kLastGeneration = 1u << 31;

    using Endpoints = std::map<std::uint32_t, HeldPlace>;
    using Channels = std::map<std::uint32_t, HeldPlans>;

    [[nodiscard]] Endpoints const& endpoints() const { return endpoints_; }
    [[nodiscard]] Channels const& channels() const { return channels_; }

    void add_endpoint(std::uint32_t id, HeldPlace place) { endpoints_[id] = std::move(place); }
    void remove_endpoint(std::uint32_t id) { endpoints_.erase(id); }
    [[nodiscard]] std::size_t endpoints_at(std::uint32_t vertex) const;
    [[nodiscard]] std::vector<std::uint32_t> endpoints_of(ApplicationId application) const;

    /// Who is told of a channel: applications that have an endpoint of it which has not left, and its
    /// creator.
    [[nodiscard]] std::set<ApplicationId> parties(HeldPlans const& held) const;
    /// An application's endpoints in it that have not left.
    [[nodiscard]] std::set<std::uint32_t> endpoints_in(HeldPlans const& held,
                                                       ApplicationId application) const;
    [[nodiscard]] std::vector<std::uint32_t> created_by(ApplicationId application) const;
    [[nodiscard]] bool has_endpoint_of(ClusterChannelSpec const& spec) const;
    /// Why a channel of that owner cannot be here with these endpoints, or nothing.
    [[nodiscard]] std::string wrong_owner(ClusterPlan const& plan, std::string const& owner) const;

    /// First step; why not, or nothing: accepted.
    std::string prepare(ClusterPlan plan, std::string const& owner);
    /// Second step: the plan that now runs; nothing if it was not prepared here (or runs already).
    ClusterPlan const* commit(std::uint32_t channel, std::uint64_t generation);
    void abort(std::uint32_t channel, std::uint64_t generation);
    /// What an application says that it holds, after the agent's restart, or has created without an
    /// endpoint here: such a channel gets no plans. A newer plan stays. Why it cannot be held, or
    /// nothing.
    std::string announce(ClusterPlan plan, ApplicationId creator, std::string const& owner);
    /// An application of this server has created it (0: one that has ended meanwhile), whatever plan of
    /// it is here. Until it is removed it counts as created here, also when its creator has ended:
    /// nobody but this server ends it then. As announce.
    std::string created(ClusterPlan plan, ApplicationId creator, std::string const& owner);
    /// An application's endpoints leave it, and so does a creator; whether that is new.
    bool leave(std::uint32_t channel, ApplicationId application);
    /// Endpoints that have left it elsewhere, or under an earlier agent.
    void note_left(std::uint32_t channel, std::vector<std::uint32_t> const& endpoints);
    void note_creator_left(std::uint32_t channel);
    HeldPlans* find(std::uint32_t id);
    void creator_ended(std::uint32_t channel) { channels_.at(channel).creator = 0; }
    [[nodiscard]] HeldPlans const* channel(std::uint32_t id) const;
    void remove_channel(std::uint32_t id) { channels_.erase(id); }

    /// A new session, whose controller has been told nothing.
    void forget_told();
    /// Some of what the controller has not been told in this session, marked as told: about so many
    /// bytes of it, and one thing at least. Whether that was all.
    bool tell(std::size_t most_bytes, std::function<std::string(ApplicationId)> const& name_of,
              google::protobuf::RepeatedPtrField<HeldEndpoint>& endpoints,
              google::protobuf::RepeatedPtrField<HeldChannel>& channels);

private:
    Endpoints endpoints_;
    Channels channels_;
};

/// The proto's words and ours.
ChannelSpec proto_of(ClusterChannelSpec const& spec);
ClusterChannelSpec spec_of(ChannelSpec const& spec);

}  // namespace mgi::control
