/// \file
/// The planner as the controller sees it.
#pragma once

#include <cstdint>
#include <memory>

#include "control/state/effects.hpp"

namespace mgi::control {

/// Used by one thread. What it is told last holds for the plans after it.
class ChannelPlans {
public:
    virtual ~ChannelPlans() = default;
    /// A server, or what a known one looks like now. Throws Error for a graph that cannot be; plans
    /// with that server then fail.
    virtual void learn(LearnServer const& server) = 0;
    virtual void learn(LearnLink const& link) = 0;
    virtual void forget(std::uint32_t agent) = 0;
    /// Throws Error(InvalidArgument) that names what cannot be reached.
    virtual PlanMade plan(MakePlan const& request) = 0;
};

/// The planner of src/planner.
std::unique_ptr<ChannelPlans> make_plans();

}  // namespace mgi::control
