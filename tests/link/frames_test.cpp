// Frames, and codecs between a segment and its frame: what one end writes the other one reads, however the
// stream is cut.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "link/codecs.hpp"
#include "link/transfers.hpp"
#include "mover/link/receiver.hpp"
#include "mover/link/sender.hpp"
#include "support/random.hpp"

namespace mgi::mover::link {
namespace {

/// Takes frames apart, and remembers what came.
struct Listener final : FrameSink {
    std::optional<std::string> begins(Header const& header, std::vector<iovec>& pieces) override {
        if (drop) return std::nullopt;
        std::uint32_t const bytes = segment_bytes(header);
        body.assign(bytes, '?');
        pieces.push_back({body.data(), bytes / 3});
        pieces.push_back({body.data() + bytes / 3, bytes - bytes / 3});
        return std::nullopt;
    }
    std::string spoiled(Header const& header) override {
        return "spoiled by codec " + std::to_string(header.codec);
    }
    std::optional<std::string> complete(Header const& header, std::string_view text) override {
        log += std::to_string(int(header.kind)) + ":" + std::to_string(header.number) + ":" +
               std::string(text) + (header.kind == FrameKind::Segment ? body : "") + " ";
        return std::nullopt;
    }
    [[nodiscard]] bool by_host(Header const& /*header*/) const override { return !of_gpu; }
    bool drop = false;
    bool of_gpu = false;
    std::string body;
    std::string log;
};

std::string all_of(WireSender& sender, test::Random& random) {
    std::string bytes;
    std::array<iovec, 6> pieces{};
    while (std::size_t const count = sender.gather(pieces, 1)) {
        std::size_t sent = 0;
        for (std::size_t i = 0; i < count; ++i) {
            std::size_t const here =
                i + 1 < count ? pieces[i].iov_len : 1 + random.below(pieces[i].iov_len);
            bytes.append(static_cast<char const*>(pieces[i].iov_base), here);
            sent += here;
        }
        sender.sent(sent);
    }
    return bytes;
}

std::optional<std::string> feed(WireReceiver& receiver, std::string_view bytes, FrameSink& sink,
                                test::Random& random) {
    std::array<iovec, 3> pieces{};
    while (!bytes.empty()) {
        std::size_t const count = receiver.scatter(pieces);
        std::size_t most = std::min<std::size_t>(bytes.size(), 1 + random.below(700));
        std::size_t taken = 0;
        for (std::size_t i = 0; i < count && most != 0; ++i) {
            std::size_t const here = std::min(pieces[i].iov_len, most);
            std::memcpy(pieces[i].iov_base, bytes.data() + taken, here);
            taken += here;
            most -= here;
        }
        bytes.remove_prefix(taken);
        if (auto wrong = receiver.received(taken, sink)) return wrong;
    }
    return std::nullopt;
}

std::string a_stream(test::Random& random, WireSender& sender) {
    sender.restart(true);
    some_bytes.fill('s');
    sender.add({transfer_of(5, 0, 900), true});
    sender.add({transfer_of(5, 1, 0), true});
    sender.add({FrameKind::Word, 5, 1, 2, 3}, {5, 1, 2, 3, 99, "a word"});
    sender.acknowledge(3, 400);
    return all_of(sender, random);
}

TEST(LinkFrames, ComeAsTheyWereSentHoweverTheStreamIsCut) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        test::Random random(seed);
        WireSender sender;
        std::string const bytes = a_stream(random, sender);
        WireReceiver receiver;
        receiver.restart(1000);
        Listener listener;
        listener.drop = seed % 2 == 1;
        EXPECT_FALSE(feed(receiver, bytes, listener, random));
        std::string const body = listener.drop ? "" : std::string(900, 's');
        EXPECT_EQ(listener.log, "4:3: 2:1:a word 1:2:" + body + " 1:3: ");
        EXPECT_EQ(receiver.frames(), 3U);
        EXPECT_EQ(receiver.bytes(), bytes.size());

