// By which way copies between GPUs go, with engines that are made up, in virtual time.
#include "mover/way_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/expect_error.hpp"

namespace mgi::mover {
namespace {

constexpr std::uint64_t kSegment = 1 << 17;
constexpr std::uint64_t kSlots = 40;  // of each memory
constexpr int kGpus = 4;

// Memories of four GPUs and, as number 4, the host's; links of 1 byte a nanosecond unless said otherwise.
class Machine {
public:
    Machine() {
        for (int g = 0; g <= kGpus; ++g) {
            memory_.emplace_back(kSlots * kSegment);
            if (g < kGpus) memories_->add({g, memory_.back().data(), memory_.back().size(), g});
        }
    }
    char* at(int place, std::uint64_t slot) {
        return memory_[std::size_t(place)].data() + slot * kSegment;
    }
    [[nodiscard]] int place_of(char const* address) const {
        for (int p = 0; p <= kGpus; ++p) {
            auto const& memory = memory_[std::size_t(p)];
            if (address >= memory.data() && address < memory.data() + memory.size()) return p;
        }
        return -1;
    }

    std::shared_ptr<transport::GpuMemories> memories_ = std::make_shared<transport::GpuMemories>();
    std::uint64_t now = 1'000'000'000;
    std::map<std::pair<int, int>, double> rates;           // bytes a nanosecond
    std::map<std::pair<int, int>, std::uint64_t> carried;  // bytes
    std::set<std::pair<int, int>> broken;

private:
    std::vector<std::vector<char>> memory_;
};

// Copies of a link are one after the other.
class MadeUpEngines final : public transport::Engines {
public:
    explicit MadeUpEngines(Machine& machine) : machine_(machine) {}

    bool submit(transport::Copy const& copy) override {
        std::pair const link{machine_.place_of(copy.from), machine_.place_of(copy.to)};
        double const rate = machine_.rates.contains(link) ? machine_.rates[link] : 1.0;
        Job job{copy.token, copy.from, copy.to, {}, link, 0};
        job.ranges.assign(copy.ranges.begin(), copy.ranges.end());
        std::uint64_t bytes = 0;
        for (auto const& range : job.ranges) bytes += range.bytes;
        std::uint64_t& free = free_[link];
        free = std::max(free, machine_.now) + std::uint64_t(double(bytes) / rate);
        job.at = free;
        machine_.carried[link] += bytes;
        jobs_.push_back(std::move(job));
        return true;
    }

