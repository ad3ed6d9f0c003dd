// Channels of several processes, some of whose endpoints are on GPUs: kernels reach the memory of the other's GPU, one
// process copies there, or what goes between them lies in memory of the host's, and links carry it. The driver is made up; what stands for a
// kernel on a GPU is threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/channel_impl.hpp"
#include "support/gpu_blocks.hpp"
#include "support/shared_channel.hpp"

namespace mgi::test::gpu_processes {
namespace {

using device::Group;
using device::Shared;
using device::u32;
using device::u64;

constexpr u64 kRows = 6'000;  // of each source
constexpr u32 kBlocks = 2;

using Devices = std::vector<std::vector<std::string>>;  // by process

// What reads in place has the memory of both processes at two addresses each here, and ThreadSanitizer does not see that
// the group that frees a segment by the one comes before the group that fills it by the other.
constexpr char const* kHidden =
    "what other addresses of the same memory order ThreadSanitizer does not see";
#if defined(__SANITIZE_THREAD__)
constexpr bool kSeesMappings = false;
#else
constexpr bool kSeesMappings = true;
#endif

/// Endpoints of several processes, each a source and a destination, and what every one of them received.
class Exchange {
public:
    Exchange(Devices const& devices, ChannelSpec spec, bool shares = true)
        : members_(u32(devices.size()), {}, u32(devices.size())) {
        members_.share_gpus(shares);
        for (u32 m = 0; m < devices.size(); ++m) {
            for (std::string const& device : devices[m]) {
                ends_.push_back(members_.create_endpoint(m, device));
            }
        }
        spec.schema = numbered_schema();
        spec.options.name = "far";
        spec_ = spec;
        channels_ = members_.open(spec_, ends_, ends_);
        received_.resize(ends_.size());
    }

    /// All delete the channel, and make one like it.
    void make_again() {
        {
            std::vector<std::jthread> all;
            for (u32 m = 0; m < channels_.size(); ++m) {
                all.emplace_back([this, m] { members_.runtime(m).delete_channel(channels_[m]); });
            }
        }
        channels_.clear();
        channels_ = members_.open(spec_, ends_, ends_);
        for (auto& seen : received_) seen.clear();
    }

    /// Every block of every endpoint sends its part and receives.
    void run() {
        std::vector<std::jthread> endpoints;
        for (std::size_t e = 0; e < ends_.size(); ++e) {
            endpoints.emplace_back([this, e] {
                try {
                    start(e).wait(kPatience);
                } catch (Error const& error) {
                    ADD_FAILURE() << error.what();
                }
            });
        }
    }

    /// How often each destination saw each value.
    [[nodiscard]] std::vector<std::map<std::int64_t, int>> const& received() const {
        return received_;
    }
    /// A group at the first endpoint on a GPU, which gets the channel.
    [[nodiscard]] Attachment attach() {
        auto const on_gpu = [&](Owned const& end) {
            return channels_[end.member].impl()->is_on_gpu(end.endpoint);
        };
        auto const end = *std::find_if(ends_.begin(), ends_.end(), on_gpu);
        AttachOptions options;
        options.channels = {channels_[end.member].on(end.endpoint)};
        return members_.runtime(end.member).attach(end.endpoint, options);
    }
    [[nodiscard]] std::vector<Owned> const& ends() const { return ends_; }
    [[nodiscard]] Channel const& channel(u32 member) const { return channels_[member]; }
    [[nodiscard]] Members& members() { return members_; }

private:
    Launch start(std::size_t e) {
        Owned const& end = ends_[e];
        device::Channel const on = channels_[end.member].on(end.endpoint);
        return launch_blocks(
            members_.runtime(end.member), end.endpoint, kBlocks, {on},
            [this, e, on](Group const& group, Shared& shared) { exchange(e, on, group, shared); });
    }

