// Who gets in, and what those who do not are told: with and without certificates and tokens.
#include "control/rpc/security.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "authority.hpp"
#include "control/rpc/client_side.hpp"
#include "control/rpc/server_side.hpp"

#include <mgi/error.hpp>

namespace mgi::control {
namespace {

using mgi::test::Authority;
using mgi::test::Issued;
using mgi::test::kToken;
using mgi::test::TemporaryFolder;
using ::testing::Test;

/// Answers Status with a text of the wanted length to those that are admitted.
class Answers final : public ServerSide {
public:
    explicit Answers(Security const& security) : ServerSide(security) {}

protected:
    void said(AgentMessage&) override {}
    void asked(CallRequest const& call) override {
        ServerFrame frame;
        frame.mutable_answer()->set_number(call.number());
        frame.mutable_answer()->mutable_status()->set_json(
            std::string(call.status().protocol(), '.'));
        connection().send(frame_with(frame));
    }
    void cancelled(std::uint64_t) override {}
    void over() override {}
};

class Server {
public:
    explicit Server(SecurityOptions options)
        : security_(std::move(options)),
          server_(
              "localhost:0", security_.server_tls(),
              [this] { return std::make_shared<Answers>(security_); }, server_options("test")) {}

    [[nodiscard]] std::string address() const {
        return "localhost:" + std::to_string(server_.port());
    }

private:
    Security security_;
    net::Server server_;
};

/// "" if the call went through, else what its maker is told.
std::string call(std::string const& address, SecurityOptions options, std::uint32_t length = 1) {
    auto const security = std::make_shared<Security const>(std::move(options));
    CallRequest request;
    request.mutable_status()->set_protocol(length);
    auto const [outcome, answer] = call_once(address, security, request);
    return outcome.code() == Outcome::OK ? "" : outcome.text();
}

class SecurityTest : public Test {
protected:
    [[nodiscard]] SecurityOptions with(Authority const& trusted, Issued const& own) const {
        return {trusted.file(), own.certificate, own.key, "", ""};
    }
    [[nodiscard]] SecurityOptions with_token(std::string const& token) const {
        return {"", "", "", folder_.write(token, token + "\n"), ""};
    }