        std::vector<WireSender::Done> done;
        EXPECT_FALSE(sender.acknowledged(4, bytes.size(), done));
        EXPECT_FALSE(sender.acknowledged(3, bytes.size() + 1, done));
        EXPECT_TRUE(sender.acknowledged(2, bytes.size(), done));
        EXPECT_EQ(done.size(), 2U);
        EXPECT_FALSE(sender.acknowledged(1, bytes.size(), done));
        EXPECT_TRUE(sender.acknowledged(3, bytes.size(), done));
        EXPECT_EQ(sender.in_flight(), 0U);
    }
}

TEST(LinkFrames, ADamagedByteIsSeen) {
    test::Random random(3);
    WireSender sender;
    std::string const bytes = a_stream(random, sender);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        std::string damaged = bytes;
        damaged[at] = char(damaged[at] ^ 4);
        WireReceiver receiver;
        receiver.restart(1000);
        Listener listener;
        EXPECT_TRUE(feed(receiver, damaged, listener, random)) << at;
    }
}

/// Two segments that grow in step, of which the codec makes less, and one that it makes nothing of.
std::string a_coded_stream(test::Random& random, WireSender& sender, Codec const& codec) {
    sender.restart(true, 2, &codec);
    for (std::size_t i = 0; i < some_bytes.size(); ++i) some_bytes[i] = char(3 * i + i / 5);
    sender.add({transfer_of(5, 0, 900), true});
    sender.add({transfer_of(5, 1, 1), true});
    sender.add({transfer_of(5, 2, 64), true});
    sender.add({FrameKind::Word, 5, 1, 2, 3}, {5, 1, 2, 3, 99, "a word"});
    return all_of(sender, random);
}

TEST(LinkCodec, SegmentsComeAsTheyWereHoweverTheStreamIsCut) {
    Codecs const codecs{std::make_shared<test::Liar>(), std::make_shared<test::Steps>(7)};
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        test::Random random(seed);
        WireSender sender;
        std::string const bytes = a_coded_stream(random, sender, *codecs[1]);
        EXPECT_LT(bytes.size(), 4 * kHeaderBytes + 300) << "an eighth of 964 and a word";
        WireReceiver receiver;
        receiver.restart(1000, &codecs);
        Listener listener;
        listener.drop = seed % 3 == 2;
        EXPECT_FALSE(feed(receiver, bytes, listener, random));
        auto const body = [&](std::size_t size) {
            return listener.drop ? "" : std::string(some_bytes.data(), size);
        };
        EXPECT_EQ(listener.log,
                  "2:1:a word 1:2:" + body(900) + " 1:3:" + body(1) + " 1:4:" + body(64) + " ");
        std::vector<WireSender::Done> done;
        EXPECT_TRUE(sender.acknowledged(4, bytes.size(), done));
        EXPECT_EQ(sender.in_flight(), 0U);
    }
}

TEST(LinkCodec, ADamagedByteIsSeenBeforeItIsDecoded) {
    Codecs const codecs{std::make_shared<test::Liar>(), std::make_shared<test::Steps>(7)};
    test::Random random(3);
    WireSender sender;
    std::string const bytes = a_coded_stream(random, sender, *codecs[1]);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        std::string damaged = bytes;
        damaged[at] = char(damaged[at] ^ 4);
        WireReceiver receiver;
        receiver.restart(1000, &codecs);
        Listener listener;
        auto const wrong = feed(receiver, damaged, listener, random);
        ASSERT_TRUE(wrong) << at;
        EXPECT_EQ(wrong->find("spoiled"), std::string::npos) << at << ": " << *wrong;
    }
}

TEST(LinkCodec, OneThatIsNotKnownIsNamed) {
    Codecs const one{std::make_shared<test::Liar>()};
    test::Random random(4);
    WireSender sender;
    test::Steps const steps(7);
    std::string const bytes = a_coded_stream(random, sender, steps);
    for (Codecs const* const known : {static_cast<Codecs const*>(nullptr), &one}) {
        WireReceiver receiver;
        receiver.restart(1000, known);
        Listener listener;
        auto const wrong = feed(receiver, bytes, listener, random);
        ASSERT_TRUE(wrong);
        EXPECT_NE(wrong->find("codec 2"), std::string::npos) << *wrong;
    }
}