    void exchange(std::size_t e, device::Channel const& on, Group const& group, Shared& shared) {
        std::vector<KeyValue> rows;
        for (u64 i = group.block; i < kRows; i += group.blocks) {
            auto const n = std::int64_t(i);
            rows.push_back({n * 7 + std::int64_t(e), std::int64_t(e) << 32 | n});
        }
        std::map<std::int64_t, int> seen;
        exchange_rows(on, group, shared, rows, [&](device::ReceivedBatch const& batch) {
            for (u32 i = 0; i < batch.rows; ++i) ++seen[batch.column<std::int64_t>(1)[i]];
        });
        std::lock_guard const lock(mutex_);
        for (auto const& [value, count] : seen) received_[e][value] += count;
    }

    Members members_;
    std::vector<Owned> ends_;
    ChannelSpec spec_;
    std::vector<Channel> channels_;
    std::mutex mutex_;
    std::vector<std::map<std::int64_t, int>> received_;
};

struct Case {
    char const* name;
    Devices devices;
    bool shares = true;  // GPUs' memory among processes
    Transfer transfer = Transfer::Mixed;
};

class GpuProcesses : public testing::TestWithParam<Case> {
protected:
    /// Whether it reads in place what ThreadSanitizer does not see.
    [[nodiscard]] static bool is_hidden() {
        return !kSeesMappings && GetParam().transfer == Transfer::ByReference;
    }
    GpuProcesses() {
        spec_.options.segment_rows = 512;
        spec_.options.tile_rows = 256;
        spec_.options.chunk_rows = 256;
        spec_.options.max_groups = 4;
    }
    [[nodiscard]] static std::size_t endpoints() {
        std::size_t count = 0;
        for (auto const& of : GetParam().devices) count += of.size();
        return count;
    }
    [[nodiscard]] static std::size_t gpus_here() {
        std::set<std::string> gpus;
        for (auto const& of : GetParam().devices) gpus.insert(of.begin(), of.end());
        return gpus.size() - gpus.count("cpu:0");
    }
    /// Each row came to one destination, once.
    static void expect_each_row_once(Exchange const& exchange) {
        std::map<std::int64_t, int> all;
        for (auto const& destination : exchange.received()) {
            for (auto const& [value, count] : destination) all[value] += count;
        }
        EXPECT_EQ(all.size(), endpoints() * kRows);
        for (auto const& [value, count] : all) ASSERT_EQ(count, 1) << value;
    }