    TemporaryFolder folder_;
    Authority ours_{folder_, "ours"};
    Authority theirs_{folder_, "theirs"};
    Issued server_ = ours_.issue("server");
    Issued client_ = ours_.issue("client");
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

template <class Call>
std::string refusal(Call&& call) {
    try {
        call();
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        return error.what();
    }
    return "";
}

TEST_F(SecurityTest, WithoutAnything) {
    Server const server({});
    EXPECT_EQ(call(server.address(), {}), "");
    EXPECT_SAYS(call("localhost:1", {}), "is it running there?");
}

TEST_F(SecurityTest, CertificatesOfOneAuthority) {
    Server const server(with(ours_, server_));
    EXPECT_EQ(call(server.address(), with(ours_, client_)), "");
}

TEST_F(SecurityTest, WrongOrMissingCertificates) {
    Server const server(with(ours_, server_));
    // Each side may be the one to refuse; the text says which files to look at.
    EXPECT_SAYS(call(server.address(), with(theirs_, client_)), "theirs.pem");
    Issued const stranger = theirs_.issue("stranger");
    EXPECT_NE(call(server.address(), with(ours_, stranger)), "");
    EXPECT_SAYS(call(server.address(), {}), "give --ca, --cert and --key");
    Server const plain({});
    EXPECT_SAYS(call(plain.address(), with(ours_, client_)), "speaks no TLS");
}

TEST_F(SecurityTest, TheNameInTheCertificateCounts) {
    Server const server(with(ours_, ours_.issue("elsewhere", "elsewhere.example")));
    EXPECT_SAYS(call(server.address(), with(ours_, client_)), "--tls-name");
    SecurityOptions named = with(ours_, client_);
    named.tls_name = "elsewhere.example";
    EXPECT_EQ(call(server.address(), named), "");
}

TEST_F(SecurityTest, Tokens) {
    Server const server(with_token(kToken));
    EXPECT_EQ(call(server.address(), with_token(kToken)), "");
    EXPECT_SAYS(call(server.address(), {}), "asks for a token");
    EXPECT_SAYS(call(server.address(), with_token("0123456789abcdef0123456789abcdeX")),
                "does not know this token");
    // Whoever has the controller's port and not its token is none.
    Server const open({});
    EXPECT_SAYS(call(open.address(), with_token(kToken)), "speaks no TLS");
    Server const impostor(with(ours_, server_));
    EXPECT_SAYS(call(impostor.address(), with_token(kToken)), "does not know this token");
}

TEST_F(SecurityTest, ATokenWithinTls) {
    SecurityOptions server_options = with(ours_, server_);
    server_options.token_file = with_token(kToken).token_file;
    Server const server(server_options);
    EXPECT_SAYS(call(server.address(), with(ours_, client_)), "asks for a token");
    SecurityOptions client_options = with(ours_, client_);
    client_options.token_file = server_options.token_file;
    EXPECT_EQ(call(server.address(), client_options), "");
    client_options.token_file = with_token("0123456789abcdef0123456789abcdeX").token_file;
    EXPECT_SAYS(call(server.address(), client_options), "the token is not the controller's");
}

TEST_F(SecurityTest, AnAnswerBeyondTheLimitIsCutOff) {
    Server const server({});
    EXPECT_EQ(call(server.address(), {}, 1 << 20), "");
    EXPECT_NE(call(server.address(), {}, (64 << 20) + 1), "");
}

TEST_F(SecurityTest, OptionsThatMakeNoSense) {
    SecurityOptions const good = with(ours_, server_);
    auto const made = [](SecurityOptions const& options) {
        return refusal([&] { Security const unused(options); });
    };
    EXPECT_EQ(made(good), "");
    EXPECT_SAYS(made({good.ca, "", "", "", ""}), "--cert is missing");
    EXPECT_SAYS(made({folder_.file("none.pem"), good.certificate, good.key, "", ""}),
                "none.pem: No such file");
    EXPECT_SAYS(made({good.key, good.certificate, good.key, "", ""}), "no PEM certificate in it");
    EXPECT_SAYS(made({good.ca, good.certificate, good.ca, "", ""}), "no private key in PEM");
    EXPECT_SAYS(made({good.ca, good.certificate, client_.key, "", ""}),
                "not the key of the certificate");
    Issued const old = ours_.issue("old", "localhost", -60);
    EXPECT_SAYS(made(with(ours_, old)), "out of date");
    EXPECT_SAYS(made(with_token("short")), "the token has 5 characters");
    EXPECT_SAYS(made(with_token("0123456789 abcdef")), "without blanks");
}

TEST(SecurityNames, ACertificateIsForItsServersAlone) {
    std::vector<std::string> const names{"localhost", "Node1.cluster.example"};
    for (char const* const server : {"localhost", "node1", "NODE1", "node1.cluster.example"}) {
        EXPECT_TRUE(names_server(names, server)) << server;
    }
    for (char const* const server :
         {"", "node", "node11", "cluster", "node1.cluster", "node1.evil"}) {
        EXPECT_FALSE(names_server(names, server)) << server;
    }
    EXPECT_FALSE(names_server({}, "node1"));
}

TEST_F(SecurityTest, AnOpenAddressNeedsCertificatesOrATokenOrAWord) {
    Security const none({});
    SecurityOptions by_word;
    by_word.insecure = true;
    Security const insecure(by_word);
    Security const full(with(ours_, server_));
    by_word = with(ours_, server_);
    by_word.insecure = true;
    Security const open_full(by_word);
    for (char const* const local : {"localhost:1", "127.0.0.1:1", "[::1]:1"}) {
        EXPECT_EQ(refusal([&] { check_listen_address("--listen", local, none); }), "");
    }
    EXPECT_SAYS(refusal([&] { check_listen_address("--listen", "0.0.0.0:1", none); }),
                "--insecure");
    // Names, whatever they begin with.
    for (char const* const name : {"127.evil.example:1", "127.0.0.1.example:1", "127.1:1"}) {
        EXPECT_SAYS(refusal([&] { check_listen_address("--listen", name, none); }), "--insecure");
    }
    EXPECT_EQ(refusal([&] { check_listen_address("--listen", "0.0.0.0:1", insecure); }), "");
    EXPECT_EQ(refusal([&] { check_listen_address("--listen", "0.0.0.0:1", full); }), "");
    Security const token(this->with_token(kToken));
    EXPECT_EQ(refusal([&] { check_listen_address("--listen", "0.0.0.0:1", token); }), "");
    EXPECT_EQ(refusal([&] { check_connect_address("--controller", "a:1", token); }), "");
    EXPECT_EQ(refusal([&] { check_connect_address("--controller", "a:1", insecure); }), "");
    EXPECT_EQ(refusal([&] { check_connect_address("--controller", "[::1]:1", none); }), "");
    EXPECT_SAYS(refusal([&] { check_connect_address("--controller", "a:1", none); }), "--insecure");
    // It would be read in the clear.
    EXPECT_SAYS(refusal([&] { check_web_address("--http", "0.0.0.0:1", token); }), "--cert");
    // A browser shows no certificate.
    EXPECT_EQ(refusal([&] { check_web_address("--http", "localhost:1", none); }), "");
    EXPECT_SAYS(refusal([&] { check_web_address("--http", "0.0.0.0:1", none); }), "--cert");
    EXPECT_SAYS(refusal([&] { check_web_address("--http", "0.0.0.0:1", full); }), "--token-file");
    EXPECT_EQ(refusal([&] { check_web_address("--http", "0.0.0.0:1", open_full); }), "");
    SecurityOptions with_token = with(ours_, server_);
    with_token.token_file = folder_.write("web-token", std::string(32, 't'));
    Security const guarded(with_token);
    EXPECT_EQ(refusal([&] { check_web_address("--http", "0.0.0.0:1", guarded); }), "");
}

}  // namespace
}  // namespace mgi::control
