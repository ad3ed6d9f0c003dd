#include "transport/wire/handshake.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace mgi::transport::wire {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the hello is little-endian, as memory is");

constexpr std::uint32_t kWire = 0;
constexpr std::uint32_t kPassesOn = 1;  // a relay is asked to
constexpr std::uint32_t kWithCard = 2;  // a wire, and the proof comes with a card
constexpr std::uint32_t kEncrypted = 3;

struct HelloBytes {
    char magic[4] = {'M', 'G', 'I', 'w'};
    std::uint32_t version = 5;
    LinkName link{};
    std::uint32_t slot = 0;  // or the member that a relay passes on to
    std::uint32_t kind = kWire;
    std::uint64_t generation = 0;  // or the member's NIC
    Secret number{};
};
static_assert(sizeof(HelloBytes) == 72, "no padding travels");

constexpr std::size_t kAnswerBytes = sizeof(Secret) + sizeof(Digest);
constexpr char kThere = 'w';
constexpr char kThereWithCard = 'c';
constexpr char kNoWay = 'n';
constexpr char kDiffers = 'd';  // whether wires are encrypted

std::string_view view_of(std::array<std::uint8_t, 32> const& bytes) {
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

bool proves(std::string_view digest, Secret const& secret, std::string_view role,
            std::string_view said) {
    Digest const right = hmac_sha256(secret, std::string(role).append(said));
    return same({reinterpret_cast<std::uint8_t const*>(digest.data()), digest.size()}, right);
}

constexpr std::string_view kAnswers = "mgi wire answers";
constexpr std::string_view kDials = "mgi wire dials";
constexpr std::string_view kCard = "mgi wire card";

// Its length, and itself.
std::string packed(std::string_view card) {
    auto const bytes = std::uint16_t(card.size());
    return std::string(reinterpret_cast<char const*>(&bytes), sizeof(bytes)).append(card);
}

std::string unpacked(std::string_view bytes) {
    return std::string(bytes.substr(sizeof(std::uint16_t)));
}

std::uint32_t kind_of(Hello const& hello) {
    if (hello.onward) return kPassesOn;
    if (hello.encrypted) return kEncrypted;
    return hello.card.empty() ? kWire : kWithCard;
}

std::string differs(bool encrypts) {
    return std::string("this process ") +
           (encrypts ? "encrypts its wires, and the other end does not"
                     : "does not encrypt its wires, and the other end does") +
           "; set MGI_WIRE_ENCRYPTION to the same word, on or off, in all processes of the job";
}

// HKDF-Expand (RFC 5869) of no more bytes than one digest has.
void expand(Secret const& key, std::string_view label, std::string_view said,
            std::span<std::uint8_t> out) {
    Digest made = hmac_sha256(key, std::string(label).append(said) + '\1');
    std::copy_n(made.begin(), out.size(), out.begin());
    wipe(made);
}

}  // namespace

Handshake::Handshake(Hello const& hello, Secret const& secret)
    : dials_(true), encrypts_(hello.encrypted), secret_(secret), hello_(hello) {
    HelloBytes bytes;
    bytes.link = hello.link;
    bytes.slot = hello.onward ? hello.onward->member : hello.slot;
    bytes.generation = hello.onward ? hello.onward->nic : hello.generation;
    bytes.kind = kind_of(hello);
    take_number(bytes.number);
    said_.assign(reinterpret_cast<char const*>(&bytes), sizeof(bytes));
    out_ = said_;
}

Handshake::Handshake(Secrets secrets, bool encrypts)
    : dials_(false), encrypts_(encrypts), secrets_(std::move(secrets)) {}

// One that was never there before: of an encrypted wire a public key.
void Handshake::take_number(std::array<std::uint8_t, 32>& number) {
    if (!hello_.encrypted) return fill_random(number);
    number = one_time_.emplace().public_key();
}

WireKeys Handshake::keys() const {
    Secret agreed = one_time_->agree(far_number_);
    // HKDF-Extract, with the link's secret for salt.
    Secret key = hmac_sha256(secret_, view_of(agreed));
    wipe(agreed);
    WireKeys keys;
    RecordKey& of_who_dials = dials_ ? keys.out : keys.in;
    RecordKey& of_who_answers = dials_ ? keys.in : keys.out;
    expand(key, "mgi wire key, dials", said_, of_who_dials.key);
    expand(key, "mgi wire nonce, dials", said_, of_who_dials.nonce);
    expand(key, "mgi wire key, answers", said_, of_who_answers.key);
    expand(key, "mgi wire nonce, answers", said_, of_who_answers.nonce);
    wipe(key);
    return keys;
}

std::size_t Handshake::wants() const {
    std::size_t const all = whole();
    return all - std::min(all, in_.size());
}

// Bytes of what comes next, as far as that is known.
std::size_t Handshake::whole() const {
    if (step_ == 0) return dials_ ? kAnswerBytes : sizeof(HelloBytes);
    if (dials_) return in_.empty() || in_[0] != kThereWithCard ? 1 : with_card(1);
    return expects_card_ ? with_card(0) : sizeof(Digest);
}

