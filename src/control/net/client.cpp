#include "control/net/client.hpp"

#include <thread>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "control/net/address.hpp"
#include "control/net/loop.hpp"
#include "control/net/stream.hpp"

namespace mgi::control::net {

namespace {

void begin(std::shared_ptr<Loop> const& loop, std::shared_ptr<Stream> const& stream,
           std::vector<SocketAddress> addresses, Loop::Time until) {
    // A loop that has ended has ended its streams, too.
    loop->post([stream, addresses = std::move(addresses), until]() mutable {
        stream->connect(std::move(addresses), until);
    });
}

void cannot(std::shared_ptr<Loop> const& loop, std::shared_ptr<Stream> const& stream,
            std::string const& why) {
    loop->post([stream, why] { stream->end({Ending::Why::Unreachable, why}); });
}

}  // namespace

Client::Client(ClientOptions options) : options_(options), loop_(Loop::make()) {}

Client::~Client() {
    loop_->stop();
}

std::shared_ptr<Connection> Client::connect(std::string const& address,
                                            std::shared_ptr<Tls const> const& tls,
                                            std::string const& tls_name,
                                            std::shared_ptr<Protocol> protocol) {
    HostPort const where = split_address("address", address);
    StreamLimits limits;
    limits.most_queued = options_.most_queued;
    limits.linger = options_.linger;
    auto const stream = std::make_shared<Stream>(
        loop_, std::move(protocol),
        tls ? tls->begin(tls_name.empty() ? where.host : tls_name) : nullptr, limits, nullptr);
    Loop::Time const until = Loop::Clock::now() + options_.connect_within;
    if (is_numeric(where.host)) {
        begin(loop_, stream, resolve(where, false), until);
        return stream;
    }
    loop_->post([stream, until] { stream->await_address(until); });
    // A name server may take its time, and nobody can tell it to stop.
    std::thread([loop = loop_, stream, where, until] {
        try {
            begin(loop, stream, resolve(where, false), until);
        } catch (Error const& error) {
            cannot(loop, stream, error.what());
        }
    }).detach();
    return stream;
}

}  // namespace mgi::control::net