    FakeDriver const gpus_{{"DEVICES", "3"}, {"STREAMS", "threads"}};
    ChannelSpec spec_;
};

INSTANTIATE_TEST_SUITE_P(
    Of, GpuProcesses,
    testing::Values(
        Case{"OneGpu", {{"cuda:0"}, {"cuda:0"}}},
        Case{"AGpuEach", {{"cuda:0"}, {"cuda:1"}}, true, Transfer::ByReference},
        Case{"TwoGpusAndOne",
             {{"cuda:2", "cuda:0", "cuda:2"}, {"cuda:1"}},
             true,
             Transfer::ByReference},
        Case{"GpuAndCpu", {{"cpu:0"}, {"cuda:0"}}},
        Case{"SeveralOfEach", {{"cuda:0", "cpu:0"}, {"cuda:1", "cuda:0"}, {"cpu:0"}}},
        Case{"AGpuEachByLinks", {{"cuda:0"}, {"cuda:1"}}, false},
        Case{"SeveralByLinks", {{"cuda:0", "cpu:0"}, {"cuda:1", "cuda:0"}, {"cpu:0"}}, false}),
    [](auto const& of) { return std::string(of.param.name); });

TEST_P(GpuProcesses, EveryRowArrivesOnceWhereItsKeyBelongs) {
    if (is_hidden()) GTEST_SKIP() << kHidden;
    spec_.routing = Routing::partition("key");
    Exchange exchange(GetParam().devices, spec_, GetParam().shares);
    EXPECT_EQ(exchange.channel(0).plan().transfer, GetParam().transfer);
    exchange.run();
    expect_each_row_once(exchange);
}

TEST_P(GpuProcesses, AChannelLikeOneThatIsGoneHasItsMemory) {
    if (is_hidden()) GTEST_SKIP() << kHidden;
    spec_.routing = Routing::partition("key");
    Exchange exchange(GetParam().devices, spec_, GetParam().shares);
    std::vector<std::string> const calls{"cuMemCreate", "cuMemImportFromShareableHandle",
                                         "cuMemExportToShareableHandle"};
    std::vector<std::uint64_t> made;
    for (int round = 0; round < 3; ++round) {
        exchange.run();
        expect_each_row_once(exchange);
        exchange.make_again();
        for (std::size_t i = 0; i < calls.size(); ++i) {
            if (round == 0) made.push_back(gpus_.calls(calls[i]));
            EXPECT_EQ(gpus_.calls(calls[i]), made[i]) << calls[i];
        }
    }
}

// What a kernel that nobody knows of may still write to is nobody else's.
TEST_P(GpuProcesses, AChannelThatFailedLeavesNothingToOthers) {
    if (is_hidden()) GTEST_SKIP() << kHidden;
    spec_.routing = Routing::partition("key");
    Exchange exchange(GetParam().devices, spec_, GetParam().shares);
    exchange.make_again();
    std::uint64_t const made = gpus_.calls("cuMemCreate");
    exchange.channel(0).fail(ErrorCode::Interrupted, "the test wants it so");
    while (!exchange.channel(1).impl()->failed()) std::this_thread::yield();
    exchange.make_again();
    bool const maps = GetParam().shares && GetParam().transfer == Transfer::ByReference;
    if (maps) {
        EXPECT_GT(gpus_.calls("cuMemCreate"), made);
    }
    exchange.run();
    expect_each_row_once(exchange);
}

TEST_P(GpuProcesses, AKernelThatNobodyToldOfLeavesNothingToOthers) {
    if (is_hidden()) GTEST_SKIP() << kHidden;
    spec_.routing = Routing::partition("key");
    Exchange exchange(GetParam().devices, spec_, GetParam().shares);
    auto const made = [&] { return gpus_.calls("cuMemCreate") + gpus_.calls("cuMemAlloc"); };
    auto const alive = [&] { return gpus_.alive("mapped") + gpus_.alive("memory"); };
    exchange.run();
    std::uint64_t const before = made();
    {
        Attachment const gone = exchange.attach();
    }
    for (u32 m = 0; m < GetParam().devices.size(); ++m) exchange.channel(m).check();
    exchange.make_again();
    std::uint64_t const owners = GetParam().transfer == Transfer::ByReference ? gpus_here() : 1;
    EXPECT_GE(made(), before + owners) << "what others share with it is not used again, either";
    exchange.run();
    expect_each_row_once(exchange);
    std::size_t kept = 0;
    {
        Attachment const gone = exchange.attach();
        exchange.make_again();
        kept = alive();
    }
    EXPECT_LT(alive(), kept) << "of the channel that was deleted before";
}

TEST_P(GpuProcesses, WithPoolsOfTheSmallestSize) {
    if (is_hidden()) GTEST_SKIP() << kHidden;
    spec_.routing = Routing::partition("key");
    spec_.options.slots = 2;
    spec_.options.credits = 1;
    spec_.options.segment_rows = spec_.options.chunk_rows = spec_.options.tile_rows = 64;
    Exchange exchange(GetParam().devices, spec_, GetParam().shares);
    exchange.run();
    expect_each_row_once(exchange);
}

TEST_P(GpuProcesses, EveryDestinationGetsABroadcast) {
    spec_.routing = Routing::broadcast();
    Exchange exchange(GetParam().devices, spec_, GetParam().shares);
    exchange.run();
    for (auto const& destination : exchange.received()) {
        EXPECT_EQ(destination.size(), endpoints() * kRows);
        for (auto const& [value, count] : destination) ASSERT_EQ(count, 1) << value;
    }
}

TEST_P(GpuProcesses, SomeDestinationGetsWhatIsBalanced) {
    spec_.routing = Routing::balance();
    Exchange exchange(GetParam().devices, spec_, GetParam().shares);
    EXPECT_EQ(exchange.channel(0).plan().transfer, Transfer::ByCopy);
    exchange.run();
    expect_each_row_once(exchange);
}

TEST_P(GpuProcesses, ByCopyEvenWithinAProcess) {
    spec_.routing = Routing::partition("key");
    spec_.options.by_reference = false;
    Exchange exchange(GetParam().devices, spec_, GetParam().shares);
    EXPECT_EQ(exchange.channel(0).plan().transfer, Transfer::ByCopy);
    exchange.run();
    expect_each_row_once(exchange);
}

TEST(GpuProcessesOnce, GiveAllMemoryBack) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    std::vector<std::string> const kinds{"memory",     "mapped",  "pinned",
                                         "registered", "streams", "events"};
    std::map<std::string, std::size_t> before;
    for (auto const& kind : kinds) before[kind] = gpus.alive(kind);
    for (Devices const& devices :
         {Devices{{"cuda:0", "cpu:0"}, {"cuda:1"}}, Devices{{"cuda:0"}, {"cuda:1"}}}) {
        if (!kSeesMappings && devices.front().size() == 1) continue;
        ChannelSpec spec;
        spec.routing = Routing::partition("key");
        Exchange exchange(devices, spec);
        EXPECT_GT(gpus.alive("pinned"), before["pinned"]);
        exchange.run();
        std::jthread const other(
            [&] { exchange.members().runtime(1).delete_channel(exchange.channel(1)); });
        exchange.members().runtime(0).delete_channel(exchange.channel(0));
    }
    // Fewer: what a test before has left may have gone meanwhile.
    for (auto const& kind : kinds) EXPECT_LE(gpus.alive(kind), before[kind]) << kind;
}

// By places: two endpoints on a GPU of the first process, one on another process' GPU, one on a CPU of that.
class GpuSegments : public testing::Test {
protected:
    /// For each destination whether segments of the first source are in the GPU's memory there, and for each source
    /// whether the first destination's are.
    void expect(bool shares, std::vector<bool> const& lanes, std::vector<bool> const& rings) {
        ChannelSpec spec;
        spec.routing = Routing::partition("key");
        Exchange exchange({{"cuda:0", "cuda:0"}, {"cuda:1", "cpu:0"}, {"cpu:0"}}, spec, shares);
        GpuPlace const& place = *exchange.channel(0).impl()->places().front();
        auto const is_in_gpu = [&](char const* pool, u64 offset) {
            auto const memory = place.memory();
            auto const at = reinterpret_cast<std::uintptr_t>(pool) + offset -
                            reinterpret_cast<std::uintptr_t>(memory.data);
            return at < memory.bytes;
        };
        auto const& source = place.state().sources[0];
        auto const& destination = place.state().destinations[0];
        for (u32 e = 0; e < exchange.ends().size(); ++e) {
            EXPECT_EQ(is_in_gpu(source.pool, source.lanes[e].slots[0].offset), lanes[e]) << e;
            EXPECT_EQ(is_in_gpu(destination.pool, destination.rings[e].slots[0].offset), rings[e])
                << e;
        }
    }

    FakeDriver const gpus_{{"DEVICES", "2"}};
};

TEST_F(GpuSegments, LieInTheHostsMemoryWhereLinksBringThem) {
    expect(false, {true, true, false, false, false}, {true, true, false, false, false});
}

// A process without GPUs, or what goes to a CPU elsewhere, has links.
TEST_F(GpuSegments, LieInTheGpusMemoryWhereItsProcessOrAnotherCopiesThem) {
    expect(true, {true, true, true, false, false}, {true, true, true, true, false});
}

}  // namespace
}  // namespace mgi::test::gpu_processes