TEST(LinkCodec, WhatIsSomethingElseSpoilsIt) {
    Codecs const other{std::make_shared<test::Liar>(), std::make_shared<test::Liar>()};
    test::Random random(5);
    WireSender sender;
    test::Steps const steps(7);
    std::string const bytes = a_coded_stream(random, sender, steps);
    WireReceiver receiver;
    receiver.restart(1000, &other);
    Listener listener;
    EXPECT_EQ(feed(receiver, bytes, listener, random).value_or(""), "spoiled by codec 2");
    EXPECT_EQ(receiver.frames(), 1U) << "the word";
}

TEST(LinkCodec, NoneMakesASegmentLarger) {
    struct Larger final : Codec {
        bool encode(std::span<iovec const>, std::size_t most,
                    std::vector<char>& encoded) const override {
            encoded.assign(most, 'x');
            return true;
        }
        bool decode(std::span<char const>, std::span<iovec const>) const override { return false; }
    };
    struct NoMemory final : Codec {
        bool encode(std::span<iovec const>, std::size_t,
                    std::vector<char>& encoded) const override {
            encoded.push_back('x');
            throw std::bad_alloc();
        }
        bool decode(std::span<char const>, std::span<iovec const>) const override { return false; }
    };
    Larger const larger;
    NoMemory const none;
    for (Codec const* const codec :
         {static_cast<Codec const*>(&larger), static_cast<Codec const*>(&none)}) {
        test::Random random(6);
        WireSender sender;
        std::string const bytes = a_coded_stream(random, sender, *codec);
        WireReceiver receiver;
        receiver.restart(1000);
        Listener listener;
        EXPECT_FALSE(feed(receiver, bytes, listener, random));
        EXPECT_NE(listener.log.find(std::string(some_bytes.data(), 900)), std::string::npos);
    }
}

/// A frame of a segment of 900 bytes, by a wire that has checksums and a codec.
std::string a_segment(WireSender& sender, bool by_host) {
    static test::Steps const steps(7);
    test::Random random(8);
    sender.restart(true, 1, by_host ? nullptr : &steps);
    some_bytes.fill('s');
    Transfer transfer = transfer_of(5, 0, 900);
    transfer.by_host = by_host;
    sender.add({std::move(transfer), true});
    return all_of(sender, random);
}

/// So many bytes at once.
std::optional<std::string> feed(WireReceiver& receiver, std::string_view bytes, FrameSink& sink) {
    std::array<iovec, 4> pieces{};
    std::size_t const count = receiver.scatter(pieces);
    std::size_t taken = 0;
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t const here = std::min(pieces[i].iov_len, bytes.size() - taken);
        std::memcpy(pieces[i].iov_base, bytes.data() + taken, here);
        taken += here;
    }
    EXPECT_EQ(taken, bytes.size());
    return receiver.received(taken, sink);
}

TEST(LinkFrames, TheHostDoesNotReadWhatIsAGpus) {
    WireSender sender;
    std::string const bytes = a_segment(sender, false);
    EXPECT_EQ(bytes.size(), kHeaderBytes + 900) << "coded";
    WireReceiver receiver;
    receiver.restart(1000);
    Listener listener;
    listener.of_gpu = true;
    EXPECT_FALSE(feed(receiver, bytes.substr(0, kHeaderBytes), listener));
    EXPECT_FALSE(feed(receiver, bytes.substr(kHeaderBytes), listener));
    EXPECT_EQ(receiver.frames(), 1U);
    EXPECT_EQ(listener.body, std::string(900, 's'));
}

