#include "transport/wire/handshake.hpp"

#include <gtest/gtest.h>

#include <string>

#include <mgi/error.hpp>

#include "transport/wire/socket.hpp"
#include "wire/peer.hpp"

namespace mgi::transport::wire {
namespace {

using mgi::test::secret_of;

Hello some_hello() {
    Hello hello;
    hello.link.fill(7);
    hello.slot = 3;
    hello.generation = 12;
    return hello;
}

Handshake answering(Secret const& secret) {
    return Handshake([secret](LinkName const& name) -> std::optional<Secret> {
        if (name != some_hello().link) return std::nullopt;
        return secret;
    });
}

using State = Handshake::State;

TEST(WireCrypto, IsHmacSha256) {
    // RFC 4231, test case 1, with the key filled up with zeros, which HMAC does as well.
    Secret key{};
    for (std::size_t i = 0; i < 20; ++i) key[i] = 0x0b;
    Digest const digest = hmac_sha256(key, "Hi There");
    EXPECT_EQ(digest[0], 0xb0);
    EXPECT_EQ(digest[1], 0x34);
    EXPECT_EQ(digest[31], 0xf7);
    EXPECT_TRUE(same(digest, digest));
    EXPECT_FALSE(same(digest, key));
}

TEST(WireHandshake, BothEndsProveThatTheyKnowTheSecret) {
    Handshake dials(some_hello(), secret_of(1));
    Handshake answers = answering(secret_of(1));
    EXPECT_EQ(answers.received(dials.take_output()), State::Going);
    EXPECT_EQ(dials.received(answers.take_output()), State::Going);
    EXPECT_EQ(answers.received(dials.take_output()), State::Proven);
    EXPECT_EQ(answers.hello().slot, 3U);
    EXPECT_EQ(answers.hello().generation, 12U);
    answers.accept();
    EXPECT_EQ(dials.wants(), 1U);
    EXPECT_EQ(dials.received(answers.take_output()), State::Done);
}

TEST(WireHandshake, ARelayIsToldWhereToGoOnAndSaysWhetherItDoes) {
    for (bool const goes_on : {true, false}) {
        Hello hello = some_hello();
        hello.onward = Onward{5, 2};
        Handshake dials(hello, secret_of(1));
        Handshake answers = answering(secret_of(1));
        answers.received(dials.take_output());
        dials.received(answers.take_output());
        EXPECT_EQ(answers.received(dials.take_output()), State::Proven);
        ASSERT_TRUE(answers.hello().onward);
        EXPECT_EQ(answers.hello().onward->member, 5U);
        EXPECT_EQ(answers.hello().onward->nic, 2U);
        goes_on ? answers.accept() : answers.decline();
        EXPECT_EQ(dials.received(answers.take_output()), goes_on ? State::Done : State::Refused);
        EXPECT_EQ(dials.why().empty(), goes_on) << dials.why();
    }
}

TEST(WireHandshake, CardsAreExchangedWhereBothEndsHaveOne) {
    for (bool const both : {true, false}) {
        Hello hello = some_hello();
        hello.card = std::string(300, 'd');
        Handshake dials(hello, secret_of(1));
        Handshake answers = answering(secret_of(1));
        answers.received(dials.take_output());
        dials.received(answers.take_output());
        State state = State::Going;
        for (char const byte : dials.take_output()) state = answers.received({&byte, 1});
        EXPECT_EQ(state, State::Proven);
        EXPECT_EQ(answers.hello().card, hello.card);
        EXPECT_EQ(answers.hello().slot, 3U);
        std::string const card(both ? 200 : 0, 'a');
        answers.accept(card);
        for (char const byte : answers.take_output()) state = dials.received({&byte, 1});
        EXPECT_EQ(state, State::Done);
        EXPECT_EQ(dials.far_card(), card);
    }
}

TEST(WireHandshake, ACardThatWasChangedIsRefused) {
    for (bool const first : {true, false}) {
        Hello hello = some_hello();
        hello.card = "of who dials";
        Handshake dials(hello, secret_of(1));
        Handshake answers = answering(secret_of(1));
        answers.received(dials.take_output());
        dials.received(answers.take_output());
        std::string proof = dials.take_output();
        if (first) {
            proof[5] = char(proof[5] ^ 1);
            EXPECT_EQ(answers.received(proof), State::Refused);
            continue;
        }
        EXPECT_EQ(answers.received(proof), State::Proven);
        answers.accept("of who answers");
        std::string answer = answers.take_output();
        answer[5] = char(answer[5] ^ 1);
        EXPECT_EQ(dials.received(answer), State::Refused);
        EXPECT_NE(dials.why().find("secret"), std::string::npos) << dials.why();
    }
}

/// Two ends that have come to keys; how they have changed what was said on its way.
struct Ends {
    explicit Ends(bool dials_encrypted = true, bool answers_encrypted = true)
        : dials(hello_of(dials_encrypted), secret_of(1)),
          answers([](LinkName const&) { return secret_of(1); }, answers_encrypted) {}
    static Hello hello_of(bool encrypted) {
        Hello hello = some_hello();
        hello.encrypted = encrypted;
        return hello;
    }
    State say() {
        answers.received(dials.take_output());
        dials.received(answers.take_output());
        return answers.received(dials.take_output());
    }
    State answer() {
        answers.accept();
        return dials.received(answers.take_output());
    }
    Handshake dials;
    Handshake answers;
};

TEST(WireCrypto, AgreesOnASecretAsX25519Does) {
    OneTimeKey one;
    OneTimeKey two;
    EXPECT_NE(one.public_key(), two.public_key());
    EXPECT_EQ(one.agree(two.public_key()), two.agree(one.public_key()));
    EXPECT_NE(one.agree(two.public_key()), one.agree(one.public_key()));
    EXPECT_THROW((void)one.agree(std::array<std::uint8_t, 32>{}), Error);
}

TEST(WireHandshake, EncryptedWiresHaveKeysOfTheirOwn) {
    Ends ends;
    EXPECT_EQ(ends.say(), State::Proven);
    EXPECT_TRUE(ends.answers.hello().encrypted);
    EXPECT_EQ(ends.answer(), State::Done);
    WireKeys const near = ends.dials.keys();
    WireKeys const far = ends.answers.keys();
    EXPECT_EQ(near.out.key, far.in.key);
    EXPECT_EQ(near.in.key, far.out.key);
    EXPECT_EQ(near.out.nonce, far.in.nonce);
    EXPECT_EQ(near.in.nonce, far.out.nonce);
    EXPECT_NE(near.out.key, near.in.key);
    EXPECT_NE(near.out.nonce, near.in.nonce);
    // The same link's next wire.
    Ends others;
    others.say();
    EXPECT_NE(others.answers.keys().in.key, near.out.key);
}

TEST(WireHandshake, OneEndThatEncryptsAloneIsAnErrorAtBoth) {
    for (bool const dials_encrypted : {true, false}) {
        Ends ends(dials_encrypted, !dials_encrypted);
        EXPECT_EQ(ends.say(), State::Refused);
        EXPECT_EQ(ends.dials.received(ends.answers.take_output()), State::Refused);
        for (Handshake const* const end : {&ends.dials, &ends.answers}) {
            bool const encrypts = (end == &ends.dials) == dials_encrypted;
            EXPECT_NE(end->why().find("MGI_WIRE_ENCRYPTION"), std::string::npos) << end->why();
            EXPECT_EQ(end->why().find("this process encrypts") != std::string::npos, encrypts)
                << end->why();
        }
        EXPECT_FALSE(ends.dials.is_declined()) << "that is a relay's word";
    }
}

TEST(WireHandshake, NobodyBetweenTheEndsTurnsEncryptionOff) {
    constexpr std::size_t kKind = 28;  // of the hello
    for (bool const encrypted : {true, false}) {
        Ends ends(encrypted, !encrypted);
        std::string hello = ends.dials.take_output();
        ASSERT_EQ(hello[kKind], encrypted ? 3 : 0);
        hello[kKind] = encrypted ? 0 : 3;
        EXPECT_EQ(ends.answers.received(hello), State::Going);
        EXPECT_EQ(ends.dials.received(ends.answers.take_output()), State::Refused);
        EXPECT_NE(ends.dials.why().find("secret"), std::string::npos) << ends.dials.why();
        EXPECT_EQ(ends.dials.take_output(), "");
    }
}

TEST(WireHandshake, OneTimeKeysAreSigned) {
    for (bool const of_who_dials : {true, false}) {
        Ends ends;
        std::string hello = ends.dials.take_output();
        if (of_who_dials) hello[50] = char(hello[50] ^ 1);
        ends.answers.received(hello);
        std::string answer = ends.answers.take_output();
        if (!of_who_dials) answer[5] = char(answer[5] ^ 1);
        EXPECT_EQ(ends.dials.received(answer), State::Refused);
    }
}

TEST(WireHandshake, ARelayPassesOnWhatItDoesNotEncrypt) {
    Hello hello = some_hello();
    hello.onward = Onward{5, 2};
    Handshake dials(hello, secret_of(1));
    Handshake answers([](LinkName const&) { return secret_of(1); }, true);
    answers.received(dials.take_output());
    dials.received(answers.take_output());
    EXPECT_EQ(answers.received(dials.take_output()), State::Proven);
}

TEST(WireHandshake, GoesByteByByte) {
    Handshake dials(some_hello(), secret_of(1));
    Handshake answers = answering(secret_of(1));
    State state = State::Going;
    for (int round = 0; round < 2; ++round) {
        for (char const byte : dials.take_output()) state = answers.received({&byte, 1});
        for (char const byte : answers.take_output()) dials.received({&byte, 1});
    }
    EXPECT_EQ(state, State::Proven);
}

TEST(WireHandshake, WhoAnswersMustKnowIt) {
    Handshake dials(some_hello(), secret_of(1));
    Handshake answers = answering(secret_of(2));
    answers.received(dials.take_output());
    EXPECT_EQ(dials.received(answers.take_output()), State::Refused);
    EXPECT_NE(dials.why().find("secret"), std::string::npos);
    EXPECT_EQ(dials.take_output(), "");
}

TEST(WireHandshake, WhoDialsMustKnowIt) {
    Handshake dials(some_hello(), secret_of(1));
    Handshake answers = answering(secret_of(1));
    answers.received(dials.take_output());
    dials.received(answers.take_output());
    std::string proof = dials.take_output();
    proof[5] = char(proof[5] ^ 1);
    EXPECT_EQ(answers.received(proof), State::Refused);
    EXPECT_EQ(answers.received(proof), State::Refused);
}

TEST(WireHandshake, WhatWasSaidOnceProvesNothingLater) {
    Handshake dials(some_hello(), secret_of(1));
    Handshake first = answering(secret_of(1));
    std::string const hello = dials.take_output();
    first.received(hello);
    dials.received(first.take_output());
    std::string const proof = dials.take_output();
    Handshake second = answering(secret_of(1));
    second.received(hello);
    EXPECT_EQ(second.received(proof), State::Refused);
}

/// Who knows no secret sends back what it was asked.
TEST(WireHandshake, TheOneProofIsNotTheOther) {
    Handshake dials(some_hello(), secret_of(1));
    Handshake answers = answering(secret_of(1));
    answers.received(dials.take_output());
    std::string const answer = answers.take_output();
    EXPECT_EQ(answers.received(answer.substr(32)), State::Refused);
}

TEST(WireHandshake, StrangersAreRefused) {
    Handshake answers = answering(secret_of(1));
    EXPECT_EQ(answers.received(std::string(72, 'x')), State::Refused);
    EXPECT_FALSE(answers.is_unknown());

    Hello other = some_hello();
    other.link.fill(9);
    Handshake dials(other, secret_of(1));
    Handshake again = answering(secret_of(1));
    EXPECT_EQ(again.received(dials.take_output()), State::Refused);
    EXPECT_TRUE(again.is_unknown());

    Handshake newer(some_hello(), secret_of(1));
    std::string hello = newer.take_output();
    hello[4] = 9;
    Handshake older = answering(secret_of(1));
    EXPECT_EQ(older.received(hello), State::Refused);
    EXPECT_NE(older.why().find("version 9"), std::string::npos);
}

TEST(WireAddress, IsReadAndWritten) {
    EXPECT_EQ(Address("10.1.2.3:7000").text(), "10.1.2.3:7000");
    EXPECT_EQ(Address("[fd00::1]:0").text(), "[fd00::1]:0");
    EXPECT_EQ(Address("10.1.2.3:7000").without_port().text(), "10.1.2.3:0");
    EXPECT_TRUE(Address().empty());
    for (char const* const wrong : {"", "10.1.2.3", "10.1.2.3:", "10.1.2:1", "10.1.2.3:70000",
                                    "fd00::1", "[fd00::1]", "[zz]:1", "host:1", "10.1.2.3:1x"}) {
        EXPECT_THROW(Address{wrong}, Error) << wrong;
    }
}

}  // namespace
}  // namespace mgi::transport::wire
