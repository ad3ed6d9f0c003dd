/// \file
/// The controller's times and limits (docs/control.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgi::control {

/// Version of the messages. A peer of another one is refused by name.
inline constexpr std::uint32_t kProtocol = 4;

/// What bounds the controller's memory, whatever its peers send. Of what an owner asks for (endpoints,
/// channels, their ends, plans under way, calls that wait, gathers' bytes) there is always room for the
/// next owner (Shares).
struct Limits {
    std::size_t servers = 65'536;
    std::size_t sessions = 70'000;  ///< open, registered or not
    std::size_t endpoints = 1u << 21;
    std::size_t channels = 1u << 20;
    std::size_t channel_endpoints = 1u << 20;      ///< sources, and destinations, of one channel
    std::size_t all_channel_endpoints = 1u << 26;  ///< of all channels together
    std::size_t preparing = 4096;                  ///< channels being created at once
    std::size_t replanning = 64;                   ///< new generations under way at once
    std::size_t planning = 2;                      ///< plans that the planner has before it
    std::size_t waiting_calls = 16'384;            ///< for a channel
    std::size_t opaque_bytes = 1u << 20;           ///< schema and options of a channel
    std::size_t vertices = 1u << 16;               ///< of a server
    std::size_t links = 1u << 20;                  ///< of a server
    std::size_t figures = 8192;                    ///< NICs, paths and waits of one heartbeat
    std::size_t text = 255;                        ///< bytes of a name
    std::size_t why = 1024;                        ///< bytes of a reason that an agent gives
    std::size_t remembered = 4096;                 ///< answers of requests whose channel is over
    std::size_t failures = 256;                    ///< told by the status page
    std::size_t gather_ranks = 65'536;             ///< of one gather
    /// That wait for others. One owner alone has gather_ranks of them, and so have two.
    std::size_t gather_calls = 4 * 65'536;
    std::size_t gather_share = 256u << 10;        ///< bytes that one of them says
    std::size_t gather_bytes = 32u << 20;         ///< that all of one gather say
    std::size_t gathers_bytes = 384u << 20;       ///< of all gathers under way
    std::size_t kept_gathers_bytes = 128u << 20;  ///< of those answered a moment ago
};

struct Settings {
    std::uint32_t heartbeat_ms = 300;
    std::uint32_t lease_ms = 1'200;
    std::uint32_t grace_ms = 10'000;
    std::uint32_t forget_ms = 3'600'000;  ///< until a failed server is shown no more
    std::uint32_t call_ms = 5'000;        ///< to create a channel, where the caller does not say
    std::uint32_t most_call_ms = 60'000;
    std::uint32_t rate_ms = 3'000;       ///< rates are of so long, to twice that
    std::uint32_t retry_ms = 2'000;      ///< until a plan that could not be renewed is tried again
    std::uint32_t clock_off_ms = 5'000;  ///< an agent's clock further off is worth a warning
    Limits limits;
};

/// Throws Error(InvalidArgument) that names the setting: times are ordered, 0 < heartbeat < lease < grace.
void check(Settings const& settings);

}  // namespace mgi::control
