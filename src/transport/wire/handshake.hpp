// How a connection becomes a wire: each end proves that it knows the link's secret, without saying it.
//
//     dials     hello: link, slot, generation, a random number
//     answers   a random number, HMAC("answers", hello, number)
//     dials     HMAC("dials", hello, answer)
//     answers   one byte: the wire is there
//
// Where the wire's bytes could go another way than over the connection (medium.hpp), the dialing end's last
// word has its card before it, and the byte may be followed by the other end's; both cards are signed.
//
// A hello may also ask a third process to pass the connection on. The last byte then says that it is joined
// to the next process, and what follows is said to that one: another hello.
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

// Where a relay passes a connection on to. It is named by numbers, so that whoever asks can name no address
// but those that the relay knows.
struct Onward {
    std::uint32_t member = 0;  // of the channel
    std::uint32_t nic = 0;     // of that member's
};

// Which wire a connection is to be, or where it goes on to.
struct Hello {
    LinkName link{};  // or what the relays of a channel share
    std::uint32_t slot = 0;
    std::uint64_t generation = 0;
    std::optional<Onward> onward = std::nullopt;  // instead of slot and generation
    std::string card =
        {};  // for another way than the connection; empty: none. At most kMostCard bytes
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
        Proven,   // answers: the other end is who it should be; `accept`, `decline` or close
        Done,     // the next byte is a frame's
        Refused,  // `why` says it
    };
    // How many bytes it can use now; more belong to the wire.
    [[nodiscard]] std::size_t wants() const;
    State received(std::string_view bytes);
    static constexpr std::size_t kMostCard = 4096;
    // Answers: the wire is there, and goes the other way if there is a card for who dials, who gave one.
    void accept(std::string_view card = {});
    // Answers: there is no way on.
    void decline();
    // What is to be sent, once.
    [[nodiscard]] std::string take_output();

    [[nodiscard]] Hello const& hello() const { return hello_; }
    // Dials, when done: the other end's card; empty: the wire goes over the connection.
    [[nodiscard]] std::string const& far_card() const { return far_card_; }
    [[nodiscard]] std::string const& why() const { return why_; }
    // Dials: the relay has no way on.
    [[nodiscard]] bool is_declined() const { return declined_; }
    // Answers: the link was not known, which happens to those who come a little early.
    [[nodiscard]] bool is_unknown() const { return unknown_; }

private:
    State refuse(std::string why);
    State take_hello();
    State take_answer();
    State take_proof();
    [[nodiscard]] std::size_t whole() const;
    [[nodiscard]] std::size_t with_card(std::size_t at) const;

    bool dials_;
    int step_ = 0;
    Secrets secrets_;
    Secret secret_{};
    Hello hello_;
    std::string in_;
    std::string out_;
    std::string said_;  // all that was said before, by both
    std::string far_card_;
    std::string why_;
    bool unknown_ = false;
    bool declined_ = false;
    bool expects_card_ = false;
};

}  // namespace mgi::transport::wire