    void poll(std::vector<std::uint64_t>& complete,
              std::vector<transport::FailedCopy>& failed) override {
        std::erase_if(jobs_, [&](Job const& job) {
            if (job.at > machine_.now) return false;
            if (machine_.broken.contains(job.link)) {
                failed.push_back({job.token, Error(ErrorCode::GroupFailed, "a link is broken")});
                return true;
            }
            for (auto const& range : job.ranges) {
                std::memcpy(job.to + range.offset, job.from + range.offset, range.bytes);
            }
            complete.push_back(job.token);
            return true;
        });
    }

private:
    struct Job {
        std::uint64_t token;
        char const* from;
        char* to;
        std::vector<memory::Range> ranges;
        std::pair<int, int> link;
        std::uint64_t at;
    };
    Machine& machine_;
    std::map<std::pair<int, int>, std::uint64_t> free_;
    std::vector<Job> jobs_;
};

// From GPU 0 to GPU 1, by some ways.
class WayCopies : public testing::Test {
protected:
    // A way by these places, with so many slots at each.
    void add_way(std::vector<int> const& by, std::uint64_t slots = 4, double rate = 1.0) {
        Way way;
        way.name = by.empty() ? "straight" : "by " + std::to_string(by.front());
        way.rate = rate;
        int before = 0;
        for (std::size_t hop = 0; hop <= by.size(); ++hop) {
            int const to = hop < by.size() ? by[hop] : 1;
            way.loads.push_back(&loads_[{before, to}]);
            before = to;
            if (hop == by.size()) break;
            FreeSlots& made = relays_.emplace_back();
            for (std::uint64_t i = 0; i < slots; ++i) {
                made.push_back(machine_.at(to, kSlots - 1 - used_[to]++));
            }
            way.relays.push_back(&made);
        }
        way.counts = &counts_.emplace_back();
        ways_[{0, 1}].push_back(way);
    }
    // Copies so many segments, with so many credits; what arrives is what was sent.
    void copy(std::uint64_t count, std::uint64_t credits = 8) {
        if (!copy_) {
            copy_ = std::make_unique<WayCopy>(
                std::make_unique<MadeUpEngines>(machine_), machine_.memories_, ways_,
                [this] { return machine_.now; }, "channel 1");
        }
        std::vector<memory::Range> const ranges{{0, 16}, {4096, kSegment - 4096}};
        std::uint64_t sent = 0;
        std::set<std::uint64_t> under_way;
        std::uint64_t const begun = machine_.now;
        while (sent < count || !under_way.empty()) {
            while (sent < count && under_way.size() < credits &&
                   !under_way.contains(sent % credits)) {
                std::memset(machine_.at(0, sent % credits), int(sent % 251) + 1, kSegment);
                std::memset(machine_.at(1, sent % credits), 0, kSegment);
                if (!copy_->submit({sent % credits, machine_.at(0, sent % credits),
                                    machine_.at(1, sent % credits), ranges})) {
                    break;
                }
                under_way.insert(sent++ % credits);
            }
            machine_.now += 10'000;
            std::vector<std::uint64_t> complete;
            copy_->poll(complete);
            for (std::uint64_t const slot : complete) {
                char const* const from = machine_.at(0, slot);
                char const* const to = machine_.at(1, slot);
                EXPECT_EQ(std::memcmp(from, to, 16), 0);
                EXPECT_EQ(std::memcmp(from + 4096, to + 4096, kSegment - 4096), 0);
                EXPECT_EQ(to[100], 0);  // in no range
                EXPECT_EQ(under_way.erase(slot), 1U);
            }
            ASSERT_LT(machine_.now - begun, count * kSegment * 100) << "nobody moves";
        }
    }
    // All slots are back, and nothing is on its way.
    void expect_at_rest(std::uint64_t slots = 4) const {
        for (FreeSlots const& relay : relays_) EXPECT_EQ(relay.size(), slots);
        for (auto const& [link, load] : loads_) EXPECT_EQ(load.load(), 0U);
        for (WayCounts const& counts : counts_) EXPECT_EQ(counts.in_flight.value(), 0U);
    }
    [[nodiscard]] std::uint64_t segments(std::size_t way) const {
        return counts_[way].segments.value();
    }

