/// \file
/// The processes of a job that do something together with their endpoints, and what they say to each
/// other: operators stand on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

namespace mgi {

/// Processes that have some endpoints, in the order of their ranks; the same in all of them. Used by
/// one thread at a time.
class Members {
public:
    /// Of endpoints that Runtime::gather_endpoints has told of. Throws Error(NotFound) for others, and
    /// Error(InvalidArgument) where this process has none of them.
    Members(Runtime const& runtime, std::vector<Endpoint> const& endpoints);
    Members(Members&&) noexcept;
    Members& operator=(Members&&) noexcept;
    ~Members();

    [[nodiscard]] std::size_t count() const;
    /// This process, among them.
    [[nodiscard]] std::size_t me() const;
    /// A member's rank in the job.
    [[nodiscard]] std::uint32_t rank(std::size_t member) const;
    /// Whether an endpoint is this process' own.
    [[nodiscard]] bool mine(Endpoint endpoint) const;
    /// The name of the server that an endpoint is on, by its place among those of the constructor.
    [[nodiscard]] std::string const& server(std::size_t endpoint) const;

    /// How often these processes have come together before, as far as this one knows: the same number
    /// in all, if each comes to every occasion.
    std::uint64_t next_occasion();
    /// The same, and does not come to it.
    [[nodiscard]] std::uint64_t occasions() const;
    /// What all say on an occasion, which `what` names, by member; each says something once, which is not empty. Waits for
    /// the others. Throws Error(Timeout) that names the ranks which have not come, Error(Interrupted)
    /// soon after `stop`, which another thread asks now and then, has become true (as do this
    /// runtime's other calls that wait then), Error(GroupFailed) that names a process which has ended or
    /// given back its endpoints, and what ClusterClient::gather throws. A member that has `failed` waits
    /// for nobody, and the others hear its words alone: what the rest has said is empty then.
    std::vector<std::string> gather(std::string const& what, std::string const& words,
                                    std::chrono::milliseconds timeout,
                                    std::function<bool()> const& stop, bool failed = false);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace mgi
