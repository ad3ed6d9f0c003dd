// The movers of a channel between two servers, and the link between them, in virtual time: whatever
// happens to its wires, every row arrives once, or both servers hear why not. A failing seed is named
// with the command that runs it alone; MGI_LINK_SEEDS says how many there are.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include <mgi/runtime.hpp>

#include "link/network.hpp"
#include "link/seeds.hpp"
#include "mover/two_servers.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

using mover::link::kMillisecond;
using mover::link::kSecond;

constexpr std::uint32_t kEach = 2;
constexpr Time kStep = 20'000;  // how often somebody does something
constexpr Time kIdleStep = 5 * kMillisecond;

ChannelSpec spec_of(Random& random, Routing const& routing) {
    ChannelSpec spec;
    spec.schema = numbered_schema();
    spec.routing = routing;
    spec.options.segment_rows = std::uint32_t(1 + random.below(100));
    spec.options.slots = std::uint32_t(1 + random.below(4));
    spec.options.credits = std::uint32_t(1 + random.below(6));
    spec.options.max_groups = 1;
    spec.options.by_reference = !random.one_in(3);
    return spec;
}

Routing some_routing(Random& random) {
    switch (random.below(3)) {
        case 0: return Routing::broadcast();
        case 1: return Routing::balance();
        default: return Routing::partition("key");
    }
}

/// One end of the link in virtual time.
class End final : public mover::link::Carrier {
public:
    End(Network& network, int end) : network_(network), end_(end) {}
    void start(mover::link::Transfer transfer) override {
        network_.link(end_).start(std::move(transfer));
        network_.poke(end_);
    }
    void say(mover::link::Word word) override {
        network_.link(end_).say(std::move(word));
        network_.poke(end_);
    }

private:
    Network& network_;
    int end_;
};

class MoverScene {
public:
    explicit MoverScene(std::uint64_t seed)
        : network(seed),
          routing_(some_routing(network.random)),
          servers_(spec_of(network.random, routing_), kEach, seed),
          parties_(servers_, routing_, 2 * kEach,
                   std::int64_t(20 + network.random.below(kSanitized ? 200 : 600))) {
        mover::link::LinkOptions link;
        wires = 1 + std::uint32_t(network.random.below(4));
        link.slots.resize(wires);
        for (std::uint32_t i = 0; i < wires; ++i) link.slots[i].nic = i;
        link.checksums = true;
        link.window = 4000 + network.random.below(200'000);
        network.connect(link, servers_.owner(0), servers_.owner(1));
        for (int end = 0; end < 2; ++end) servers_.servers[end].links->set_carrier(0, &ends_[end]);
        work();
    }

    [[nodiscard]] bool failed(int end) const {
        return servers_.servers[end].heard.code != ErrorCode::Ok;
    }
    [[nodiscard]] bool over() const { return parties_.over() || (failed(0) && failed(1)); }
    void run() {
        network.run(network.now + 300 * kSecond, [this] { return over(); });
    }
    void check() const {
        if (parties_.over()) parties_.check();
    }
    std::string why() const {
        return servers_.servers[0].heard.why + " / " + servers_.servers[1].heard.why;
    }

    std::uint32_t some_slot() { return std::uint32_t(network.random.below(wires)); }
    int some_end() { return int(network.random.below(2)); }
    void now_and_then(std::uint64_t times, Time within, std::function<void()> const& what) {
        for (std::uint64_t i = 0; i < times; ++i) {
            network.at(network.now + network.random.below(within), what);
        }
    }

    Network network;
    std::uint32_t wires = 1;

private:
    // Kernels and movers of both servers, again and again.
    void work() {
        bool moved = false;
        for (auto& server : servers_.servers) {
            moved |= server.moves->step();
            moved |= server.links->say_credits();
        }
        for (int i = 0; i < 8; ++i) parties_.act(network.random);
        quiet_ = moved ? 0 : quiet_ + 1;
        network.at(network.now + (quiet_ < 200 ? kStep : kIdleStep), [this] { work(); });
    }

    Routing const routing_;
    TwoServers servers_;
    Parties parties_;
    End ends_[2]{{network, 0}, {network, 1}};
    int quiet_ = 0;
};

class VirtualTime : public ::testing::Test {
protected:
    static void SetUpTestSuite() { set_log_level("error"); }
    static void TearDownTestSuite() { set_log_level("warn"); }

    static void for_scenes(std::uint64_t seeds, bool complete,
                           std::function<void(MoverScene&)> const& play) {
        for_seeds(seeds, [&](std::uint64_t seed) {
            MoverScene scene(seed);
            play(scene);
            scene.run();
            ASSERT_EQ(scene.network.wrong, "");
            ASSERT_TRUE(scene.over())
                << "it goes on for ever: " << scene.network.link(0).describe(scene.network.now)
                << " / " << scene.network.link(1).describe(scene.network.now) << scene.why();
            scene.check();
            if (complete) {
                ASSERT_FALSE(scene.failed(0) || scene.failed(1)) << scene.why();
            }
        });
    }
};

TEST_F(VirtualTime, NothingHappens) {
    for_scenes(40, true, [](MoverScene&) {});
}

TEST_F(VirtualTime, WiresBreakAndFallSilent) {
    for_scenes(80, true, [](MoverScene& scene) {
        scene.now_and_then(1 + scene.network.random.below(8), kSecond / 10,
                           [&] { scene.network.reset(scene.some_slot()); });
        scene.now_and_then(scene.network.random.below(3), kSecond / 10,
                           [&] { scene.network.silence(scene.some_slot(), scene.some_end()); });
    });
}

TEST_F(VirtualTime, BytesAreDamagedAndWiresSlow) {
    for_scenes(60, true, [](MoverScene& scene) {
        scene.now_and_then(1 + scene.network.random.below(4), kSecond / 10,
                           [&] { scene.network.damage(scene.some_slot(), scene.some_end()); });
        scene.now_and_then(2, kSecond / 10, [&] { scene.network.slow(scene.some_slot(), 0.001); });
    });
}

TEST_F(VirtualTime, AProcessIsStoppedAndGoesOn) {
    for_scenes(40, true, [](MoverScene& scene) {
        scene.now_and_then(1, kSecond / 10, [&] {
            scene.network.freeze(scene.some_end(), scene.network.now + kSecond / 10 +
                                                       scene.network.random.below(6 * kSecond));
        });
    });
}

TEST_F(VirtualTime, Everything) {
    for_scenes(100, false, [](MoverScene& scene) {
        auto& network = scene.network;
        scene.now_and_then(network.random.below(20), 2 * kSecond,
                           [&] { network.misfortune(scene.some_slot(), scene.some_end()); });
    });
}

}  // namespace
}  // namespace mgi::test
