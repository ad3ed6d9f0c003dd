// What counts as an answer of gRPC's, and what is said of the rest.
#include "control/election/grpc_answer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace mgi::control {
namespace {

using namespace std::string_literals;

GrpcAnswer with_headers(std::vector<std::string> const& lines) {
    GrpcAnswer answer;
    answer.header("HTTP/2 200 \r\n");
    for (std::string const& line : lines) answer.header(line + "\r\n");
    return answer;
}

/// Of a body that came with OK.
GrpcStatus of_body(std::string const& bytes) {
    GrpcAnswer answer = with_headers({"grpc-status: 0"});
    (void)answer.body(bytes);
    return answer.status();
}

TEST(GrpcAnswer, AMessageComesInPieces) {
    GrpcAnswer answer = with_headers({"content-type: application/grpc"});
    std::string const body = grpc_frame("hello");
    EXPECT_EQ(body, "\0\0\0\0\5hello"s);
    for (char const byte : body) EXPECT_TRUE(answer.body({&byte, 1}));
    answer.header("Grpc-Status:0\r\n");
    EXPECT_TRUE(answer.status().ok()) << answer.status().text;
    EXPECT_EQ(answer.message(), "hello");
}

TEST(GrpcAnswer, AnEmptyMessageIsOne) {
    EXPECT_TRUE(of_body(grpc_frame("")).ok());
    GrpcAnswer large;
    EXPECT_TRUE(large.body(grpc_frame(std::string(300, 'x'))));
    EXPECT_EQ(large.message().size(), 300u);
}

TEST(GrpcAnswer, WhatIsNoMessageIsInternal) {
    for (std::string const& body :
         {""s, "\0\0\0"s, "\0\0\0\0\5hell"s, "\0\0\0\0\1hello"s, grpc_frame("a") + grpc_frame("b"),
          "\1\0\0\0\1x"s, "\0\1\0\0\1x"s, "\0\xff\xff\xff\xff"s, "<html>"s}) {
        GrpcStatus const status = of_body(body);
        EXPECT_EQ(status.code, GrpcCode::Internal) << body;
        EXPECT_NE(status.text, "");
    }
}

TEST(GrpcAnswer, ABodyThatCannotBecomeAMessageIsRefusedAtOnce) {
    for (std::string const& body : {"\1\0\0\0\1"s, "\0\1\0\0\1"s, "\0\0\0\0\1xy"s}) {
        EXPECT_FALSE(GrpcAnswer().body(body)) << body;
    }
    EXPECT_TRUE(GrpcAnswer().body("\0\1\0\0\0"s)) << "16 MiB";
    EXPECT_TRUE(GrpcAnswer().body("\0\0\0\0\2x"s));
}

TEST(GrpcAnswer, AnErrorNeedsNoBody) {
    GrpcAnswer const answer =
        with_headers({"grpc-status: 3", "grpc-message: etcdserver: key is not provided"});
    EXPECT_EQ(int(answer.status().code), 3);
    EXPECT_EQ(answer.status().text, "etcdserver: key is not provided");
    EXPECT_EQ(with_headers({"grpc-status: 12"}).status().text, "gRPC status 12");
    EXPECT_EQ(with_headers({"grpc-status: 14"}).status().code, GrpcCode::Unavailable);
}

TEST(GrpcAnswer, ATextIsDecodedAndPrintable) {
    auto const text = [](std::string const& encoded) {
        return with_headers({"grpc-status: 2", "grpc-message: " + encoded}).status().text;
    };
    EXPECT_EQ(text("100%25 of \"%c3%A4\""), "100% of \"\xc3\xa4\"");
    EXPECT_EQ(text("%"), "%");
    EXPECT_EQ(text("%4"), "%4");
    EXPECT_EQ(text("%zz%4g%-1%41"), "%zz%4g%-1A");
    EXPECT_EQ(text("a%0Ab"), "a b") << "no other line of a log";
    EXPECT_LE(text(std::string(100'000, 'x')).size(), 1024u);
}

TEST(GrpcAnswer, WithoutAStatusThereIsNoAnswer) {
    GrpcAnswer cut = with_headers({});
    EXPECT_TRUE(cut.body(grpc_frame("hello")));
    EXPECT_EQ(cut.status().code, GrpcCode::Unknown);
    for (char const* const wrong : {"x", "0x", "", "99999999999"}) {
        GrpcAnswer answer = with_headers({std::string("grpc-status: ") + wrong});
        EXPECT_TRUE(answer.body(grpc_frame("hello")));
        EXPECT_EQ(answer.status().code, GrpcCode::Unknown) << wrong;
    }
}

TEST(GrpcAnswer, AnotherHttpStatusIsUnavailable) {
    GrpcAnswer page;
    page.header("HTTP/2 404 \r\n");
    EXPECT_FALSE(page.body("404 page not found"));
    EXPECT_EQ(page.status().code, GrpcCode::Unavailable);
    EXPECT_NE(page.status().text.find("404"), std::string::npos);
    EXPECT_EQ(GrpcAnswer().status().code, GrpcCode::Unavailable);
}

}  // namespace
}  // namespace mgi::control
