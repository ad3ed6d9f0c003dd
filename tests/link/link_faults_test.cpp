// Links in virtual time under faults: whatever happens to the wires, everything arrives, once and
// exact, or both ends get an error within a bounded time. A failing seed is named with the command that
// runs it alone; MGI_LINK_SEEDS says how many there are.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include <mgi/runtime.hpp>

#include "link/codecs.hpp"
#include "link/seeds.hpp"
#include "link/traffic.hpp"

namespace mgi::test {
namespace {

using mover::link::kMillisecond;
using mover::link::kNever;
using mover::link::kSecond;

/// A link with traffic both ways.
class Scene {
public:
    /// `coded`: the wires have codecs, or not, each end as it likes.
    explicit Scene(std::uint64_t seed, Time still = kNever, bool coded = false)
        : network(seed),
          options(some_traffic()),
          one(network, 0, options),
          two(network, 1, options) {
        mover::link::LinkOptions link;
        wires = 1 + std::uint32_t(network.random.below(6));
        link.slots.resize(wires);
        for (std::uint32_t i = 0; i < wires; ++i) link.slots[i].nic = i / 2;
        link.checksums = true;
        link.still_limit = still;
        link.window = 4000 + network.random.below(200'000);
        link.lent = 8000;
        auto other = link;
        if (coded) {
            for (auto* const end : {&link, &other}) {
                end->codecs = {codecs[0], codecs[1]};
                for (auto& slot : end->slots) slot.codec = std::uint16_t(network.random.below(3));
            }
        }
        network.connect(link, other, one, two);
        one.push();
        two.push();
    }

    /// Something happens at random times, `times` times in all.
    void now_and_then(std::uint64_t times, Time within, std::function<void()> const& what) {
        for (std::uint64_t i = 0; i < times; ++i) {
            network.at(network.now + network.random.below(within), what);
        }
    }
    std::uint32_t some_slot() { return std::uint32_t(network.random.below(wires)); }
    int some_end() { return int(network.random.below(2)); }
    [[nodiscard]] bool over() const {
        return (one.complete() || one.has_failed()) && (two.complete() || two.has_failed());
    }
    /// Segments of an end, by what its wires count; UINT64_MAX if some are still on their way.
    std::uint64_t arrived_from(int end) {
        std::uint64_t sum = 0;
        for (auto const& wire : *network.link(end).counts()) {
            if (wire.in_flight.value() != 0) return UINT64_MAX;
            sum += wire.segments.value();
        }
        return sum;
    }
    void run() {
        network.run(network.now + 300 * kSecond, [this] { return over(); });
    }

    std::shared_ptr<Steps> const codecs[2] = {std::make_shared<Steps>(1),
                                              std::make_shared<Steps>(2)};
    Network network;
    TrafficOptions options;
    Traffic one;
    Traffic two;
    std::uint32_t wires = 1;

private:
    TrafficOptions some_traffic() {
        TrafficOptions some;
        some.flows = 1 + std::uint32_t(network.random.below(5));
        some.segments = 5 + network.random.below(60);
        some.pool = 1 + network.random.below(5);
        some.most_bytes = network.random.one_in(8) ? 60'000 : 3000;
        some.most_hold = 1 + network.random.below(4 * kMillisecond);
        some.nics = network.random.below(3);
        return some;
    }
};

class LinkFaults : public ::testing::Test {
protected:
    static void SetUpTestSuite() { set_log_level("error"); }
    static void TearDownTestSuite() { set_log_level("warn"); }

