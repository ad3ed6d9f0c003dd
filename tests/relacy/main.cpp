// Runs the scenarios under Relacy.
//
//   mgi_relacy [--list] [--first-failure] [NAME...]    all scenarios, or these; what is no scenario's
//                                                      whole name stands for those that begin so
//   mgi_relacy --iteration K NAME                      one iteration again, with what every thread did
//
// Environment: MGI_RELACY_ITERATIONS (times as many iterations, default 1), MGI_TEST_SEED (other
// iterations than usual).

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>

#include <mgi/device/assert.hpp>

#include "scenario.hpp"

namespace mgi::relacy {

std::vector<Scenario>& scenarios() {
    static std::vector<Scenario> all;
    return all;
}

namespace {

double number_from(char const* variable, double otherwise) {
    char const* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtod(text, nullptr);
}

// Of the last failure, if that was a broken invariant. No allocation where Relacy counts them.
std::array<char, 1024> invariant{};

#if MGI_ASSERTIONS_ACTIVE
void fail_scenario(char const* message) {
    std::snprintf(invariant.data(), invariant.size(), "%s", message);
    rl::ctx().fail_test(invariant.data(), rl::test_result_user_assert_failed, RL_INFO);
}
#endif

Outcome run_scenario(Scenario const& scenario, Run const& what, std::ostream& out) {
    invariant[0] = '\0';
    Outcome outcome = scenario.run(what, out);
    if (invariant[0] != '\0') outcome.failure = invariant.data();
    return outcome;
}

bool check(Scenario const& scenario, char const* program) {
    double const times = number_from("MGI_RELACY_ITERATIONS", 1);
    auto const seed = static_cast<std::uint64_t>(number_from("MGI_TEST_SEED", 0));
    Run what;
    what.first = (seed << 32) + 1;
    what.count = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(static_cast<double>(scenario.iterations) * times));
    auto const start = std::chrono::steady_clock::now();
    std::ostringstream quiet;
    Outcome const outcome = run_scenario(scenario, what, quiet);
    double const seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    bool const ok = outcome.failure.empty();
    std::printf("%-6s %-28s %8llu iterations %6.1f s   %s\n", ok ? "ok" : "FAILED", scenario.name,
                static_cast<unsigned long long>(what.count), seconds, scenario.promise);
    if (!ok) {
        std::printf(
            "       %s in iteration %llu; what every thread did:\n"
            "       %s --iteration %llu %s\n",
            outcome.failure.c_str(), static_cast<unsigned long long>(outcome.iteration), program,
            static_cast<unsigned long long>(outcome.iteration), scenario.name);
    }
    std::fflush(stdout);
    return ok;
}

bool replay(Scenario const& scenario, std::uint64_t iteration) {
    Run what;
    what.first = iteration;
    what.history = true;
    Outcome const outcome = run_scenario(scenario, what, std::cout);
    std::cout << scenario.name << ", iteration " << iteration << ": "
              << (outcome.failure.empty() ? "no failure" : outcome.failure) << std::endl;
    return outcome.failure.empty();
}

bool is_scenario(std::string const& name) {
    auto const& all = scenarios();
    return std::any_of(all.begin(), all.end(),
                       [&](Scenario const& scenario) { return name == scenario.name; });
}

bool chosen(Scenario const& scenario, std::vector<std::string> const& names) {
    return names.empty() || std::any_of(names.begin(), names.end(), [&](std::string const& name) {
               return name == scenario.name ||
                      (!is_scenario(name) &&
                       std::strncmp(scenario.name, name.c_str(), name.size()) == 0);
           });
}

int main_of(int count, char** arguments) {
#if MGI_ASSERTIONS_ACTIVE
    device::on_broken_invariant = &fail_scenario;
#endif
    std::vector<std::string> names;
    std::uint64_t iteration = 0;
    bool list = false;
    bool first_failure = false;
    for (int i = 1; i < count; ++i) {
        std::string const argument = arguments[i];
        if (argument == "--list") {
            list = true;
        } else if (argument == "--first-failure") {
            first_failure = true;
        } else if (argument == "--iteration" && i + 1 < count) {
            iteration = std::strtoull(arguments[++i], nullptr, 10);
        } else if (argument.starts_with("-")) {
            std::fprintf(stderr, "usage: %s [--list] [--first-failure] [--iteration K] [NAME...]\n",
                         arguments[0]);
            return 2;
        } else {
            names.push_back(argument);
        }
    }
    int passed = 0;
    int failed = 0;
    for (Scenario const& scenario : scenarios()) {
        if (!chosen(scenario, names)) continue;
        if (list) {
            std::printf("%-28s %s\n", scenario.name, scenario.promise);
            continue;
        }
        bool const ok =
            iteration != 0 ? replay(scenario, iteration) : check(scenario, arguments[0]);
        ++(ok ? passed : failed);
        if (!ok && first_failure) break;
    }
    if (list) return 0;
    if (passed + failed == 0) {
        std::fprintf(stderr, "%s: no such scenario; --list names them\n", arguments[0]);
        return 2;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mgi::relacy

// Relacy replaces operator new and delete, but is older than the delete that knows the size.
void operator delete(void* memory, std::size_t /*size*/) noexcept {
    ::operator delete(memory);
}
void operator delete[](void* memory, std::size_t /*size*/) noexcept {
    ::operator delete[](memory);
}

int main(int count, char** arguments) {
    return mgi::relacy::main_of(count, arguments);
}
