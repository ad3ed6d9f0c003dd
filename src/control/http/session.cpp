#include "control/http/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/http/authorization.hpp"

namespace mgi::control {

namespace {

/// Requests that come before the answer to the first: one head's worth of them.
constexpr std::size_t kMostInput = RequestReader::kLongestHead;
constexpr std::size_t kPiece = std::size_t{64} << 10;

}  // namespace

HttpSite::HttpSite(Security const& guard, std::string_view host, HttpContent const& content,
                   std::size_t most_readers)
    : security(guard),
      names(host),
      page(content.page.empty() ? nullptr : std::make_shared<std::string const>(content.page)),
      readers(most_readers),
      maker(content.status, content.metrics) {}

void HttpSession::on_open(std::shared_ptr<net::Connection> connection) {
    connection_ = std::move(connection);
    place_ = site_->readers.enter(connection_);
}

void HttpSession::on_bytes(std::string_view bytes) {
    input_ += bytes;
    go_on();
    if (!over_ && input_.size() > kMostInput) {
        over_ = true;
        connection_->abort("it sends requests without waiting for answers");
    }
}

void HttpSession::on_end() {
    ended_ = true;
    go_on();
}

void HttpSession::on_drained() {
    go_on();
}

void HttpSession::on_close(net::Ending const&) {
    if (connection_ == nullptr) return;
    site_->readers.leave(place_);
    over_ = true;
    connection_.reset();
    reply_.reset();
    body_.reset();
}

void HttpSession::go_on() {
    while (!over_) {
        if (reply_ != nullptr) {
            auto given = reply_->take();
            if (!given) return;
            reply_.reset();
            begin(std::move(*given));
        }
        if (!(body_ != nullptr ? send_more() : read())) return;
    }
}

bool HttpSession::read() {
    bool const begun = reader_.begun();
    input_.erase(0, reader_.add(input_));
    if (reader_.refusal()) {
        last_ = true;
        site_->readers.set_busy(place_, true);
        HttpAnswer refusal = plain_answer(reader_.refusal()->status, reader_.refusal()->why);
        if (refusal.status == 405) refusal.fields = "Allow: GET, HEAD\r\n";
        begin(std::move(refusal));
        return true;
    }
    if (reader_.complete()) {
        answer();
        return true;
    }
    if (ended_) {
        over_ = true;
        connection_->close();
    } else if (requests_ > 0 && !begun && reader_.begun()) {
        connection_->set_deadline(kHead, "its request did not come in time");
    }
    return false;
}

/// True once all of the answer is the kernel's, or a stranger's has been sent.
bool HttpSession::send_more() {
    while (sent_ < body_->size() && connection_->queued() < kPiece) {
        connection_->send(body_->substr(sent_, kPiece));
        sent_ += std::min(kPiece, body_->size() - sent_);
    }
    if (sent_ < body_->size()) return false;
    // A stranger's is short, and what else it sends is to be dropped from now on.
    if (admitted_ && connection_->queued() > 0) return false;
    end_answer();
    return true;
}

void HttpSession::answer() {
    site_->readers.set_busy(place_, true);
    HttpRequest const& request = reader_.request();
    last_ = !request.keep_alive || ++requests_ >= kMostRequests;
    if (request.path == "/healthz") {
        last_ = true;
        return begin(plain_answer(200, "ok"));
    }
    if (site_->security.has_token()) {
        std::string const token = token_in(request.authorization.value_or(""));
        if (!site_->security.is_token(token))
            return refuse_token(request.authorization.has_value());
    } else if (std::string const wrong = wrong_reader(); !wrong.empty()) {
        return refuse_user(wrong);
    } else if (request.host && !site_->names.has(*request.host)) {
        return refuse_host();
    }
    admit();
    route();
}

void HttpSession::refuse_token(bool given) {
    last_ = true;
    site_->log.warn(fmt::format("status page: a request from {} {} is refused", connection_->peer(),
                                given ? "with a wrong token" : "without the token"));
    HttpAnswer refusal = plain_answer(
        401,
        "the control plane's token is needed: as bearer token, or as the password of any user");
    refusal.fields = "WWW-Authenticate: Basic realm=\"MGI: token as password\"\r\n";
    if (!given) return begin(std::move(refusal));
    wait_for_reply();
    site_->maker.give_later(reply_, std::move(refusal), kWrongToken);
}

/// A browser shows no certificate.
std::string HttpSession::wrong_reader() const {
    return site_->security.options().insecure ? "" : net::wrong_user(connection_->other_end());
}

void HttpSession::refuse_user(std::string const& wrong) {
    last_ = true;
    site_->log.warn(
        fmt::format("status page: a request from {} is refused: {}", connection_->peer(), wrong));
    begin(plain_answer(403, wrong + "; with --token-file whoever has the token may read, with "
                                    "--insecure all users of this machine"));
}

void HttpSession::refuse_host() {
    last_ = true;
    std::string const host = reader_.request().host->substr(0, 100);
    site_->log.warn(
        fmt::format("status page: a request from {} for the host {} is refused: it may "
                    "be another site's page that sends it",
                    connection_->peer(), host));
    begin(plain_answer(
        421, fmt::format("this is not {}. Without a token this page is served by address, as "
                         "localhost, and by the names in --http and of this machine; with "
                         "--token-file by any name",
                         host)));
}

void HttpSession::admit() {
    admitted_ = true;
    connection_->admit();
    site_->readers.admit(place_);
    connection_->set_deadline(kAnswer, "it did not take its answer in time");
}

void HttpSession::route() {
    std::string const& path = reader_.request().path;
    if (path == "/" && site_->page != nullptr) {
        HttpAnswer page;
        page.type = "text/html; charset=utf-8";
        page.body = site_->page;
        return begin(std::move(page));
    }
    bool const status = path == "/status.json";
    if (!status && path != "/metrics") {
        return begin(plain_answer(404, "there are /, /status.json, /metrics and /healthz"));
    }
    wait_for_reply();
    site_->maker.make(status ? AnswerMaker::What::Status : AnswerMaker::What::Metrics, reply_);
}

void HttpSession::wait_for_reply() {
    reply_ = std::make_shared<HttpReply>(connection_);
}

void HttpSession::begin(HttpAnswer answer) {
    last_ = last_ || ended_ || site_->readers.stopping();
    connection_->send(head_of(answer, !last_));
    body_ = std::move(answer.body);
    sent_ = reader_.complete() && reader_.request().head_only ? body_->size() : 0;
}

void HttpSession::end_answer() {
    body_.reset();
    if (last_) {
        over_ = true;
        return connection_->close();
    }
    reader_ = RequestReader();
    connection_->set_deadline(kAnswer, "it sent no other request");
    site_->readers.set_busy(place_, false);
    if (!site_->readers.stopping()) return;
    over_ = true;
    connection_->close();
}

}  // namespace mgi::control
