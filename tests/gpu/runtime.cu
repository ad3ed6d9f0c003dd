// The runtime on a GPU: channels between GPUs and the CPU with their movers, kernels of the user's own, what goes
// wrong, processes that share a GPU, and how fast movers are. Needs CUDA, a compiler and libmgi.
//
//   runtime [--small] [--cpu] [--only WORDS] [--movers FILE.json]
//
// --small: what compute-sanitizer can bear. --cpu: every endpoint on cpu:0. Exit status 1: a test failed.
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "gpu/runtime_rig.hpp"

namespace mgi::test::gpu {

Settings settings;

void expect(bool holds, std::string const& what) {
    if (!holds) throw std::runtime_error(what);
}

void expect_error(ErrorCode code, std::vector<std::string> const& words,
                  std::function<void()> const& call) {
    try {
        call();
    } catch (Error const& error) {
        std::string const text = error.what();
        expect(error.code() == code,
               std::string("another error: ") + to_string(error.code()) + ": " + text);
        for (std::string const& word : words) {
            expect(text.find(word) != std::string::npos, "no '" + word + "' in: " + text);
        }
        return;
    }
    expect(false, "no error");
}

namespace {

int run_all(std::string const& only) {
    std::vector<Test> tests;
    add_flows(tests);
    add_own_kernels(tests);
    add_faults(tests);
    add_processes(tests);
    int passed = 0;
    int failed = 0;
    for (Test const& test : tests) {
        if (settings.small && !test.in_small) continue;
        if (settings.cpu && !test.on_cpu) continue;
        if (test.name.find(only) == std::string::npos) continue;
        auto const start = std::chrono::steady_clock::now();
        std::string problem;
        try {
            test.run();
        } catch (std::exception const& error) {
            problem = error.what();
        }
        std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - start;
        ++(problem.empty() ? passed : failed);
        if (!problem.empty()) std::printf("FAILED %s: %s\n", test.name.c_str(), problem.c_str());
        if (seconds.count() > 3)
            std::printf("(%s took %.1f s)\n", test.name.c_str(), seconds.count());
        std::fflush(stdout);
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

int write_movers(std::string const& file) {
    std::ofstream out(file);
    bool first = true;
    for (std::string const& line : measure_movers()) {
        out << (first ? "[\n  " : ",\n  ") << line;
        first = false;
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
    }
    out << (first ? "[]\n" : "\n]\n");
    return out.good() ? 0 : 1;
}

int run(int count, char** words) {
    settings.program = words[0];
    std::string only;
    std::string movers;
    for (int i = 1; i < count; ++i) {
        std::string const word = words[i];
        bool const more = i + 1 < count;
        if (word == "--small") {
            settings.small = true;
        } else if (word == "--cpu") {
            settings.cpu = true;
        } else if (word == "--only" && more) {
            only = words[++i];
        } else if (word == "--movers" && more) {
            movers = words[++i];
        } else if (word == "--child" && more) {
            return run_child_fault(words[++i]);
        } else if (word == "--member" && i + 3 < count) {
            return run_member(words[i + 1], u32(std::stoul(words[i + 2])),
                              u32(std::stoul(words[i + 3])));
        } else {
            std::fprintf(stderr, "runtime: no '%s'\n", word.c_str());
            return 2;
        }
    }
    return movers.empty() ? run_all(only) : write_movers(movers);
}

}  // namespace

}  // namespace mgi::test::gpu

int main(int count, char** words) {
    try {
        return mgi::test::gpu::run(count, words);
    } catch (std::exception const& error) {
        std::fprintf(stderr, "runtime: %s\n", error.what());
        return 2;
    }
}
