// A controller beside those who have no business there.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/controller/served.hpp"
#include "control/net/parties.hpp"
#include "control/rpc/authority.hpp"

namespace mgi::control::test {
namespace {

using mgi::test::kToken;
using mgi::test::TemporaryFolder;
using net::test::eventually;
using net::test::Stranger;
using net::test::with_descriptors;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::string frame(ClientFrame const& message) {
    return frame_with(message);
}

std::string hello() {
    ClientFrame message;
    message.mutable_hello()->set_transport(kTransport);
    return frame(message);
}

/// The length of a frame of so many bytes.
std::string head(std::uint32_t size) {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(size >> (8 * i)));
    return bytes;
}

/// What the server says to a stranger before it ends: its frame.
ServerFrame answer_in(std::string const& bytes) {
    ServerFrame message;
    FrameBuffer frames(kLargestHello);
    frames.add(bytes);
    if (auto const whole = frames.next()) parse_frame(*whole, message);
    return message;
}

bool registers(Served const& served, std::string const& name) {
    WireAgent agent(served, name);
    return agent.join();
}

std::size_t resident_kib() {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("VmRSS:", 0) == 0) return std::stoul(line.substr(6));
    }
    return 0;
}

TEST(ControlAttacks, SilentConnectionsBeyondTheDescriptorsKeepNoAgentOut) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer starts no thread after a fork of a program with threads";
#endif
    EXPECT_EQ(with_descriptors(
                  200,
                  [] {
                      Served const served;
                      WireAgent first(served, "first");
                      if (!first.join()) return 11;
                      // This process' own ends take descriptors, too, as many as it may have.
                      std::vector<std::unique_ptr<Stranger>> silent;
                      for (int i = 0; i < 300; ++i) {
                          auto one = std::make_unique<Stranger>(served.port());
                          if (one->fd() >= 0) silent.push_back(std::move(one));
                      }
                      silent.resize(silent.size() - 16);
                      auto const since = Clock::now();
                      // One of its own descriptors may be what is missing: an agent comes again.
                      while (!registers(served, "beside")) {
                          if (Clock::now() - since > 10s) return 12;
                      }
                      silent.clear();
                      auto const over = Clock::now();
                      while (!registers(served, "after")) {
                          if (Clock::now() - over > 10s) return 14;
                      }
                      // The one that was there has not been disturbed.
                      AgentMessage heartbeat;
                      heartbeat.mutable_heartbeat()->set_sequence(3);
                      first.say(heartbeat);
                      return first.hear(ControllerMessage::kHeartbeatAck).has_heartbeat_ack() ? 0
                                                                                              : 15;
                  }),
              0);
}

TEST(ControlAttacks, AFirstFrameThatClaimsMuchIsRefusedAtOnceAndTakesNoMemory) {
    Served const served;
    std::size_t const before = resident_kib();
    std::vector<std::unique_ptr<Stranger>> all;
    for (int i = 0; i < 8; ++i) {
        all.push_back(std::make_unique<Stranger>(served.port()));
        all.back()->say(head(64 << 20));
        EXPECT_EQ(all.back()->hear(), "");
    }
    EXPECT_LT(resident_kib(), before + (32 << 10));
}

TEST(ControlAttacks, MuchWithoutAHelloIsCutShort) {
    Served const served;
    Stranger const loud(served.port());
    std::string const much(1 << 20, 'x');
    std::size_t sent = 0;
    while (sent < 64 && loud.say(much)) ++sent;
    EXPECT_LT(sent, 64u);  // megabytes: what the kernel buffers is not the controller's
    EXPECT_TRUE(registers(served, "a"));
}

TEST(ControlAttacks, WhatIsNoFrameOrHasNoPlaceEndsTheConnection) {
    Served const served;
    ClientFrame session;
    session.mutable_session();
    ClientFrame cancel;
    cancel.mutable_cancel()->set_number(7);
    for (std::string const& bytes :
         {frame(session), frame(cancel), frame({}), head(3) + "\xff\xff\xff", hello() + hello(),
          hello() + head(3) + "\xff\xff\xff", hello() + frame({}),
          hello() + head(kLargestRequest + 1)}) {
        Stranger const odd(served.port());
        odd.say(bytes);
        ServerFrame const first = answer_in(odd.hear());  // its end
        EXPECT_FALSE(first.has_session() || first.has_answer());
    }
    EXPECT_TRUE(registers(served, "a"));
}

TEST(ControlAttacks, AnotherTransportIsRejectedByItsVersion) {
    Served const served;
    ClientFrame message;
    message.mutable_hello()->set_transport(kTransport + 1);
    Stranger const newer(served.port());
    newer.say(frame(message));
    Outcome const rejected = answer_in(newer.hear()).rejected();
    EXPECT_EQ(rejected.code(), Outcome::UNIMPLEMENTED);
    EXPECT_NE(rejected.text().find("update the older side"), std::string::npos);
}

