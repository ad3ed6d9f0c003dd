/// \file
/// What this process may take of its machine: resource limits, the control groups that it is in, cores. Everything else asks
/// here. A file that is missing or not understood limits nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mgi {

/// A limit by the name that users know it by: "ulimit -v", "memory.max of cgroup /sys/fs/cgroup/batch".
struct ProcessLimit {
    std::uint64_t value = 0;
    std::string name;
};

/// Of the process whose files lie in `root`/proc/self, on the machine whose files lie below `root`: tests have trees of their
/// own. Reads them at each question, since limits change. Thread-safe.
class ProcessLimits {
public:
    explicit ProcessLimits(std::filesystem::path root = "/") : root_(std::move(root)) {}

    /// Bytes of memory that the process may have in all: the least of the machine's, of what its control group and each one above
    /// it may have (versions 1 and 2), of ulimit -v and of ulimit -d.
    [[nodiscard]] ProcessLimit memory() const;
    /// Bytes of addresses that it can still map, by ulimit -v or -d; none: as many as it likes.
    [[nodiscard]] std::optional<ProcessLimit> addresses_left() const;
    /// How many cores' time it may use, by the quotas of its control groups; none: all it runs on.
    [[nodiscard]] std::optional<double> cpu_quota() const;
    /// A resource limit by its name in /proc/self/limits ("Max open files"); none: unlimited. `hard`: up to which the
    /// process may raise it.
    [[nodiscard]] std::optional<std::uint64_t> resource(std::string const& name,
                                                        bool hard = false) const;

private:
    /// A control group's folder, and how errors call it.
    struct Group {
        std::filesystem::path folder;
        std::string name;
    };
    /// Those with this controller ("memory") that the process is in: its own first, then those above it as far as they are mounted.
    [[nodiscard]] std::vector<Group> groups(std::string const& controller, bool& version_2) const;

    std::filesystem::path root_;
};

/// ProcessLimits::memory of this process, read again after a second: each runtime asks, and the files take half of the time in
/// which one is made. Thread-safe.
ProcessLimit usable_memory();
/// Cores that this process may run on, ascending; at least one.
std::vector<int> allowed_cores();
/// As many threads as it makes sense to have compute at a time: the allowed cores, or the quota of their time, rounded up.
std::size_t usable_cores();

/// Bytes of addresses for one thing that grows: half of what is left, so that others find room as well; UINT64_MAX where nothing
/// limits them. `reusable` bytes are mapped and free.
std::uint64_t address_room(std::uint64_t reusable);
/// Why `bytes` bytes of addresses cannot be had, for errors: names the limit, or what the system says (`code`, an errno).
std::string no_addresses_text(std::uint64_t bytes, int code);
/// Why a thread cannot be started.
std::string no_thread_text(std::string const& why);
/// Why a file cannot be opened where the process has too many: names the limit.
std::string too_many_files_text();
/// What to know where memory may have failed to be registered with a NIC: the limit of what the process may lock; empty
/// where there is none.
std::string locked_memory_text();
/// Lets this process have as many files open as its hard limit allows.
void allow_most_files() noexcept;

}  // namespace mgi
