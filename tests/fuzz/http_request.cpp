#include "control/http/request.hpp"

#include <algorithm>

#include "fuzz/targets.hpp"

namespace mgi::fuzz {

namespace {

/// Reads one head in pieces of `step` bytes; says how many bytes it has taken.
std::size_t read_in_pieces(control::RequestReader& reader, std::string_view bytes,
                           std::size_t step) {
    std::size_t taken = 0;
    while (taken < bytes.size() && !reader.complete() && !reader.refusal()) {
        std::string_view const piece = bytes.substr(taken, step);
        std::size_t const used = reader.add(piece);
        require(used == piece.size() || reader.complete() || reader.refusal(),
                "a head that goes on takes all");
        taken += used;
    }
    if (reader.complete() || reader.refusal()) {
        require(reader.add("GET") == 0, "what has ended takes nothing more");
    }
    return taken;
}

bool is_visible(std::string const& text) {
    return std::ranges::all_of(text, [](char c) { return c >= '!' && c <= '~'; });
}

}  // namespace

void http_request(Input input) {
    using control::RequestReader;
    std::string_view bytes = input.all();
    std::size_t const step = 1 + bytes.size() % 16;
    for (int requests = 0; requests < 8 && !bytes.empty(); ++requests) {
        RequestReader whole;
        RequestReader pieces;
        std::size_t const taken = read_in_pieces(whole, bytes, bytes.size());
        require(read_in_pieces(pieces, bytes, step) == taken, "pieces end where the whole ends");
        require(whole.complete() == pieces.complete(), "pieces are as good as the whole");
        require(taken <= RequestReader::kLongestHead + 1, "a head has its limit");
        if (whole.refusal()) {
            require(pieces.refusal() && pieces.refusal()->status == whole.refusal()->status,
                    "pieces are refused as the whole is");
            int const status = whole.refusal()->status;
            require(status >= 400 && status <= 505, "a refusal is an error's status");
            return;
        }
        if (!whole.complete()) return;
        require(whole.request().path.starts_with('/') && is_visible(whole.request().path),
                "a path is one");
        require(!whole.request().host || is_visible(*whole.request().host), "a host is one");
        require(whole.request().host == pieces.request().host &&
                    whole.request().authorization == pieces.request().authorization &&
                    whole.request().path == pieces.request().path &&
                    whole.request().keep_alive == pieces.request().keep_alive,
                "pieces say what the whole says");
        bytes.remove_prefix(taken);
    }
}

}  // namespace mgi::fuzz
