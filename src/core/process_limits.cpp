#include "core/process_limits.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <string_view>
#include <system_error>

#include "core/text.hpp"

namespace mgi {

namespace {

constexpr int kMostCores = 1 << 18;
constexpr std::uint64_t kNoLimit = UINT64_MAX;
// Version 1 says "none" as the largest number of whole pages.
constexpr std::uint64_t kNone = std::uint64_t{1} << 62;
// What is asked for again and again differs little, so that what is mapped can be used again.
constexpr std::uint64_t kSteps = 16;

std::string read_text(std::filesystem::path const& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The number at the start, if there is one.
std::optional<std::uint64_t> number_at(std::string_view text) {
    std::size_t const first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return std::nullopt;
    text.remove_prefix(first);
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    return value;
}

// Of "Name:   12 kB", in bytes.
std::optional<std::uint64_t> kib_of(std::string const& text, std::string const& name) {
    std::size_t const at = ("\n" + text).find("\n" + name + ":");
    if (at == std::string::npos) return std::nullopt;
    auto const kib = number_at(std::string_view(text).substr(at + name.size() + 1));
    return kib ? std::optional(*kib * 1024) : std::nullopt;
}

// mountinfo writes a space as \040, and so on.
std::string unescaped(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned code = 0;
        if (text[i] == '\\' && i + 3 < text.size() &&
            std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ec == std::errc()) {
            plain += static_cast<char>(code);
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

bool has_word(std::string_view list, std::string_view wanted) {
    while (!list.empty()) {
        if (take_word(list, ',') == wanted) return true;
    }
    return false;
}

// Where a hierarchy of control groups is mounted: the group that is seen there, and the place.
struct Mount {
    std::string group;
    std::string place;
    bool version_2 = false;
};

std::optional<Mount> mount_of(std::string const& mounts, std::string_view controller) {
    std::optional<Mount> found;
    std::istringstream lines(mounts);
    for (std::string line; std::getline(lines, line);) {
        std::size_t const dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        std::istringstream before(line.substr(0, dash));
        std::istringstream behind(line.substr(dash + 3));
        std::string skipped, group, place, type, source, options;
        before >> skipped >> skipped >> skipped >> group >> place;
        behind >> type >> source >> options;
        bool const version_1 = type == "cgroup" && has_word(options, controller);
        if (type != "cgroup2" && !version_1) continue;
        // Where there are both, a controller is in the one of version 1, or not there.
        if (found && !version_1) continue;
        found = Mount{unescaped(group), unescaped(place), type == "cgroup2"};
    }
    return found;
}

// The group that the process is in, of that hierarchy.
std::optional<std::string> group_in(std::string const& text, std::string_view controller,
                                    bool version_2) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::string_view left = line;
        std::string_view const number = take_word(left, ':');
        std::string_view const controllers = take_word(left, ':');
        bool const matches =
            version_2 ? number == "0" && controllers.empty() : has_word(controllers, controller);
        if (matches) return std::string(left);
    }
    return std::nullopt;
}

}  // namespace

std::vector<ProcessLimits::Group> ProcessLimits::groups(std::string const& controller,
                                                        bool& version_2) const {
    std::filesystem::path const self = root_ / "proc/self";
    auto const mount = mount_of(read_text(self / "mountinfo"), controller);
    if (!mount) return {};
    version_2 = mount->version_2;
    auto const group = group_in(read_text(self / "cgroup"), controller, version_2);
    if (!group) return {};
    // Below the mounted group, unless that is seen from elsewhere (a namespace, a container's mount): then it is the mounted one.
    std::string below;
    std::string const prefix = mount->group == "/" ? "" : mount->group;
    bool const inside = *group == prefix || group->starts_with(prefix + "/");
    if (inside && group->find("/..") == std::string::npos) below = group->substr(prefix.size());
    std::vector<Group> found;
    for (;;) {
        while (below.ends_with('/')) below.pop_back();
        std::string const name = mount->place + below;
        found.push_back({root_ / std::filesystem::path(name).relative_path(), name});
        if (below.empty()) return found;
        below.resize(below.rfind('/'));
    }
}

std::optional<std::uint64_t> ProcessLimits::resource(std::string const& name, bool hard) const {
    // Columns of 26, 21 and 21 characters: name, soft, hard.
    std::istringstream lines(read_text(root_ / "proc/self/limits"));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(name + " ") || line.size() < 47) continue;
        return number_at(std::string_view(line).substr(hard ? 47 : 26));
    }
    return std::nullopt;
}

ProcessLimit ProcessLimits::memory() const {
    ProcessLimit least{kNoLimit, "the machine's memory"};
    if (auto const bytes = kib_of(read_text(root_ / "proc/meminfo"), "MemTotal")) {
        least.value = *bytes;
    }
    auto const bound = [&least](std::optional<std::uint64_t> bytes, std::string const& name) {
        if (bytes && *bytes != 0 && *bytes < kNone && *bytes < least.value) least = {*bytes, name};
    };
    bool version_2 = false;
    for (Group const& group : groups("memory", version_2)) {
        std::string const file = version_2 ? "memory.max" : "memory.limit_in_bytes";
        bound(number_at(read_text(group.folder / file)), file + " of cgroup " + group.name);
    }
    bound(resource("Max address space"), "ulimit -v");
    bound(resource("Max data size"), "ulimit -d");
    return least;
}