TEST(LinkFrames, WhatTheHostWouldTouchIsRefusedWhereItIsAGpus) {
    WireSender sender;
    Listener listener;
    listener.of_gpu = true;
    WireReceiver receiver;
    receiver.restart(1000);
    std::string const summed = a_segment(sender, true);
    auto wrong = feed(receiver, summed.substr(0, kHeaderBytes), listener);
    ASSERT_TRUE(wrong);
    EXPECT_NE(wrong->find("would have to read it"), std::string::npos) << *wrong;
    receiver.restart(1000);
    std::string const bytes = a_segment(sender, false);
    wrong = feed(receiver, bytes.substr(0, kHeaderBytes + 10), listener);
    ASSERT_TRUE(wrong);
    EXPECT_NE(wrong->find("came by the host"), std::string::npos) << *wrong;
    EXPECT_EQ(listener.body, std::string(900, '?'));
    // What nobody wants lands in the host's memory.
    receiver.restart(1000);
    listener.drop = true;
    EXPECT_FALSE(feed(receiver, bytes.substr(0, kHeaderBytes + 10), listener));
}

TEST(LinkFrames, RefusesWhatCannotBe) {
    auto const wrong = [](Header header) {
        seal(header);
        return what_is_wrong(header, 1000).value_or("");
    };
    Header header;
    EXPECT_EQ(wrong(header), "");
    header.bytes = 1;
    EXPECT_NE(wrong(header), "");
    header.kind = FrameKind::Segment;
    header.bytes = 1001;
    EXPECT_NE(wrong(header), "");
    header.kind = FrameKind(9);
    EXPECT_NE(wrong(header), "");

    header = {};
    header.kind = FrameKind::Segment;
    header.codec = 1;
    header.summed = 1;
    header.bytes = 10;
    header.decoded = 1000;
    EXPECT_EQ(wrong(header), "");
    header.decoded = 1001;
    EXPECT_NE(wrong(header).find("codec 1"), std::string::npos) << "larger than any segment";
    header.decoded = 10;
    EXPECT_NE(wrong(header), "") << "no smaller";
    header.decoded = 11;
    header.summed = 0;
    EXPECT_NE(wrong(header), "") << "not summed";
    header.summed = 1;
    header.kind = FrameKind::Word;
    EXPECT_NE(wrong(header), "") << "no segment";
}

TEST(LinkFrames, WhatADeadWireLeavesBehind) {
    WireSender sender;
    sender.restart(false);
    for (std::uint64_t i = 0; i < 4; ++i) sender.add({transfer_of(5, i, 500), true});
    std::array<iovec, 2> pieces{};
    EXPECT_EQ(sender.gather(pieces, 1), 2U);
    sender.sent(kHeaderBytes + 500 + 3);  // the second one is begun
    sender.add({FrameKind::Word, 5, 1, 2, 3}, {5, 1, 2, 3, 99, ""});
    auto const remains = sender.take_remains();
    ASSERT_EQ(remains.begun.size(), 2U);
    EXPECT_EQ(remains.begun[1].first, 2U);
    EXPECT_EQ(remains.begun[1].second.transfer.key.sequence, 1U);
    EXPECT_EQ(remains.waiting.size(), 2U);
    EXPECT_EQ(remains.words.size(), 1U);
    EXPECT_EQ(remains.written, 1U);
    EXPECT_EQ(sender.in_flight(), 0U);
}

// Who moves the bytes closes a dead wire a moment later, and may read them until then.
TEST(LinkFrames, WhatACodecMadeStaysUntilTheWireIsGone) {
    test::Steps const codec(0);
    for (bool const written : {false, true}) {
        for (bool const leaves : {false, true}) {
            WireSender sender;
            sender.restart(true, 1, &codec);
            sender.add({transfer_of(5, 0, 500), true});
            std::array<iovec, 2> pieces{};
            ASSERT_EQ(sender.gather(pieces, 1), 2U);
            std::string const encoded(static_cast<char const*>(pieces[1].iov_base),
                                      pieces[1].iov_len);
            if (written) sender.sent(kHeaderBytes + encoded.size());
            if (leaves) {
                EXPECT_TRUE(sender.end_with(1, "over"));
            } else {
                (void)sender.take_remains();
                sender.restart(true, 1, &codec);
            }
            EXPECT_EQ(std::memcmp(pieces[1].iov_base, encoded.data(), encoded.size()), 0);
        }
    }
}

}  // namespace
}  // namespace mgi::mover::link
