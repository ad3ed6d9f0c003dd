#include "control/election/grpc_answer.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

#include "core/text.hpp"

namespace mgi::control {

namespace {

constexpr std::size_t kPrefix = 5;
constexpr std::size_t kLongestText = 1024;

/// The length that the prefix says.
std::size_t length_in(std::string_view prefix) {
    std::size_t length = 0;
    for (char const byte : prefix.substr(1, 4)) length = length << 8 | std::uint8_t(byte);
    return length;
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r\n";
    std::size_t const first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

/// With the bytes that "%0A" and the like stand for; what is no such code stays.
std::string percent_decoded(std::string_view text) {
    std::string decoded;
    while (!text.empty()) {
        std::uint8_t byte = 0;
        char const* const code = text.data() + 1;
        bool const is_code = text.size() > 2 && text[0] == '%' &&
                             std::from_chars(code, code + 2, byte, 16).ptr == code + 2;
        decoded += is_code ? char(byte) : text[0];
        text.remove_prefix(is_code ? 3 : 1);
    }
    return decoded;
}

}  // namespace

std::string grpc_frame(std::string_view message) {
    std::string frame(1, '\0');
    for (int shift = 24; shift >= 0; shift -= 8) frame += char(message.size() >> shift & 0xff);
    frame += message;
    return frame;
}

void GrpcAnswer::header(std::string_view line) {
    if (line.starts_with("HTTP/")) {
        std::string_view rest = line;
        take_word(rest, ' ');
        http_ = trimmed(rest.substr(0, 3));
        return;
    }
    std::string const name = lower_case(take_word(line, ':'));
    if (name == "grpc-status") code_ = trimmed(line);
    if (name == "grpc-message") text_ = trimmed(line);
}

bool GrpcAnswer::body(std::string_view bytes) {
    body_ += bytes;
    if (body_.size() < kPrefix) return true;
    return body_[0] == 0 && length_in(body_) <= kLargest &&
           body_.size() <= kPrefix + length_in(body_);
}

std::string GrpcAnswer::body_problem() const {
    if (body_.empty()) return "it has no message";
    if (body_[0] != 0) return "its message is compressed";
    std::size_t const length = body_.size() < kPrefix ? 0 : length_in(body_);
    if (length > kLargest) return fmt::format("its message has {}", bytes_text(length));
    if (body_.size() < kPrefix + length) return "its message is cut short";
    if (body_.size() > kPrefix + length) return "more follows its message";
    return "";
}

GrpcStatus GrpcAnswer::status() const {
    if (code_.empty() && http_ != "200") {
        return {GrpcCode::Unavailable,
                fmt::format("no gRPC answers there (HTTP status {})", http_)};
    }
    // Before the status, for a call that was broken off has none.
    std::string const problem = code_.empty() || code_ == "0" ? body_problem() : "";
    if (!problem.empty()) {
        return {GrpcCode::Internal, fmt::format("no answer of gRPC's: {}", problem)};
    }
    int code = 0;
    char const* const end = code_.data() + code_.size();
    auto const [rest, wrong] = std::from_chars(code_.data(), end, code);
    if (wrong != std::errc() || rest != end) {
        return {GrpcCode::Unknown, "an answer without a status of gRPC's"};
    }
    if (code == 0) return {};
    std::string const text = without_controls(percent_decoded(text_).substr(0, kLongestText));
    return {GrpcCode{code}, text.empty() ? fmt::format("gRPC status {}", code) : text};
}

std::string_view GrpcAnswer::message() const {
    return std::string_view(body_).substr(kPrefix);
}

}  // namespace mgi::control
