// TLS between both ends: who gets through, and what those who do not are told.
#include "control/net/tls.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "control/net/parties.hpp"
#include "control/rpc/authority.hpp"

namespace mgi::control::net::test {
namespace {

using mgi::test::Authority;
using mgi::test::Issued;
using mgi::test::kToken;
using mgi::test::TemporaryFolder;
using Why = Ending::Why;

std::string content(std::string const& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

Tls::Own own(Issued const& issued) {
    return {content(issued.certificate), content(issued.key)};
}

class NetTls : public ::testing::Test {
protected:
    std::string ca() const { return content(ours_.file()); }

    /// What a client has heard once it has said hello, or why it ended.
    static std::string outcome(std::shared_ptr<Tls const> const& server_side,
                               std::shared_ptr<Tls const> const& client_side,
                               std::string const& name = "localhost", Ending* ending = nullptr) {
        ServerOptions options;
        options.prove_within = 2s;
        Server const server("127.0.0.1:0", server_side, echoes(), options);
        Client client;
        auto const heard = std::make_shared<Heard>();
        auto const connection = client.connect(address_of(server), client_side, name, heard);
        connection->send("hello\n");
        std::string text = heard->text(8);
        if (text == "welcome\n") return text;
        Ending const ended = heard->ended();
        if (ending != nullptr) *ending = ended;
        return ended.text.empty() ? "(no reason)" : ended.text;
    }

    TemporaryFolder folder_;
    Authority ours_{folder_, "ours"};
    Authority theirs_{folder_, "theirs"};
    Issued server_ = ours_.issue("server");
    Issued client_ = ours_.issue("client");
};

TEST_F(NetTls, CertificatesOfOneAuthority) {
    EXPECT_EQ(outcome(Tls::server(own(server_), ca()), Tls::client(own(client_), ca())),
              "welcome\n");
}

TEST_F(NetTls, TheNameInTheCertificateCountsAsAnAddressDoes) {
    auto const client_side = Tls::client(own(client_), ca());
    auto const server_side = Tls::server(own(server_), ca());
    Ending ending;
    outcome(server_side, client_side, "elsewhere.example", &ending);
    EXPECT_EQ(ending.why, Why::Certificate) << ending.text;
    outcome(server_side, client_side, "", &ending);  // 127.0.0.1
    EXPECT_EQ(ending.why, Why::Certificate) << ending.text;
    auto const by_number = Tls::server(own(ours_.issue("number", "IP:127.0.0.1")), ca());
    EXPECT_EQ(outcome(by_number, client_side, ""), "welcome\n");
}

TEST_F(NetTls, CertificatesOfAnotherAuthorityAreRefusedByEitherSide) {
    Ending ending;
    outcome(Tls::server(own(theirs_.issue("false")), ca()), Tls::client(own(client_), ca()),
            "localhost", &ending);
    EXPECT_EQ(ending.why, Why::Certificate) << ending.text;
    outcome(Tls::server(own(server_), ca()), Tls::client(own(theirs_.issue("stranger")), ca()),
            "localhost", &ending);
    EXPECT_EQ(ending.why, Why::Handshake) << ending.text;
}

TEST_F(NetTls, ABrowserNeedsNoCertificate) {
    EXPECT_EQ(outcome(Tls::server(own(server_), ""), Tls::client(own(client_), ca())), "welcome\n");
}

TEST_F(NetTls, ATokenThatBothKnow) {
    EXPECT_EQ(outcome(Tls::server_with_token(kToken), Tls::client_with_token(kToken)), "welcome\n");
}

TEST_F(NetTls, AnotherTokenIsNoProof) {
    Ending ending;
    outcome(Tls::server_with_token(kToken), Tls::client_with_token("fedcba9876543210"), "",
            &ending);
    EXPECT_EQ(ending.why, Why::Handshake) << ending.text;
}

TEST_F(NetTls, AnImpostorWithoutTheTokenLearnsNothing) {
    auto const client_side = Tls::client_with_token(kToken);
    Ending ending;
    // One that has a certificate, even of our own authority, and one that speaks no TLS.
    outcome(Tls::server(own(server_), ""), client_side, "", &ending);
    EXPECT_EQ(ending.why, Why::Handshake) << ending.text;
    outcome(nullptr, client_side, "", &ending);
    EXPECT_NE(ending.why, Why::Closed) << ending.text;
}

TEST_F(NetTls, WhoSpeaksNoTlsGetsNoByteFurther) {
    for (auto const& side : {Tls::server(own(server_), ca()), Tls::server_with_token(kToken)}) {
        Server const server("127.0.0.1:0", side, echoes());
        Stranger const plain(server.port());
        plain.say("hello\n");
        EXPECT_EQ(plain.hear().find("welcome"), std::string::npos);
        EXPECT_TRUE(eventually([&] { return server.counts().turned_away == 1; }));
    }
}

TEST_F(NetTls, MuchGoesBothWays) {
    Server const server("127.0.0.1:0", Tls::server_with_token(kToken), echoes());
    Client client;
    auto const heard = std::make_shared<Heard>();
    auto const connection =
        client.connect(address_of(server), Tls::client_with_token(kToken), "", heard);
    std::string const much(10 << 20, 'x');
    connection->send("hello\n");
    connection->send(much);
    EXPECT_EQ(heard->text(much.size() + 8).size(), much.size() + 8);
    connection->close();
    EXPECT_EQ(heard->ended().why, Why::Closed);
}

TEST_F(NetTls, AHandshakeThatStopsIsCutAtTheDeadline) {
    ServerOptions options;
    options.prove_within = 100ms;
    Server const server("127.0.0.1:0", Tls::server_with_token(kToken), echoes(), options);
    Stranger const slow(server.port());
    slow.say(std::string("\x16\x03\x01\x02", 4));
    EXPECT_EQ(slow.hear(), "");
}

TEST_F(NetTls, WithinTlsAStrangersBytesAreBounded) {
    ServerOptions options;
    options.stranger_bytes = 100;
    Server const server("127.0.0.1:0", Tls::server_with_token(kToken), echoes(), options);
    Client client;
    auto const heard = std::make_shared<Heard>();
    client.connect(address_of(server), Tls::client_with_token(kToken), "", heard)
        ->send(std::string(1000, 'x'));
    EXPECT_EQ(heard->text(1), "");
    EXPECT_TRUE(eventually([&] { return server.counts().turned_away == 1; }));
}

// Strangers may come faster than its handshake ends.
TEST_F(NetTls, WhoHasShownTheTokenIsNotPushedOut) {
    Server const server("127.0.0.1:0", Tls::server_with_token(kToken), echoes());
    Stranger const slow(server.port());
    auto const tls = Tls::client_with_token(kToken)->begin("");
    std::string wire;
    EXPECT_FALSE(tls->handshake());
    tls->out(wire);
    ASSERT_TRUE(slow.say(wire));
    tls->take(slow.hear(100));  // the server's answer begins: it has heard the token's proof
    for (int i = 0; i < 300; ++i) {
        Stranger const silent(server.port());
        if (i % 2 == 0) silent.say("\x16\x03\x01");
    }
    ASSERT_TRUE(eventually([&] { return server.counts().accepted >= 301; }));
    std::string got;
    while (!tls->handshake()) {
        got = slow.hear(1);
        ASSERT_FALSE(got.empty()) << "it was pushed out";
        tls->take(got);
    }
    tls->write("hello\n");
    wire.clear();
    tls->out(wire);
    ASSERT_TRUE(slow.say(wire));
    EXPECT_TRUE(
        eventually([&] { return server.counts().connections - server.counts().strangers == 1; }));
}

}  // namespace
}  // namespace mgi::control::net::test