TEST(ControlAttacks, WhoHasNoTokenGetsNoFurtherThanTheHandshake) {
    TemporaryFolder const folder;
    SecurityOptions options;
    options.token_file = folder.write("token", kToken);
    Served const served({}, options);
    std::size_t const before = resident_kib();
    for (int i = 0; i < 5; ++i) {
        Stranger const plain(served.port());
        plain.say(hello());
        std::string const much(1 << 20, 'x');
        for (int n = 0; n < 64 && plain.say(much);) ++n;
        EXPECT_TRUE(eventually([&] { return served.server().counts().connections == 0; }));
    }
    EXPECT_LT(resident_kib(), before + (32 << 10));
    EXPECT_TRUE(registers(served, "a"));
}

TEST(ControlAttacks, AnAgentThatDiesWithinAFrameIsNoticed) {
    Settings settings;
    settings.lease_ms = 20'000;  // its end is what is noticed
    settings.grace_ms = 40'000;
    Served served(settings);
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    {
        Stranger const dies(served.port());
        ClientFrame message;
        AgentMessage& session = *message.mutable_session();
        session.mutable_sender()->set_protocol(kProtocol);
        session.mutable_register_()->set_name("b");
        session.mutable_register_()->set_instance("instance-b");
        *session.mutable_register_()->mutable_graph() = server_graph();
        std::string const heartbeat = frame(message);
        dies.say(hello() + frame(message) + heartbeat.substr(0, heartbeat.size() / 2));
        ASSERT_TRUE(eventually([&] {
            auto const snapshot = served.service().snapshot();
            return snapshot != nullptr && snapshot->servers.size() == 2;
        }));
    }
    EXPECT_EQ(a.hear(ControllerMessage::kServerNotice).server_notice().state(), ServerNotice::AWAY);
}

TEST(ControlAttacks, ManyCallsOfOneConnectionAreBounded) {
    Served served;
    WireAgent a(served, "a");
    ASSERT_TRUE(a.join());
    auto const gather_of = [&](std::string const& owner, std::size_t i, std::uint32_t size) {
        CallRequest call;
        GatherRequest& gather = *call.mutable_gather();
        *gather.mutable_sender() = a.sender;
        gather.set_request("request-" + std::to_string(i));
        gather.set_key("key-" + std::to_string(i));
        gather.set_size(size);
        gather.set_owner(owner);
        return call;
    };
    std::vector<std::future<Ended>> calls;
    std::size_t const share = kCallsAtOnce - kCallsAtOnce / 4;
    for (std::size_t i = 0; i < share + 10; ++i)
        calls.push_back(a.begin(gather_of("greedy", i, 2)));
    for (std::size_t i = share; i < calls.size(); ++i) {
        Ended const ended = calls[i].get();
        EXPECT_EQ(ended.code(), Outcome::UNAVAILABLE);
        EXPECT_NE(ended.text().find("this one has 768"), std::string::npos) << ended.text();
    }
    // Another owner's, by the same agent, are answered at once.
    EXPECT_TRUE(a.call(gather_of("modest", 0, 1)).ok());
    AgentMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_sequence(3);
    a.say(heartbeat);
    EXPECT_TRUE(a.hear(ControllerMessage::kHeartbeatAck).has_heartbeat_ack());
    // Several take all there is. What is deleted makes room: it is nobody's share.
    for (std::string const owner : {"b", "c", "d", "e", "f"}) {
        for (std::size_t i = 0; i < share / 4; ++i)
            calls.push_back(a.begin(gather_of(owner, i, 2)));
    }
    EXPECT_EQ(a.call(gather_of("late", 0, 1)).code(), Outcome::UNAVAILABLE);
    CallRequest deletion;
    *deletion.mutable_delete_channel()->mutable_sender() = a.sender;
    deletion.mutable_delete_channel()->set_channel(77);
    EXPECT_EQ(a.call(deletion).code(), Outcome::NOT_FOUND);
}

TEST(ControlAttacks, ACertificateRegistersItsOwnServerAlone) {
    mgi::test::TemporaryFolder const folder;
    mgi::test::Authority const authority(folder, "ca");
    mgi::test::Issued const issued = authority.issue("agent", "node1.example");
    SecurityOptions options;
    options.ca = authority.file();
    options.certificate = issued.certificate;
    options.key = issued.key;
    options.tls_name = "node1.example";
    {
        Served served({}, options);
        WireAgent own(served, "node1");
        EXPECT_TRUE(own.join());
        WireAgent impostor(served, "node2");
        EXPECT_FALSE(impostor.join());
        EXPECT_EQ(served.service().snapshot()->servers.size(), 1u);
    }
    options.any_server = true;
    Served const served({}, options);
    WireAgent any(served, "node2");
    EXPECT_TRUE(any.join());
}

}  // namespace
}  // namespace mgi::control::test
