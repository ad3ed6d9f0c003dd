#include "transport/wire/handshake.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace mgi::transport::wire {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the hello is little-endian, as memory is");

struct HelloBytes {
    char magic[4] = {'M', 'G', 'I', 'w'};
    std::uint32_t version = 3;
    LinkName link{};
    std::uint32_t slot = 0;        // or the member that a relay passes on to
    std::uint32_t passes_on = 0;   // 1: a relay is asked to
    std::uint64_t generation = 0;  // or the member's NIC
    Secret number{};
};
static_assert(sizeof(HelloBytes) == 72, "no padding travels");

constexpr std::size_t kAnswerBytes = sizeof(Secret) + sizeof(Digest);
constexpr char kThere = 'w';
constexpr char kNoWay = 'n';

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

}  // namespace

Handshake::Handshake(Hello const& hello, Secret const& secret)
    : dials_(true), secret_(secret), hello_(hello) {
    HelloBytes bytes;
    bytes.link = hello.link;
    bytes.slot = hello.onward ? hello.onward->member : hello.slot;
    bytes.generation = hello.onward ? hello.onward->nic : hello.generation;
    bytes.passes_on = hello.onward ? 1 : 0;
    fill_random(bytes.number);
    said_.assign(reinterpret_cast<char const*>(&bytes), sizeof(bytes));
    out_ = said_;
}

Handshake::Handshake(Secrets secrets) : dials_(false), secrets_(std::move(secrets)) {}

std::size_t Handshake::wants() const {
    std::size_t const whole = dials_ ? (step_ == 0 ? kAnswerBytes : 1)
                                     : (step_ == 0 ? sizeof(HelloBytes) : sizeof(Digest));
    return whole - std::min(whole, in_.size());
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
    in_.append(bytes.substr(0, wants()));
    if (wants() != 0) return State::Going;
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
    if (hello.passes_on == 0) {
        hello_ = {hello.link, hello.slot, hello.generation};
    } else {
        hello_.link = hello.link;
        hello_.onward = Onward{hello.slot, std::uint32_t(hello.generation)};
    }
    said_ = in_;
    Secret number{};
    fill_random(number);
    said_ += view_of(number);
    Digest const digest = hmac_sha256(secret_, std::string(kAnswers).append(said_));
    said_ += view_of(digest);
    out_.append(view_of(number)).append(view_of(digest));
    return State::Going;
}

Handshake::State Handshake::take_answer() {
    if (step_ == 1) {
        if (in_[0] == kThere) return State::Done;
        return refuse(in_[0] == kNoWay ? "the relay cannot pass it on from there"
                                       : "the other end does not want this wire");
    }
    std::string const said = said_ + in_.substr(0, sizeof(Secret));
    if (!proves(std::string_view(in_).substr(sizeof(Secret)), secret_, kAnswers, said)) {
        return refuse("who answers does not know the link's secret");
    }
    said_ += in_;
    out_ = view_of(hmac_sha256(secret_, std::string(kDials).append(said_)));
    return State::Going;
}

Handshake::State Handshake::take_proof() {
    if (!proves(in_, secret_, kDials, said_)) return refuse("it does not know the link's secret");
    return State::Proven;
}

void Handshake::accept() {
    out_ += kThere;
}

void Handshake::decline() {
    out_ += kNoWay;
}

}  // namespace mgi::transport::wire
