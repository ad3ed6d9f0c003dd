/// \file
/// What limits this process: control groups as both versions show them, and resource limits.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/process_limits.hpp"

namespace mgi::test {
namespace process_limits_test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// A tree of files that a process would see.
class Machine : public ::testing::Test {
protected:
    Machine()
        : root_(std::filesystem::path(::testing::TempDir()) /
                ("limits-" +
                 std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
        std::filesystem::remove_all(root_);
        write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  12 kB\n");
    }
    ~Machine() override { std::filesystem::remove_all(root_); }

    void write(std::string const& file, std::string const& text) const {
        std::filesystem::create_directories((root_ / file).parent_path());
        std::ofstream(root_ / file) << text;
    }
    /// The process' place and where hierarchies are mounted; "TYPE GROUP PLACE OPTIONS" each.
    void in_groups(std::string const& cgroup, std::string const& mounts) const {
        write("proc/self/cgroup", cgroup);
        write("proc/self/mountinfo", mounts);
    }
    void limit(std::string const& name, std::string const& soft, std::string const& hard) {
        auto const wide = [](std::string text, std::size_t width) {
            text.resize(std::max(text.size(), width), ' ');
            return text;
        };
        limits_ += wide(name, 26) + wide(soft, 21) + wide(hard, 21) + "bytes\n";
        write("proc/self/limits", limits_);
    }
    [[nodiscard]] ProcessLimits limits() const { return ProcessLimits(root_); }
    void expect_memory(std::uint64_t mib, std::string const& name) const {
        ProcessLimit const memory = limits().memory();
        EXPECT_EQ(memory.value, mib * kMiB);
        EXPECT_EQ(memory.name, name);
    }

private:
    std::filesystem::path const root_;
    std::string limits_ =
        "Limit                     Soft Limit           Hard Limit           Units\n";
};

constexpr char const* kVersion2 =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
constexpr char const* kVersion1 =
    "33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

using ProcessLimitsOf = Machine;

TEST_F(ProcessLimitsOf, WithoutAnyTheMachineBounds) {
    expect_memory(16384, "the machine's memory");
    EXPECT_FALSE(limits().addresses_left());
    EXPECT_FALSE(limits().cpu_quota());
}

TEST_F(ProcessLimitsOf, ItsOwnGroupAndThoseAbove) {
    in_groups("0::/system.slice/job.scope\n", kVersion2);
    write("sys/fs/cgroup/system.slice/job.scope/memory.max", "max\n");
    expect_memory(16384, "the machine's memory");
    write("sys/fs/cgroup/system.slice/memory.max", "4294967296\n");
    expect_memory(4096, "memory.max of cgroup /sys/fs/cgroup/system.slice");
    write("sys/fs/cgroup/system.slice/job.scope/memory.max", "1073741824\n");
    expect_memory(1024, "memory.max of cgroup /sys/fs/cgroup/system.slice/job.scope");
}

TEST_F(ProcessLimitsOf, AContainersRootIsItsOwnGroup) {
    in_groups("0::/\n", kVersion2);
    write("sys/fs/cgroup/memory.max", "536870912\n");
    write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    expect_memory(512, "memory.max of cgroup /sys/fs/cgroup");
    EXPECT_DOUBLE_EQ(limits().cpu_quota().value(), 1.5);
}

TEST_F(ProcessLimitsOf, AGroupThatIsSeenFromElsewhere) {
    // A namespace's process beside its root, and a mount of a group that the process is not below.
    in_groups("0::/../other\n", kVersion2);
    write("sys/fs/cgroup/memory.max", "536870912\n");
    expect_memory(512, "memory.max of cgroup /sys/fs/cgroup");
    in_groups("5:memory:/docker/abc\n",
              "33 30 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
    expect_memory(256, "memory.limit_in_bytes of cgroup /sys/fs/cgroup/memory");
}

TEST_F(ProcessLimitsOf, Version1AndBothTogether) {
    std::string const both =
        std::string(kVersion1) + "35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    in_groups("5:memory:/slurm/job_7\n4:cpu,cpuacct:/slurm/job_7\n0::/user.slice\n", both);
    write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "9223372036854771712\n");
    write("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "2147483648\n");
    write("sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_quota_us", "200000\n");
    write("sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_period_us", "100000\n");
    write("sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "-1\n");
    write("sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000\n");
    expect_memory(2048, "memory.limit_in_bytes of cgroup /sys/fs/cgroup/memory/slurm");
    EXPECT_DOUBLE_EQ(limits().cpu_quota().value(), 2.0);
}

TEST_F(ProcessLimitsOf, AnUnlimitedQuota) {
    in_groups("0::/a b\n", "30 23 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n");
    write("sys/fs/c group/a b/cpu.max", "max 100000\n");
    write("sys/fs/c group/a b/memory.max", "1048576\n");
    EXPECT_FALSE(limits().cpu_quota());
    expect_memory(1, "memory.max of cgroup /sys/fs/c group/a b");
}

TEST_F(ProcessLimitsOf, AddressesAndData) {
    write("proc/self/status", "Name:\tx\nVmSize:\t  2048 kB\nVmData:\t 1024 kB\n");
    limit("Max address space", "8388608", "unlimited");
    limit("Max open files", "64", "1024");
    ASSERT_TRUE(limits().addresses_left());
    EXPECT_EQ(limits().addresses_left()->value, 6 * kMiB);
    EXPECT_EQ(limits().addresses_left()->name, "ulimit -v");
    expect_memory(8, "ulimit -v");
    limit("Max data size", "1048576", "unlimited");
    EXPECT_EQ(limits().addresses_left()->value, 0u);
    EXPECT_EQ(limits().addresses_left()->name, "ulimit -d");
    EXPECT_EQ(limits().resource("Max open files"), 64u);
    EXPECT_EQ(limits().resource("Max open files", true), 1024u);
    EXPECT_FALSE(limits().resource("Max address space", true));
    EXPECT_FALSE(limits().resource("Max locked memory"));
}

TEST(LockedMemory, IsNamedWhereItIsLimited) {
    rlimit given{};
    ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &given), 0);
    rlimit const some{std::min<rlim_t>(65536, given.rlim_max), given.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &some), 0);
    std::string const text = locked_memory_text();
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &given), 0);
    EXPECT_NE(text.find("ulimit -l"), std::string::npos) << text;
}

TEST_F(ProcessLimitsOf, WhatIsNotUnderstoodLimitsNothing) {
    in_groups("nonsense\n0:\n",
              "a b - cgroup2\n - \n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 c rw\n");
    write("proc/self/limits", "Max address space\nMax data size  \n");
    expect_memory(16384, "the machine's memory");
    EXPECT_FALSE(limits().addresses_left());
}

TEST(ProcessLimits, OfThisProcess) {
    std::vector<int> const cores = allowed_cores();
    EXPECT_TRUE(std::is_sorted(cores.begin(), cores.end()));
    EXPECT_GE(usable_cores(), 1u);
    EXPECT_LE(usable_cores(), cores.size());
    EXPECT_GE(ProcessLimits().memory().value, 64 * kMiB);
}

}  // namespace
}  // namespace process_limits_test
}  // namespace mgi::test
