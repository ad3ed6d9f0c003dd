/// \file
/// The head of an HTTP request, read strictly: what two programs could read in two ways is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mgi::control {

struct HttpRequest {
    bool head_only = false;  ///< HEAD, else GET
    std::string path;        ///< as it came, without what follows '?'
    std::optional<std::string> host;
    std::optional<std::string> authorization;
    bool keep_alive = false;  ///< the client wants to send another request over this connection
};

/// Why a head is none, to be answered before the connection is closed.
struct HttpRefusal {
    int status = 400;
    std::string why;
};

/// Reads one head, in pieces of any size. Not thread-safe.
class RequestReader {
public:
    static constexpr std::size_t kLongestLine = 2048;  ///< of the request, else 414
    static constexpr std::size_t kLongestHead = 16 << 10;
    static constexpr std::size_t kMostFields = 64;

    /// Takes the bytes up to the end of the head and says how many those were: what follows belongs to
    /// the next request. Takes nothing more once the head is complete or refused.
    std::size_t add(std::string_view bytes);

    [[nodiscard]] bool begun() const { return size_ != 0; }
    [[nodiscard]] bool complete() const { return state_ == State::Complete; }
    /// Empty while there is nothing wrong.
    [[nodiscard]] std::optional<HttpRefusal> const& refusal() const { return refusal_; }
    /// Of a complete head.
    [[nodiscard]] HttpRequest const& request() const { return request_; }

private:
    enum class State : std::uint8_t { RequestLine, Fields, Complete, Refused };

    void refuse(int status, std::string why);
    void take_line();
    void take_request_line(std::string_view line);
    void take_field(std::string_view line);
    void take_body_field(std::string_view name, std::string_view value);
    void take_connection(std::string_view value);
    void finish();

    State state_ = State::RequestLine;
    HttpRequest request_;
    std::optional<HttpRefusal> refusal_;
    std::string line_;      // without its end, as far as it has come
    std::size_t size_ = 0;  // bytes of the head so far
    std::size_t fields_ = 0;
    bool returned_ = false;  // the last byte was a CR
    bool new_version_ = false;
    bool closes_ = false;
    bool keeps_ = false;
    bool has_length_ = false;
};

}  // namespace mgi::control