    /// Runs `play` for every seed; `complete`: everything must have arrived.
    static void for_scenes(std::uint64_t seeds, bool complete,
                           std::function<void(Scene&)> const& play, bool coded = false) {
        for_seeds(seeds, [&](std::uint64_t seed) {
            Scene scene(seed, kNever, coded);
            play(scene);
            scene.run();
            ASSERT_EQ(scene.one.wrong() + scene.two.wrong() + scene.network.wrong, "");
            ASSERT_TRUE(scene.over())
                << "it goes on for ever: " << scene.network.link(0).describe(scene.network.now)
                << " / " << scene.network.link(1).describe(scene.network.now);
            if (!complete) return;
            ASSERT_FALSE(scene.one.has_failed()) << scene.one.why();
            ASSERT_FALSE(scene.two.has_failed()) << scene.two.why();
            for (int end : {0, 1}) {
                ASSERT_EQ(scene.arrived_from(end), scene.options.flows * scene.options.segments)
                    << "as counted by end " << end;
            }
        });
    }
};

TEST_F(LinkFaults, None) {
    for_scenes(100, true, [](Scene&) {});
}

TEST_F(LinkFaults, WiresBreak) {
    for_scenes(200, true, [](Scene& scene) {
        scene.now_and_then(1 + scene.network.random.below(8), kSecond / 5,
                           [&] { scene.network.reset(scene.some_slot()); });
    });
}

TEST_F(LinkFaults, WiresFallSilent) {
    for_scenes(150, true, [](Scene& scene) {
        scene.now_and_then(1 + scene.network.random.below(4), kSecond / 5,
                           [&] { scene.network.silence(scene.some_slot(), scene.some_end()); });
        scene.now_and_then(scene.network.random.below(3), 4 * kSecond,
                           [&] { scene.network.reset(scene.some_slot()); });
    });
}

TEST_F(LinkFaults, BytesAreDamaged) {
    for_scenes(150, true, [](Scene& scene) {
        scene.now_and_then(1 + scene.network.random.below(6), kSecond / 5,
                           [&] { scene.network.damage(scene.some_slot(), scene.some_end()); });
    });
}

TEST_F(LinkFaults, WiresAreSlow) {
    for_scenes(100, true, [](Scene& scene) {
        scene.now_and_then(3, kSecond / 10, [&] {
            scene.network.slow(scene.some_slot(),
                               0.0001 * double(1 + scene.network.random.below(50)));
        });
        scene.now_and_then(2, kSecond, [&] { scene.network.reset(scene.some_slot()); });
    });
}

TEST_F(LinkFaults, AProcessIsStoppedAndGoesOn) {
    for_scenes(100, true, [](Scene& scene) {
        scene.now_and_then(1, kSecond / 5, [&] {
            // Longer than a wire may be silent, shorter than a link may be without one.
            scene.network.freeze(scene.some_end(), scene.network.now + kSecond / 10 +
                                                       scene.network.random.below(6 * kSecond));
        });
        scene.now_and_then(scene.network.random.below(3), kSecond,
                           [&] { scene.network.reset(scene.some_slot()); });
    });
}

TEST_F(LinkFaults, Everything) {
    for_scenes(300, false, [](Scene& scene) {
        auto& network = scene.network;
        scene.now_and_then(network.random.below(20), 5 * kSecond,
                           [&] { network.misfortune(scene.some_slot(), scene.some_end()); });
    });
}

TEST_F(LinkFaults, WiresHaveCodecs) {
    std::uint64_t scenes = 0;
    std::uint64_t encoded = 0;
    std::shared_ptr<Steps> last;
    for_scenes(
        250, true,
        [&](Scene& scene) {
            // What the ones before have made smaller.
            ++scenes;
            encoded += last == nullptr ? 0 : last->encoded();
            last = scene.codecs[0];
            scene.now_and_then(scene.network.random.below(8), kSecond / 5, [&scene] {
                std::uint32_t const slot = scene.some_slot();
                if (scene.network.random.one_in(3)) {
                    scene.network.damage(slot, scene.some_end());
                } else {
                    scene.network.reset(slot);
                }
            });
        },
        true);
    EXPECT_TRUE(encoded != 0 || scenes == 1);
}

TEST_F(LinkFaults, EverythingWithCodecs) {
    for_scenes(
        300, false,
        [](Scene& scene) {
            scene.now_and_then(scene.network.random.below(12), 5 * kSecond, [&scene] {
                scene.network.misfortune(scene.some_slot(), scene.some_end());
            });
        },
        true);
}

TEST_F(LinkFaults, TheNetworkGoesForGood) {
    for_scenes(60, false, [](Scene& scene) {
        scene.now_and_then(1, kSecond / 100, [&] {
            scene.network.dials_fail = true;
            for (std::uint32_t i = 0; i < scene.wires; ++i) {
                if (scene.network.random.one_in(2)) {
                    scene.network.reset(i);
                } else {
                    scene.network.silence(i, 0);
                    scene.network.silence(i, 1);
                }
            }
        });
    });
}

/// Nobody can tell a process that is stopped for ever of it; the other end gets its error.
TEST_F(LinkFaults, AProcessIsStoppedForGood) {
    for_seeds(40, [](std::uint64_t seed) {
        Scene scene(seed);
        scene.network.at(scene.network.now + scene.network.random.below(5 * kMillisecond),
                         [&] { scene.network.freeze(1, kNever); });
        scene.network.run(scene.network.now + 60 * kSecond,
                          [&] { return scene.one.complete() || scene.one.has_failed(); });
        EXPECT_EQ(scene.one.wrong(), "");
        EXPECT_TRUE(scene.one.complete() || scene.one.has_failed());
        EXPECT_EQ(scene.one.has_failed(), !scene.one.why().empty());
    });
}

/// A process that stands still while its machine answers is known sooner than a network that is cut, which
/// may come back; and who goes on in time is not missed.
TEST_F(LinkFaults, WhoStandsStillIsKnownBeforeWhoIsCutOff) {
    constexpr Time kStill = 5 * kSecond;
    // How long after something has happened, when there are wires, the first end knows it.
    auto const known_after = [&](Scene& scene, std::function<void()> const& what) {
        Time const start = scene.network.now + kSecond;
        scene.network.at(start, what);
        scene.network.run(start + 60 * kSecond, [&] { return scene.one.has_failed(); });
        return scene.one.has_failed() ? scene.network.now - start : kNever;
    };
    for_seeds(60, [&](std::uint64_t seed) {
        Scene still(seed, kStill);
        Time const frozen = known_after(still, [&] { still.network.freeze(1, kNever); });
        EXPECT_LE(frozen, kStill + kSecond) << "frozen";
        EXPECT_GE(frozen, kStill - kSecond) << "frozen";
        EXPECT_NE(still.one.why().find("stands still"), std::string::npos) << still.one.why();

        Scene cut(seed, kStill);
        Time const unheard = known_after(cut, [&] {
            cut.network.dials_fail = true;
            for (std::uint32_t i = 0; i < cut.wires; ++i) {
                for (int way : {0, 1}) cut.network.silence(i, way);
            }
        });
        EXPECT_GE(unheard, 10 * kSecond) << "cut off: " << cut.one.why();

        Scene paused(seed, kStill);
        paused.network.at(paused.network.now + kMillisecond,
                          [&] { paused.network.freeze(1, paused.network.now + 2 * kSecond); });
        paused.run();
        EXPECT_TRUE(paused.one.complete() && paused.two.complete())
            << paused.one.why() << " / " << paused.two.why();
    });
}

}  // namespace
}  // namespace mgi::test
