#include "runtime/job.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include <mgi/error.hpp>

namespace mgi {
namespace {

// How a launcher tells a process its place. Innermost first: one that starts others' processes is
// below them, and its word counts.
struct Launcher {
    char const* name;
    char const* rank;
    char const* size;
    char const* local_rank;
    char const* local_size;  // null: Slurm's counts by node
    char const* job;
    bool strict;  // any of rank and size says that it is there; else all three are needed for that
};

constexpr std::array<Launcher, 5> kLaunchers{{
    {"mgi run", "MGI_RANK", "MGI_SIZE", "MGI_LOCAL_RANK", "MGI_LOCAL_SIZE", "MGI_JOB", true},
    // Names that anybody may use: only all of them together are torchrun's.
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID",
     false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", true},
    {"MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID", true},
    // A batch script has SLURM_PROCID as well, and is no task of a step.
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURM_JOB_ID",
     false},
}};

[[noreturn]] void fail(std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, "this process' place in its job: " + what);
}

class Reader {
public:
    explicit Reader(Variables const& variables) : variables_(variables) {}

    [[nodiscard]] std::optional<std::string> text(char const* name) const {
        char const* const value = variables_(name);
        if (value == nullptr || *value == '\0') return std::nullopt;
        return value;
    }

    [[nodiscard]] bool has(char const* name) const { return text(name).has_value(); }

    [[nodiscard]] std::uint32_t number(char const* name, char const* beside) const {
        auto const value = text(name);
        if (!value) fail(std::string(beside) + " is set and " + name + " is not; set both or none");
        return parse(name, *value, *value);
    }

    // `part` of the variable's value as a number.
    [[nodiscard]] static std::uint32_t parse(char const* name, std::string const& value,
                                             std::string_view part) {
        std::uint32_t result = 0;
        auto const [end, error] = std::from_chars(part.data(), part.data() + part.size(), result);
        if (error != std::errc() || end != part.data() + part.size()) {
            fail(std::string(name) + " is '" + value + "'; expected a whole number, 0 or more");
        }
        return result;
    }

private:
    Variables const& variables_;
};

bool is_present(Reader const& reader, Launcher const& launcher) {
    bool const rank = reader.has(launcher.rank);
    bool const size = reader.has(launcher.size);
    return launcher.strict ? rank || size : rank && size && reader.has(launcher.local_rank);
}

// Slurm's own PMI does not say which process of its node one is; Slurm itself does.
bool is_of_slurm(Reader const& reader, Launcher const& launcher) {
    return std::string_view(launcher.name) == "MPI" && !reader.has(launcher.local_rank) &&
           is_present(reader, kLaunchers.back());
}

// Slurm's "2(x3),1": three nodes with two tasks each, then one with one.
std::uint32_t tasks_on_this_node(Reader const& reader) {
    char const* const name = "SLURM_STEP_TASKS_PER_NODE";
    auto const list = reader.text(name);
    if (!list) fail(std::string("SLURM_PROCID is set and ") + name + " is not");
    std::uint32_t node = reader.number("SLURM_NODEID", "SLURM_PROCID");
    std::string_view left = *list;
    while (!left.empty()) {
        auto const comma = left.find(',');
        std::string_view const item = left.substr(0, comma);
        left = comma == std::string_view::npos ? std::string_view() : left.substr(comma + 1);
        auto const open = item.find("(x");
        std::uint32_t const tasks = Reader::parse(name, *list, item.substr(0, open));
        std::uint32_t nodes = 1;
        if (open != std::string_view::npos) {
            auto const close = item.find(')', open);
            nodes = Reader::parse(name, *list, item.substr(open + 2, close - open - 2));
        }
        if (node < nodes) return tasks;
        node -= nodes;
    }
    fail("SLURM_NODEID names a node that " + std::string(name) + " '" + *list + "' does not have");
}

void check_less(char const* rank_name, std::uint32_t rank, char const* size_name,
                std::uint32_t size) {
    if (rank < size) return;
    fail(std::string(rank_name) + " is " + std::to_string(rank) + " and " + size_name + " is " +
         std::to_string(size) + "; ranks count from 0 to the size less one");
}

Job read_place(Reader const& reader, Launcher const& launcher) {
    Job job;
    job.launcher = launcher.name;
    job.rank = reader.number(launcher.rank, launcher.size);
    job.size = reader.number(launcher.size, launcher.rank);
    check_less(launcher.rank, job.rank, launcher.size, job.size);
    job.name = reader.text(launcher.job).value_or("");
    // Some launchers leave out what is plain for a single process.
    if (job.size == 1 && !reader.has(launcher.local_rank)) return job;
    job.local_rank = reader.number(launcher.local_rank, launcher.rank);
    job.local_size = launcher.local_size != nullptr
                         ? reader.number(launcher.local_size, launcher.rank)
                         : tasks_on_this_node(reader);
    char const* const local_size =
        launcher.local_size != nullptr ? launcher.local_size : "SLURM_STEP_TASKS_PER_NODE";
    check_less(launcher.local_rank, job.local_rank, local_size, job.local_size);
    if (job.local_size > job.size) {
        fail(std::string(local_size) + " is " + std::to_string(job.local_size) + " and " +
             launcher.size + " is " + std::to_string(job.size) +
             "; a server has no more processes than all together");
    }
    return job;
}

// One launcher inside another has other numbers (srun starts torchrun once a node). Two that speak of
// as many processes speak of the same ones, and must mean the same one.
void check_agreement(Reader const& reader, Launcher const& inner, Job const& job,
                     Launcher const& outer) {
    std::uint32_t const size = reader.number(outer.size, outer.rank);
    std::uint32_t const rank = reader.number(outer.rank, outer.size);
    if (job.size == 1 || size != job.size || rank == job.rank) return;
    fail(std::string(inner.rank) + " is " + std::to_string(job.rank) + " and " + outer.rank +
         " is " + std::to_string(rank) + ", both of " + std::to_string(size) +
         " processes; unset the wrong one, or set MGI_RANK, MGI_SIZE, MGI_LOCAL_RANK and "
         "MGI_LOCAL_SIZE, which go before all others");
}

}  // namespace

Job read_job(Variables const& variables, std::string const& host) {
    Reader const reader(variables);
    Job job;
    Launcher const* found = nullptr;
    for (Launcher const& launcher : kLaunchers) {
        if (!is_present(reader, launcher) || is_of_slurm(reader, launcher)) continue;
        if (found == nullptr) {
            job = read_place(reader, launcher);
            found = &launcher;
            if (found == kLaunchers.data()) break;  // ours is always meant
        } else {
            check_agreement(reader, *found, job, launcher);
        }
    }
    if (found == nullptr && reader.has("PMIX_RANK")) {
        fail(
            "PMIX_RANK is set, and nothing says how many processes there are; set MGI_RANK, "
            "MGI_SIZE, MGI_LOCAL_RANK and MGI_LOCAL_SIZE, or start it by mpirun or srun");
    }
    job.server = reader.text("MGI_SERVER").value_or(host);
    return job;
}

Job Job::from_environment() {
    std::array<char, 256> host{};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): whoever changes the environment meanwhile is on his own
    auto const variables = [](char const* asked) -> char const* { return std::getenv(asked); };
    if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
    return read_job(variables, host.data());
}

}  // namespace mgi
