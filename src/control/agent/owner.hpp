/// \file
/// To whom belongs what applications name, and proof that an agent gave it to them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <mgi/cluster.hpp>

namespace mgi::control {

/// A user of this server, or for who brings a job's secret that job, on whatever server and as whatever
/// user it runs. The secret cannot be found from it. Throws Error(InvalidArgument) for a secret that is
/// shorter than 32 characters.
std::string owner_of(std::uint32_t uid, std::string_view job_secret);

/// A ticket goes with each endpoint and plan that an application gets. When its agent is started again,
/// which knows nothing then, the application shows it: so nobody gets what others hold by naming it.
/// Immutable, so thread-safe.
class Tickets {
public:
    /// `key`: secret, the same in all lives of an agent; without one, random.
    explicit Tickets(std::string key);

    [[nodiscard]] std::string of_endpoint(std::string_view owner, std::uint32_t id,
                                          std::uint32_t vertex) const;
    [[nodiscard]] std::string of_plan(std::string_view owner, ClusterPlan const& plan) const;
    /// Who has it created that channel.
    [[nodiscard]] std::string of_creator(std::string_view owner, std::uint32_t channel) const;

private:
    std::string const key_;
};

/// Whether two tickets are the same; the time that takes tells nothing about where they differ.
bool is_same_ticket(std::string_view one, std::string_view other);

/// The key of tickets in a file, which is made with a random one where there is none. Throws
/// Error(Refused) where the file cannot be made, or is another user's.
std::string ticket_key(std::string const& file);

}  // namespace mgi::control
