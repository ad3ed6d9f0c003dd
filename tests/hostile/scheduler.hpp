/// \file
/// Decides at every yield point which fiber runs next. Seeded: the same seed, the same schedule.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hostile/fiber.hpp"
#include "support/random.hpp"

namespace mgi::hostile {

/// How the next fiber is chosen.
enum class Policy : std::uint8_t {
    Walk,        ///< any fiber, for a few steps
    Priorities,  ///< the one of highest priority until it waits; priorities change at a few steps
    ///< (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees", 2010)
    Starve,  ///< round robin in which one victim hardly ever gets a step
};
char const* to_string(Policy policy);

/// No fiber got anywhere for too many steps.
struct Hang : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Scheduler {
public:
    Scheduler(Policy policy, std::uint64_t seed);
    Scheduler(Scheduler const&) = delete;
    Scheduler& operator=(Scheduler const&) = delete;
    ~Scheduler();

    void spawn(std::string name, std::function<void()> body);
    /// `action` happens between two fibers' steps, when `step` steps have been made.
    void at_step(std::uint64_t step, std::function<void()> action);
    /// Something that changes whenever the fibers get on. Relaxed loads only: it orders nothing.
    void watch(std::function<std::uint64_t()> progress) { progress_ = std::move(progress); }
    /// Runs until every fiber has ended; throws what the first of them threw, or Hang, and leaves the
    /// others where they are.
    void run();

    /// Yield points passed by all fibers.
    [[nodiscard]] std::uint64_t steps() const { return steps_; }

    // Inside of a fiber. Outside of any these do nothing.

    /// A yield point: another fiber may run here. Says where it is, for Hang.
    static void yield_point(char const* operation, void const* word);
    /// The fiber cannot go on without the others.
    static void pause();
    /// What the fiber is at, for Hang.
    static void at(char const* doing);
    /// One in `chance`, drawn by the fiber that runs.
    static bool one_in(std::uint64_t chance);
    /// Prints every yield point.
    static void trace(bool on);
    /// Names words in traces and in Hang.
    void name_words(std::function<std::string(void const*)> namer) { namer_ = std::move(namer); }

private:
    struct Task;
    struct Turn {
        Task* task;
        std::uint64_t steps;
    };
    Turn next_turn();
    Turn walk();
    Turn by_priority();
    Turn starve();
    void resume(Turn turn);
    void run_actions();
    void check_progress();
    [[nodiscard]] std::string describe() const;

    Policy const policy_;
    test::Random random_;
    std::vector<std::unique_ptr<Task>> tasks_;
    std::vector<Task*> alive_;
    struct Action {
        std::uint64_t step;
        std::function<void()> run;
    };
    std::vector<Action> actions_;
    std::vector<std::uint64_t> changes_;  ///< Priorities: steps at which the running fiber's drops
    std::int64_t lowest_ = 0;             ///< priority given out last by dropping
    std::uint64_t longest_turn_ = 1;
    std::size_t round_ = 0;
    std::uint64_t victim_ = 0;  ///< Starve: which task, modulo their number
    std::uint64_t steps_ = 0;
    std::uint64_t last_progress_ = 0;
    std::uint64_t progress_step_ = 0;
    std::function<std::uint64_t()> progress_;
    std::function<std::string(void const*)> namer_;
};

}  // namespace mgi::hostile
