// mgi_hostile: runs the data plane's protocols under hostile schedules, seed by seed. The first seed
// that breaks a promise ends it, with the command that replays it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <mgi/device/assert.hpp>

#include "hostile/flow.hpp"
#include "hostile/last_words.hpp"

namespace mgi::hostile {
namespace {

constexpr char const* kUsage =
    R"(mgi_hostile: MGI's protocols under hostile schedules

  --seeds N      runs seeds 0 to N-1 (default 1000)
  --first N      starts at another seed
  --minutes M    runs seeds drawn at random for so long
  --sweep N      N small seeds, each as often as it has steps, the channel failing at every one of them
  --seed N       replays one seed and says what it is
  --fail-at K    with --seed: the channel fails at step K
  --trace        with --seed: prints every yield point

MGI_TEST_SEED=N shifts everything that is drawn.
)";

struct Options {
    std::uint64_t first = 0;
    std::uint64_t seeds = 1000;
    std::uint64_t sweep = 0;
    double minutes = 0;
    std::optional<std::uint64_t> seed;
    std::optional<std::uint64_t> fail_at;
};

std::uint64_t run_shape(Shape const& shape, bool with_fail_at) {
    std::string command;
    if (test::base_seed() != 0) {
        command = "MGI_TEST_SEED=" + std::to_string(test::base_seed()) + " ";
    }
    command += program_name() + " --seed " + std::to_string(shape.seed);
    if (with_fail_at) command += " --fail-at " + std::to_string(shape.fail_at.value_or(0));
    set_last_words("seed " + std::to_string(shape.seed) + " (" + describe(shape) +
                   ")\nreplay it with: " + command + "\n");
    auto const flow = std::make_unique<Flow>(shape);
    try {
        std::uint64_t const steps = flow->run();
        set_last_words("");
        return steps;
    } catch (std::exception const& error) {
        std::fprintf(stderr, "%s\n", error.what());
        say_last_words();
        // Fibers may be in the middle of something: nothing is taken apart.
        std::_Exit(1);
    }
}

int replay(Options const& options) {
    Shape shape = shape_of(*options.seed);
    if (options.fail_at) shape.fail_at = options.fail_at;
    std::printf("%s\n", describe(shape).c_str());
    std::uint64_t const steps = run_shape(shape, options.fail_at.has_value());
    std::printf("passed, %llu steps\n", static_cast<unsigned long long>(steps));
    return 0;
}

class Tally {
public:
    void add(std::uint64_t steps) {
        ++runs_;
        steps_ += steps;
    }
    void print() const {
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start_;
        std::printf("%llu runs passed, %.1f million steps, %.1f s\n",
                    static_cast<unsigned long long>(runs_), double(steps_) * 1e-6, took.count());
    }
    [[nodiscard]] double minutes() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() /
               60;
    }

private:
    std::uint64_t runs_ = 0;
    std::uint64_t steps_ = 0;
    std::chrono::steady_clock::time_point const start_ = std::chrono::steady_clock::now();
};

// Shapes of few steps, each failed at every one of them.
void sweep(Options const& options, Tally& tally) {
    constexpr std::uint64_t kFewSteps = 1500;
    std::uint64_t swept = 0;
    for (std::uint64_t seed = options.first; swept < options.sweep; ++seed) {
        Shape shape = shape_of(seed);
        if (shape.most_rows > 8) continue;
        shape.fail_at.reset();
        std::uint64_t const steps = run_shape(shape, false);
        tally.add(steps);
        if (steps > kFewSteps) continue;
        for (std::uint64_t k = 0; k <= steps; ++k) {
            shape.fail_at = k;
            tally.add(run_shape(shape, true));
        }
        ++swept;
    }
}

int run(Options const& options) {
    if (options.seed) return replay(options);
    Tally tally;
    if (options.sweep != 0) {
        sweep(options, tally);
    } else if (options.minutes > 0) {
        std::random_device device;
        std::uint64_t const base = std::uint64_t{device()} << 20;
        for (std::uint64_t i = 0; tally.minutes() < options.minutes; ++i) {
            tally.add(run_shape(shape_of(base + i), false));
        }
    } else {
        for (std::uint64_t i = 0; i < options.seeds; ++i) {
            tally.add(run_shape(shape_of(options.first + i), false));
        }
    }
    tally.print();
    return 0;
}

std::optional<Options> parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        std::string const name = argv[i];
        if (name == "--trace") {
            Scheduler::trace(true);
            continue;
        }
        if (i + 1 == argc) return std::nullopt;
        char const* const value = argv[++i];
        std::uint64_t const number = std::strtoull(value, nullptr, 10);
        if (name == "--seeds") {
            options.seeds = number;
        } else if (name == "--first") {
            options.first = number;
        } else if (name == "--minutes") {
            options.minutes = std::strtod(value, nullptr);
        } else if (name == "--sweep") {
            options.sweep = number;
        } else if (name == "--seed") {
            options.seed = number;
        } else if (name == "--fail-at") {
            options.fail_at = number;
        } else {
            return std::nullopt;
        }
    }
    return options;
}

#if MGI_ASSERTIONS_ACTIVE
// As of a broken promise: what is broken, and the command that replays it.
void tell_seed(char const* message) {
    std::fprintf(stderr, "%s\n", message);
    say_last_words();
    std::_Exit(1);
}
#endif

}  // namespace
}  // namespace mgi::hostile

int main(int argc, char** argv) {
    mgi::hostile::install_last_words(argv[0]);
#if MGI_ASSERTIONS_ACTIVE
    mgi::device::on_broken_invariant = &mgi::hostile::tell_seed;
#endif
    auto const options = mgi::hostile::parse(argc, argv);
    if (!options) {
        std::fputs(mgi::hostile::kUsage, stderr);
        return 2;
    }
    return mgi::hostile::run(*options);
}
