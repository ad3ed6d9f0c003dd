/// \file
/// Owners of channels for the tests of links: each sends segments of known content to the other, with
/// as many credits as it has targets, and checks every byte that comes, when it arrives and for as long
/// as a consumer looks at it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "link/network.hpp"

namespace mgi::test {

struct TrafficOptions {
    std::uint32_t flows = 3;
    std::uint64_t segments = 40;  ///< of each flow
    std::uint64_t pool = 3;       ///< targets of each flow
    std::uint32_t most_bytes = 6000;
    Time most_hold = 3 * mover::link::kMillisecond;  ///< how long a consumer looks at a segment
    std::uint64_t nics = 0;
};

/// One end: the source of some flows, the destination of as many.
class Traffic final : public LinkOwner {
public:
    Traffic(Network& network, int end, TrafficOptions const& options);

    /// Starts what there are credits for.
    void push();

    /// Everything was acknowledged here, and everything has arrived here.
    [[nodiscard]] bool complete() const;
    [[nodiscard]] bool has_failed() const { return failures_ != 0; }
    [[nodiscard]] std::string const& why() const { return why_; }
    /// What was found that may not be; empty if all is well.
    [[nodiscard]] std::string const& wrong() const { return wrong_; }

    bool target(mover::link::Key const& key, std::uint64_t tag, std::uint64_t bytes,
                std::vector<iovec>& pieces) override;
    void arrived(mover::link::Key const& key, std::uint64_t tag) override;
    void acknowledged(std::uint64_t token) override;
    void word(mover::link::Word const& word) override;
    void failed(ErrorCode code, std::string const& why) override;

private:
    enum Kind : std::uint32_t { Credit = 1, End = 2 };
    struct Sending {
        std::uint64_t next = 0;
        std::uint64_t credits = 0;
        std::vector<std::vector<char>> memory;  ///< by sequence % pool
        std::vector<bool> flying;
        std::uint64_t acknowledged = 0;
        bool ended = false;
    };
    struct Target {
        std::vector<char> memory;
        std::uint64_t sequence = 0;  ///< which one it may hold
        bool arrived = false;
    };
    struct Receiving {
        std::vector<Target> targets;
        std::uint64_t taken = 0;  ///< segments that a consumer has done with
        bool looking = false;
        std::uint64_t end = 0;  ///< how many there are, plus 1
    };
    void say_credits(std::uint32_t flow);
    void consume(std::uint32_t flow);
    void complain(std::string const& what);
    [[nodiscard]] std::uint32_t size_of(int from, std::uint32_t flow, std::uint64_t sequence) const;
    static char byte_of(int from, std::uint32_t flow, std::uint64_t sequence, std::size_t at);
    void check(std::uint32_t flow, std::uint64_t sequence, char const* when);

    Network& network_;
    int end_;
    TrafficOptions options_;
    std::vector<Sending> sending_;
    std::vector<Receiving> receiving_;
    int failures_ = 0;
    std::string why_;
    std::string wrong_;
};

}  // namespace mgi::test