std::optional<ProcessLimit> ProcessLimits::addresses_left() const {
    std::string const status = read_text(root_ / "proc/self/status");
    std::optional<ProcessLimit> least;
    auto const bound = [&](char const* limit, char const* used, char const* name) {
        auto const bytes = resource(limit);
        if (!bytes) return;
        std::uint64_t const left = *bytes - std::min(*bytes, kib_of(status, used).value_or(0));
        if (!least || left < least->value) least = {left, name};
    };
    bound("Max address space", "VmSize", "ulimit -v");
    bound("Max data size", "VmData", "ulimit -d");
    return least;
}

std::optional<double> ProcessLimits::cpu_quota() const {
    std::optional<double> least;
    bool version_2 = false;
    for (Group const& group : groups("cpu", version_2)) {
        std::string text = version_2 ? read_text(group.folder / "cpu.max")
                                     : read_text(group.folder / "cpu.cfs_quota_us") + ' ' +
                                           read_text(group.folder / "cpu.cfs_period_us");
        std::replace(text.begin(), text.end(), '\n', ' ');
        // "max" and -1 are none.
        auto const quota = number_at(text);
        std::size_t const behind = text.find_first_of(' ');
        if (!quota || behind == std::string::npos) continue;
        auto const period = number_at(std::string_view(text).substr(behind));
        if (!period || *period == 0) continue;
        double const cores = static_cast<double>(*quota) / static_cast<double>(*period);
        if (cores > 0 && (!least || cores < *least)) least = cores;
    }
    return least;
}

ProcessLimit usable_memory() {
    using Clock = std::chrono::steady_clock;
    static std::mutex mutex;
    static std::optional<ProcessLimit> known;
    static Clock::time_point read_at;
    std::lock_guard const lock(mutex);
    Clock::time_point const now = Clock::now();
    if (!known || now - read_at > std::chrono::seconds(1)) {
        known = ProcessLimits().memory();
        read_at = now;
    }
    return *known;
}

std::vector<int> allowed_cores() {
    std::vector<int> cores;
    // The mask's size must be at least the kernel's, which is not known beforehand.
    for (int size = 1024; size <= kMostCores; size *= 4) {
        struct Free {
            void operator()(cpu_set_t* set) const { CPU_FREE(set); }
        };
        std::unique_ptr<cpu_set_t, Free> const set(CPU_ALLOC(std::size_t(size)));
        if (set == nullptr) break;
        std::size_t const bytes = CPU_ALLOC_SIZE(std::size_t(size));
        if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
        for (int core = 0; core < size; ++core) {
            if (CPU_ISSET_S(std::size_t(core), bytes, set.get())) cores.push_back(core);
        }
        break;
    }
    if (cores.empty()) cores.push_back(0);
    return cores;
}

std::size_t usable_cores() {
    // Quotas hardly change, and this is asked for by each operator.
    static std::optional<double> const quota = ProcessLimits().cpu_quota();
    std::size_t const cores = allowed_cores().size();
    if (!quota) return cores;
    auto const whole = static_cast<std::size_t>(std::ceil(std::min(*quota, double(kMostCores))));
    return std::clamp<std::size_t>(whole, 1, cores);
}

std::uint64_t address_room(std::uint64_t reusable) {
    // Mostly there is no limit, which files need not be read for.
    bool limited = false;
    for (auto const which : {RLIMIT_AS, RLIMIT_DATA}) {
        rlimit limit{};
        limited |= getrlimit(which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    }
    if (!limited) return UINT64_MAX;
    ProcessLimits const limits;
    auto const left = limits.addresses_left();
    if (!left) return UINT64_MAX;
    std::uint64_t const step = std::max<std::uint64_t>(limits.memory().value / kSteps, 1);
    std::uint64_t const half = (left->value + reusable) / 2;
    return half >= step ? half / step * step : half;
}

std::string no_addresses_text(std::uint64_t bytes, int code) {
    auto const left = ProcessLimits().addresses_left();
    if (!left || left->value > bytes) {
        return bytes_text(bytes) + " cannot be had: " + std::system_category().message(code);
    }
    return bytes_text(bytes) + " are more than the " + bytes_text(left->value) + " that " +
           left->name + " leaves this process: raise that";
}

std::string no_thread_text(std::string const& why) {
    ProcessLimits const limits;
    std::string text = why;
    if (auto const most = limits.resource("Max processes")) {
        text += "; this user may have " + std::to_string(*most) + " threads (ulimit -u)";
    }
    if (auto const left = limits.addresses_left()) {
        text += "; " + left->name + " leaves " + bytes_text(left->value) +
                ", and a thread's stack takes " +
                bytes_text(limits.resource("Max stack size").value_or(0)) + " (ulimit -s)";
    }
    return text;
}

std::string too_many_files_text() {
    ProcessLimits const limits;
    auto const most = limits.resource("Max open files");
    auto const hard = limits.resource("Max open files", true);
    std::string text = "this process has too many open files";
    if (most) text += ": " + std::to_string(*most) + " by ulimit -n";
    if (hard && most && *hard > *most) text += ", which may be up to " + std::to_string(*hard);
    return text;
}

std::string locked_memory_text() {
    auto const most = ProcessLimits().resource("Max locked memory");
    if (!most) return {};
    return "this process may lock " + bytes_text(*most) +
           " of memory (ulimit -l), and NICs need what they read and write to be locked";
}

void allow_most_files() noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace mgi
