#include "runtime/job.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <mgi/error.hpp>

namespace mgi {
namespace {

using Set = std::map<std::string, std::string>;

Job job_of(Set const& set) {
    auto const lookup = [&](char const* name) -> char const* {
        auto const at = set.find(name);
        return at == set.end() ? nullptr : at->second.c_str();
    };
    return read_job(lookup, "here");
}

std::string why_not(Set const& set) {
    try {
        job_of(set);
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        return error.what();
    }
    return "";
}

void expect_place(Job const& job, std::uint32_t rank, std::uint32_t size, std::uint32_t local_rank,
                  std::uint32_t local_size) {
    EXPECT_EQ(job.rank, rank);
    EXPECT_EQ(job.size, size);
    EXPECT_EQ(job.local_rank, local_rank);
    EXPECT_EQ(job.local_size, local_size);
}

Set const kOurs{{"MGI_RANK", "3"},       {"MGI_SIZE", "4"}, {"MGI_LOCAL_RANK", "1"},
                {"MGI_LOCAL_SIZE", "2"}, {"MGI_JOB", "q3"}, {"MGI_SERVER", "server1"}};
Set const kSlurm{{"SLURM_PROCID", "6"},  {"SLURM_STEP_NUM_TASKS", "7"},
                 {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                 {"SLURM_NODEID", "3"},  {"SLURM_JOB_ID", "4711"}};
Set const kTorchrun{{"RANK", "5"},
                    {"WORLD_SIZE", "8"},
                    {"LOCAL_RANK", "1"},
                    {"LOCAL_WORLD_SIZE", "4"},
                    {"TORCHELASTIC_RUN_ID", "run"}};

Set with(Set set, Set const& more) {
    for (auto const& [name, value] : more) set[name] = value;
    return set;
}

TEST(Job, WithoutALauncherIsAProcessOfItsOwn) {
    Job const job = job_of({});
    expect_place(job, 0, 1, 0, 1);
    EXPECT_EQ(job.launcher, "");
    EXPECT_EQ(job.server, "here");
    EXPECT_EQ(job.name, "");
}

TEST(Job, OursGoesBeforeAllOthers) {
    Job const job = job_of(with(with(kOurs, kSlurm), kTorchrun));
    expect_place(job, 3, 4, 1, 2);
    EXPECT_EQ(job.launcher, "mgi run");
    EXPECT_EQ(job.server, "server1");
    EXPECT_EQ(job.name, "q3");
}

TEST(Job, SlurmTorchrunAndMpiAreRecognized) {
    Job job = job_of(kSlurm);
    expect_place(job, 6, 7, 0, 1);
    EXPECT_EQ(job.launcher, "Slurm");
    EXPECT_EQ(job.name, "4711");
    EXPECT_EQ(job.server, "here");
    job = job_of(
        with(kSlurm, {{"SLURM_PROCID", "3"}, {"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "1"}}));
    expect_place(job, 3, 7, 1, 2);
    job = job_of(kTorchrun);
    expect_place(job, 5, 8, 1, 4);
    EXPECT_EQ(job.launcher, "torchrun");
    job = job_of({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
    expect_place(job, 1, 2, 0, 1);
    EXPECT_EQ(job.launcher, "Open MPI");
    job = job_of(
        {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
    expect_place(job, 2, 4, 0, 2);
    EXPECT_EQ(job.launcher, "MPI");
}

TEST(Job, ASingleProcessNeedsNoLocalRank) {
    expect_place(job_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), 0, 1, 0, 1);
}

TEST(Job, WhatIsNoTaskOfAStepOrAnybodysVariableIsNoLauncher) {
    EXPECT_EQ(
        job_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}}).launcher,
        "");
    EXPECT_EQ(job_of({{"RANK", "high"}}).launcher, "");
}

TEST(Job, SlurmsPmiLeavesTheNodesPlaceToSlurm) {
    Job const job = job_of(with(kSlurm, {{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}}));
    EXPECT_EQ(job.launcher, "Slurm");
    EXPECT_EQ(job.local_size, 1U);
}

TEST(Job, TheInnermostOfNestedLaunchersCounts) {
    // srun starts torchrun once a node.
    Job const job = job_of(with(kSlurm, kTorchrun));
    EXPECT_EQ(job.launcher, "torchrun");
    EXPECT_EQ(job.size, 8U);
}

TEST(Job, TheInnerLauncherCountsWhereTheOuterHasAsManyProcesses) {
    // srun -N 2 starts torchrun with a process on each node, which orders the nodes by itself.
    Set const task{{"SLURM_PROCID", "1"},  {"SLURM_STEP_NUM_TASKS", "2"},
                   {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                   {"SLURM_NODEID", "1"},  {"SLURM_JOB_ID", "7"}};
    Job job = job_of(with(task, {{"RANK", "0"},
                                 {"WORLD_SIZE", "2"},
                                 {"LOCAL_RANK", "0"},
                                 {"LOCAL_WORLD_SIZE", "1"},
                                 {"TORCHELASTIC_RUN_ID", "x"}}));
    expect_place(job, 0, 2, 0, 1);
    EXPECT_EQ(job.launcher, "torchrun");
    // In salloc mpirun starts both on the first node, below a daemon that is a task of Slurm's.
    job = job_of(with(task, {{"SLURM_PROCID", "0"},
                             {"SLURM_NODEID", "0"},
                             {"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
    expect_place(job, 1, 2, 1, 2);
    EXPECT_EQ(job.launcher, "Open MPI");
    job = job_of(with(task, {{"PMI_RANK", "0"},
                             {"PMI_SIZE", "2"},
                             {"MPI_LOCALRANKID", "0"},
                             {"MPI_LOCALNRANKS", "2"}}));
    expect_place(job, 0, 2, 0, 2);
}

TEST(Job, APodOfAPyTorchJobIsAServerOfOneProcess) {
    Set const pod{
        {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "pod-0"}, {"MASTER_PORT", "2345"}};
    EXPECT_NE(why_not(pod).find("RANK is set and LOCAL_RANK is not"), std::string::npos)
        << "elsewhere that is not known";
    Job const job = job_of(with(pod, {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}));
    expect_place(job, 2, 4, 0, 1);
    EXPECT_EQ(job.launcher, "PyTorchJob");
}

TEST(Job, RanksWithoutLocalNumbersAreOfWhoeverStartedTheLauncher) {
    Set const mpi{{"OMPI_COMM_WORLD_RANK", "5"},
                  {"OMPI_COMM_WORLD_SIZE", "8"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "5"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}};
    Set const alone{{"RANK", "0"}, {"WORLD_SIZE", "1"}};
    expect_place(job_of(with(mpi, alone)), 5, 8, 5, 8);
    expect_place(job_of(with(kSlurm, alone)), 6, 7, 0, 1);
    Set const one_of_two{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "pod-0"}};
    expect_place(job_of(with(mpi, one_of_two)), 5, 8, 5, 8);
    Set const pod = with(one_of_two, {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}});
    expect_place(job_of(with(mpi, pod)), 5, 8, 5, 8);
    std::string const other = why_not(with(mpi, {{"RANK", "3"}, {"WORLD_SIZE", "8"}}));
    EXPECT_NE(other.find("RANK is 3 and OMPI_COMM_WORLD_RANK is 5"), std::string::npos) << other;
}

TEST(Job, SlurmsOwnPmixRankIsOfAnotherStep) {
    Set const inner = with(kSlurm, {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.4711.0"}});
    expect_place(job_of(inner), 6, 7, 0, 1);
}

TEST(Job, WhatAScriptSetsFromSlurmsNeedsNoLocalNumbers) {
    Job const job = job_of(with(kSlurm, {{"RANK", "6"}, {"WORLD_SIZE", "7"}, {"LOCAL_RANK", "0"}}));
    expect_place(job, 6, 7, 0, 1);
    EXPECT_EQ(job.launcher, "Slurm");
}

TEST(Job, OtherLaunchersAreRecognized) {
    struct Case {
        char const* launcher;
        Set set;
    };
    std::vector<Case> const cases{
        {"DeepSpeed",
         {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_SIZE", "4"},
          {"CROSS_RANK", "1"},
          {"CROSS_SIZE", "2"}}},
        {"Horovod",
         {{"HOROVOD_RANK", "5"},
          {"HOROVOD_SIZE", "8"},
          {"HOROVOD_LOCAL_RANK", "1"},
          {"HOROVOD_LOCAL_SIZE", "4"}}},
        {"MVAPICH",
         {{"MV2_COMM_WORLD_RANK", "5"},
          {"MV2_COMM_WORLD_SIZE", "8"},
          {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
          {"MV2_COMM_WORLD_LOCAL_SIZE", "4"}}},
        {"Flux",
         {{"FLUX_TASK_RANK", "5"},
          {"FLUX_JOB_SIZE", "8"},
          {"FLUX_TASK_LOCAL_ID", "1"},
          {"FLUX_JOB_NNODES", "2"},
          {"FLUX_JOB_ID", "f1"},
          {"PMI_RANK", "5"},
          {"PMI_SIZE", "8"}}},
        {"PALS",
         {{"PALS_RANKID", "5"},
          {"PMI_SIZE", "8"},
          {"PALS_LOCAL_RANKID", "1"},
          {"PMI_LOCAL_SIZE", "4"}}},
        {"MPI",
         {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "4"}}},
    };
    for (Case const& each : cases) {
        SCOPED_TRACE(each.launcher);
        Job const job = job_of(each.set);
        expect_place(job, 5, 8, 1, 4);
        EXPECT_EQ(job.launcher, each.launcher);
    }
}

TEST(Job, WhatALauncherDoesNotSayIsAnError) {
    EXPECT_NE(why_not(with(kSlurm, {{"SLURM_HET_SIZE", "2"}})).find("heterogeneous"),
              std::string::npos);
    EXPECT_EQ(why_not(with(kSlurm, {{"SLURM_HET_SIZE", "1"}})), "");
    EXPECT_NE(why_not({{"FLUX_TASK_RANK", "5"},
                       {"FLUX_JOB_SIZE", "7"},
                       {"FLUX_TASK_LOCAL_ID", "1"},
                       {"FLUX_JOB_NNODES", "2"}})
                  .find("FLUX_JOB_NNODES is 2, which does not divide it"),
              std::string::npos);
    EXPECT_NE(why_not({{"MV2_COMM_WORLD_RANK", "1"}}).find("MV2_COMM_WORLD_SIZE is not"),
              std::string::npos);
    // PRRTE's prun in a step of Slurm's.
    EXPECT_NE(why_not(with(kSlurm, {{"PMIX_RANK", "2"}})).find("SLURM_PROCID is 6"),
              std::string::npos);
    EXPECT_EQ(job_of(with(kSlurm, {{"PMIX_RANK", "6"}})).launcher, "Slurm");
}

TEST(Job, ContradictionsNameTheirVariables) {
    EXPECT_NE(why_not({{"MGI_RANK", "1"}}).find("MGI_RANK is set and MGI_SIZE is not"),
              std::string::npos);
    EXPECT_NE(why_not({{"MGI_SIZE", "1"}}).find("MGI_SIZE is set and MGI_RANK is not"),
              std::string::npos);
    EXPECT_NE(why_not(with(kOurs, {{"MGI_RANK", "4"}})).find("MGI_RANK is 4 and MGI_SIZE is 4"),
              std::string::npos);
    EXPECT_NE(why_not(with(kOurs, {{"MGI_LOCAL_RANK", "2"}})).find("MGI_LOCAL_SIZE is 2"),
              std::string::npos);
    EXPECT_NE(why_not(with(kOurs, {{"MGI_LOCAL_SIZE", "5"}})).find("MGI_SIZE is 4"),
              std::string::npos);
    EXPECT_NE(why_not(with(kOurs, {{"MGI_RANK", "-1"}})).find("MGI_RANK is '-1'"),
              std::string::npos);
    EXPECT_NE(why_not({{"PMIX_RANK", "2"}}).find("PMIX_RANK is set"), std::string::npos);
    EXPECT_NE(why_not({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}).find("MPI_LOCALRANKID"),
              std::string::npos);
    EXPECT_NE(why_not(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", ""},
                                       {"WORLD_SIZE", "7"},
                                       {"SLURM_PROCID", "4"},
                                       {"SLURM_STEP_NUM_TASKS", "7"},
                                       {"SLURM_LOCALID", "0"}}))
                  .find("RANK is 5 and SLURM_PROCID is 4"),
              std::string::npos);
    EXPECT_NE(why_not(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x3"}})).find("SLURM_NODEID"),
              std::string::npos);
    EXPECT_NE(why_not(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "two"}}))
                  .find("SLURM_STEP_TASKS_PER_NODE is 'two'"),
              std::string::npos);
}

TEST(Job, TheProcessOwnEnvironmentIsRead) {
    EXPECT_FALSE(Job::from_environment().server.empty());
}

}  // namespace
}  // namespace mgi
