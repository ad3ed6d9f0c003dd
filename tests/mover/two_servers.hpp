/// \file
/// A channel between two servers without any thread: two parts of one process, the movers' work and what
/// travels between them done a step at a time, in any order that a seed says.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "mover/channel_links.hpp"
#include "mover/channel_moves.hpp"
#include "runtime/channel_impl.hpp"
#include "support/random.hpp"
#include "support/tables.hpp"

namespace mgi::test {

/// A link as its owner sees it: segments arrive in any order, words of one name as well, and more than
/// once.
class LooseLink final : public mover::link::Carrier {
public:
    explicit LooseLink(Random& random) : random_(random) {}
    void start(mover::link::Transfer transfer) override {
        transfers.push_back(std::move(transfer));
    }
    void say(mover::link::Word word) override { words.push_back(std::move(word)); }

    /// Something of what is on its way arrives at `to`; acknowledged at `from`. False: there is nothing.
    bool deliver(mover::link::LinkOwner& from, mover::link::LinkOwner& to);
    [[nodiscard]] bool empty() const { return transfers.empty() && words.empty(); }

    std::vector<mover::link::Transfer> transfers;
    std::vector<mover::link::Word> words;

private:
    Random& random_;
};

/// Who hears of failures, and of destinations without receivers.
struct Heard final : mover::ChannelEvents {
    void failed(ErrorCode with, std::string const& text) override {
        code = with;
        why = text;
    }
    void attended(std::uint32_t destination, bool is_attended) override {
        attendance.emplace_back(destination, is_attended);
    }
    void progressed(std::uint64_t count) override { progress = count; }
    void left() override { ++leavers; }
    ErrorCode code = ErrorCode::Ok;
    std::string why;
    std::vector<std::pair<std::uint32_t, bool>> attendance;
    std::uint64_t progress = 0;
    int leavers = 0;
};

/// Servers 0 and 1, each one process with `endpoints_each` endpoints that are sources and destinations.
class TwoServers {
public:
    TwoServers(ChannelSpec spec, std::uint32_t endpoints_each, std::uint64_t seed);

    struct Server {
        std::shared_ptr<ChannelImpl> channel;
        Heard heard;
        std::unique_ptr<mover::ChannelLinks> links;
        std::unique_ptr<mover::ChannelMoves> moves;
        std::unique_ptr<LooseLink> out;
    };
    /// Does one thing of what could be done: a mover's step, credits, a delivery.
    bool step();
    [[nodiscard]] mover::link::LinkOwner& owner(int server) {
        return servers[server].links->owner(0);
    }
    [[nodiscard]] Endpoint endpoint(std::uint32_t index) const { return endpoints_[index]; }
    [[nodiscard]] int server_of(std::uint32_t index) const { return int(index / each_); }

    Random random;
    Server servers[2];

private:
    std::uint32_t const each_;
    std::vector<Endpoint> endpoints_;
};

/// Host code at every endpoint: each sends rows and receives what comes.
class Parties {
public:
    Parties(TwoServers& servers, Routing const& routing, std::uint32_t endpoints,
            std::int64_t rows);

    /// One of them, at random, does the next thing.
    void act(Random& random);
    /// All have sent everything and received the end.
    [[nodiscard]] bool over() const;
    /// Every row has arrived where it belongs, once.
    void check() const;

private:
    struct Party {
        Sender sender;
        Receiver receiver;
        RecordBatch batch;
        std::int64_t sent = 0;
        bool flushed = false;
        bool ended = false;
        std::vector<std::string> got = {};
    };
    bool const to_all_;
    std::vector<Party> parties_;
    std::vector<std::string> all_;
};

}  // namespace mgi::test
