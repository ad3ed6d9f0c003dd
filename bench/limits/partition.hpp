/// \file
/// The limit of an exchange: a pipelined partition with the least there can be around it. Each thread
/// partitions its rows by the hash of the key into segments that stay in cache, one ring of them for
/// each destination; the thread that a destination belongs to reads the segments in place. One
/// producer and one consumer a ring, no tickets, no groups, no routing but this one, no errors: what
/// a program written for exactly this exchange on exactly these threads could reach.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "perf/buffer.hpp"
#include "perf/rows.hpp"

namespace mgi::limits {

struct PartitionOptions {
    std::uint32_t threads = 2;
    std::uint32_t fan_out = 2;        ///< destinations; number d belongs to thread d % threads
    std::uint32_t segment_bytes = 0;  ///< 0: what measured best for the fan-out
    std::uint32_t slots = 4;          ///< segments of a ring
    std::uint32_t tile_rows = 0;      ///< rows sorted at a time; 0: what measured best
};

/// A partition of some rows, to be run again and again. Rows must outlive it.
class Partition {
public:
    Partition(PartitionOptions const& options,
              std::vector<std::unique_ptr<perf::Rows>> const& inputs);
    ~Partition();

    /// Runs once on pinned threads. Returns the seconds from the first row to the last one read, and
    /// adds what was read to `sum`.
    double run(perf::Checksum& sum);

private:
    class Worker;
    struct Ring;

    PartitionOptions options_;
    std::vector<perf::Rows const*> inputs_;
    std::uint32_t segment_rows_ = 0;
    std::vector<Ring> rings_;  ///< by thread and destination
    perf::Buffer<char> pool_;
};

}  // namespace mgi::limits
