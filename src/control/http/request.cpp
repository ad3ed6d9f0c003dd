#include "control/http/request.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"

namespace mgi::control {

namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// A character of a method's or a field's name (RFC 9110, 5.6.2).
bool is_name_character(char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_name(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, is_name_character);
}

bool is_visible(char c) {
    return c >= '!' && c <= '~';
}

bool is_host_character(char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("-._:[]%").find(c) != std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
    auto const blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    return text;
}

}  // namespace

std::size_t RequestReader::add(std::string_view bytes) {
    std::size_t taken = 0;
    while (taken < bytes.size() && state_ != State::Complete && state_ != State::Refused) {
        char const c = bytes[taken++];
        ++size_;
        if (size_ > kLongestHead) {
            refuse(431, "the head has more than " + std::to_string(kLongestHead) + " bytes");
        } else if (returned_) {
            returned_ = false;
            if (c == '\n') {
                take_line();
            } else {
                refuse(400, "a CR without a LF");
            }
        } else if (c == '\r') {
            returned_ = true;
        } else if ((c >= 0 && c < ' ' && c != '\t') || c == '\x7f') {
            refuse(400, c == '\n' ? "a LF without a CR" : "a control character");
        } else {
            line_ += c;
            if (state_ == State::RequestLine && line_.size() > kLongestLine) {
                refuse(414, "the request's line has more than " + std::to_string(kLongestLine) +
                                " bytes");
            }
        }
    }
    return taken;
}

void RequestReader::refuse(int status, std::string why) {
    state_ = State::Refused;
    refusal_ = HttpRefusal{status, std::move(why)};
    line_ = {};
}

void RequestReader::take_line() {
    std::string const line = std::exchange(line_, {});
    if (state_ == State::RequestLine) {
        take_request_line(line);
    } else if (line.empty()) {
        finish();
    } else {
        take_field(line);
    }
}

void RequestReader::take_request_line(std::string_view line) {
    std::size_t const first = line.find(' ');
    std::size_t const last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) {
        return refuse(400, "the first line is not METHOD TARGET VERSION");
    }
    std::string_view const method = line.substr(0, first);
    std::string_view const target = line.substr(first + 1, last - first - 1);
    std::string_view const version = line.substr(last + 1);
    if (!is_name(method)) return refuse(400, "the method is no name");
    if (version.size() != 8 || !version.starts_with("HTTP/") || !is_digit(version[5]) ||
        version[6] != '.' || !is_digit(version[7])) {
        return refuse(400, "the version is not HTTP/1.1");
    }
    new_version_ = version == "HTTP/1.1";
    if (!new_version_ && version != "HTTP/1.0") {
        return refuse(505, "HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    if (!std::ranges::all_of(target, is_visible) || !target.starts_with('/')) {
        return refuse(400, "the target is not a path");
    }
    request_.head_only = method == "HEAD";
    if (!request_.head_only && method != "GET") return refuse(405, "only GET and HEAD are served");
    request_.path = target.substr(0, target.find('?'));
    state_ = State::Fields;
}

void RequestReader::take_field(std::string_view line) {
    if (++fields_ > kMostFields) {
        return refuse(431, "more than " + std::to_string(kMostFields) + " header fields");
    }
    std::size_t const colon = line.find(':');
    if (colon == std::string_view::npos || !is_name(line.substr(0, colon))) {
        return refuse(400, "a header field is not NAME: VALUE on one line");
    }
    std::string const name = lower_case(line.substr(0, colon));
    std::string_view const value = trimmed(line.substr(colon + 1));
    if (name == "host") {
        if (request_.host) return refuse(400, "Host comes twice");
        if (value.empty() || !std::ranges::all_of(value, is_host_character)) {
            return refuse(400, "Host is not a name or address with or without a port");
        }
        request_.host = lower_case(value);
    } else if (name == "authorization") {
        if (request_.authorization) return refuse(400, "Authorization comes twice");
        request_.authorization = value;
    } else if (name == "connection") {
        take_connection(value);
    } else {
        take_body_field(name, value);
    }
}

void RequestReader::take_body_field(std::string_view name, std::string_view value) {
    if (name == "transfer-encoding") return refuse(400, "a request here has no body");
    if (name != "content-length") return;
    if (std::exchange(has_length_, true)) return refuse(400, "Content-Length comes twice");
    if (value.empty() || !std::ranges::all_of(value, is_digit)) {
        return refuse(400, "Content-Length is no number");
    }
    if (value.find_first_not_of('0') != std::string_view::npos) {
        refuse(413, "a request here has no body");
    }
}

void RequestReader::take_connection(std::string_view value) {
    for (;;) {
        std::size_t const comma = value.find(',');
        std::string const option = lower_case(trimmed(value.substr(0, comma)));
        closes_ = closes_ || option == "close";
        keeps_ = keeps_ || option == "keep-alive";
        if (comma == std::string_view::npos) return;
        value.remove_prefix(comma + 1);
    }
}

void RequestReader::finish() {
    if (new_version_ && !request_.host) return refuse(400, "HTTP/1.1 wants the field Host");
    request_.keep_alive = !closes_ && (new_version_ || keeps_);
    state_ = State::Complete;
}

}  // namespace mgi::control
