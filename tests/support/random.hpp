/// \file
/// Seeded randomness of the tests: the same seed gives the same data and the same injected yields.
#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>

namespace mgi::test {

/// Added to every test's own seed: MGI_TEST_SEED, default 0. A failure names it.
inline std::uint64_t base_seed() {
    char const* const text = std::getenv("MGI_TEST_SEED");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// splitmix64: small, and any seed is a good one.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed + base_seed() * 0x9e3779b97f4a7c15ULL) {}

    std::uint64_t next() {
        std::uint64_t x = (state_ += 0x9e3779b97f4a7c15ULL);
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
        return x ^ (x >> 31);
    }
    /// In [0, bound); 0 for bound 0.
    std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
    /// In [low, high].
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
    }
    bool one_in(std::uint64_t chance) { return below(chance) == 0; }
    double real() { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
    std::uint64_t state_;
};

/// Disturbs schedules: now and then the calling thread yields or sleeps a little. Rate 0 never does.
class Yields {
public:
    Yields(std::uint64_t seed, std::uint32_t rate) : random_(seed), rate_(rate) {}

    void operator()() {
        if (rate_ == 0) return;
        std::uint64_t const dice = random_.below(1000);
        if (dice >= rate_) return;
        if (dice % 4 != 0) {
            sched_yield();
        } else {
            timespec const nap{0, static_cast<long>(random_.below(60'000))};
            nanosleep(&nap, nullptr);
        }
    }
    [[nodiscard]] std::uint32_t rate() const { return rate_; }

private:
    Random random_;
    std::uint32_t rate_;  ///< of a thousand calls, how many disturb
};

}  // namespace mgi::test
