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
// The hello also says whether the wire's bytes are encrypted, which is signed like all of it: where the other end does not do
// the same, there is no wire. Then both numbers are public keys of X25519, made for this connection alone, and the keys of
// the records that follow (records.hpp) come from the secret that these give and the link's. Else the payload is neither
// encrypted nor signed, and whoever can write into a connection between two servers can change what it carries.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "transport/wire/crypto.hpp"
#include "transport/wire/records.hpp"

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
    bool encrypted = false;                       // without a card
    std::optional<Onward> onward = std::nullopt;  // instead of slot, generation and encryption
    std::string card =
        {};  // for another way than the connection; empty: none. At most kMostCard bytes
};

// A state machine without I/O.
class Handshake {
public:
    // Knows a link's secret, if there is such a link.
    using Secrets = std::function<std::optional<Secret>(LinkName const&)>;

    Handshake(Hello const& hello, Secret const& secret);  // dials
    explicit Handshake(
        Secrets secrets,
        bool encrypts = false);  // answers; only wires that are encrypted, or only others

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
    // Of an encrypted wire, once it is proven or done. Throws Error(Refused) where the other end's number is no key.
    [[nodiscard]] WireKeys keys() const;
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
    void take_number(std::array<std::uint8_t, 32>& number);
    State refuse(std::string why);
    State take_hello();
    State take_answer();
    State take_proof();
    [[nodiscard]] std::size_t whole() const;
    [[nodiscard]] std::size_t with_card(std::size_t at) const;

    bool dials_;
    bool encrypts_;
    int step_ = 0;
    Secrets secrets_;
    std::optional<OneTimeKey> one_time_;  // of an encrypted wire
    std::array<std::uint8_t, 32> far_number_{};
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
