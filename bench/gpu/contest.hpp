/// \file
/// Those who do the same exchange in turn: MGI, what programs do without it, and what the links give.
#pragma once

#include <memory>
#include <string>

#include "load.hpp"
#include "peer_run.hpp"

namespace mgi::bench {

/// What one run took, in milliseconds from its first launch.
struct Turn {
    double arrived = 0;  ///< until all rows were where they belong
    double read = 0;  ///< until they had been read there; the same where rows are read as they come
};

/// One of them, with all that it needs.
class Contestant {
public:
    Contestant() = default;
    virtual ~Contestant() = default;
    Contestant(Contestant const&) = delete;
    Contestant& operator=(Contestant const&) = delete;

    virtual Turn run() = 0;
    /// Whether the rows of a first run, or of the last one, were right. Nobody looks at those of copy engines.
    virtual bool exact() = 0;
};

// Each throws where it cannot be had. `gpus` have the load's rows, and outlive it.

/// Partition in two passes, NCCL, read; a broadcast is NCCL's own.
std::unique_ptr<Contestant> by_nccl(Load const& load, peers::Gpus const& gpus);
/// The same over UCX, with a process for each GPU.
std::unique_ptr<Contestant> by_ucx(Load const& load);
/// Copy engines, of rows that were partitioned before: what the links allow. Nothing is read.
std::unique_ptr<Contestant> by_copies(Load const& load, peers::Gpus const& gpus);
/// peer_stream.hpp; exchanges of row structs only.
std::unique_ptr<Contestant> by_stream(Load const& load, peers::Gpus const& gpus);

}  // namespace mgi::bench
