// What links are measured against: the same bytes over blocking sockets, a thread for each.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "transport/wire/socket.hpp"
#include "transport/wire/wire_thread.hpp"

namespace mgi::bench {

// Takes connections and what comes over them, until it is destroyed.
class PlainReceiver {
public:
    explicit PlainReceiver(std::vector<transport::wire::Address> const& addresses);
    ~PlainReceiver();
    PlainReceiver(PlainReceiver const&) = delete;
    PlainReceiver& operator=(PlainReceiver const&) = delete;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// Seconds to send so many segments, spread over connections, until the receiver has said that it has
// them. Throws Error where there is no receiver.
double plain_send(std::vector<transport::wire::Route> const& routes, std::size_t segments,
                  std::size_t bytes);

// Seconds of so many round trips of 64 bytes.
double plain_round_trips(transport::wire::Route const& route, std::size_t count);

}  // namespace mgi::bench
