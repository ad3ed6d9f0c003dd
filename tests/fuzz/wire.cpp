#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/targets.hpp"
#include "link/codecs.hpp"
#include "mover/link/checksum.hpp"
#include "mover/link/link.hpp"
#include "transport/wire/handshake.hpp"
#include "transport/wire/records.hpp"

namespace mgi::fuzz {
namespace {

using namespace mover::link;

/// Takes what fits, and forgets it.
struct Nobody final : LinkOwner {
    bool target(Key const& key, std::uint64_t, std::uint64_t bytes,
                std::vector<iovec>& pieces) override {
        if (key.channel % 3 == 0) return false;
        std::uint64_t const first = bytes / 2;
        memory.resize(1U << 16);
        pieces = {{memory.data(), first}, {memory.data() + first, bytes - first}};
        return true;
    }
    void arrived(Key const&, std::uint64_t) override { require(failures == 0, "over is over"); }
    void acknowledged(std::uint64_t) override {
        require(false, "only what was sent is acknowledged");
    }
    void word(Word const& word) override {
        require(word.text.size() <= kMostText, "words are small");
    }
    void failed(ErrorCode code, std::string const& why) override {
        require(++failures == 1, "a link fails once");
        require(code != ErrorCode::Ok && !why.empty(), "a failure says why");
    }
    std::vector<char> memory;
    int failures = 0;
};

/// Gives a link bytes as they came from a wire.
void feed(Link& link, std::uint32_t slot, char const* data, std::size_t bytes, Time now) {
    std::array<iovec, 4> pieces{};
    while (bytes != 0) {
        std::size_t const count = link.scatter(slot, pieces);
        if (count == 0) return;  // closed
        std::size_t taken = 0;
        for (std::size_t i = 0; i < count && taken != bytes; ++i) {
            std::size_t const here = std::min(pieces[i].iov_len, bytes - taken);
            std::memcpy(pieces[i].iov_base, data + taken, here);
            taken += here;
        }
        link.received(slot, taken, now);
        data += taken;
        bytes -= taken;
    }
}

/// Frames whose headers say anything and are sealed, so that what is behind the checksum is reached.
void frames(Link& link, Input& input, Time& now) {
    std::array<std::uint64_t, 3> generation{};
    std::array<std::uint64_t, 3> number{};
    while (!input.empty()) {
        std::uint32_t const slot = input.below(3);
        now += std::uint64_t(input.below(200)) * kMillisecond * 10;
        switch (input.below(8)) {
            case 0:
                if (link.opened(slot, ++generation[slot], now)) number[slot] = 0;
                break;
            case 1: link.closed(slot, generation[slot], "cut", now); break;
            case 2: link.tick(now); break;
            default: {
                Header header;
                header.kind = FrameKind(input.below(7));
                header.bytes = std::uint32_t(input.number()) % 3000;
                header.number = input.one_in(8) ? std::uint64_t(input.number()) : number[slot] + 1;
                header.channel = input.one_in(4) ? std::uint64_t(input.number()) : input.below(5);
                header.source = std::uint32_t(input.below(4));
                header.destination = std::uint32_t(input.number());
                header.sequence = std::uint64_t(input.number());
                header.tag = std::uint64_t(input.number());
                std::vector<char> const body(header.bytes, 'b');
                if (input.one_in(3)) {
                    header.codec = std::uint16_t(input.below(4));
                    header.decoded = std::uint32_t(input.number()) % 3000;
                    header.summed = 1;
                    header.body_sum = crc32c(0, body.data(), body.size());
                }
                seal(header);
                if (is_numbered(header.kind)) ++number[slot];
                feed(link, slot, reinterpret_cast<char const*>(&header), kHeaderBytes, now);
                feed(link, slot, body.data(), body.size(), now);
                break;
            }
        }
        std::vector<Command> commands;
        link.take_commands(commands);
        std::array<iovec, 4> pieces{};
        for (std::uint32_t s = 0; s < 3; ++s) {
            std::size_t bytes = 0;
            for (std::size_t i = link.gather(s, pieces, now); i != 0; --i) {
                bytes += pieces[i - 1].iov_len;
            }
            if (bytes != 0) link.sent(s, bytes, now);
        }
    }
}

}  // namespace

void wire(Input input) {
    NicBoard board;
    Nobody owner;
    LinkOptions options;
    options.slots.resize(3);
    options.largest_segment = 2000;
    options.codecs = {std::make_shared<test::Steps>(0), std::make_shared<test::Liar>()};
    options.slots[1].codec = 1;
    Time now = kSecond;
    Link link(options, owner, board, now);
    if (input.one_in(2)) {
        frames(link, input, now);
        return;
    }
    std::string_view const bytes = input.all();
    link.opened(0, 1, now);
    feed(link, 0, bytes.data(), bytes.size(), now);

    transport::wire::Handshake answers(
        [](transport::wire::LinkName const&) { return transport::wire::Secret{}; });
    auto state = transport::wire::Handshake::State::Going;
    for (std::size_t at = 0; at < bytes.size() && state == decltype(state)::Going; at += 50) {
        state = answers.received(bytes.substr(at, 50));
        (void)answers.take_output();
    }
    require(state != decltype(state)::Proven, "who knows no secret proves none");

    transport::wire::RecordReader reader{transport::wire::RecordKey{}};
    std::array<char, 700> room{};
    iovec const piece{room.data(), room.size()};
    for (std::string_view left = bytes; !left.empty() && !reader.broken();) {
        std::size_t const here = std::min({left.size(), std::size_t(70), reader.room().size()});
        std::memcpy(reader.room().data(), left.data(), here);
        reader.came(here);
        left.remove_prefix(here);
        require(reader.read({&piece, 1}) == 0, "who knows no key makes no record");
    }
}

}  // namespace mgi::fuzz
