/// \file
/// A member of etcd that says what a test wants, whatever it is asked.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace mgi::test {

/// Of HTTP/2 (RFC 9113): a frame of the first stream, or of the connection.
inline std::string http2_frame(int kind, int flags, std::string const& payload, int stream = 1) {
    std::string frame;
    for (int shift = 16; shift >= 0; shift -= 8) frame += char(payload.size() >> shift & 0xff);
    frame += {char(kind), char(flags), 0, 0, 0, char(stream)};
    return frame + payload;
}

/// A header as it is, without HPACK's compression (RFC 7541).
inline std::string http2_header(std::string const& name, std::string const& value) {
    return std::string(1, '\0') + char(name.size()) + name + char(value.size()) + value;
}

inline constexpr int kData = 0;
inline constexpr int kHeaders = 1;
inline constexpr int kReset = 3;
inline constexpr int kSettings = 4;
inline constexpr int kEndOfStream = 1;
inline constexpr int kEndOfHeaders = 4;
inline std::string const kStatus200 = "\x88";

/// Settings, and an answer with this body and these trailers.
inline std::string http2_answer(std::string const& body, std::string const& trailers) {
    return http2_frame(kSettings, 0, "", 0) + http2_frame(kHeaders, kEndOfHeaders, kStatus200) +
           http2_frame(kData, 0, body) +
           http2_frame(kHeaders, kEndOfHeaders | kEndOfStream, trailers);
}

/// What it is asked, the last bytes of a request.
inline constexpr char const* kQuestion = "\n\1x";

/// Takes one connection after the other, sends `answer` once the whole question has come, and closes the
/// connection after it if it `hangs_up`; without an answer it is silent.
class CannedMember {
public:
    explicit CannedMember(std::string answer, bool hangs_up = false)
        : answer_(std::move(answer)), hangs_up_(hangs_up) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        if (bind(listener_, generic, size) != 0 || listen(listener_, 8) != 0 ||
            getsockname(listener_, generic, &size) != 0) {
            throw std::runtime_error("no port to listen on");
        }
        port_ = ntohs(address.sin_port);
        thread_ = std::jthread([this](std::stop_token const& stop) { serve(stop); });
    }
    ~CannedMember() {
        thread_.request_stop();
        thread_.join();
        close(listener_);
    }
    CannedMember(CannedMember const&) = delete;
    CannedMember& operator=(CannedMember const&) = delete;

    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

private:
    static constexpr int kLookMs = 20;

    void serve(std::stop_token const& stop) const {
        while (!stop.stop_requested()) {
            pollfd waiting{listener_, POLLIN, 0};
            if (poll(&waiting, 1, kLookMs) <= 0) continue;
            int const client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (client < 0) continue;
            converse(client, stop);
            close(client);
        }
    }
    void converse(int client, std::stop_token const& stop) const {
        std::string heard;
        char bytes[4096];
        while (!stop.stop_requested()) {
            pollfd waiting{client, POLLIN, 0};
            if (poll(&waiting, 1, kLookMs) <= 0) continue;
            ssize_t const more = recv(client, bytes, sizeof bytes, 0);
            if (more <= 0) return;
            bool const asked = heard.find(kQuestion) != std::string::npos;
            heard.append(bytes, std::size_t(more));
            if (asked || heard.find(kQuestion) == std::string::npos) continue;
            send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
            if (hangs_up_) return;
        }
    }

    std::string const answer_;
    bool const hangs_up_;
    int const listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    std::uint16_t port_ = 0;
    std::jthread thread_;
};

}  // namespace mgi::test
