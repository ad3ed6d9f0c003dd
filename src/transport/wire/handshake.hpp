// How a connection becomes a wire: each end proves that it knows the link's secret, without saying it.
//
//     dials     hello: link, slot, generation, a random number
//     answers   a random number, HMAC("answers", hello, number)
//     dials     HMAC("dials", hello, answer)
//     answers   one byte: the wire is there
//
// The payload that follows is neither encrypted nor signed: whoever can write into a connection between
// two servers can change what it carries.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "transport/wire/crypto.hpp"

namespace mgi::transport::wire {

using LinkName = std::array<std::uint8_t, 16>;

// Which wire a connection is to be.
struct Hello {
    LinkName link{};
    std::uint32_t slot = 0;
    std::uint64_t generation = 0;
};

// A state machine without I/O.
class Handshake {
public:
    // Knows a link's secret, if there is such a link.
    using Secrets = std::function<std::optional<Secret>(LinkName const&)>;

    Handshake(Hello const& hello, Secret const& secret);  // dials
    explicit Handshake(Secrets secrets);                  // answers

    enum class State : std::uint8_t {
        Going,
        Proven,   // answers: the other end is who it should be; `accept` or close
        Done,     // the next byte is a frame's
        Refused,  // `why` says it
    };
    // How many bytes it can use now; more belong to the wire.
    [[nodiscard]] std::size_t wants() const;
    State received(std::string_view bytes);
    // Answers: the wire is there.
    void accept();
    // What is to be sent, once.
    [[nodiscard]] std::string take_output();

    [[nodiscard]] Hello const& hello() const { return hello_; }
    [[nodiscard]] std::string const& why() const { return why_; }
    // Answers: the link was not known, which happens to those who come a little early.
    [[nodiscard]] bool is_unknown() const { return unknown_; }

private:
    State refuse(std::string why);
    State take_hello();
    State take_answer();
    State take_proof();

    bool dials_;
    int step_ = 0;
    Secrets secrets_;
    Secret secret_{};
    Hello hello_;
    std::string in_;
    std::string out_;
    std::string said_;  // all that was said before, by both
    std::string why_;
    bool unknown_ = false;
};

}  // namespace mgi::transport::wire
