// The tables that a channel consists of, and the pieces of its pool that they name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/device/state.hpp>

#include "memory/carver.hpp"

namespace mgi {

using Words = device::LibcuAtomics;
using State = device::ChannelState<Words>;

// `count` objects in whole cache lines of their own.
template <class T>
T* make_table(std::pmr::memory_resource& memory, std::size_t count) {
    static_assert(alignof(T) <= 64);
    T* const at = static_cast<T*>(memory.allocate(memory::Carver::piece(count * sizeof(T)), 64));
    std::uninitialized_value_construct_n(at, count);
    return at;
}

// Endpoints of a channel that are in one place (on this server, or on a GPU), by their indices, sorted.
struct Here {
    std::vector<std::uint32_t> sources;
    std::vector<std::uint32_t> destinations;

    friend bool operator==(Here const&, Here const&) = default;
};

// The endpoints of a channel that are on one GPU, "cuda:N".
struct GpuMembers {
    int gpu = 0;
    Here here;
};

// Memory for tables, and for segments.
struct Home {
    std::pmr::memory_resource* memory = nullptr;
    memory::Carver* carver = nullptr;
};

// Homes that all reach each other's memory, and which of them an endpoint has, by its index; none given: the first.
// What an endpoint polls lies at its home, and so do the segments that come to it.
struct Homes {
    std::vector<Home> all;
    std::vector<std::uint32_t> sources;
    std::vector<std::uint32_t> destinations;

    [[nodiscard]] std::uint32_t of_source(std::uint32_t s) const {
        return sources.empty() ? 0 : sources[s];
    }
    [[nodiscard]] std::uint32_t of_destination(std::uint32_t d) const {
        return destinations.empty() ? 0 : destinations[d];
    }
};

// Device of a stage's destinations, which are no endpoints; on a GPU they have that GPU and numbers that are
// no endpoint's.
inline constexpr std::uint32_t kStageBuffer = UINT32_MAX;
inline constexpr std::uint32_t kNoEndpoint = 1u << 31;

// Whether a channel is the stage of a source of another one.
inline bool is_stage(ChannelSpec const& spec) {
    Endpoint const first = spec.destinations.front();
    return first.device == kStageBuffer || first.id >= kNoEndpoint;
}

// Segments of a lane below this sequence have arrived, as its mover says; of one without moves, 0.
inline std::uint64_t delivered_of(device::Lane<Words> const& lane) {
    return (lane.mail != nullptr ? lane.mail->moved : lane.delivered).load(device::relaxed);
}

// Works on a state that has its counts and layouts. What one process builds in shared memory, others find.
// Of endpoints elsewhere there is no more than an empty row.
class ChannelTables {
public:
    // `far`: endpoints elsewhere, the segments from and for which have to be in memory of the host's although `here`
    // is a GPU. `by_mail`: movers cannot look at the tables.
    ChannelTables(State& state, Plan const& plan, Here const& here, Here far = {},
                  bool by_mail = false)
        : state_(state), plan_(plan), here_(here), far_(std::move(far)), by_mail_(by_mail) {}

    // Bytes that the tables take of a memory resource; the same wherever they are built.
    [[nodiscard]] std::uint64_t bytes() const { return bytes(here_); }
    // Of these endpoints, at a home of theirs.
    [[nodiscard]] std::uint64_t bytes(Here const& at) const;
    // Bytes of segments that come to these endpoints, and of what their groups keep, at a home of theirs; all is read
    // in place, by one destination.
    [[nodiscard]] std::uint64_t home_bytes(Here const& at) const;
    // Bytes of mail, at most.
    [[nodiscard]] std::uint64_t mail_bytes() const;
    // Bytes of segments and of what groups keep.
    [[nodiscard]] std::uint64_t pool_bytes() const;
    // Bytes of those segments.
    [[nodiscard]] std::uint64_t far_bytes() const;

    // Builds all of them; the state's pool is there. `mail`: memory by which movers speak with the endpoints, if there
    // are any, `by_mail`. `host`: the host's memory.
    void build(std::pmr::memory_resource& memory, memory::Carver& carver,
               std::pmr::memory_resource* mail = nullptr, memory::Carver* host = nullptr);
    // The same, all read in place, over several homes.
    void build(Homes const& homes);
    // At another home: a table of the endpoints that are built already, in `built`.
    void repeat(std::pmr::memory_resource& memory, State const& built);
    // Finds them at the start of memory where another process has built them.
    void find(std::pmr::memory_resource& memory);

private:
    // Whether the destinations that are here read what a source has for them in place.
    [[nodiscard]] bool is_read_in_place(std::uint32_t source) const;
    // Sources for which each destination that is here has a receive ring.
    [[nodiscard]] std::uint32_t copied_sources() const;
    // Whether a lane's segments are in memory of the host's, and of how many lanes of a source they are.
    [[nodiscard]] bool is_far_lane(std::uint32_t number) const;
    [[nodiscard]] std::uint64_t far_lanes() const;
    // Says who gets a lane's segments, the one with this number of a source that is here.
    void set_readers(device::Lane<Words>& lane, std::uint32_t number,
                     std::uint32_t const* readers) const;
    void add_mail(device::Lane<Words>& lane) const;
    void add_mail(device::Destination<Words>& destination) const;
    [[nodiscard]] std::uint32_t arrival_entries() const;
    // Whether each destination that is here has an inbox of a source whose segments it reads in place, or whose it gets
    // copies of; and of how many such sources.
    [[nodiscard]] bool has_inbox(bool in_place) const;
    [[nodiscard]] std::uint32_t with_inbox(bool in_place) const;
    [[nodiscard]] std::uint32_t inboxes() const { return with_inbox(true) + with_inbox(false); }
    [[nodiscard]] std::uint64_t inbox_bytes() const;
    void build_inboxes(std::pmr::memory_resource& memory, std::uint32_t d);
    // Destinations of a Balance channel by reference have one queue.
    [[nodiscard]] bool share_queue() const;
    [[nodiscard]] std::uint32_t queue_entries() const;
    [[nodiscard]] std::uint64_t group_bytes() const;
    void build_endpoints();
    void build_source(std::uint32_t s, std::uint32_t const* readers);
    void build_groups(Home const& home, device::Source<Words>& source);
    void build_destination(std::uint32_t d);
    device::Slot<Words>* build_slots(std::pmr::memory_resource& memory, memory::Carver& carver,
                                     std::uint32_t count);

    State& state_;
    Plan const& plan_;
    Here const& here_;
    Here const far_;
    bool const by_mail_;
    memory::Carver* host_ = nullptr;
    Homes homes_;
    std::pmr::memory_resource* mail_ = nullptr;
};

}  // namespace mgi
