// Leadership and ids through a real etcd: one leads, the next takes over, the former cannot reserve.
#include "control/election/election.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include <mgi/error.hpp>

#include "control/election/etcd_storage.hpp"
#include "etcd_process.hpp"
#include "heard.hpp"

namespace mgi::control {
namespace {

using mgi::test::EtcdProcess;
using std::chrono::seconds;
using std::chrono::steady_clock;

SteadyTime soon(int so_many = 20) {
    return steady_clock::now() + seconds(so_many);
}

class ElectionTest : public ::testing::Test {
protected:
    /// etcd starts once for all tests; each has keys of its own.
    static void SetUpTestSuite() { etcd_ = new EtcdProcess; }
    static void TearDownTestSuite() {
        delete etcd_;
        etcd_ = nullptr;
    }

    void SetUp() override {
        options_.members = {etcd_->address()};
        options_.prefix = std::string("/") +
                          ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
        options_.lease = seconds(2);
        ASSERT_FALSE(EtcdClient(options_).read("/nothing", soon(60)));  // waits for etcd to be up
    }
    Term elect(EtcdClient const& client, std::string const& address) {
        return Election(client, options_, address, stop_.get_token()).campaign(nobody_).value();
    }
    ErrorCode reserve_code(EtcdStorage& storage) {
        try {
            storage.reserve(IdKind::Channel, 1);
            return ErrorCode::Ok;
        } catch (Error const& error) {
            return error.code();
        }
    }
    /// Puts a value there, whatever was there before.
    void write(EtcdClient const& client, std::string const& key, std::string const& value) {
        etcdserverpb::TxnRequest request;
        *request.add_success() = put(key, value);
        EXPECT_TRUE(client.transact(request, soon()).succeeded());
    }