// The same of a card that begins there, and its signature.
std::size_t Handshake::with_card(std::size_t at) const {
    std::uint16_t bytes = 0;
    if (in_.size() < at + sizeof(bytes)) return at + sizeof(bytes);
    std::memcpy(&bytes, in_.data() + at, sizeof(bytes));
    return at + sizeof(bytes) + std::min<std::size_t>(bytes, kMostCard) + sizeof(Digest);
}

std::string Handshake::take_output() {
    return std::exchange(out_, {});
}

Handshake::State Handshake::refuse(std::string why) {
    why_ = std::move(why);
    return State::Refused;
}

Handshake::State Handshake::received(std::string_view bytes) {
    if (!why_.empty()) return State::Refused;
    while (std::size_t const more = wants()) {
        if (bytes.empty()) return State::Going;
        in_.append(bytes.substr(0, more));
        bytes.remove_prefix(std::min(more, bytes.size()));
    }
    State const state = dials_ ? take_answer() : (step_ == 0 ? take_hello() : take_proof());
    in_.clear();
    ++step_;
    return state;
}

Handshake::State Handshake::take_hello() {
    HelloBytes hello;
    std::memcpy(&hello, in_.data(), sizeof(hello));
    HelloBytes const ours;
    if (std::memcmp(hello.magic, ours.magic, sizeof(ours.magic)) != 0) {
        return refuse("it does not speak as the processes of MGI do");
    }
    if (hello.version != ours.version) {
        return refuse("it speaks version " + std::to_string(hello.version) +
                      " of the protocol between servers, this process speaks " +
                      std::to_string(ours.version) + "; run the same version of MGI everywhere");
    }
    auto const secret = secrets_(hello.link);
    if (!secret) {
        unknown_ = true;
        return refuse("it names a link that this process does not have");
    }
    secret_ = *secret;
    if (hello.kind > kEncrypted) return refuse("it asks for what this process does not know");
    hello_.link = hello.link;
    if (hello.kind == kPassesOn) {
        hello_.onward = Onward{hello.slot, std::uint32_t(hello.generation)};
    } else {
        hello_.slot = hello.slot;
        hello_.generation = hello.generation;
    }
    expects_card_ = hello.kind == kWithCard;
    hello_.encrypted = hello.kind == kEncrypted;
    said_ = in_;
    far_number_ = hello.number;
    std::array<std::uint8_t, 32> number{};
    take_number(number);
    said_ += view_of(number);
    Digest const digest = hmac_sha256(secret_, std::string(kAnswers).append(said_));
    said_ += view_of(digest);
    out_.append(view_of(number)).append(view_of(digest));
    return State::Going;
}

Handshake::State Handshake::take_answer() {
    if (step_ == 1) {
        if (in_[0] == kThere) return State::Done;
        if (in_[0] == kThereWithCard && !hello_.card.empty()) {
            std::size_t const bytes = in_.size() - sizeof(Digest);
            std::string const said = said_ + in_.substr(0, bytes);
            if (!proves(std::string_view(in_).substr(bytes), secret_, kCard, said)) {
                return refuse("who sends a card does not know the link's secret");
            }
            far_card_ = unpacked(std::string_view(in_).substr(1, bytes - 1));
            return State::Done;
        }
        if (in_[0] == kDiffers) return refuse(differs(encrypts_));
        declined_ = in_[0] == kNoWay;
        return refuse(declined_ ? "the relay cannot pass it on from there"
                                : "the other end does not want this wire");
    }
    std::string const said = said_ + in_.substr(0, sizeof(Secret));
    if (!proves(std::string_view(in_).substr(sizeof(Secret)), secret_, kAnswers, said)) {
        return refuse("who answers does not know the link's secret");
    }
    std::memcpy(far_number_.data(), in_.data(), far_number_.size());
    said_ += in_;
    if (!hello_.card.empty()) out_ = packed(hello_.card);
    said_ += out_;
    out_ += view_of(hmac_sha256(secret_, std::string(kDials).append(said_)));
    return State::Going;
}

Handshake::State Handshake::take_proof() {
    std::size_t const bytes = in_.size() - sizeof(Digest);
    said_ += in_.substr(0, bytes);
    if (!proves(std::string_view(in_).substr(bytes), secret_, kDials, said_)) {
        return refuse("it does not know the link's secret");
    }
    if (expects_card_) hello_.card = unpacked(std::string_view(in_).substr(0, bytes));
    // A relay does not care.
    if (hello_.encrypted == encrypts_ || hello_.onward) return State::Proven;
    out_ += kDiffers;
    return refuse(differs(encrypts_));
}

void Handshake::accept(std::string_view card) {
    if (card.empty()) {
        out_ += kThere;
        return;
    }
    std::string const said = kThereWithCard + packed(card);
    out_ += said;
    out_ += view_of(hmac_sha256(secret_, std::string(kCard).append(said_).append(said)));
}

void Handshake::decline() {
    out_ += kNoWay;
}

}  // namespace mgi::transport::wire
