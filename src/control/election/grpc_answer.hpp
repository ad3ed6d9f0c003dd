/// \file
/// gRPC's messages and statuses as HTTP/2 carries them, without a connection.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mgi::control {

/// gRPC's status codes with its numbers; those without a name here are known by number alone.
enum class GrpcCode : int {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    DeadlineExceeded = 4,
    Internal = 13,
    Unavailable = 14,
};

/// How a call ended.
struct GrpcStatus {
    GrpcCode code = GrpcCode::Ok;
    std::string text;  ///< printable

    [[nodiscard]] bool ok() const { return code == GrpcCode::Ok; }
};

/// A message with the five bytes that stand before it: not compressed, so many bytes.
[[nodiscard]] std::string grpc_frame(std::string_view message);

/// The answer to one request: one message, and a status in the headers or trailers.
class GrpcAnswer {
public:
    /// No message of etcd's is so large.
    static constexpr std::size_t kLargest = std::size_t{16} << 20;

    /// A line of headers or trailers, of the HTTP status, too.
    void header(std::string_view line);
    /// More of the body; false: whatever follows, this is no answer.
    [[nodiscard]] bool body(std::string_view bytes);

    /// How the call ended; a status other than OK is the other side's, or says what is wrong with its answer.
    [[nodiscard]] GrpcStatus status() const;
    /// The message, of an answer that is OK.
    [[nodiscard]] std::string_view message() const;

private:
    [[nodiscard]] std::string body_problem() const;

    std::string http_;  ///< the status, "200"
    std::string code_;  ///< grpc-status; empty: none
    std::string text_;  ///< grpc-message
    std::string body_;
};

}  // namespace mgi::control
