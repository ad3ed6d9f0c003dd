/// \file
/// A channel over several runtimes of this process, as it is over several processes of a server: one part,
/// one mapping, so that ThreadSanitizer sees both sides. Or of several servers: a part for each, and
/// links over loopback.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "runtime/part.hpp"

namespace mgi::test {

/// For a call on such a channel, on a busy machine.
inline constexpr std::chrono::seconds kPatience{30};

/// An endpoint and the member that has it.
struct Owned {
    Endpoint endpoint;
    std::uint32_t member = 0;
};

class Members {
public:
    /// Member m is on server m % `servers`.
    explicit Members(std::uint32_t count, RuntimeOptions options = {}, std::uint32_t servers = 1);

    [[nodiscard]] std::uint32_t count() const { return std::uint32_t(runtimes_.size()); }
    [[nodiscard]] std::uint32_t servers() const { return servers_; }
    [[nodiscard]] Runtime& runtime(std::uint32_t member) { return *runtimes_[member]; }
    /// A new endpoint with a number that no other endpoint of any member has. With one on a GPU each member is to
    /// be on a server of its own, as the runtime has it.
    Owned create_endpoint(std::uint32_t member, std::string const& device = "cpu");
    /// The member's runtime dies.
    void end(std::uint32_t member) { runtimes_[member].reset(); }

    /// What a channel's specification is for a member, and who has what of it.
    static ChannelSpec seen_from(std::uint32_t member, ChannelSpec spec,
                                 std::vector<Owned> const& sources,
                                 std::vector<Owned> const& destinations);
    [[nodiscard]] bool is_on_gpu(Owned const& one);
    /// Whether members copy into each other's GPUs' memory, where they can; they do if nothing is said.
    void share_gpus(bool wanted) { shares_gpus_ = wanted; }
    [[nodiscard]] PartMembers members_of(std::uint32_t member, std::vector<Owned> const& sources,
                                         std::vector<Owned> const& destinations);
    /// Opens a channel in all of them; its endpoints are added to `spec`. By member.
    std::vector<Channel> open(ChannelSpec const& spec, std::vector<Owned> const& sources,
                              std::vector<Owned> const& destinations);
    /// The same, with links that have not begun.
    std::vector<Channel> open_only(ChannelSpec const& spec, std::vector<Owned> const& sources,
                                   std::vector<Owned> const& destinations);

private:
    std::uint32_t const servers_;
    bool shares_gpus_ = true;
    std::vector<std::optional<Runtime>> runtimes_;
    std::uint32_t next_endpoint_ = 0;
    std::uint32_t next_channel_ = 7;
};

}  // namespace mgi::test