    static EtcdProcess* etcd_;
    mgi::test::Heard heard_;
    Fence fence_{heard_};
    EtcdOptions options_;
    std::stop_source stop_;
    std::function<void(std::string const&)> nobody_ = [](std::string const&) {};
};

EtcdProcess* ElectionTest::etcd_ = nullptr;

TEST_F(ElectionTest, OneLeadsAndTheNextFollowsWithAHigherEpoch) {
    // Nobody renews it: on a busy machine a short one would be over before the second has looked.
    options_.lease = seconds(600);
    EtcdClient const client(options_);
    Election first(client, options_, "first:1", stop_.get_token());
    Term const term = first.campaign(nobody_).value();
    EXPECT_GT(term.epoch, 0u);

    std::promise<std::string> seen;
    auto second = std::async(std::launch::async, [&] {
        bool is_seen = false;
        auto const see = [&](std::string const& leader) {
            if (!std::exchange(is_seen, true)) seen.set_value(leader);
        };
        auto const won = Election(client, options_, "second:2", stop_.get_token())
                             .campaign([&](std::string const& leader) {
                                 if (!leader.empty()) see(leader);
                             });
        see("nobody");  // a first leader that it never saw is a failure, and nothing to wait for
        return won;
    });
    EXPECT_EQ(seen.get_future().get(), "first:1");
    first.resign(term);
    auto const next = second.get();
    ASSERT_TRUE(next);
    EXPECT_GT(next->epoch, term.epoch);
    EXPECT_EQ(client.read(leader_key(options_), soon())->value, "second:2");
}

TEST_F(ElectionTest, ALeaderThatIsSilentIsFollowedWhenItsLeaseIsOver) {
    EtcdClient const client(options_);
    Term const silent = elect(client, "silent:1");
    Term const next = elect(client, "next:2");
    EXPECT_GT(next.epoch, silent.epoch);
    EXPECT_GE(BootClock::now(), silent.sure_until);
}

TEST_F(ElectionTest, HoldingEndsWhenItShallStopAndWhenTheKeyIsGone) {
    options_.lease = seconds(3);
    EtcdClient const client(options_);
    Election election(client, options_, "here:1", stop_.get_token());
    Term term = election.campaign(nobody_).value();
    fence_.open(term.sure_until);
    auto held = std::async(std::launch::async, [&] { return election.hold(term, fence_); });
    // Longer than the lease: it is renewed.
    EXPECT_EQ(held.wait_for(seconds(4)), std::future_status::timeout);
    client.revoke(term.lease, soon());
    EXPECT_TRUE(fence_.stands());
    EXPECT_NE(held.get(), "");

    term = election.campaign(nobody_).value();
    fence_.open(term.sure_until);
    held = std::async(std::launch::async, [&] { return election.hold(term, fence_); });
    stop_.request_stop();
    EXPECT_EQ(held.get(), "");
    EXPECT_FALSE(election.campaign(nobody_));
}

TEST_F(ElectionTest, HoldingEndsWithTheLeaseWhenEtcdDoesNotAnswer) {
    EtcdClient const client(options_);
    Election election(client, options_, "here:1", stop_.get_token());
    Term const term = election.campaign(nobody_).value();
    fence_.open(term.sure_until);
    etcd_->freeze();
    std::string const why = election.hold(term, fence_);
    etcd_->thaw();
    EXPECT_NE(why.find("etcd ("), std::string::npos) << why;
    EXPECT_FALSE(fence_.stands());
}

TEST_F(ElectionTest, AStopIsHeardWhileEtcdDoesNotAnswer) {
    options_.lease = seconds(600);
    EtcdClient const client(options_);
    Election election(client, options_, "here:1", stop_.get_token());
    etcd_->freeze();
    auto campaign = std::async(std::launch::async, [&] { return election.campaign(nobody_); });
    EXPECT_EQ(campaign.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
    stop_.request_stop();
    EXPECT_FALSE(campaign.get());
    Term term;
    term.epoch = 1;
    EtcdStorage storage(client, options_, term, stop_.get_token());
    EXPECT_EQ(reserve_code(storage), ErrorCode::Timeout);
    etcd_->thaw();
}

TEST_F(ElectionTest, WhoWasStoppedForLongerThanItsLeaseLeadsNoMore) {
    EtcdClient const client(options_);
    Election election(client, options_, "here:1", stop_.get_token());
    Term const term = election.campaign(nobody_).value();
    fence_.open(BootClock::now());  // something came meanwhile, and was dropped
    EXPECT_FALSE(fence_.stands());
    EXPECT_NE(election.hold(term, fence_), "");
}

TEST_F(ElectionTest, IdsAreReservedOnceAndByTheLeaderOnly) {
    EtcdClient const client(options_);
    Term const term = elect(client, "former:1");
    EtcdStorage storage(client, options_, term);
    EXPECT_EQ(storage.epoch(), term.epoch);
    std::set<std::uint32_t> firsts;
    for (int round = 0; round < 5; ++round) {
        IdBlock const block = storage.reserve(IdKind::Channel, 100);
        EXPECT_EQ(block.count, 100u);
        EXPECT_EQ(block.first % 100, 1u);
        EXPECT_TRUE(firsts.insert(block.first).second);
    }
    EXPECT_EQ(storage.reserve(IdKind::Endpoint, 1).first, 1u);

    client.revoke(term.lease, soon());
    EXPECT_EQ(reserve_code(storage), ErrorCode::Refused);
    EtcdStorage next(client, options_, elect(client, "next:2"));
    EXPECT_EQ(next.reserve(IdKind::Channel, 1).first, 501u);
    EXPECT_EQ(reserve_code(storage), ErrorCode::Refused);
}

TEST_F(ElectionTest, IdsThatAreUsedUpOrNoneAreErrors) {
    EtcdClient const client(options_);
    EtcdStorage storage(client, options_, elect(client, "here:1"));
    std::string const key = options_.prefix + "next/" + to_string(IdKind::Channel);
    write(client, key, "4294967295");
    EXPECT_EQ(storage.reserve(IdKind::Channel, 1).first, 4294967295u);
    EXPECT_EQ(reserve_code(storage), ErrorCode::OutOfMemory);
    for (char const* const wrong : {"", "x", "0", "12 ", "-1", "4294967297"}) {
        write(client, key, wrong);
        EXPECT_EQ(reserve_code(storage), ErrorCode::Refused) << wrong;
    }
}

TEST_F(ElectionTest, AMemberThatDoesNotAnswerIsLeftForTheNext) {
    options_.members = {mgi::test::free_address(), etcd_->address()};
    EXPECT_FALSE(EtcdClient(options_).read("/nothing", soon()));
    options_.members = {mgi::test::free_address()};
    try {
        (void)EtcdClient(options_).read("/nothing", steady_clock::now() + seconds(1));
        ADD_FAILURE();
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::Timeout);
        EXPECT_NE(std::string(error.what()).find(options_.members[0]), std::string::npos);
    }
}

}  // namespace
}  // namespace mgi::control
