// What others write is cut and cleaned before it stands in logs, on pages and in messages to all.
#include <gtest/gtest.h>

#include <string>

#include "control/state/rig.hpp"
#include "control/state/validation.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

TEST(ControlTexts, AreCutBetweenCharactersAndHaveNoControlCharacters) {
    EXPECT_EQ(clean_text("as it is", 8), "as it is");
    EXPECT_EQ(clean_text("a\nb\tc\x1b[31md\x7f", 100), "a b c [31md ");
    // Controls beyond ASCII, a line's end that is none of ASCII's, and what turns the direction; letters beside them stay.
    EXPECT_EQ(clean_text("a\xc2\x9b"
                         "1m\xe2\x80\xa8z\xe2\x80\xae\xe2\x81\xa6.\xe2\x80\x8f\xd8\x9c",
                         100),
              "a 1m z  .  ");
    EXPECT_EQ(clean_text("\xc2\xa0\xe2\x80\xa7\xe2\x82\xac\xd8\x9b\xc2", 100),
              "\xc2\xa0\xe2\x80\xa7\xe2\x82\xac\xd8\x9b\xc2");
    EXPECT_NE(wrong_name("a name", "a\xc2\x85", 100), "");
    EXPECT_EQ(clean_text("one and more", 3), "one...");
    EXPECT_EQ(clean_text("a\xc3\xa4z", 2), "a...");  // half a letter is none
    EXPECT_EQ(clean_text("a\xc3\xa4z", 3), "a\xc3\xa4...");
    EXPECT_EQ(clean_text("", 10), "");
}

TEST(ControlTexts, OfAgentsAreShortWhereverTheyGo) {
    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    std::uint32_t const ea = rig.endpoint(a);
    std::uint32_t const eb = rig.endpoint(b);
    std::string const novel = "\x1b[2J" + std::string(1u << 20, 'x');
    auto const is_short = [](std::string const& text) {
        return text.size() < 1400 && text.find('\x1b') == std::string::npos;
    };

    CallId const call = rig.create_channel(a, "request-1", {ea}, {eb});
    rig.plan();
    rig.accept(b, 1, 1, false, novel);
    EXPECT_TRUE(is_short(rig.answers.at(call).text));
    EXPECT_TRUE(is_short(rig.got(a, Kind::kAbortPlan).at(0).abort_plan().why()));

    rig.running(a, b, "request-2");
    AgentMessage gone;
    gone.mutable_endpoints_gone()->add_endpoints(eb);
    gone.mutable_endpoints_gone()->set_why(novel);
    rig.say(b, gone);
    EXPECT_TRUE(is_short(rig.got(a, Kind::kChannelEnded).at(0).channel_ended().why()));

    AgentMessage leave;
    leave.mutable_leave()->set_why(novel);
    rig.say(b, leave);
    Snapshot const shown = rig.cluster.snapshot(Now{rig.time, 0});
    EXPECT_GE(shown.failures.size(), 3u);
    for (FailureView const& failure : shown.failures) EXPECT_TRUE(is_short(failure.what));
    for (ChannelView const& channel : shown.channels) EXPECT_TRUE(is_short(channel.why));
}

TEST(ControlTexts, NamesOfChannelsHaveNoControlCharacters) {
    ChannelSpec spec;
    spec.add_sources(1);
    spec.add_destinations(2);
    spec.set_name("orders\x1b[2J");
    EXPECT_NE(wrong_spec(spec, Limits{}).find("control characters"), std::string::npos);
    spec.set_name("");
    EXPECT_EQ(wrong_spec(spec, Limits{}), "");
}

TEST(ControlTexts, NamesOfApplicationsAreCleaned) {
    Rig rig;
    Register held;
    *held.add_endpoints() = held_endpoint(7);
    held.mutable_endpoints(0)->set_application("query\n" + std::string(1000, 'x'));
    Rig later({}, 2, 1000);
    later.register_agent("a", "instance-1", held);
    std::string const name = later.cluster.snapshot(Now{later.time, 0}).endpoints.at(0).application;
    EXPECT_EQ(name.rfind("query x", 0), 0u);
    EXPECT_LT(name.size(), 260u);
}

}  // namespace
}  // namespace mgi::control::test
