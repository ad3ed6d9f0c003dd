/// \file
/// How long it takes to create a channel from all GPUs of a cluster to all: the engine of
/// `mgi perf plan`.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace mgi::perf {

struct PlanOptions {
    std::uint64_t gpus = 100;
    std::uint32_t per_server = 8;
    std::uint64_t shapes = 1;  ///< different ones among the servers; 0: all are
    std::uint32_t repeat = 5;
    std::uint32_t pairs = 200;    ///< that are verified, at most
    double baseline_seconds = 1;  ///< what the baseline may take, about
    std::uint64_t seed = 1;
    /// Set to true by another thread to stop; then `run_plan` throws Error(Interrupted).
    std::atomic<bool> const* cancel = nullptr;
};

struct PlanResult {
    std::uint64_t servers = 0;
    std::uint64_t shapes = 0;  ///< as they were
    /// From the request to every server's serialized table: with nothing kept from before, and again.
    std::vector<double> create_ms;
    std::vector<double> warm_ms;
    std::vector<double> replan_ms;  ///< after a NIC failed: until its server's new table stands
    /// Edmonds-Karp over the whole graph for every pair. Measured on `baseline_pairs` of all
    /// `pairs` and scaled up.
    double baseline_ms = 0;
    std::uint64_t baseline_pairs = 0;
    std::uint64_t pairs = 0;
    std::uint64_t table_bytes = 0;     ///< all distinct tables and the directory
    std::uint64_t sent_bytes = 0;      ///< every server's table and directory
    std::uint64_t resident_bytes = 0;  ///< by which the process grew, cluster and plan
    std::uint64_t sampled = 0;
    std::uint64_t verified = 0;  ///< of the sampled pairs: capacity and paths are right
};

/// Throws Error(InvalidArgument) for what no cluster can be.
PlanResult run_plan(PlanOptions const& options);

}  // namespace mgi::perf
