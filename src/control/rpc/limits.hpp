/// \file
/// What both sides of the control plane agree on: sizes and times.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgi::control {

/// Of the frames (control.proto), as Hello says it.
inline constexpr std::uint32_t kTransport = 1;

/// Of the first frame, of either side: who has proven nothing gets no memory.
inline constexpr std::size_t kLargestHello = 4096;
/// A registration says all that a server's applications hold, with the specifications of their channels:
/// 40 KB for one of 8000 endpoints. Larger ones are refused unread.
inline constexpr std::size_t kLargestRequest = std::size_t{64} << 20;
/// A plan for such a channel, with its directory of endpoints.
inline constexpr std::size_t kLargestAnswer = std::size_t{64} << 20;

/// How long a call may take that nobody gave a limit.
inline constexpr std::chrono::milliseconds kCallLimit{5000};
/// A frame that has begun must be complete by then.
inline constexpr std::chrono::milliseconds kFrameLimit{15'000};
/// From accept to a Hello that is good.
inline constexpr std::chrono::milliseconds kHelloLimit{5000};
/// Calls of one connection that wait for their answers.
inline constexpr std::size_t kCallsAtOnce = 1024;

}  // namespace mgi::control
