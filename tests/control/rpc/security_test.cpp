// Who gets in, and what those who do not are told: with and without certificates and tokens.
#include "control/rpc/security.hpp"

#include <grpcpp/server.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "authority.hpp"
#include "control/proto/control.grpc.pb.h"
#include "control/rpc/limits.hpp"

#include <mgi/error.hpp>

namespace mgi::control {
namespace {

using mgi::test::Authority;
using mgi::test::Issued;
using mgi::test::kToken;
using mgi::test::TemporaryFolder;
using ::testing::Test;

/// Answers Status with a text of the wanted length to those that are admitted.
class Service : public Control::CallbackService {
public:
    explicit Service(Security const& security) : security_(security) {}
    grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                     StatusRequest const* request, StatusReply* reply) override {
        auto* const reactor = context->DefaultReactor();
        grpc::Status const admitted = security_.admit(*context);
        if (admitted.ok()) reply->set_json(std::string(request->protocol(), '.'));
        reactor->Finish(admitted);
        return reactor;
    }

private:
    Security const& security_;
};

class Server {
public:
    explicit Server(SecurityOptions options) : security_(std::move(options)), service_(security_) {
        grpc::ServerBuilder builder;
        prepare_server(builder, "localhost:0", security_, &port_);
        builder.RegisterService(&service_);
        server_ = builder.BuildAndStart();
    }
    ~Server() { server_->Shutdown(std::chrono::system_clock::now()); }
    Server(Server const&) = delete;
    Server& operator=(Server const&) = delete;

    [[nodiscard]] std::string address() const { return "localhost:" + std::to_string(port_); }

private:
    Security security_;
    Service service_;
    int port_ = 0;
    std::unique_ptr<grpc::Server> server_;
};

/// "" if the call went through, else what its maker is told.
std::string call(std::string const& address, SecurityOptions options, std::uint32_t length = 1) {
    Security const security(std::move(options));
    auto const stub = Control::NewStub(make_channel(address, security));
    grpc::ClientContext context;
    prepare_call(context, security);
    StatusRequest request;
    request.set_protocol(length);
    StatusReply reply;
    return security.explain(address, stub->Status(&context, request, &reply));
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
                "the token is not the controller's");
    Server const open({});
    EXPECT_EQ(call(open.address(), with_token(kToken)), "");
}

TEST_F(SecurityTest, ATokenWithinTls) {
    SecurityOptions server_options = with(ours_, server_);
    server_options.token_file = with_token(kToken).token_file;
    Server const server(server_options);
    EXPECT_SAYS(call(server.address(), with(ours_, client_)), "asks for a token");
    SecurityOptions client_options = with(ours_, client_);
    client_options.token_file = server_options.token_file;
    EXPECT_EQ(call(server.address(), client_options), "");
}

TEST_F(SecurityTest, AnAnswerBeyondTheLimitIsCutOff) {
    Server const server({});
    EXPECT_EQ(call(server.address(), {}, 1 << 20), "");
    EXPECT_NE(call(server.address(), {}, kLargestAnswer + 1), "");
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

TEST_F(SecurityTest, AnOpenAddressNeedsCertificatesOrAWord) {
    Security const none({});
    Security const full(with(ours_, server_));
    for (char const* const local : {"localhost:1", "127.0.0.1:1", "[::1]:1"}) {
        EXPECT_EQ(refusal([&] { check_listen_address("--listen", local, none, false); }), "");
    }
    EXPECT_SAYS(refusal([&] { check_listen_address("--listen", "0.0.0.0:1", none, false); }),
                "--insecure");
    // Names, whatever they begin with.
    for (char const* const name : {"127.evil.example:1", "127.0.0.1.example:1", "127.1:1"}) {
        EXPECT_SAYS(refusal([&] { check_listen_address("--listen", name, none, false); }),
                    "--insecure");
    }
    EXPECT_EQ(refusal([&] { check_listen_address("--listen", "0.0.0.0:1", none, true); }), "");
    EXPECT_EQ(refusal([&] { check_listen_address("--listen", "0.0.0.0:1", full, false); }), "");
    // A browser shows no certificate.
    EXPECT_EQ(refusal([&] { check_web_address("--http", "localhost:1", none, false); }), "");
    EXPECT_SAYS(refusal([&] { check_web_address("--http", "0.0.0.0:1", none, false); }), "--cert");
    EXPECT_SAYS(refusal([&] { check_web_address("--http", "0.0.0.0:1", full, false); }),
                "--token-file");
    EXPECT_EQ(refusal([&] { check_web_address("--http", "0.0.0.0:1", full, true); }), "");
    SecurityOptions with_token = with(ours_, server_);
    with_token.token_file = folder_.write("web-token", std::string(32, 't'));
    Security const guarded(with_token);
    EXPECT_EQ(refusal([&] { check_web_address("--http", "0.0.0.0:1", guarded, false); }), "");
}

}  // namespace
}  // namespace mgi::control
