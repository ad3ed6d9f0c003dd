// Which flows NICs carry from one GPU's memory to another's, and that all processes agree on it.
#include "runtime/gpu_direct.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/agreement.hpp"
#include "support/expect_error.hpp"

namespace mgi {
namespace {

using test::expect_error;

constexpr char const* kNoNic = "its NIC eth0 is no RDMA device";

// Of each member an endpoint that is a source and a destination: on a server, on a GPU or not, with a card.
struct Who {
    std::uint32_t server = 0;
    bool on_gpu = true;
    DirectCard card = {};
};

PartMembers members_of(std::vector<Who> const& all) {
    PartMembers members;
    members.count = std::uint32_t(all.size());
    for (std::uint32_t m = 0; m < all.size(); ++m) {
        members.source_member.push_back(m);
        members.destination_member.push_back(m);
        members.source_on_gpu.push_back(all[m].on_gpu);
        members.destination_on_gpu.push_back(all[m].on_gpu);
        members.server.push_back(m);
        members.machine.push_back(all[m].server);
        members.names.push_back("rank " + std::to_string(m));
    }
    return members;
}

PartMembers decided(std::vector<Who> const& all, Routing routing = Routing::partition("key")) {
    PartMembers members = members_of(all);
    std::vector<DirectCard> cards;
    for (Who const& one : all) cards.push_back(one.card);
    ChannelSpec spec;
    spec.routing = std::move(routing);
    spec.options.name = "orders";
    note_direct(members, cards, spec);
    return members;
}

using Table = std::vector<std::vector<bool>>;

TEST(GpuDirect, NicsCarryWhatGoesFromTheGpusOfAServerToThoseOfAnother) {
    EXPECT_EQ(decided({{0}, {1}}).direct, (Table{{false, true}, {true, false}}));
    EXPECT_TRUE(decided({{0}, {1}}).is_direct());
}

TEST(GpuDirect, WithinAServerTheyDoNot) {
    EXPECT_EQ(decided({{0}, {0}, {1}}).direct,
              (Table{{false, false, true}, {false, false, true}, {true, true, false}}));
    EXPECT_FALSE(decided({{0}, {0}}).is_direct());
}

TEST(GpuDirect, ToAndFromACpuTheyDoNot) {
    EXPECT_EQ(decided({{0}, {1, false}, {1}}).direct,
              (Table{{false, false, true}, {false, false, false}, {true, false, false}}));
}

TEST(GpuDirect, BothEndsHaveToBeAble) {
    EXPECT_FALSE(decided({{0}, {1, true, {false, kNoNic}}}).is_direct());
    EXPECT_EQ(decided({{0}, {1, true, {false, kNoNic}}, {2}}).direct,
              (Table{{false, false, true}, {false, false, false}, {true, false, false}}));
}

// So it registers nothing, and what fails there keeps nobody from it.
TEST(GpuDirect, WhoCannotHasNothingToDoWithWhatOthersCan) {
    PartMembers members = decided({{0}, {1, true, {false, kNoNic}}, {2}});
    for (std::uint32_t const me : {0U, 1U, 2U}) {
        members.me = me;
        EXPECT_EQ(members.is_direct(), me != 1) << me;
    }
}

// A broadcast's lane is one for all destinations, and so is that of balanced rows.
TEST(GpuDirect, ALaneForAllLiesInOneMemory) {
    std::vector<Who> all{{0}, {1}, {2}};
    for (Routing const& routing : {Routing::broadcast(), Routing::balance()}) {
        EXPECT_EQ(decided(all, routing).direct[0], (std::vector<bool>{false, true, true}));
        all[2].on_gpu = false;
        EXPECT_FALSE(decided(all, routing).is_direct());
        all[2] = {0};  // by a link within the server
        EXPECT_FALSE(decided(all, routing).direct[0][1]);
        EXPECT_TRUE(decided(all, routing).direct[1][0]);
        all[2] = {2};
    }
}

TEST(GpuDirect, WhoeverInsistsIsToldWhatIsMissing) {
    DirectCard const insists{true, ""};
    EXPECT_TRUE(decided({{0, true, insists}, {1}}).is_direct());
    for (bool const first : {true, false}) {
        Who const unable{1, true, {false, kNoNic}};
        Who const able{0, true, insists};
        expect_error(
            ErrorCode::InvalidArgument,
            {"orders", "MGI_GPU_DIRECT is on for rank", "no NIC carries", kNoNic,
             first ? "rank 1: its NIC" : "rank 0: its NIC", "MGI_GPU_DIRECT=auto"},
            [&] {
                decided(first ? std::vector<Who>{able, unable} : std::vector<Who>{unable, able});
            });
    }
    // Both that and not at all: the one who says off is named.
    expect_error(
        ErrorCode::InvalidArgument, {"on for rank 0", "rank 1: MGI_GPU_DIRECT is off"}, [] {
            decided({{0, true, {true, ""}}, {1, true, {false, "MGI_GPU_DIRECT is off there"}}});
        });
    expect_error(ErrorCode::InvalidArgument, {"on for rank 0", "also for rank 1"},
                 [&] { decided({{0, true, insists}, {1, false}, {2}}, Routing::broadcast()); });
    // Of what is not between GPUs of two servers nobody insists.
    EXPECT_NO_THROW(decided({{0, true, insists}, {0}, {1, false}}));
}

TEST(GpuDirect, TheWordsOfBothEndsAreTheSame) {
    Said said;
    said.direct = DirectCard{true, "its NIC eth0 is no\tRDMA device"};
    Said const read = decode(encode(said));
    ASSERT_TRUE(read.direct.has_value());
    EXPECT_TRUE(read.direct->insists);
    EXPECT_EQ(read.direct->why_not, "its NIC eth0 is no RDMA device");
    EXPECT_FALSE(decode(encode({})).direct.has_value());
    Said able;
    able.direct.emplace();
    ASSERT_TRUE(decode(encode(able)).direct.has_value());
    EXPECT_EQ(decode(encode(able)).direct->why_not, "");
}

TEST(GpuDirect, OtherWordsOfTheUserAreRefused) {
    setenv("MGI_GPU_DIRECT", "yes", 1);
    expect_error(ErrorCode::InvalidArgument, {"MGI_GPU_DIRECT is 'yes'", "auto, on or off"},
                 [] { (void)insists_on_gpu_direct(); });
    unsetenv("MGI_GPU_DIRECT");
}

}  // namespace
}  // namespace mgi
