// A process' links of one channel, each to a process of another server: what goes over them and what
// comes. Who makes the links, and of what, is the runtime's business.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "mover/channel_words.hpp"
#include "mover/far_route.hpp"
#include "mover/intake.hpp"
#include "mover/link/carrier.hpp"
#include "mover/placed_route.hpp"
#include "mover/work.hpp"

namespace mgi::mover {

// Whom a channel's links tell what is not about segments. Called by the links' threads; must not wait.
class ChannelEvents {
public:
    virtual ~ChannelEvents() = default;
    // Another server has failed the channel, or a link that is still needed is over.
    virtual void failed(ErrorCode code, std::string const& why) = 0;
    virtual void attended(std::uint32_t destination, bool is_attended) = 0;
    // What other servers count of their progress, in all, has grown.
    virtual void progressed(std::uint64_t count) = 0;
    // A peer has said farewell, and waits for `release`.
    virtual void left() = 0;
};

// The process at the other end of a link, and what moves between it and this one.
struct ChannelPeer {
    using SourceAndDestination = Intake::SourceAndDestination;
    std::string name;  // "rank 3 on server b"
    std::uint32_t server = 0;
    std::vector<SourceAndDestination> out;
    std::vector<SourceAndDestination> in;
    bool in_place = false;  // destinations read all of these in place: the link carries words alone
    std::set<SourceAndDestination> placed =
        {};  // of both: the source's process puts segments in place itself
    DirectFlows direct = {};
};

// The mover's thread says credits; words may be said by any thread; the rest is for who makes the channel.
class ChannelLinks {
public:
    using State = device::ChannelState<device::LibcuAtomics>;
    // `credits`: segments of each receive ring; `servers`: how many there are, `here`: which one this is.
    // `events` outlives it.
    ChannelLinks(std::uint32_t channel, State& state, std::uint32_t credits,
                 std::vector<ChannelPeer> const& peers, std::uint32_t servers, std::uint32_t here,
                 ChannelEvents& events);
    ~ChannelLinks();
    ChannelLinks(ChannelLinks const&) = delete;
    ChannelLinks& operator=(ChannelLinks const&) = delete;

    // Whom the link to a peer serves.
    [[nodiscard]] link::LinkOwner& owner(std::size_t peer);
    // What carries to a peer from now on; when this returns nobody uses what was there before.
    void set_carrier(std::size_t peer, link::Carrier* carrier);

    // Null for a destination on this server. `nics`: the source's device's own, as Transfer::nics. `transport` and
    // `index`: as of ChannelMoves::FarRoutes.
    std::unique_ptr<Route<device::LibcuAtomics>> route(std::uint32_t source, std::uint32_t lane,
                                                       std::uint32_t destination,
                                                       std::uint64_t nics,
                                                       transport::Transport& transport,
                                                       std::uint64_t index);
    // Where the segments of a flow go that is `placed` and leaves this process.
    PlacedRing& ring(std::uint32_t source, std::uint32_t destination);

    // Says which segments are free again; true if any word was said.
    bool say_credits();
    // All that will come from other servers is here, or the channel has failed.
    [[nodiscard]] bool all_is_here() const;

    // To all peers. Nothing but a failure and releases is said behind a farewell.
    void say_failure(ErrorCode code, std::string const& why);
    void say_farewell();
    // Answers those who have said farewell: no relay is needed here.
    void release();
    // A peer has answered.
    [[nodiscard]] bool is_released(std::size_t peer) const;
    // To those who send there, if it is new.
    void say_attendance(std::uint32_t destination, bool is_attended);
    // What this server counts of its progress, and what others are known to count: what has grown.
    void say_progress(std::uint64_t value);

    // Whether the end of a source was said to all peers that this process brings its segments to.
    [[nodiscard]] bool has_said_end(std::uint32_t source) const;
    // Whether segments of a source wait for a destination of another server; nothing where another
    // process brings them.
    [[nodiscard]] std::optional<bool> holds_segments(std::uint32_t source,
                                                     std::uint32_t destination) const;
    // How far that flow is; nothing likewise.
    [[nodiscard]] std::optional<FarProgress> progress(std::uint32_t source,
                                                      std::uint32_t destination) const;

private:
    class End;
    void say(ChannelWord kind, std::uint64_t value, std::string_view text = {});
    void heard_progress(std::uint32_t server, std::uint64_t value);

    std::uint32_t const channel_;
    State& state_;
    std::vector<std::unique_ptr<End>> ends_;
    std::map<Intake::SourceAndDestination, FarEnd> far_ends_;
    std::map<Intake::SourceAndDestination, PlacedRing> rings_;
    std::uint32_t const here_;
    ChannelEvents& events_;
    std::vector<std::atomic<std::uint64_t>> attendance_;     // by destination, as the word's value
    std::vector<std::atomic<std::uint64_t>> progress_;       // by server: as it is known
    std::vector<std::atomic<std::uint64_t>> said_progress_;  // and as it was said
    std::atomic<bool> farewell_{false};
};

// The credits of a channel's links, as a mover's work.
class Credits final : public Work {
public:
    explicit Credits(ChannelLinks& links) : links_(links) {}
    bool step() override { return links_.say_credits(); }
    [[nodiscard]] bool done() const override { return links_.all_is_here(); }

private:
    ChannelLinks& links_;
};

}  // namespace mgi::mover
