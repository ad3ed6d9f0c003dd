// mgi_gpu_bench: what one GPU can do, what other ways to partition reach on it, and the paper's
// microbenchmarks. CMake builds it (target mgi_gpu_bench), and so does tools/gpu/run.sh.
//
//   mgi_gpu_bench [--json FILE] [--quick|--large] [--list] [--only NAME] [--here] [WORD=VALUE...]
//
// Prints one JSON array, an object a result; progress goes to standard error. NAME is a benchmark of
// --list or the start of some (may be given again). Each runs in a process of its own, so that one
// that fails or hangs stops no other; --here runs them in this one and prints an object a line, for
// debuggers, profilers and compute-sanitizer. Words say what `--only contest` is about (contest.cu).
// Exit status: 1 if any result is an error or not exact.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "child.hpp"
#include "registry.hpp"
#include "team.hpp"

namespace {

using namespace mgi::bench;

struct Options {
    std::string json;
    std::vector<std::string> only;
    bool quick = false;
    bool large = false;  ///< tables of operators as large as TPC-H's at SF 100
    bool list = false;
    bool here = false;
    double traffic_gbps = 0;
    std::vector<std::string> words;
};

constexpr double kDeadlineSeconds = 120;

int usage() {
    std::fprintf(stderr,
                 "usage: mgi_gpu_bench [--json FILE] [--quick|--large] [--list] [--only NAME] "
                 "[--here] [WORD=VALUE...]\n");
    return 2;
}

bool read_options(int argc, char** argv, Options& options) {
    for (int i = 1; i < argc; ++i) {
        std::string const word = argv[i];
        bool const has_value = i + 1 < argc;
        if (word == "--quick") {
            options.quick = true;
        } else if (word == "--large") {
            options.large = true;
        } else if (word == "--list") {
            options.list = true;
        } else if (word == "--here") {
            options.here = true;
        } else if (word == "--json" && has_value) {
            options.json = argv[++i];
        } else if (word == "--only" && has_value) {
            options.only.emplace_back(argv[++i]);
        } else if (word == "--traffic" && has_value) {  // of the process that starts this one
            options.traffic_gbps = std::atof(argv[++i]);
        } else if (!word.starts_with('-') && word.find('=') != std::string::npos) {
            options.words.push_back(word);
        } else {
            return false;
        }
    }
    return true;
}

std::vector<Benchmark> chosen(Options const& options) {
    auto const& all = benchmarks();
    auto const is_wanted = [&](Benchmark const& benchmark, std::string const& name) {
        bool const exists = std::any_of(all.begin(), all.end(),
                                        [&](Benchmark const& other) { return other.name == name; });
        return exists ? benchmark.name == name : benchmark.name.starts_with(name);
    };
    std::vector<Benchmark> out;
    for (auto const& benchmark : all) {
        bool const wanted =
            options.only.empty() ||
            std::any_of(options.only.begin(), options.only.end(),
                        [&](std::string const& name) { return is_wanted(benchmark, name); });
        if (wanted) out.push_back(benchmark);
    }
    std::sort(out.begin(), out.end(), [](Benchmark const& a, Benchmark const& b) {
        bool const first = a.name == "floors";
        return first != (b.name == "floors") ? first : a.name < b.name;
    });
    return out;
}

/// In this process; a result a line.
int run_here(Benchmark const& benchmark, Options const& options) {
    Result failed;
    failed.name = benchmark.name;
    try {
        Context context(
            {benchmark.name, options.quick, options.large, options.traffic_gbps, options.words});
        benchmark.run(context);
        return 0;
    } catch (std::exception const& error) {
        failed.error = error.what();
    }
    std::printf("%s\n", json_of(failed).c_str());
    std::fflush(stdout);
    return 1;
}

/// A benchmark in a process of its own; appends its results.
void run_apart(Benchmark const& benchmark, Options& options, std::string const& program,
               std::vector<std::string>& lines) {
    std::vector<std::string> command{program, "--here", "--only", benchmark.name};
    if (options.quick) command.emplace_back("--quick");
    if (options.large) command.emplace_back("--large");
    if (options.traffic_gbps > 0) {
        command.insert(command.end(), {"--traffic", std::to_string(options.traffic_gbps)});
    }
    command.insert(command.end(), options.words.begin(), options.words.end());
    bool said = false;  // the process itself said what went wrong
    auto const ended = run_child(command, kDeadlineSeconds, [&](std::string const& line) {
        if (line.starts_with('{')) {
            lines.push_back(line);
            said = said || line.find("\"error\": ") != std::string::npos;
            std::fprintf(stderr, "   %s\n", line.c_str());
        } else if (line.starts_with(kTrafficLine)) {
            options.traffic_gbps = std::atof(line.c_str() + std::strlen(kTrafficLine));
        } else {
            std::fprintf(stderr, "%s\n", line.c_str());
        }
    });
    if (ended.empty() || said) return;
    Result failed;
    failed.name = benchmark.name;
    failed.error = ended;
    lines.push_back(json_of(failed));
    std::fprintf(stderr, "   %s\n", lines.back().c_str());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "--member") == 0) {
        return run_member({argv + 2, argv + argc});
    }
    Options options;
    if (!read_options(argc, argv, options)) return usage();
    auto const wanted = chosen(options);
    if (options.list) {
        for (auto const& benchmark : wanted) {
            std::printf("%-24s %s\n", benchmark.name.c_str(), benchmark.about.c_str());
        }
        return 0;
    }
    if (wanted.empty()) {
        std::fprintf(stderr, "mgi_gpu_bench: no benchmark of that name; --list has them\n");
        return 2;
    }
    // Before CUDA starts. A kernel loaded lazily would wait for those that are resident; streams
    // that share a hardware queue would wait for one another.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (options.here) {
        int status = 0;
        for (auto const& benchmark : wanted) status |= run_here(benchmark, options);
        return status;
    }
    std::vector<std::string> lines;
    for (auto const& benchmark : wanted) {
        auto const start = std::chrono::steady_clock::now();
        std::fprintf(stderr, "-- %s\n", benchmark.name.c_str());
        run_apart(benchmark, options, "/proc/self/exe", lines);
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start;
        std::fprintf(stderr, "   %.1f s\n", took.count());
    }
    std::string array = "[\n";
    bool good = true;
    for (auto const& line : lines) {
        array += (&line == lines.data() ? "  " : ",\n  ") + line;
        good = good && line.find("\"error\": ") == std::string::npos &&
               line.find("\"exact\": false") == std::string::npos;
    }
    array += "\n]\n";
    std::fputs(array.c_str(), stdout);
    if (!options.json.empty()) {
        std::ofstream file(options.json);
        file << array;
        if (!file.flush()) {
            std::fprintf(stderr, "mgi_gpu_bench: cannot write %s\n", options.json.c_str());
            return 2;
        }
    }
    return good ? 0 : 1;
}
