// What mgi_gpu_bench has that needs no GPU: results as JSON, and benchmarks in processes of their own.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "gpu/child.hpp"
#include "gpu/result.hpp"

namespace mgi::bench {
namespace {

TEST(GpuResults, LeavesOutWhatIsEmpty) {
    Result result;
    result.name = "copy";
    EXPECT_EQ(json_of(result), R"({"name": "copy"})");
}

TEST(GpuResults, HasParametersFiguresAndTheShareOfTheFloor) {
    Result result;
    result.name = "partition";
    result.with("layout", "rows").with("rows", 5).with("pipelined", true).with("share", 0.25);
    result.best_gbps = 50;
    result.median_gbps = 40.5;
    result.floor_gbps = 200;
    result.figure("us", 1.5);
    result.exact = false;
    EXPECT_EQ(json_of(result),
              R"({"name": "partition", "layout": "rows", "rows": 5, "pipelined": true, )"
              R"("share": 0.25, "best_gbps": 50, "median_gbps": 40.5, "floor_gbps": 200, )"
              R"("share_of_floor": 0.25, "us": 1.5, "exact": false})");
}

TEST(GpuResults, EscapesText) {
    Result result;
    result.name = "a";
    result.error = "\"no\"\\\n";
    result.best_gbps = NAN;
    EXPECT_EQ(json_of(result), R"({"name": "a", "best_gbps": null, "error": "\"no\"\\\u000a"})");
}

struct Ran {
    std::string ended;
    std::vector<std::string> lines;
};

Ran run_shell(char const* script, double deadline_s = 20) {
    Ran ran;
    ran.ended = run_child({"/bin/sh", "-c", script}, deadline_s,
                          [&](std::string const& line) { ran.lines.push_back(line); });
    return ran;
}

TEST(GpuBenchChild, GivesEachLine) {
    Ran const ran = run_shell("echo one; echo; printf 'two\\nrest'");
    EXPECT_EQ(ran.ended, "");
    EXPECT_EQ(ran.lines, (std::vector<std::string>{"one", "", "two"}));
}

TEST(GpuBenchChild, SaysHowItEnded) {
    EXPECT_EQ(run_shell("exit 3").ended, "exit status 3");
    Ran const ran = run_shell("echo before; kill -SEGV $$");
    EXPECT_NE(ran.ended.find("egmentation"), std::string::npos) << ran.ended;
    EXPECT_EQ(ran.lines, std::vector<std::string>{"before"});
    auto const missing = run_child({"/no/such/program"}, 5, [](std::string const&) {});
    EXPECT_NE(missing, "");
}

TEST(GpuBenchChild, IsKilledAtItsDeadline) {
    auto const start = std::chrono::steady_clock::now();
    Ran const ran = run_shell("echo before; exec sleep 60", 0.3);
    EXPECT_EQ(ran.ended, "killed at its deadline");
    EXPECT_EQ(ran.lines, std::vector<std::string>{"before"});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace mgi::bench
