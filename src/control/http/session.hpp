/// \file
/// One connection to the web side: requests in, one answer after another out.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "control/http/answer.hpp"
#include "control/http/content.hpp"
#include "control/http/host.hpp"
#include "control/http/maker.hpp"
#include "control/http/readers.hpp"
#include "control/http/request.hpp"
#include "control/net/bounded_log.hpp"
#include "control/net/protocol.hpp"
#include "control/rpc/security.hpp"

namespace mgi::control {

/// What all connections share.
struct HttpSite {
    HttpSite(Security const& guard, std::string_view host, HttpContent const& content,
             std::size_t most_readers);

    Security const& security;
    OwnNames names;
    std::shared_ptr<std::string const> page;  ///< null: there is none
    Readers readers;
    net::BoundedLog log;
    AnswerMaker maker;
};

/// A connection is admitted once a request on it may be answered: with the token where one is asked for,
/// else by its whole head. All other answers are the last of their connections.
class HttpSession final : public net::Protocol {
public:
    /// For a head, from its first byte; the first one on a connection is the server's to limit.
    static constexpr std::chrono::milliseconds kHead{2000};
    /// For an answer, until the client has taken all of it; and for the pause until its next request.
    static constexpr std::chrono::milliseconds kAnswer{10'000};
    /// Before a wrong token is called wrong.
    static constexpr std::chrono::milliseconds kWrongToken{250};
    static constexpr std::size_t kMostRequests = 1000;  ///< on one connection

    explicit HttpSession(std::shared_ptr<HttpSite> site) : site_(std::move(site)) {}

    void on_open(std::shared_ptr<net::Connection> connection) override;
    void on_bytes(std::string_view bytes) override;
    void on_end() override;
    void on_drained() override;
    void on_close(net::Ending const& ending) override;

private:
    void go_on();
    /// False where more has to come first.
    bool read();
    bool send_more();
    void answer();
    void refuse_token(bool given);
    [[nodiscard]] std::string wrong_reader() const;
    void refuse_user(std::string const& wrong);
    void refuse_host();
    void route();
    void admit();
    void begin(HttpAnswer answer);
    void end_answer();
    void wait_for_reply();

    std::shared_ptr<HttpSite> const site_;
    std::shared_ptr<net::Connection> connection_;
    Readers::Place place_;
    RequestReader reader_;
    std::string input_;  // not read yet
    std::size_t requests_ = 0;
    bool admitted_ = false;
    bool last_ = false;  // the connection ends after this answer
    bool ended_ = false;
    bool over_ = false;
    std::shared_ptr<HttpReply> reply_;         // that another thread will give
    std::shared_ptr<std::string const> body_;  // being sent
    std::size_t sent_ = 0;                     // of it
};

}  // namespace mgi::control
