/// \file
/// A scenario: a few threads that run a protocol's own code under Relacy, thousands of times, each
/// time with another interleaving and other stale reads; and the list of all of them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "relacy_atomics.hpp"
#include "scheduler.hpp"

namespace mgi::relacy {

/// What of a scenario is run: iterations [first, first + count), each of them its own seed.
struct Run {
    std::uint64_t first = 1;
    std::uint64_t count = 1;
    bool history = false;  ///< record and print what every thread did, and stop behind a failure
};

struct Outcome {
    std::string failure;  ///< empty: none
    std::uint64_t iteration = 0;
};

struct Scenario {
    char const* name;
    char const* promise;       ///< what it would show broken
    std::uint64_t iterations;  ///< in a CI run
    Outcome (*run)(Run const&, std::ostream&);
};

/// All scenarios that the program was linked with.
std::vector<Scenario>& scenarios();

/// Base of a scenario's class: `thread_count` calls of `thread(index)` at once, with `prepare` ahead of
/// them and `after` behind. A new object is made for each iteration.
template <rl::thread_id_t thread_count>
class Threads {
public:
    static constexpr rl::thread_id_t kThreads = thread_count;
    void prepare() {}
    void after() {}
};

/// What Relacy runs of a scenario. Relacy aligns it as malloc does, and slots, lanes and seats lie on
/// cache lines: hence the scenario in memory of its own.
template <class Case>
class Suite : public rl::test_suite<Suite<Case>, Case::kThreads> {
public:
    void before() {
        seq_cst_by = static_cast<SeqCst>(rl::rand(3));
        case_->prepare();
    }
    void thread(unsigned index) { case_->thread(index); }
    void after() { case_->after(); }

private:
    std::unique_ptr<Case> case_ = std::make_unique<Case>();
};

template <class Case>
Outcome run(Run const& what, std::ostream& out) {
    // Polls of a waiting thread count; no scenario needs a tenth of this to end.
    constexpr unsigned kLivelock = 50'000;
    rl::test_params params;
    params.initial_state = std::to_string(what.first).c_str();
    params.iteration_count = what.first + what.count - 1;
    params.execution_depth_limit = kLivelock;
    params.collect_history = what.history;
    params.output_stream = &out;
    params.progress_stream = &out;
    rl::ostringstream state;
    rl::test_result_e const result =
        rl::run_test<Suite<Case>, SleepyScheduler<Case::kThreads>>(params, state, false);
    if (result == rl::test_result_success) return {};
    return {rl::test_result_str(result), params.stop_iteration};
}

/// Adds a scenario to the list, at start-up.
template <class Case>
struct Listed {
    Listed(char const* name, char const* promise, std::uint64_t iterations) {
        scenarios().push_back({name, promise, iterations, &run<Case>});
    }
};

}  // namespace mgi::relacy
