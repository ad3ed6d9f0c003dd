/// \file
/// What programs without MGI do on a GPU, before and behind what carries rows: partition in two passes, and read.
#pragma once

#include <functional>

#include "kernels.hpp"
#include "partition.hpp"
#include "peer_run.hpp"

namespace mgi::bench {

/// A GPU's side of an exchange whose rows are partitioned, carried, and read where they have come.
class Partitioned {
public:
    /// `received`: rows that are to come. On the current GPU.
    Partitioned(Load const& load, peers::Gpu const& gpu, u64 received);

    [[nodiscard]] cudaStream_t stream() const { return stream_; }
    /// Enqueues the partition and what says where parts begin.
    void start_partition();
    /// Once that is done.
    void end_partition();
    [[nodiscard]] u64 rows_for(u32 part) const { return begins_[part + 1] - begins_[part]; }
    /// Calls `work(words, bytes)` for each run of memory that rows of a part lie in: one of row structs, else one of each column.
    template <class Work>
    void each_run_for(u32 part, Work const& work) const {
        runs(parts_, begins_[part], rows_for(part), work);
    }
    /// The same of rows [first, first + rows) of those that come.
    template <class Work>
    void each_run_from(u64 first, u64 rows, Work const& work) const {
        runs(arrived_.table(), first, rows, work);
    }
    /// Enqueues reading what has come.
    void start_read();
    [[nodiscard]] bool has(Sums const& wanted) const;

private:
    template <class Work>
    static void runs(Table const& table, u64 first, u64 rows, Work const& work) {
        if (rows == 0) return;
        u32 const each = table.stride;  // words of a row in a run
        for (u32 w = 0; w < table.words; w += each) {
            work(table.column[w] + first * each, rows * each * sizeof(u64));
        }
    }

    Table input_;
    cudaStream_t stream_;
    TableBuffer parted_;  ///< none where there is but one part
    Table parts_;
    TableBuffer arrived_;
    DeviceArray<u32> begin_;
    DeviceArray<u64> sum_;
    PinnedArray<u32> begins_;
    u32 const count_;
    PartitionRun partition_;
};

}  // namespace mgi::bench
