#include "runtime/job.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include <mgi/error.hpp>

namespace mgi {
namespace {

// Variables of which the first that is set counts; unused ones are null.
using Names = std::array<char const*, 2>;

// When a launcher is there.
enum class Sign : std::uint8_t {
    Any,  // its rank or its size is set: incomplete is an error
    Both,
    Task,  // its rank, size and local rank are set
};

// How a launcher tells a process its place. Innermost first: one that starts others' processes is
// below them, and its word counts.
struct Launcher {
    char const* name;
    Names rank;
    Names size;
    Names local_rank;
    Names local_size;  // none: Slurm's and Flux's count by node
    char const* job;
    Sign sign;
};

constexpr std::array<Launcher, 9> kLaunchers{{
    {"mgi run",
     {"MGI_RANK"},
     {"MGI_SIZE"},
     {"MGI_LOCAL_RANK"},
     {"MGI_LOCAL_SIZE"},
     "MGI_JOB",
     Sign::Any},
    // Names that anybody may use: one alone means nothing. DeepSpeed's local size is LOCAL_SIZE.
    {"torchrun",
     {"RANK"},
     {"WORLD_SIZE"},
     {"LOCAL_RANK"},
     {"LOCAL_WORLD_SIZE", "LOCAL_SIZE"},
     "TORCHELASTIC_RUN_ID",
     Sign::Both},
    {"Horovod",
     {"HOROVOD_RANK"},
     {"HOROVOD_SIZE"},
     {"HOROVOD_LOCAL_RANK"},
     {"HOROVOD_LOCAL_SIZE"},
     "",
     Sign::Any},
    {"Open MPI",
     {"OMPI_COMM_WORLD_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     "PMIX_NAMESPACE",
     Sign::Any},
    {"MVAPICH",
     {"MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"},
     {"MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"},
     {"MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"},
     {"MV2_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE"},
     "",
     Sign::Any},
    {"Flux",
     {"FLUX_TASK_RANK"},
     {"FLUX_JOB_SIZE"},
     {"FLUX_TASK_LOCAL_ID"},
     {},
     "FLUX_JOB_ID",
     Sign::Any},
    {"PALS",
     {"PALS_RANKID"},
     {"PALS_SIZE", "PMI_SIZE"},
     {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
     {"PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"},
     "PALS_APID",
     Sign::Both},
    {"MPI",
     {"PMI_RANK"},
     {"PMI_SIZE"},
     {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
     {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
     "PMI_JOBID",
     Sign::Any},
    // A batch script has SLURM_PROCID as well, and is no task of a step.
    {"Slurm",
     {"SLURM_PROCID"},
     {"SLURM_STEP_NUM_TASKS"},
     {"SLURM_LOCALID"},
     {},
     "SLURM_JOB_ID",
     Sign::Task},
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

    [[nodiscard]] bool has(Names const& names) const { return has(set(names)); }

    // The one of them that is set; the first if none is, and empty if there are no names.
    [[nodiscard]] char const* set(Names const& names) const {
        for (char const* const name : names) {
            if (name != nullptr && has(name)) return name;
        }
        return names.front() != nullptr ? names.front() : "";
    }

    // `beside` is what is set and makes no sense without it.
    [[nodiscard]] std::uint32_t number(Names const& names, char const* beside) const {
        char const* const name = set(names);
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
    if (launcher.sign == Sign::Any) return rank || size;
    return rank && size && (launcher.sign == Sign::Both || reader.has(launcher.local_rank));
}

bool is_called(Launcher const& launcher, std::string_view name) {
    return launcher.name == name;
}

// Slurm's "2(x3),1": three nodes with two tasks each, then one with one.
std::uint32_t tasks_on_this_node(Reader const& reader) {
    char const* const name = "SLURM_STEP_TASKS_PER_NODE";
    auto const list = reader.text(name);
    if (!list) fail(std::string("SLURM_PROCID is set and ") + name + " is not");
    std::uint32_t node = reader.number({"SLURM_NODEID"}, "SLURM_PROCID");
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

// Flux shares tasks out evenly, and says no more than how many nodes there are.
std::uint32_t flux_tasks_on_a_node(Reader const& reader, std::uint32_t size) {
    std::uint32_t const nodes = reader.number({"FLUX_JOB_NNODES"}, "FLUX_TASK_RANK");
    if (nodes != 0 && size % nodes == 0) return size / nodes;
    fail("FLUX_JOB_SIZE is " + std::to_string(size) + " and FLUX_JOB_NNODES is " +
         std::to_string(nodes) +
         ", which does not divide it, so that how many tasks this node has is "
         "not known; set MGI_RANK, MGI_SIZE, MGI_LOCAL_RANK and MGI_LOCAL_SIZE");
}

// Slurm numbers the tasks of all components, and tells each how many its own component has.
void check_homogeneous(Reader const& reader) {
    auto const components = reader.text("SLURM_HET_SIZE");
    if (!components || Reader::parse("SLURM_HET_SIZE", *components, *components) < 2) return;
    fail(
        "SLURM_HET_SIZE is " + *components +
        ": this is a heterogeneous job, of which Slurm does not say how many tasks a step has; set "
        "MGI_RANK, MGI_SIZE, MGI_LOCAL_RANK and MGI_LOCAL_SIZE, or unset SLURM_HET_SIZE for a step "
        "of one component");
}

// Whether it says which process of its server one is. Without that Slurm's own PMI, and variables that
// a script has set from Slurm's, leave it to Slurm.
bool is_whole(Reader const& reader, Launcher const& launcher) {
    bool const counts = launcher.local_size.front() == nullptr || reader.has(launcher.local_size);
    return counts && reader.has(launcher.local_rank);
}

// A pod of a PyTorchJob is a server of one process, and so its launcher leaves local numbers out.
bool is_pod(Reader const& reader, Launcher const& launcher) {
    return is_called(launcher, "torchrun") && !reader.has(launcher.local_rank) &&
           reader.has("MASTER_ADDR") && reader.has("KUBERNETES_SERVICE_HOST");
}

char const* name_of(Reader const& reader, Launcher const& launcher) {
    if (is_pod(reader, launcher)) return "PyTorchJob";
    bool const deepspeed = is_called(launcher, "torchrun") && !reader.has("TORCHELASTIC_RUN_ID") &&
                           reader.has("CROSS_RANK");
    return deepspeed ? "DeepSpeed" : launcher.name;
}

Job read_place(Reader const& reader, Launcher const& launcher) {
    char const* const rank_name = reader.set(launcher.rank);
    char const* const size_name = reader.set(launcher.size);
    bool const is_slurm = is_called(launcher, "Slurm");
    if (is_slurm) check_homogeneous(reader);
    Job job;
    job.launcher = name_of(reader, launcher);
    job.rank = reader.number(launcher.rank, size_name);
    job.size = reader.number(launcher.size, rank_name);
    check_less(rank_name, job.rank, size_name, job.size);
    job.name = reader.text(launcher.job).value_or("");
    // Some launchers leave out what is plain for a single process.
    bool const alone = job.size == 1 && !reader.has(launcher.local_rank);
    if (alone || is_pod(reader, launcher)) return job;
    job.local_rank = reader.number(launcher.local_rank, rank_name);
    char const* local_size = reader.set(launcher.local_size);
    if (is_slurm) {
        local_size = "SLURM_STEP_TASKS_PER_NODE";
        job.local_size = tasks_on_this_node(reader);
    } else if (is_called(launcher, "Flux")) {
        local_size = "FLUX_JOB_SIZE / FLUX_JOB_NNODES";
        job.local_size = flux_tasks_on_a_node(reader, job.size);
    } else {
        job.local_size = reader.number(launcher.local_size, rank_name);
    }
    check_less(reader.set(launcher.local_rank), job.local_rank, local_size, job.local_size);
    if (job.local_size > job.size) {
        fail(std::string(local_size) + " is " + std::to_string(job.local_size) + " and " +
             size_name + " is " + std::to_string(job.size) +
             "; a server has no more processes than all together");
    }
    return job;
}

// RANK and WORLD_SIZE without local numbers, as pods and scripts set them: of whoever started the
// launcher that is there beside them.
bool is_outermost(Reader const& reader, Launcher const& launcher) {
    return is_called(launcher, "torchrun") && !is_whole(reader, launcher);
}

// Whether both say the same rank of as many processes.
bool agree(Reader const& reader, Launcher const& one, Launcher const& other) {
    auto const same = [&](Names const& a, Names const& b) {
        return reader.has(a) && reader.has(b) && reader.number(a, "") == reader.number(b, "");
    };
    return same(one.rank, other.rank) && same(one.size, other.size);
}

// RANK and WORLD_SIZE that nobody but a script has set must be those of the launcher that started it,
// where that has as many processes. Launchers start processes of their own, which have other ranks.
void check_agreement(Reader const& reader, Launcher const& by_hand, Launcher const& other) {
    bool const is_hand = is_called(by_hand, "torchrun") && !reader.has("TORCHELASTIC_RUN_ID") &&
                         std::string_view(name_of(reader, by_hand)) == "torchrun";
    if (!is_hand || !reader.has(by_hand.rank) || !reader.has(by_hand.size)) return;
    std::uint32_t const own_size = reader.number(by_hand.size, "");
    std::uint32_t const own_rank = reader.number(by_hand.rank, "");
    std::uint32_t const size = reader.number(other.size, reader.set(other.rank));
    std::uint32_t const rank = reader.number(other.rank, reader.set(other.size));
    if (size == 1 || size != own_size || rank == own_rank) return;
    fail(std::string(reader.set(by_hand.rank)) + " is " + std::to_string(own_rank) + " and " +
         reader.set(other.rank) + " is " + std::to_string(rank) + ", both of " +
         std::to_string(size) +
         " processes; unset the wrong one, or set MGI_RANK, MGI_SIZE, MGI_LOCAL_RANK and "
         "MGI_LOCAL_SIZE, which go before all others");
}

// PMIX_RANK has no size beside it. PRRTE's prun sets it alone.
void check_pmix(Reader const& reader, Job const& job) {
    auto const rank = reader.text("PMIX_RANK");
    bool const told = !job.launcher.empty() && job.launcher != "Slurm";
    // Slurm's own, perhaps of the step in which this one was started.
    bool const slurms = reader.text("PMIX_NAMESPACE").value_or("").starts_with("slurm.pmix");
    if (!rank || told || slurms) return;
    if (!job.launcher.empty() && Reader::parse("PMIX_RANK", *rank, *rank) == job.rank) return;
    std::string const other =
        job.launcher.empty() ? "" : " (SLURM_PROCID is " + std::to_string(job.rank) + ")";
    fail("PMIX_RANK is set to " + *rank + other +
         ", and nothing says how many processes there are; set MGI_RANK, MGI_SIZE, MGI_LOCAL_RANK "
         "and MGI_LOCAL_SIZE, or start it by mpirun or srun");
}

}  // namespace

Job read_job(Variables const& variables, std::string const& host) {
    Reader const reader(variables);
    Job job;
    Launcher const* found = nullptr;
    Launcher const* outermost = nullptr;
    for (std::size_t i = 0; i < kLaunchers.size(); ++i) {
        Launcher const& launcher = kLaunchers[i];
        if (!is_present(reader, launcher)) continue;
        if (found != nullptr) {
            check_agreement(reader, *found, launcher);
            continue;
        }
        bool const elsewhere = !is_whole(reader, launcher) &&
                               std::any_of(kLaunchers.begin() + std::ptrdiff_t(i) + 1,
                                           kLaunchers.end(), [&](Launcher const& other) {
                                               return is_present(reader, other) &&
                                                      is_whole(reader, other) &&
                                                      (is_outermost(reader, launcher) ||
                                                       agree(reader, launcher, other));
                                           });
        if (elsewhere) {
            if (is_outermost(reader, launcher)) outermost = &launcher;
            continue;
        }
        job = read_place(reader, launcher);
        found = &launcher;
        if (outermost != nullptr) check_agreement(reader, *outermost, launcher);
        if (i == 0) break;  // ours is always meant
    }
    if (found != kLaunchers.data()) check_pmix(reader, job);
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
