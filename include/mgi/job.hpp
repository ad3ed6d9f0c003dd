/// \file
/// This process' place among those that were started together: `mgi run` says it by environment
/// variables (docs/running.md), and so do torchrun, MPI's launchers, Slurm and others in theirs.
#pragma once

#include <cstdint>
#include <string>

namespace mgi {

/// A process of a job. Without a launcher it is the only one of its own.
struct Job {
    std::string name;              ///< the same in all its processes; may be empty
    std::uint32_t rank = 0;        ///< among all processes, from 0
    std::uint32_t size = 1;        ///< how many there are
    std::uint32_t local_rank = 0;  ///< among those of this server, from 0
    std::uint32_t local_size = 1;  ///< how many this server has
    std::string server;            ///< this server's name: in the cluster, or else the host's
    std::string launcher;  ///< "mgi run", "torchrun", "Slurm", ... (docs/running.md); empty: none

    /// What the environment says; the innermost launcher's word counts. Throws
    /// Error(InvalidArgument) that names the variables which are incomplete or contradict each other.
    static Job from_environment();
};

}  // namespace mgi
