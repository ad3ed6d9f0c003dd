// A server's part of a channel whose endpoints are in several processes: a block of shared memory with the
// channel's tables and segments, and ahead of them what the processes tell each other. A member is a
// process that has endpoints in the channel.
//
//     header | members | attended words | tables | segments, carry buffers | growing part of each member
//
// The members run one program for one user and trust each other with what stands in the tables, as threads
// of one process do. What is checked is that a part is the one meant.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mgi/error.hpp>
#include <mgi/plan.hpp>

#include "memory/pool.hpp"
#include "memory/shared_block.hpp"

namespace mgi {

// Who has which endpoint of a channel, seen from one of the members.
struct PartMembers {
    std::vector<std::uint32_t> source_member;       // by source: 0 .. count - 1
    std::vector<std::uint32_t> destination_member;  // by destination
    std::uint32_t me = 0;
    std::uint32_t count = 1;
    std::vector<std::string> names;     // "rank 3", for errors; empty: "process 0", "process 1" ...
    std::vector<std::uint32_t> server;  // by member; empty: all are on one
    // By endpoint; empty: none is. Where one is, each process counts as a server, and links join them.
    std::vector<bool> source_on_gpu;
    std::vector<bool> destination_on_gpu;
    // By member: which server that is really; empty: `server` says it.
    std::vector<std::uint32_t> machine;
    [[nodiscard]] bool on_gpus() const;
    [[nodiscard]] std::uint32_t machine_of(std::uint32_t member) const {
        return machine.empty() ? server[member] : machine[member];
    }
    // By member and destination: whether the one copies into the other's GPU itself. Empty: nobody does.
    std::vector<std::vector<bool>> writes;
    bool writes_own_gpus = false;  // this one does so into GPUs that it uses itself
    [[nodiscard]] bool writes_into(std::uint32_t member, std::uint32_t destination) const {
        return !writes.empty() && writes[member][destination];
    }
    // All endpoints are on GPUs of one server that reach each other's memory, where each destination reads in place
    // what all sources have for it; links carry no rows then.
    bool in_place = false;
    // By source and destination: whether NICs carry it from one GPU's memory to the other's. Empty: nothing is.
    std::vector<std::vector<bool>> direct;
    [[nodiscard]] bool is_direct(std::uint32_t source, std::uint32_t destination) const {
        return !direct.empty() && direct[source][destination];
    }
    // Whether they do so to or from this member's GPUs.
    [[nodiscard]] bool is_direct() const;

    [[nodiscard]] std::string name(std::uint32_t member) const;
    // Whether a member is on this one's server.
    [[nodiscard]] bool is_here(std::uint32_t member) const {
        return server.empty() || server[member] == server[me];
    }
    // Whether any is not.
    [[nodiscard]] bool cross_servers() const;
    // Throws Error(InvalidArgument) where the numbers contradict each other.
    void check(std::size_t sources, std::size_t destinations) const;
};

// How many bytes of what a part has; all members find the same.
struct PartSizes {
    std::uint64_t tables = 0;
    std::uint64_t fixed = 0;   // segments and carry buffers
    std::uint64_t growth = 0;  // of each member

    friend bool operator==(PartSizes const&, PartSizes const&) = default;
};

// Thread-safe.
class Part {
public:
    // The numbers of `plan` and `receive_limit` are for all members. Throws Error(OutOfMemory).
    static std::shared_ptr<Part> create(std::uint32_t channel, PartMembers members,
                                        Plan const& plan, std::uint64_t receive_limit,
                                        PartSizes const& sizes);
    // Another member's, by its descriptor, which stays the caller's; null if its address is taken in this
    // process. Throws Error(InvalidArgument) if it is no part of this channel with these members, or
    // of another version; Error(OutOfMemory).
    static std::shared_ptr<Part> open(int descriptor, std::uint32_t channel, PartMembers members);
    // The most that each of so many members may keep beyond the pools.
    static std::uint64_t most_growth(std::uint32_t members);

    // What the maker planned; without tables. An opener sees whether it can be.
    [[nodiscard]] Plan plan() const;
    [[nodiscard]] std::uint64_t receive_limit() const;
    // Throws Error(InvalidArgument) if the part's sizes are others.
    void check(PartSizes const& sizes) const;

    [[nodiscard]] PartMembers const& members() const { return members_; }
    [[nodiscard]] int descriptor() const { return block_->descriptor(); }
    [[nodiscard]] std::uint64_t address() const { return block_->address(); }
    [[nodiscard]] char* tables() const;
    // This member's pool.
    [[nodiscard]] memory::Pool::Shared pool() const;

    // A member comes, when it has found all in order, and leaves, when nobody awaits anything of it; its
    // heart beats in between.
    void join();
    void leave();
    void beat();
    enum class Presence : std::uint32_t { Awaited, Joined, Left };
    [[nodiscard]] Presence presence(std::uint32_t member) const;
    [[nodiscard]] std::uint64_t heartbeat(std::uint32_t member) const;
    // "rank 1 (pid 4242)"
    [[nodiscard]] std::string describe(std::uint32_t member) const;

    // Whether somebody at an endpoint may still send or receive: its process says it.
    void attend_source(std::uint32_t source, bool is_attended);
    void attend_destination(std::uint32_t destination, bool is_attended);
    [[nodiscard]] bool is_source_attended(std::uint32_t source) const;
    [[nodiscard]] bool is_destination_attended(std::uint32_t destination) const;

    // What other servers count of their progress, in all; the largest that a member has heard of.
    void note_far_progress(std::uint64_t count);
    [[nodiscard]] std::uint64_t far_progress() const;

    // The first failure stays: false if there is one already. `text` is cut to what there is room for.
    bool fail(ErrorCode code, std::string_view text) noexcept;
    // Ok while it has not failed.
    [[nodiscard]] ErrorCode error() const;
    // Waits some milliseconds at most for a failing member to have said why.
    [[nodiscard]] std::string failure_text() const;

private:
    struct Header;
    struct Member;
    // Where what begins, in bytes from the block's start, and where it ends.
    struct Places {
        std::uint64_t tables = 0;
        std::uint64_t pool = 0;
        std::uint64_t growth = 0;
        std::uint64_t bytes = 0;

        friend bool operator==(Places const&, Places const&) = default;
    };
    Part(std::shared_ptr<memory::SharedBlock> block, PartMembers members, PartSizes const& sizes,
         Places const& places);
    static Places places_of(std::uint64_t members, std::uint64_t endpoints, PartSizes const& sizes);

    [[nodiscard]] Header& header() const;
    [[nodiscard]] Member& member(std::uint32_t index) const;
    // Of a source, or behind all sources of a destination.
    [[nodiscard]] std::atomic<std::uint32_t>& attended(std::size_t endpoint) const;

    std::shared_ptr<memory::SharedBlock> const block_;
    PartMembers const members_;
    // Not looked up in the block again, where a defect may write over them.
    PartSizes const sizes_;
    Places const places_;
};

}  // namespace mgi
