/// \file
/// Answers to HTTP requests, and their heads.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace mgi::control {

struct HttpAnswer {
    int status = 200;
    std::string_view type = "text/plain; charset=utf-8";
    std::shared_ptr<std::string const> body;  ///< shared by all who get the same
    std::string fields;                       ///< more lines of the head, each with its CRLF
};

/// A sentence.
HttpAnswer plain_answer(int status, std::string_view text);

/// The head, for a connection that goes on or does not. It forbids a browser to keep the answer, to show
/// it in another site's frame, and to load anything from elsewhere.
std::string head_of(HttpAnswer const& answer, bool keep_alive);

}  // namespace mgi::control
