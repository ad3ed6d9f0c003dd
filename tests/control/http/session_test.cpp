// One connection to the web side, without sockets: what it answers, and what limits it sets.
#include "control/http/session.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "control/rpc/authority.hpp"

namespace mgi::control {
namespace {

using std::chrono::milliseconds;

/// Takes what is sent only when it is told to.
class FakeConnection final : public net::Connection {
public:
    void send(std::string bytes) override {
        queued_ += bytes.size();
        sent += bytes;
    }
    void close() override { closed = true; }
    void refuse(std::string) override { closed = true; }
    void abort(std::string why) override { aborted = std::move(why); }
    void wake() override { woken = true; }
    void admit() override { admitted = true; }
    void set_deadline(milliseconds from_now, std::string) override {
        deadlines.push_back(from_now);
    }
    void clear_deadline() override {}
    void set_alarm(std::chrono::steady_clock::time_point) override {}
    [[nodiscard]] std::size_t queued() const override { return queued_; }
    [[nodiscard]] std::string const& peer() const override { return peer_; }

    void take_all() { queued_ = 0; }

    std::string sent;
    bool closed = false;
    std::string aborted;
    std::atomic<bool> woken{false};
    bool admitted = false;
    std::vector<milliseconds> deadlines;

private:
    std::size_t queued_ = 0;
    std::string peer_ = "192.0.2.1:5";
};

struct Client {
    explicit Client(std::shared_ptr<HttpSite> const& site)
        : connection(std::make_shared<FakeConnection>()),
          session(std::make_unique<HttpSession>(site)) {
        session->on_open(connection);
    }
    ~Client() { session->on_close({}); }
    Client(Client const&) = delete;
    Client& operator=(Client const&) = delete;

    void say(std::string_view bytes) const { session->on_bytes(bytes); }
    /// The other side reads all that was sent so far.
    void drain() const {
        connection->take_all();
        session->on_drained();
    }
    void drain_all() const {
        while (connection->queued() > 0) drain();
    }
    /// What another thread gives.
    void wait() const {
        while (!connection->woken) std::this_thread::yield();
        connection->woken = false;
        session->on_drained();
    }
    [[nodiscard]] std::size_t count(std::string_view text) const {
        std::size_t found = 0;
        for (std::size_t at = connection->sent.find(text); at != std::string::npos;
             at = connection->sent.find(text, at + 1)) {
            ++found;
        }
        return found;
    }

