// Calls to members of etcd that answer, that answer nonsense, that are silent, and that are not there.
#include "control/election/grpc_connections.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include <mgi/error.hpp>

#include "canned_member.hpp"
#include "etcd_process.hpp"

namespace mgi::control {
namespace {

using namespace std::chrono_literals;
using namespace mgi::test;

GrpcOutcome call(std::string const& address, std::chrono::milliseconds limit = 30s,
                 std::stop_token const& stop = {}) {
    Security const clear{SecurityOptions{}};
    return GrpcConnection(address, clear).call("etcdserverpb.KV/Range", kQuestion, limit, stop);
}

TEST(GrpcConnection, TakesAMessageAndItsStatus) {
    CannedMember const member(http2_answer(grpc_frame("hello"), http2_header("grpc-status", "0")));
    GrpcOutcome const outcome = call(member.address());
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.text;
    EXPECT_EQ(outcome.message, "hello");
    EXPECT_TRUE(outcome.reusable);
}

TEST(GrpcConnection, AnErrorMayComeInTheHeadersAlone) {
    CannedMember const member(http2_frame(kSettings, 0, "", 0) +
                              http2_frame(kHeaders, kEndOfHeaders | kEndOfStream,
                                          kStatus200 + http2_header("grpc-status", "9") +
                                              http2_header("grpc-message", "not%20now")));
    GrpcOutcome const outcome = call(member.address());
    EXPECT_EQ(int(outcome.status.code), 9);
    EXPECT_EQ(outcome.status.text, "not now");
    EXPECT_TRUE(outcome.reusable);
}

TEST(GrpcConnection, WhatIsTooLargeIsNotAwaited) {
    CannedMember const member(http2_frame(kSettings, 0, "", 0) +
                              http2_frame(kHeaders, kEndOfHeaders, kStatus200) +
                              http2_frame(kData, 0, std::string("\0\1\0\0\1", 5)));
    GrpcOutcome const outcome = call(member.address());
    EXPECT_EQ(outcome.status.code, GrpcCode::Internal);
    EXPECT_NE(outcome.status.text.find("16 MiB"), std::string::npos) << outcome.status.text;
    EXPECT_FALSE(outcome.reusable);
}

TEST(GrpcConnection, WhoBreaksOffOrSpeaksSomethingElseIsUnavailable) {
    std::string const begun =
        http2_frame(kSettings, 0, "", 0) + http2_frame(kHeaders, kEndOfHeaders, kStatus200);
    std::string const reset = begun + http2_frame(kReset, 0, std::string("\0\0\0\2", 4));
    for (std::string const& answer :
         {std::string(), begun, reset, std::string("HTTP/1.1 400 Bad Request\r\n\r\n")}) {
        CannedMember const member(answer, true);
        GrpcOutcome const outcome = call(member.address());
        EXPECT_EQ(outcome.status.code, GrpcCode::Unavailable) << outcome.status.text;
        EXPECT_NE(outcome.status.text, "");
        EXPECT_FALSE(outcome.reusable);
    }
}

TEST(GrpcConnection, ASilentMemberHasItsTimeOrUntilAStop) {
    CannedMember const silent("");
    EXPECT_EQ(call(silent.address(), 50ms).status.code, GrpcCode::DeadlineExceeded);
    EXPECT_EQ(call(silent.address(), -1s).status.code, GrpcCode::DeadlineExceeded);
    std::stop_source stop;
    auto stopped = std::async(std::launch::async,
                              [&] { return call(silent.address(), 1h, stop.get_token()); });
    EXPECT_EQ(stopped.wait_for(50ms), std::future_status::timeout);
    stop.request_stop();
    EXPECT_EQ(stopped.get().status.code, GrpcCode::Cancelled);
    EXPECT_EQ(call(silent.address(), 1h, stop.get_token()).status.code, GrpcCode::Cancelled);
}

TEST(GrpcConnection, NobodyThereIsUnavailable) {
    GrpcOutcome const outcome = call(free_address());
    EXPECT_EQ(outcome.status.code, GrpcCode::Unavailable);
    EXPECT_EQ(call("no-such-host.invalid:1").status.code, GrpcCode::Unavailable);
    EXPECT_THROW((void)call("no address"), Error);
    EXPECT_THROW((void)call("::1:2379"), Error);
}

TEST(GrpcConnection, AMemberThatComesBackIsConnectedToAnew) {
    EtcdProcess etcd;
    Security const clear{SecurityOptions{}};
    GrpcConnections member(etcd.address(), clear);
    auto const answers = [&](bool wanted) {
        auto const until = std::chrono::steady_clock::now() + 60s;
        while (std::chrono::steady_clock::now() < until) {
            if (member.call("etcdserverpb.KV/Range", kQuestion, 1s, {}).status.ok() == wanted)
                return true;
            std::this_thread::sleep_for(10ms);
        }
        return false;
    };
    EXPECT_TRUE(answers(true));
    etcd.stop();
    EXPECT_TRUE(answers(false));
    etcd.start();
    EXPECT_TRUE(answers(true));
    for (int round = 0; round < 3; ++round) {
        GrpcStatus const again = member.call("etcdserverpb.KV/Range", kQuestion, 30s, {}).status;
        EXPECT_TRUE(again.ok()) << again.text;
    }
    GrpcStatus const status = member.call("etcdserverpb.KV/Range", "", 30s, {}).status;
    EXPECT_EQ(int(status.code), 3) << status.text;
    EXPECT_NE(status.text.find("key is not provided"), std::string::npos) << status.text;
}

class GrpcTls : public ::testing::Test {
protected:
    GrpcStatus call(SecurityOptions options) {
        Security const security(std::move(options));
        GrpcConnection connection(etcd_.address(), security);
        GrpcOutcome outcome;
        // Until etcd is up.
        auto const until = std::chrono::steady_clock::now() + 60s;
        do {
            outcome = connection.call("etcdserverpb.KV/Range", kQuestion, 5s, {});
            if (outcome.status.text.find("connect to") == std::string::npos) break;
            std::this_thread::sleep_for(10ms);
        } while (std::chrono::steady_clock::now() < until);
        return outcome.status;
    }
    SecurityOptions with(Authority const& authority, Issued const& own) const {
        return {authority.file(), own.certificate, own.key, "", ""};
    }

