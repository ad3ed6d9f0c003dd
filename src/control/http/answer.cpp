#include "control/http/answer.hpp"

#include <fmt/format.h>

namespace mgi::control {

namespace {

constexpr char const* kFields =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n";

char const* reason_of(int status) {
    switch (status) {
        case 200: return "OK";
        case 400: return "Bad Request";
        case 401: return "Unauthorized";
        case 403: return "Forbidden";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        case 413: return "Content Too Large";
        case 414: return "URI Too Long";
        case 421: return "Misdirected Request";
        case 431: return "Request Header Fields Too Large";
        case 505: return "HTTP Version Not Supported";
        default: return "Internal Server Error";
    }
}

}  // namespace

HttpAnswer plain_answer(int status, std::string_view text) {
    HttpAnswer answer;
    answer.status = status;
    answer.body = std::make_shared<std::string const>(fmt::format("{}\n", text));
    return answer;
}

std::string head_of(HttpAnswer const& answer, bool keep_alive) {
    return fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n{}{}\r\n",
        answer.status, reason_of(answer.status), answer.type, answer.body->size(),
        keep_alive ? "keep-alive" : "close", kFields, answer.fields);
}

}  // namespace mgi::control
