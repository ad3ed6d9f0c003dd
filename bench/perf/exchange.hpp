/// \file
/// How fast rows get from kernels to kernels: the engine of `mgi perf exchange`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <mgi/channel.hpp>

namespace mgi::perf {

/// What to measure. Every endpoint sends to every destination by murmur3 of the key.
struct ExchangeOptions {
    std::uint32_t endpoints = 4;  ///< that send, and run kernels
    /// Destinations; endpoint e's kernels receive at destinations e, e + endpoints and so on. 0: each
    /// endpoint is a destination.
    std::uint32_t fanout = 0;
    std::uint64_t rows = 10'000'000;  ///< of all endpoints together
    std::uint32_t row_bytes = 16;     ///< a multiple of 8: an int64 key and int64 payload columns
    /// Exponent of Zipf's law over as many keys as there are rows; 0: keys are uniformly random.
    double zipf_theta = 0;
    Layout layout = Layout::Columns;
    std::uint32_t groups = 0;   ///< of each endpoint; 0: the cores divided among all group threads
    std::uint32_t threads = 1;  ///< of each group
    bool by_reference = true;
    bool staged = false;              ///< row by row through stage buffers and sorters
    std::uint32_t limit_threads = 0;  ///< of the partition limit; 0: all, at most one a core
    std::uint32_t repeat = 5;
    std::uint64_t seed = 1;
    /// Set to true by another thread to stop; then `run_exchange` throws Error(Interrupted).
    std::atomic<bool> const* cancel = nullptr;
};

struct ExchangeResult {
    std::uint32_t groups = 0;  ///< of each endpoint, as they were
    std::uint32_t fanout = 0;  ///< likewise
    std::uint64_t bytes = 0;   ///< payload of a run: rows * row_bytes
    /// Payload / time from the first send to the last row consumed, in 10^9 bytes a second, of each
    /// run.
    std::vector<double> gbps;
    /// Staged runs only: the block-collective send of the same rows, between the runs.
    std::vector<double> collective_gbps;
    /// The hand-written partition of the same rows with the same fan-out (limits/partition.hpp),
    /// between the runs.
    std::vector<double> partition_gbps;
    /// The same bytes copied with memcpy by as many threads: what memory gives, between the runs.
    std::vector<double> memcpy_gbps;
    std::vector<double> create_ms;  ///< to create each run's channel
    std::uint64_t pool_bytes = 0;   ///< of the channel and its stages
    /// Growth of resident memory from before the first channel's creation to its peak in that run.
    std::uint64_t resident_bytes = 0;
    /// In every run all rows arrived, with the sent keys' sum and the payload's parity.
    bool verified = false;
};

/// Runs the exchange `repeat` times over the same rows, each time through a new channel, after one
/// run that does not count. Throws Error(InvalidArgument) that names the option, and what
/// `Runtime::create_channel` throws.
ExchangeResult run_exchange(ExchangeOptions const& options);

/// Middle value; the mean of the two middle ones of an even number; 0 of none.
double median(std::vector<double> values);

}  // namespace mgi::perf
