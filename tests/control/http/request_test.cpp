// Heads of requests: what is read, and what is refused with which status.
#include "control/http/request.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

namespace mgi::control {
namespace {

std::string const kHost = "Host: a\r\n";

RequestReader read(std::string_view head) {
    RequestReader reader;
    reader.add(head);
    return reader;
}

/// 200 for a complete head, 0 for one that goes on, else the refusal's status.
int status_of(RequestReader const& reader) {
    if (reader.refusal()) return reader.refusal()->status;
    return reader.complete() ? 200 : 0;
}

int status_of(std::string_view head) {
    return status_of(read(head));
}

TEST(RequestReader, ReadsWhatThePageSends) {
    RequestReader const reader = read(
        "GET /status.json?x=1&y HTTP/1.1\r\nHost: LocalHost:7071\r\nUser-Agent: x\r\n"
        "Authorization:  Bearer abc \r\nAccept: */*\r\n\r\n");
    ASSERT_TRUE(reader.complete());
    EXPECT_FALSE(reader.request().head_only);
    EXPECT_EQ(reader.request().path, "/status.json");
    EXPECT_EQ(reader.request().host, "localhost:7071");
    EXPECT_EQ(reader.request().authorization, "Bearer abc");
    EXPECT_TRUE(reader.request().keep_alive);
}

TEST(RequestReader, StopsAtTheHeadsEnd) {
    std::string const first = "HEAD / HTTP/1.1\r\n" + kHost + "\r\n";
    RequestReader reader;
    EXPECT_EQ(reader.add(first + "GET / HTTP/1.1\r\n"), first.size());
    ASSERT_TRUE(reader.complete());
    EXPECT_TRUE(reader.request().head_only);
    EXPECT_EQ(reader.add("GET"), 0u);
}

TEST(RequestReader, TakesByteByByte) {
    std::string const head = "GET / HTTP/1.1\r\n" + kHost + "\r\n";
    RequestReader reader;
    EXPECT_FALSE(reader.begun());
    for (char const& c : head) {
        EXPECT_FALSE(reader.complete());
        EXPECT_EQ(reader.add({&c, 1}), 1u);
        EXPECT_TRUE(reader.begun());
    }
    EXPECT_TRUE(reader.complete());
}

TEST(RequestReader, WhoKeepsTheConnection) {
    auto const keeps = [](std::string const& version, std::string const& fields) {
        RequestReader const reader = read("GET / " + version + "\r\n" + kHost + fields + "\r\n");
        EXPECT_TRUE(reader.complete()) << fields;
        return reader.request().keep_alive;
    };
    EXPECT_TRUE(keeps("HTTP/1.1", ""));
    EXPECT_FALSE(keeps("HTTP/1.1", "Connection: close\r\n"));
    EXPECT_FALSE(keeps("HTTP/1.1", "Connection: x, CLOSE ,\r\n"));
    EXPECT_FALSE(keeps("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
    EXPECT_FALSE(keeps("HTTP/1.0", ""));
    EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
}

TEST(RequestReader, AHeadThatGoesOnIsNeither) {
    for (char const* const head :
         {"", "G", "GET / HTTP/1.1", "GET / HTTP/1.1\r", "GET / HTTP/1.1\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r"}) {
        EXPECT_EQ(status_of(head), 0) << head;
    }
}

struct Case {
    char const* what;
    int status;
    std::string head;
};

void PrintTo(Case const& tried, std::ostream* out) {
    *out << tried.what;
}

class RequestReaderCases : public ::testing::TestWithParam<Case> {};

TEST_P(RequestReaderCases, AreAnswered) {
    EXPECT_EQ(status_of(GetParam().head), GetParam().status) << GetParam().head.substr(0, 100);
}

std::string line(std::string const& first) {
    return first + "\r\n" + kHost + "\r\n";
}

std::string fields(std::string const& more) {
    return "GET / HTTP/1.1\r\n" + kHost + more + "\r\n";
}

std::string many_fields(int count) {
    std::string made;
    for (int i = 0; i < count; ++i) made += "X: y\r\n";
    return made;
}

INSTANTIATE_TEST_SUITE_P(
    RequestLines, RequestReaderCases,
    ::testing::Values(
        Case{"empty line first", 400, line("")}, Case{"no target", 400, line("GET HTTP/1.1")},
        Case{"no version", 400, line("GET /")}, Case{"version 0.9", 505, line("GET / HTTP/0.9")},
        Case{"version 2.0", 505, line("GET / HTTP/2.0")},
        Case{"HTTP/2's preface", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
        Case{"long version", 400, line("GET / HTTP/1.10")},
        Case{"other protocol", 400, line("GET / HTTPS/1.1")},
        Case{"small letters", 400, line("GET / http/1.1")},
        Case{"two blanks", 400, line("GET  / HTTP/1.1")},
        Case{"blank in the target", 400, line("GET /a b HTTP/1.1")},
        Case{"blank in front", 400, line(" GET / HTTP/1.1")},
        Case{"blank behind", 400, line("GET / HTTP/1.1 ")},
        Case{"tab", 400, line("GET\t/\tHTTP/1.1")},
        Case{"whole URL", 400, line("GET http://a/ HTTP/1.1")},
        Case{"authority", 400, line("CONNECT a:1 HTTP/1.1")},
        Case{"UTF-8 target", 400, line("GET /\xc3\xa4 HTTP/1.1")},
        Case{"method is no name", 400, line("G(T / HTTP/1.1")},
        Case{"POST", 405, line("POST / HTTP/1.1")}, Case{"get", 405, line("get / HTTP/1.1")},
        Case{"OPTIONS", 405, line("OPTIONS /status.json HTTP/1.1")},
        Case{"TLS", 400, std::string("\x16\x03\x01\x02", 4)},
        Case{"NUL", 400, std::string("GET /\0 HTTP/1.1\r\n", 17)},
        Case{"LF alone", 400, "GET / HTTP/1.1\nHost: a\n\n"},
        Case{"CR alone", 400, "GET / HTTP/1.1\rHost"},
        Case{"2 KiB", 200, line("GET /" + std::string(2048 - 14, 'x') + " HTTP/1.1")},
        Case{"longer", 414, line("GET /" + std::string(2048 - 13, 'x') + " HTTP/1.1")},
        Case{"longer and goes on", 414, std::string(2049, 'G')}));

INSTANTIATE_TEST_SUITE_P(
    Fields, RequestReaderCases,
    ::testing::Values(
        Case{"no Host", 400, "GET / HTTP/1.1\r\n\r\n"},
        Case{"no Host in 1.0", 200, "GET / HTTP/1.0\r\n\r\n"},
        Case{"second Host", 400, fields("host: a\r\n")},
        Case{"empty Host", 400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
        Case{"Host with a path", 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
        Case{"Host with a user", 400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"},
        Case{"two hosts", 400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"},
        Case{"IPv6 Host", 200, "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]:80\r\n\r\n"},
        Case{"second Authorization", 400, fields("Authorization: a\r\nAUTHORIZATION: a\r\n")},
        Case{"folded", 400, fields("X: y\r\n z\r\n")}, Case{"folded Host", 400, fields(" b\r\n")},
        Case{"blank before the colon", 400, fields("X : y\r\n")},
        Case{"no colon", 400, fields("X\r\n")}, Case{"no name", 400, fields(": x\r\n")},
        Case{"name in UTF-8", 400, fields("\xc3\xa4: x\r\n")},
        Case{"value in UTF-8", 200, fields("X: \xc3\xa4\r\n")},
        Case{"tab in a value", 200, fields("X:\ty\tz\r\n")},
        Case{"control character", 400, fields("X: a\x01z\r\n")},
        Case{"DEL", 400, fields("X: a\x7fz\r\n")},
        Case{"LF in a value", 400, fields("X: a\nHost: b\r\n")},
        Case{"CR in a value", 400, fields("X: a\rHost: b\r\n")},
        Case{"empty body", 200, fields("Content-Length: 0\r\n")},
        Case{"body", 413, fields("Content-Length: 1\r\n")},
        Case{"huge body", 413, fields("Content-Length: 99999999999999999999999\r\n")},
        Case{"negative body", 400, fields("Content-Length: -1\r\n")},
        Case{"lengths", 400, fields("Content-Length: 0, 0\r\n")},
        Case{"second length", 400, fields("Content-Length: 0\r\nContent-Length: 0\r\n")},
        Case{"no length", 400, fields("Content-Length:\r\n")},
        Case{"chunks", 400, fields("Transfer-Encoding: chunked\r\n")},
        Case{"identity", 400, fields("Transfer-Encoding: identity\r\n")},
        Case{"64 fields", 200, fields(many_fields(63))},
        Case{"65 fields", 431, fields(many_fields(64))},
        Case{"head of 16 KiB", 200, fields("X: " + std::string((16 << 10) - 32, 'x') + "\r\n")},
        Case{"longer head", 431, fields("X: " + std::string((16 << 10) - 31, 'x') + "\r\n")}));

}  // namespace
}  // namespace mgi::control
