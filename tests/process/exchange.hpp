/// \file
/// What each of several processes does in an exchange over one part: the test itself is member 0, the
/// others are programs of their own (member.cpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "runtime/runtime_impl.hpp"

namespace mgi::test {

/// The descriptor at which a member finds the part.
inline constexpr int kPartDescriptor = 3;

struct Exchange {
    std::uint32_t me = 0;
    std::uint32_t members = 2;
    bool by_reference = true;
    static constexpr std::uint64_t kForever = UINT64_MAX;
    std::uint64_t rows = kForever;  ///< of each member
    std::uint32_t gone_limit_ms = 5000;
    bool forks = false;  ///< has a child of its own meanwhile, which executes nothing

    [[nodiscard]] std::vector<std::string> arguments() const;
    static Exchange from_arguments(char** arguments);
};

/// What has arrived at a member.
struct Arrived {
    std::uint64_t rows = 0;
    std::uint64_t sum = 0;  ///< of the values
};

/// One member's runtime, with endpoint `me`, which is source and destination.
class Member {
public:
    explicit Member(Exchange const& exchange);

    /// Makes the part; its descriptor is the channel's.
    int make();
    void open(int descriptor);
    /// Sends, receives and leaves. Throws the channel's failure.
    Arrived run();
    [[nodiscard]] Channel const& channel() const { return channel_; }

private:
    [[nodiscard]] ChannelSpec spec() const;
    [[nodiscard]] PartMembers members() const;

    Exchange exchange_;
    Runtime runtime_;
    Endpoint endpoint_;
    Channel channel_;
};

}  // namespace mgi::test
