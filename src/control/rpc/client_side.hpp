/// \file
/// The client's side of a connection to a controller: an agent's session and calls, or calls alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "control/net/client.hpp"
#include "control/proto/control.pb.h"
#include "control/rpc/frames.hpp"
#include "control/rpc/limits.hpp"
#include "control/rpc/security.hpp"

namespace mgi::control {

/// Thread-safe. One connection: it is not made again once it is over.
class ClientSide final : public net::Protocol, public std::enable_shared_from_this<ClientSide> {
public:
    /// How a call ended. The answer is good where the outcome is OK.
    using Done = std::function<void(Outcome const&, CallAnswer const&)>;

    /// Called by the net::Client's thread.
    struct Events {
        std::function<void(ControllerMessage const&)> said;
        /// Once, after all calls have ended: why, in words.
        std::function<void(Outcome const&)> over;
    };

    /// Begins to connect. Error(InvalidArgument) for what is no address.
    static std::shared_ptr<ClientSide> open(net::Client& client, std::string const& address,
                                            std::shared_ptr<Security const> const& security,
                                            Events events);
    /// For `open`.
    ClientSide(std::string address, std::shared_ptr<Security const> security, Events events);

    /// Sends a message of the session.
    void say(AgentMessage const& message);
    /// Calls. `done` is called once, by the net::Client's thread, or by this one where the connection is
    /// over or the request too large: DEADLINE_EXCEEDED after the limit; UNAVAILABLE where the
    /// connection ends before the answer, CANCELLED by `close`.
    void call(CallRequest const& request, std::chrono::milliseconds limit, Done const& done);
    /// Nobody waits for that call any more: its `done` gets CANCELLED, unless it has been called.
    void cancel(std::uint64_t number);
    /// Ends the connection and its calls.
    void close();
    /// Bytes that wait to be sent.
    [[nodiscard]] std::size_t queued() const { return connection_->queued(); }

    void on_open(std::shared_ptr<net::Connection> connection) override;
    void on_bytes(std::string_view bytes) override;
    void on_end() override;
    void on_wake(net::Connection& connection) override;
    void on_alarm(net::Connection& connection) override;
    void on_close(net::Ending const& ending) override;

private:
    using Time = std::chrono::steady_clock::time_point;

    struct Waiting {
        Done done;
        Time until;
    };

    void take(ServerFrame const& frame);
    std::optional<Waiting> taken(std::uint64_t number);
    void end_calls(Outcome const& outcome);
    void set_alarm(net::Connection& connection);
    [[nodiscard]] Outcome outcome_of(net::Ending const& ending) const;

    std::string const address_;
    std::shared_ptr<Security const> const security_;
    Events const events_;
    std::shared_ptr<net::Connection> connection_;  ///< set by `open`, before anybody else has this

    // The net::Client's thread alone uses these.
    FrameBuffer frames_{kLargestHello};
    bool greeted_ = false;
    std::string distrust_;  ///< why nothing that it says counts
    std::shared_ptr<net::Connection> open_;
    std::optional<Outcome> rejected_;
    std::optional<net::Ending> seen_;  ///< what says more than how the connection ended

    std::mutex mutex_;
    bool closing_ = false;
    std::optional<Outcome> over_;
    std::map<std::uint64_t, Waiting> calls_;
    std::set<std::pair<Time, std::uint64_t>> deadlines_;
};

/// One call, on a connection of its own. Waits for its end, `limit` at most.
std::pair<Outcome, CallAnswer> call_once(std::string const& address,
                                         std::shared_ptr<Security const> const& security,
                                         CallRequest const& request,
                                         std::chrono::milliseconds limit = kCallLimit);

Outcome outcome(Outcome::Code code, std::string text = {});

}  // namespace mgi::control