    Machine machine_;
    std::map<int, std::uint64_t> used_;
    std::deque<FreeSlots> relays_;
    std::map<std::pair<int, int>, Load> loads_;
    std::deque<WayCounts> counts_;
    Ways ways_;
    std::unique_ptr<WayCopy> copy_;
};

TEST_F(WayCopies, GoByTheRelayWhereThereIsNoStraightWay) {
    add_way({2});
    copy(50);
    EXPECT_EQ(segments(0), 50U);
    EXPECT_EQ((machine_.carried[{2, 1}]), (machine_.carried[{0, 2}]));
    expect_at_rest();
}

TEST_F(WayCopies, TakeAllWaysWhenOneIsFull) {
    add_way({});
    add_way({2});
    add_way({3});
    std::uint64_t const begun = machine_.now;
    copy(300, 16);
    // A straight way alone would take 300 times a segment's bytes.
    EXPECT_LT(machine_.now - begun, 150 * kSegment);
    EXPECT_GE(segments(0), segments(1));
    EXPECT_GT(segments(1), 50U);
    EXPECT_GT(segments(2), 50U);
    expect_at_rest();
}

TEST_F(WayCopies, GoStraightOneAtATime) {
    add_way({});
    add_way({2});
    copy(100, 1);
    EXPECT_GE(segments(0), 99U);  // once the other way is tried
    expect_at_rest();
}

TEST_F(WayCopies, LeaveLinksToThoseWhoseStraightWayTheyAre) {
    add_way({});
    add_way({2});
    loads_[{2, 1}] = 64 * kSegment;  // somebody else's
    copy(100, 8);
    EXPECT_LE(segments(1), 1U);
    EXPECT_EQ((loads_[{2, 1}].load()), 64 * kSegment);
}

TEST_F(WayCopies, LearnHowFastAWayReallyIs) {
    add_way({});
    add_way({2});
    machine_.rates[{2, 1}] = 0.05;
    copy(300, 16);
    EXPECT_LT(segments(1), 40U);
    EXPECT_GT(segments(0), 260U);
    expect_at_rest();
}

TEST_F(WayCopies, NeverWaitForEachOtherWithOneSlotOfEachClass) {
    add_way({2, 3}, 1);
    add_way({3, 2}, 1);
    copy(200, 16);
    EXPECT_GT(segments(0), 0U);
    EXPECT_GT(segments(1), 0U);
    expect_at_rest(1);
}

TEST_F(WayCopies, CarryOnWithoutAWayThatFails) {
    add_way({});
    add_way({2});
    add_way({kGpus});  // the host
    copy(40, 16);
    machine_.broken.insert({2, 1});
    copy(100, 16);
    std::uint64_t const by_relay = segments(1);
    copy(100, 16);
    EXPECT_EQ(segments(1), by_relay);
    machine_.broken.insert({0, 1});
    copy(100, 16);
    EXPECT_EQ(segments(0) + segments(1) + segments(2), 340U);
    EXPECT_GE(segments(2), 80U);
    expect_at_rest();
}

TEST_F(WayCopies, SayWhatFailedWhenNoWayIsLeft) {
    add_way({});
    add_way({2});
    copy(20, 16);
    machine_.broken.insert({0, 1});
    machine_.broken.insert({0, 2});
    test::expect_error(
        ErrorCode::GroupFailed,
        {"no way is left for segments from cuda:0 to cuda:1", "straight: a link is broken",
         "by 2: a link is broken", "restart the process"},
        [&] { copy(100, 16); });
}

TEST_F(WayCopies, AHopBehindThemIsSaid) {
    add_way({2});
    copy(1);
    machine_.rates[{2, 1}] = 1e-6;
    std::vector<memory::Range> const ranges{{0, kSegment}};
    ASSERT_TRUE(copy_->submit({1, machine_.at(0, 0), machine_.at(1, 0), ranges}));
    std::vector<std::uint64_t> complete;
    EXPECT_FALSE(copy_->poll(complete));
    machine_.now += kSegment * 3;
    EXPECT_TRUE(copy_->poll(complete));
    EXPECT_TRUE(complete.empty());
    EXPECT_FALSE(copy_->poll(complete));
}

TEST_F(WayCopies, EndInTheMidst) {
    add_way({2}, 2);
    copy(10, 16);
    machine_.rates[{2, 1}] = 1e-6;
    std::vector<memory::Range> const ranges{{0, kSegment}};
    for (std::uint64_t i = 0; i < 8; ++i) {
        (void)copy_->submit({i, machine_.at(0, i), machine_.at(1, i), ranges});
    }
    machine_.now += kSegment * 2;
    std::vector<std::uint64_t> complete;
    copy_->poll(complete);
    EXPECT_TRUE(complete.empty());
    copy_.reset();
}

TEST_F(WayCopies, CopiesOfOneGpuAndOfTheHostKnowNoWays) {
    add_way({2});
    copy(1);
    std::vector<memory::Range> const ranges{{0, kSegment}};
    ASSERT_TRUE(copy_->submit({7, machine_.at(0, 3), machine_.at(kGpus, 0), ranges}));
    ASSERT_TRUE(copy_->submit({8, machine_.at(2, 0), machine_.at(2, 1), ranges}));
    machine_.now += kSegment * 3;
    std::vector<std::uint64_t> complete;
    copy_->poll(complete);
    EXPECT_EQ(complete, (std::vector<std::uint64_t>{7, 8}));
    machine_.broken.insert({0, kGpus});
    ASSERT_TRUE(copy_->submit({9, machine_.at(0, 3), machine_.at(kGpus, 0), ranges}));
    machine_.now += kSegment * 3;
    test::expect_error(ErrorCode::GroupFailed, {"a link is broken"},
                       [&] { copy_->poll(complete); });
}

}  // namespace
}  // namespace mgi::mover
