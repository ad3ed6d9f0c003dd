/// \file
/// Links of several channels between two servers in virtual time, whose wires share the NICs of the first
/// one: a NIC carries so many bytes in a step of time, of all wires that have some, in the order in which
/// they came or by turns, as TCP does it. Nothing fails here.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "mover/link/link.hpp"

namespace mgi::test {

using mover::link::Link;
using mover::link::LinkOwner;
using mover::link::NicBoard;
using mover::link::Time;

/// One channel's link, and its owners at both ends: as many segments are on their way as there are credits.
class Stream final : public LinkOwner {
public:
    struct Options {
        std::uint64_t channel = 1;
        double weight = 1.0;
        std::uint64_t nics = 0;  ///< of its source's device
        std::uint64_t credits = 64;
        double most = 0;  ///< bytes a nanosecond that its other end takes; 0: any
        std::uint32_t segment = 256U << 10;
    };

    std::vector<std::uint64_t> carried;  ///< bytes, by NIC
    std::uint64_t arrived_bytes = 0;
    bool wants = false;
    Time first_begun = 0;            ///< since it wants
    std::vector<Time> last_carried;  ///< by NIC: some of a segment

    bool target(mover::link::Key const& key, std::uint64_t tag, std::uint64_t bytes,
                std::vector<iovec>& pieces) override;
    void arrived(mover::link::Key const& key, std::uint64_t tag) override;
    void acknowledged(std::uint64_t token) override;
    void word(mover::link::Word const& /*word*/) override {}
    void failed(ErrorCode /*code*/, std::string const& why) override { trouble = why; }

    std::string trouble;

private:
    friend class Nics;
    struct Wire {
        bool open = false;
        std::string out;   ///< written at the near end, not carried yet
        std::string back;  ///< written at the far one
        std::deque<std::pair<Time, std::size_t>> written;
    };
    Options options;
    std::unique_ptr<Link> near;
    std::unique_ptr<Link> far;
    std::vector<Wire> wires;
    std::vector<char> memory;
    std::vector<char> nowhere;
    std::uint64_t started = 0;
    std::uint64_t done = 0;
    double allowance = 0;
};

enum class Discipline : std::uint8_t { InOrder, ByTurns };

class Nics {
public:
    /// `rates`: of each NIC, bytes a nanosecond.
    Nics(std::vector<double> rates, Discipline discipline)
        : rates_(std::move(rates)),
          budget_(rates_.size()),
          discipline_(discipline),
          turn_(rates_.size()) {}

    /// A link over all NICs; `board` is the near process'.
    Stream& add(Stream::Options const& options, NicBoard& board);
    void want(Stream& stream, bool wants);
    void run(Time time);
    [[nodiscard]] std::string describe(Stream const& stream) const {
        return stream.near->describe(now);
    }

    Time now = mover::link::kSecond;

    static constexpr Time kStep = 20'000;

private:
    void start(Stream& stream);
    void obey(Stream& stream, Link& link);
    void write(Stream& stream);
    void carry(std::size_t nic);
    void deliver(Stream& stream, std::size_t nic, std::size_t bytes);
    static void read(Link& link, std::uint32_t slot, std::string& bytes, std::size_t most,
                     Time now);

    std::vector<double> rates_;
    std::vector<double> budget_;
    Discipline const discipline_;
    std::vector<std::size_t> turn_;  ///< by NIC
    NicBoard far_board_;
    std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace mgi::test
