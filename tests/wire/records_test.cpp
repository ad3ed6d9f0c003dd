// What an encrypted wire's bytes look like, and that nothing else is ever taken for them.
#include "transport/wire/records.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "support/random.hpp"

namespace mgi::transport::wire {
namespace {

using mgi::test::Random;

RecordKey key_of(std::uint8_t byte) {
    RecordKey key;
    key.key.fill(byte);
    key.nonce.fill(std::uint8_t(byte + 1));
    return key;
}

iovec piece(std::string& text) {
    return {text.data(), text.size()};
}

std::string text_of(std::size_t bytes) {
    std::string text(bytes, ' ');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = char(i * 131 + i / 251);
    return text;
}

/// All that a writer makes of a text, which fits into it.
std::string sealed(RecordWriter& writer, std::string text) {
    iovec const all = piece(text);
    EXPECT_EQ(writer.write({&all, 1}), text.size());
    auto const pending = writer.pending();
    std::string bytes(reinterpret_cast<char const*>(pending.data()), pending.size());
    writer.sent(pending.size());
    return bytes;
}

/// All that a reader gives for bytes that come `step` at a time, into rooms of `room` bytes.
std::string opened(RecordReader& reader, std::string_view bytes, std::size_t step,
                   std::size_t room) {
    std::string text;
    std::string here(room, '?');
    do {
        std::size_t const part = std::min({step, bytes.size(), reader.room().size()});
        std::memcpy(reader.room().data(), bytes.data(), part);
        reader.came(part);
        bytes.remove_prefix(part);
        iovec const all = piece(here);
        while (std::size_t const got = reader.read({&all, 1})) text += here.substr(0, got);
    } while (!bytes.empty() && !reader.broken());
    return text;
}

TEST(WireRecords, AreTls13s) {
    RecordWriter writer(RecordKey{});
    std::string const bytes = sealed(writer, "abc");
    EXPECT_EQ(bytes.size(), 3 + kRecordOverhead);
    EXPECT_EQ(bytes.substr(0, kRecordHeader), std::string("\x17\x03\x03\x00\x14", 5));
    // What zeros become with a key and a nonce of zeros (test case 14 of GCM's specification) begins with cea7403d.
    EXPECT_EQ(std::uint8_t(bytes[5] ^ 'a'), 0xce);
    EXPECT_EQ(std::uint8_t(bytes[6] ^ 'b'), 0xa7);
    EXPECT_EQ(std::uint8_t(bytes[7] ^ 'c'), 0x40);
    EXPECT_EQ(std::uint8_t(bytes[8] ^ 23), 0x3d);
}

TEST(WireRecords, ComeOutAsTheyWentInHoweverTheyAreCut) {
    for (std::size_t const bytes : {1, 2, 15, 16, 17, 300}) {
        for (std::size_t step = 1; step <= bytes + kRecordOverhead + 1; ++step) {
            for (std::size_t const room : {std::size_t(1), std::size_t(7), bytes, bytes + 9}) {
                RecordWriter writer(key_of(1));
                RecordReader reader(key_of(1));
                std::string const text = text_of(bytes);
                std::string made = sealed(writer, text);
                made += sealed(writer, "and more");
                ASSERT_EQ(opened(reader, made, step, room), text + "and more")
                    << bytes << " " << step << " " << room;
                ASSERT_FALSE(reader.broken() || reader.holds() || reader.in_midst());
            }
        }
    }
}

TEST(WireRecords, OfLongTextsAreSeveral) {
    Random random(1);
    RecordWriter writer(key_of(1));
    RecordReader reader(key_of(1));
    for (int i = 0; i < 60; ++i) {
        std::size_t const bytes = 1 + random.below(i % 2 == 0 ? 7 * kMostPlain : 40);
        std::string const text = text_of(bytes);
        std::string const made = sealed(writer, text);
        EXPECT_EQ(made.size(), bytes + (bytes + kMostPlain - 1) / kMostPlain * kRecordOverhead);
        ASSERT_EQ(opened(reader, made, 1 + random.below(40'000), 1 + random.below(30'000)), text);
    }
}

TEST(WireRecords, AreGatheredFromPiecesAndScatteredIntoThem) {
    RecordWriter writer(key_of(1));
    RecordReader reader(key_of(1));
    std::string first = text_of(10), none, second = text_of(20'000), third = text_of(1);
    std::array<iovec, 4> const from{piece(first), piece(none), piece(second), piece(third)};
    ASSERT_EQ(writer.write(from), 20'011U);
    auto const pending = writer.pending();
    std::memcpy(reader.room().data(), pending.data(), pending.size());
    reader.came(pending.size());
    std::string one(3, '?'), two(17'000, '?'), nothing, three(3'007, '?'), beyond(1, '?');
    std::array<iovec, 5> const to{piece(one), piece(two), piece(nothing), piece(three),
                                  piece(beyond)};
    EXPECT_TRUE(reader.holds());
    ASSERT_EQ(reader.read(to), 20'010U + 1);
    EXPECT_EQ(one + two + three + beyond, first + second + third);
}

TEST(WireRecords, WaitInTheWriterUntilTheyAreSent) {
    RecordWriter writer(key_of(1));
    RecordReader reader(key_of(1));
    std::string text = text_of(1'000'000);
    iovec const all = piece(text);
    std::size_t const taken = writer.write({&all, 1});
    EXPECT_GT(taken, kMostPlain);
    EXPECT_LT(taken, text.size());
    EXPECT_EQ(writer.write({&all, 1}), 0U) << "there is room for whole records alone";
    std::string came;
    while (!writer.pending().empty()) {
        auto const part =
            writer.pending().first(std::min<std::size_t>(writer.pending().size(), 1000));
        came.append(reinterpret_cast<char const*>(part.data()), part.size());
        writer.sent(part.size());
    }
    EXPECT_EQ(opened(reader, came, came.size(), 5000), text.substr(0, taken));
}

TEST(WireRecords, AChangedBitIsSeenWhereverItIs) {
    for (std::size_t at = 0; at < 20 + kRecordOverhead; ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            RecordWriter writer(key_of(1));
            RecordReader reader(key_of(1));
            std::string bytes = sealed(writer, text_of(20));
            bytes[at] = char(bytes[at] ^ (1 << bit));
            // A length that says more waits for more, which then does not fit.
            for (int i = 0; i < 2000; ++i) bytes += sealed(writer, "more");
            ASSERT_EQ(opened(reader, bytes, 1000, 64), "") << at << " " << bit;
            ASSERT_TRUE(reader.broken() && reader.holds()) << at << " " << bit;
        }
    }
}

TEST(WireRecords, ThatAreCutOffGiveNothing) {
    for (std::size_t bytes = 0; bytes < 20 + kRecordOverhead; ++bytes) {
        RecordWriter writer(key_of(1));
        RecordReader reader(key_of(1));
        EXPECT_EQ(opened(reader, sealed(writer, text_of(20)).substr(0, bytes), 1000, 64), "");
        EXPECT_EQ(reader.in_midst(), bytes != 0);
    }
}

TEST(WireRecords, ComeOnceAndInTurn) {
    for (int what = 0; what < 4; ++what) {
        RecordWriter writer(key_of(1));
        RecordReader reader(key_of(1));
        std::string const one = sealed(writer, "one");
        std::string const two = sealed(writer, "two");
        std::array<std::string, 4> const said{one + one, two, two + one, one + two + one};
        std::array<std::string, 4> const heard{"one", "", "", "onetwo"};
        EXPECT_EQ(opened(reader, said[std::size_t(what)], 1000, 64), heard[std::size_t(what)]);
        EXPECT_TRUE(reader.broken()) << what;
        EXPECT_EQ(opened(reader, one, 1000, 64), "") << "it is over";
    }
}

TEST(WireRecords, OfAnotherKeyAreRefused) {
    for (bool const nonce : {false, true}) {
        RecordKey other = key_of(1);
        (nonce ? other.nonce[11] : other.key[0]) ^= 1;
        RecordWriter writer(key_of(1));
        RecordReader reader(other);
        EXPECT_EQ(opened(reader, sealed(writer, "text"), 1000, 64), "");
        EXPECT_TRUE(reader.broken());
    }
}

TEST(WireRecords, WithoutContentOrOfAnotherKindAreRefused) {
    for (std::string const& header :
         {std::string("\x17\x03\x03\x00\x11", 5), std::string("\x15\x03\x03\x00\x13", 5),
          std::string("\x17\x03\x01\x00\x13", 5), std::string("\x17\x03\x03\x40\x12", 5),
          std::string("\x17\x03\x03\xff\xff", 5)}) {
        RecordReader reader(key_of(1));
        EXPECT_EQ(opened(reader, header, 1, 64), "");
        EXPECT_TRUE(reader.broken()) << "at once, for who waits for more may wait for ever";
    }
}

}  // namespace
}  // namespace mgi::transport::wire