    TemporaryFolder folder_;
    Authority ours_{folder_, "ours"};
    Authority theirs_{folder_, "theirs"};
    Issued const server_ = ours_.issue("server", "IP:127.0.0.1,DNS:etcd.example");
    Issued const client_ = ours_.issue("client");
    EtcdProcess etcd_{{"--cert-file=" + server_.certificate, "--key-file=" + server_.key,
                       "--client-cert-auth", "--trusted-ca-file=" + ours_.file()}};
};

TEST_F(GrpcTls, BothSidesShowACertificate) {
    Security const security(with(ours_, client_));
    GrpcStatus const status = call(with(ours_, client_));
    EXPECT_TRUE(status.ok()) << status.text;
    GrpcConnection connection(etcd_.address(), security);
    for (int round = 0; round < 3; ++round) {
        GrpcStatus const again =
            connection.call("etcdserverpb.KV/Range", kQuestion, 30s, {}).status;
        EXPECT_TRUE(again.ok()) << again.text;
    }
    GrpcStatus const stranger = call(with(ours_, theirs_.issue("stranger")));
    EXPECT_EQ(stranger.code, GrpcCode::Unavailable) << stranger.text;
}

TEST_F(GrpcTls, AnotherAuthoritysServerIsRefused) {
    GrpcStatus const status = call(with(theirs_, client_));
    EXPECT_EQ(status.code, GrpcCode::Unavailable);
    EXPECT_NE(status.text.find("certificate"), std::string::npos) << status.text;
}

TEST_F(GrpcTls, TheCertificateIsForTheAddressOrTheNameThatIsGiven) {
    SecurityOptions options = with(ours_, client_);
    options.tls_name = "etcd.example";
    GrpcStatus const named = call(options);
    EXPECT_TRUE(named.ok()) << named.text;
    options.tls_name = "other.example";
    GrpcStatus const other = call(options);
    EXPECT_EQ(other.code, GrpcCode::Unavailable);
    EXPECT_NE(other.text.find("other.example"), std::string::npos) << other.text;
}

}  // namespace
}  // namespace mgi::control