    std::shared_ptr<FakeConnection> connection;
    std::unique_ptr<HttpSession> session;
};

std::string get(std::string const& path, std::string const& fields = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

class HttpSessionTest : public ::testing::Test {
protected:
    [[nodiscard]] std::shared_ptr<HttpSite> site(Security const& security,
                                                 std::size_t most = 8) const {
        return std::make_shared<HttpSite>(security, "127.0.0.1",
                                          HttpContent{page_, [] { return std::string("{}"); },
                                                      [] { return std::string("m 1\n"); }},
                                          most);
    }

    std::string page_ = std::string(1 << 20, 'p');
    test::TemporaryFolder folder_;
    Security const open_{SecurityOptions{}};
    Security const guarded_{SecurityOptions{"", "", "", folder_.write("token", test::kToken), ""}};
};

TEST_F(HttpSessionTest, AnswersWhatComesAtOnceInOrder) {
    Client const client(site(open_));
    client.say(get("/status.json") + get("/metrics") + get("/none", "Connection: close\r\n"));
    client.wait();
    client.drain();
    client.wait();
    client.drain_all();
    std::string const& sent = client.connection->sent;
    EXPECT_LT(sent.find("\r\n\r\n{}"), sent.find("\r\n\r\nm 1\n"));
    EXPECT_LT(sent.find("\r\n\r\nm 1\n"), sent.find("404 Not Found"));
    EXPECT_EQ(client.count("HTTP/1.1 "), 3u);
    EXPECT_TRUE(client.connection->closed);
}

TEST_F(HttpSessionTest, ALargeAnswerWaitsForItsReader) {
    Client const client(site(open_));
    client.say(get("/"));
    EXPECT_LE(client.connection->queued(), std::size_t{80} << 10);
    auto const limits = client.connection->deadlines;
    ASSERT_EQ(limits.size(), 1u);
    EXPECT_EQ(limits[0], HttpSession::kAnswer);
    std::size_t pieces = 1;
    for (; client.connection->queued() > 0; ++pieces) {
        EXPECT_EQ(client.connection->deadlines.size(), 1u) << "one limit for the whole answer";
        client.drain();
    }
    EXPECT_GE(pieces, 16u);
    EXPECT_TRUE(client.connection->sent.ends_with(page_));
    EXPECT_FALSE(client.connection->closed);
    EXPECT_EQ(client.connection->deadlines.size(), 2u) << "for the pause";
}

TEST_F(HttpSessionTest, TheNextHeadHasItsOwnLimit) {
    Client const client(site(open_));
    client.say("G");
    EXPECT_TRUE(client.connection->deadlines.empty()) << "the server limits the first";
    client.say(get("/none").substr(1));
    client.drain();
    client.say("G");
    EXPECT_EQ(client.connection->deadlines.back(), HttpSession::kHead);
    std::size_t const before = client.connection->deadlines.size();
    client.say("E");
    EXPECT_EQ(client.connection->deadlines.size(), before) << "a byte wins no time";
}

TEST_F(HttpSessionTest, OnlyTheTokenAdmits) {
    auto const guarded = site(guarded_);
    for (std::string const& request :
         {get("/"), get("/healthz"), get("/", "Authorization: Bearer wrong-wrong-wrong\r\n"),
          std::string("nonsense\r\n")}) {
        Client const client(guarded);
        client.say(request);
        if (client.connection->sent.empty()) client.wait();
        client.drain_all();
        EXPECT_FALSE(client.connection->admitted) << request;
        EXPECT_TRUE(client.connection->closed) << request;
    }
    Client const client(guarded);
    client.say(get("/none", std::string("Authorization: Bearer ") + test::kToken + "\r\n"));
    EXPECT_TRUE(client.connection->admitted);
    client.drain_all();
    EXPECT_FALSE(client.connection->closed);
    client.say(get("/none"));
    EXPECT_EQ(client.count("401 "), 1u) << "each request needs it";
}

TEST_F(HttpSessionTest, AForeignHostAdmitsNobody) {
    Client const client(site(open_));
    client.say("GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    EXPECT_EQ(client.count("421 "), 1u);
    EXPECT_FALSE(client.connection->admitted);
}

TEST_F(HttpSessionTest, AConnectionHasItsLastRequest) {
    Client const client(site(open_));
    for (std::size_t i = 0; i < HttpSession::kMostRequests; ++i) {
        EXPECT_FALSE(client.connection->closed);
        client.say(get("/none"));
        client.drain();
    }
    EXPECT_TRUE(client.connection->closed);
    EXPECT_EQ(client.count("Connection: close"), 1u);
}

TEST_F(HttpSessionTest, RequestsWithoutEndAreNoReadersWay) {
    Client const client(site(open_));
    client.say(get("/"));
    for (int i = 0; i < 16 && client.connection->aborted.empty(); ++i) {
        client.say(std::string(2000, 'x'));
    }
    EXPECT_NE(client.connection->aborted, "");
}

TEST_F(HttpSessionTest, WhoHasSentAllIsAnsweredAndClosed) {
    auto const open = site(open_);
    Client const whole(open);
    whole.say(get("/"));
    whole.session->on_end();
    whole.drain_all();
    EXPECT_TRUE(whole.connection->sent.ends_with(page_));
    EXPECT_TRUE(whole.connection->closed);
    Client const half(open);
    half.say("GET /");
    half.session->on_end();
    EXPECT_TRUE(half.connection->closed);
    EXPECT_EQ(half.connection->sent, "");
}

TEST_F(HttpSessionTest, TooManyReadersMakeRoomTheIdleOnesFirst) {
    auto const open = site(open_, 2);
    Client const busy(open);
    busy.say(get("/"));
    Client const idle(open);
    idle.say(get("/none"));
    idle.drain();
    Client const third(open);
    third.say(get("/"));
    EXPECT_NE(idle.connection->aborted, "");
    EXPECT_EQ(busy.connection->aborted, "");
    Client const fourth(open);
    fourth.say(get("/"));
    EXPECT_NE(busy.connection->aborted, "") << "the oldest answer";
    EXPECT_EQ(third.connection->aborted, "");
}

TEST_F(HttpSessionTest, AtTheEndAnswersAreTheLast) {
    auto const open = site(open_);
    Client const busy(open);
    busy.say(get("/"));
    Client const idle(open);
    idle.say(get("/none"));
    idle.drain();
    open->readers.stop();
    EXPECT_TRUE(idle.connection->closed);
    EXPECT_FALSE(busy.connection->closed);
    busy.drain_all();
    EXPECT_TRUE(busy.connection->sent.ends_with(page_));
    EXPECT_TRUE(busy.connection->closed);
}

TEST(OwnNames, AreNumbersLocalhostAndWhatWasListenedOn) {
    OwnNames const names("Node1.Example");
    for (char const* const own :
         {"127.0.0.1", "127.0.0.1:7071", "10.0.0.5:1", "[::1]", "[::1]:7071", "localhost",
          "localhost:8080", "node1.example", "node1.example:7071"}) {
        EXPECT_TRUE(names.has(own)) << own;
    }
    for (char const* const foreign :
         {"", ":7071", "rebound.example", "rebound.example:7071", "127.0.0.1.rebound.example",
          "localhost.rebound.example", "node2.example", "xnode1.example", "127.0.0.1:x",
          "127.0.0.1:7071:7071", "::1", "[::1", "[rebound.example]", "[::1]x", "2130706433"}) {
        EXPECT_FALSE(names.has(foreign)) << foreign;
    }
}

}  // namespace
}  // namespace mgi::control
