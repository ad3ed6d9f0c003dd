/// \file
/// Two links and the wires between them in virtual time: everything follows from one seed. Wires have a
/// rate, a delay and a bounded buffer; they break at any byte, fall silent, slow down and damage bytes.
/// What one end has written still arrives after that end has closed its wire, until the other one
/// closes it, too.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "mover/link/link.hpp"
#include "support/random.hpp"

namespace mgi::test {

using mover::link::Link;
using mover::link::LinkOptions;
using mover::link::LinkOwner;
using mover::link::NicBoard;
using mover::link::Time;

class Network {
public:
    explicit Network(std::uint64_t seed) : random(seed) {}

    /// Makes the two links; end 0 dials.
    void connect(LinkOptions const& options, LinkOwner& first, LinkOwner& second) {
        connect(options, options, first, second);
    }
    /// The same where the ends do not want the same.
    void connect(LinkOptions ones, LinkOptions twos, LinkOwner& first, LinkOwner& second);

    /// Something an owner has done wants to be sent.
    void poke(int end) { wake(end, now); }
    void at(Time when, std::function<void()> what);
    /// Runs until `done`, or until the time has come, or until nothing happens any more.
    void run(Time until, std::function<bool()> const& done);

    /// Faults. A wire that is not there is left alone.
    void reset(std::uint32_t slot);  ///< the stream breaks, and both ends hear of it
    void silence(std::uint32_t slot,
                 int way);  ///< bytes of end `way` are lost from now on, unnoticed
    void slow(std::uint32_t slot, double rate);
    void damage(std::uint32_t slot, int way);  ///< one of the next bytes of end `way` is changed
    void freeze(int end, Time until);          ///< the process stops
    bool dials_fail = false;                   ///< nobody can make a wire
    /// The hop of a wire's way that does not lead on; nothing: there can be one. After a change, `sever` has
    /// those that are there fall silent.
    std::function<std::optional<std::uint32_t>(std::uint32_t slot, std::uint64_t generation)> stops;
    void sever();
    void misfortune(std::uint32_t slot, int end);  ///< any of these, by chance

    Link& link(int end) { return *ends_[end].link; }
    std::string wrong;  ///< what no end may do, if one has done it
    Random random;
    Time now = mover::link::kSecond;
    std::uint64_t steps = 0;
    std::map<std::uint32_t, std::uint64_t> dialed;  ///< by slot: how often

private:
    struct Pipe {
        std::deque<char> arrived;  ///< to be read
        std::size_t held = 0;      ///< bytes written and not read
        Time free = 0;             ///< when the wire has carried what was written
        bool silent = false;
        bool damaged = false;
    };
    struct Wire {
        std::uint32_t slot = 0;
        std::uint64_t generation = 0;
        bool open[2] = {false, false};  ///< as that end sees it
        Pipe pipe[2];                   ///< [e]: from end e
        double rate = 1.0;
        Time delay = 0;
        std::size_t buffer = 0;
    };
    struct End {
        std::unique_ptr<Link> link;
        Time frozen_until = 0;
        Time wake_at = mover::link::kNever;
    };
    struct Event {
        Time when;
        std::uint64_t order;
        std::function<void()> what;
        bool operator<(Event const& other) const {
            return when != other.when ? when > other.when : order > other.order;
        }
    };
    using WirePointer = std::shared_ptr<Wire>;

    void wake(int end, Time when);
    void serve(int end);
    void obey(int end);
    void write(int end);
    bool write_some(int end, WirePointer const& wire);
    void arrive(int end, WirePointer const& wire, std::vector<char> bytes);
    void read(int end, WirePointer const& wire);
    void make(std::uint32_t slot, std::uint64_t generation);
    void hang_up(int end, WirePointer const& wire, Time delay, std::string const& why);
    WirePointer find(int end, std::uint32_t slot);
    bool defer(int end, std::function<void()> what);

    NicBoard boards_[2];  // ahead of the links, which give back what they have taken
    End ends_[2];
    std::vector<WirePointer> wires_;
    std::map<std::uint32_t, double> rates_;
    std::priority_queue<Event> events_;
    std::uint64_t order_ = 0;
};

}  // namespace mgi::test
