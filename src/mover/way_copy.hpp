// By which way each segment goes from one GPU to another: straight, or from hop to hop through slots in other GPUs'
// memory or the host's. What movers of channels on GPUs copy with.
//
// A copy is asked for with a credit at its destination. It starts with a slot of its first relay, and goes on
// with one of the next: those of a way are of different classes, and a slot waits for the next class or for nothing,
// so waits have an end.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mover/choice.hpp"
#include "mover/link/wire_counts.hpp"
#include "transport/gpu_copy.hpp"
#include "transport/transport.hpp"

namespace mgi::mover {

// Bytes that are on their way by a link, by all movers of a channel.
using Load = std::atomic<std::uint64_t>;

// Of a relay: its free slots of one class and one mover.
using FreeSlots = std::vector<char*>;

// What has gone by a way, for who looks on.
struct WayCounts {
    link::Count segments;   // that have arrived
    link::Count bytes;      // of these
    link::Count in_flight;  // segments
};

struct Way {
    std::string name;                // "straight", "by cuda:2"
    double rate = 1.0;               // bytes a nanosecond, as planned
    std::vector<FreeSlots*> relays;  // in their order; a straight way has none
    std::vector<Load*> loads;        // of each hop
    WayCounts* counts = nullptr;
};

// By the numbers of two GPUs; straight ones first.
using Ways = std::map<std::pair<int, int>, std::vector<Way>>;

class WayCopy final : public transport::Transport {
public:
    using Clock = std::function<std::uint64_t()>;  // nanoseconds
    // Copies between GPUs of which `ways` says nothing, and all others, go straight. What `ways` names outlives this.
    // `who` begins warnings: "channel 3".
    WayCopy(std::unique_ptr<transport::Engines> engines,
            std::shared_ptr<transport::GpuMemories const> memories, Ways const& ways, Clock clock,
            std::string who);

    bool submit(transport::Copy const& copy) override;
    // Throws Error for a copy that has failed and has no other way.
    bool poll(std::vector<std::uint64_t>& complete) override;
    [[nodiscard]] bool links(char const* from, char const* to) const override;

private:
    struct OpenWay {
        Way way;
        double rate = 1.0;  // as measured
        std::uint64_t last_used = 0;
        std::uint64_t busy_since = 0;  // or since the last look at its rate
        std::uint64_t measured = 0;    // bytes that have arrived since
        std::optional<Error> failure;  // then it is used no more
    };
    struct Pair {
        int from = 0;
        int to = 0;
        std::vector<OpenWay> ways;
        std::uint32_t last = 0;
    };
    struct Flight {
        std::uint64_t token = 0;
        char const* from = nullptr;
        char* to = nullptr;
        std::vector<memory::Range> ranges;
        std::uint64_t bytes = 0;
        Pair* pair = nullptr;             // null: straight, whatever happens
        std::optional<std::uint32_t> by;  // none: it looks for a way
        std::size_t hop = 0;
        char* held = nullptr;  // the slot where it is
        char* next = nullptr;  // the slot it is on its way to
    };
    [[nodiscard]] Pair* pair_of(transport::Copy const& copy);
    [[nodiscard]] std::uint32_t take_flight(transport::Copy const& copy);
    bool depart(std::uint32_t number);
    bool start_hop(std::uint32_t number);
    [[nodiscard]] std::optional<std::uint32_t> choose_way(Pair const& pair, std::uint64_t bytes);
    void arrived(std::uint32_t number, std::vector<std::uint64_t>& complete);
    void failed(transport::FailedCopy const& copy);
    void leave(Flight& flight);
    void go_on();
    static void measure(OpenWay& way, std::uint64_t now);
    [[nodiscard]] static Error no_way(Pair const& pair);

    std::unique_ptr<transport::Engines> engines_;
    std::shared_ptr<transport::GpuMemories const> const memories_;
    Clock const clock_;
    std::string const who_;
    std::map<std::pair<int, int>, Pair> pairs_;
    std::vector<Flight> flights_;        // by the engines' tokens
    std::vector<std::uint32_t> unused_;  // of them
    std::deque<std::uint32_t> waiting_;  // for a slot, or for a way
    std::vector<Candidate> candidates_;
    std::vector<std::uint64_t> over_;
    std::vector<transport::FailedCopy> failed_;
};

}  // namespace mgi::mover
