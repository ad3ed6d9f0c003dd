// An exchange in two levels: across servers from rank to rank, then within each server. A source has
// a lane for each server and one for each endpoint of its own, in place of one for every endpoint.
#pragma once

#include <string>
#include <vector>

#include "operators/run.hpp"

namespace mgi::operators {

// The channels of both levels. Endpoints are named by their places among the operator's.
struct Levels {
    // How an endpoint's rows go, by indices of flows.
    struct Way {
        u32 across = 0;             // where it sends its own rows
        std::vector<u32> arriving;  // where others' rows for its server come to it
        u32 within = 0;             // where it sends those on, and gets what is its
    };

    std::vector<Flow> flows;  // across servers, by rank; then within each
    std::vector<Way> ways;    // by endpoint
};

// Every row comes to the endpoint that one level brings it to: keys fall into a part for each endpoint in
// both levels, the first looks at whose server that is, the second at who it is. `servers` says for
// each endpoint where it is, numbered from 0. The n-th endpoint of a server sends to the n-th of each; where
// a server has fewer, it is counted round.
Levels levels_of(std::vector<u32> const& servers, std::string const& what);

// Whether an exchange over these servers goes in two levels: never with one server, or with one endpoint
// on each. Auto looks at what two levels save: lanes, as many as endpoints, and links between processes.
bool goes_in_two_levels(TwoLevel wanted, std::vector<u32> const& servers, std::size_t processes);

// Throws Error(InvalidArgument) where two levels are asked of an operator that has one.
void refuse_two_levels(std::string const& what, OperatorOptions const& options);

// "auto", "on" or "off".
std::string name_of(TwoLevel wanted);

// A group's part between the levels: takes what has come across servers and sends it on within its own.
class SecondLevel {
public:
    SecondLevel(std::vector<Passage> const& arriving, Passage const& within, Endpoint endpoint);
    // Sends on what is there and has room; true when anything moved. To be called until `flushed`.
    // Throws Error.
    bool pass(device::Group const& group, device::Shared& shared);
    [[nodiscard]] bool flushed() const { return outbox_.flushed(); }

private:
    bool take(device::Group const& group, device::Shared& shared);
    [[nodiscard]] bool ended() const;

    std::vector<Inbox> inboxes_;
    std::size_t next_ = 0;  // the inbox to be looked into first
    Outbox outbox_;
    // A batch that is on its way through; its room is returned when all of it has gone.
    Inbox const* from_ = nullptr;
    device::ReceivedBatch batch_;
    ReceivedColumns columns_;
};

}  // namespace mgi::operators
