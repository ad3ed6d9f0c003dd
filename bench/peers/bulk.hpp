/// \file
/// An exchange as a library's collective operations do it: all rows are partitioned, then all are
/// moved, then all are read.
#pragma once

#include <functional>

#include "peers/pipeline.hpp"
#include "perf/buffer.hpp"

namespace mgi::peers {

/// A library's collective operations. Throws what the library says.
class Collectives {
public:
    Collectives() = default;
    virtual ~Collectives() = default;
    Collectives(Collectives const&) = delete;
    Collectives& operator=(Collectives const&) = delete;

    virtual void barrier() = 0;
    /// One word to each rank, and one from each.
    virtual void alltoall(std::vector<std::uint64_t>& to, std::vector<std::uint64_t>& from) = 0;
    /// So many rows to each rank, and from each, one behind the other.
    virtual void alltoallv(char* out, std::vector<std::uint64_t> const& to, char* in,
                           std::vector<std::uint64_t> const& from) = 0;
    /// Rank 0's rows to all.
    virtual void broadcast(char* rows, std::uint64_t count) = 0;
};

class BulkMember : public Member {
public:
    BulkMember(Options const& options, perf::Rows const& rows,
               std::unique_ptr<Collectives> collectives);
    Ran run(std::string_view variant) override;

private:
    perf::Checksum exchange();
    perf::Checksum broadcast();
    void partition(std::vector<std::uint64_t> const& counts);
    void each_tile(std::function<void(std::uint64_t at, std::uint32_t rows)> const& tile);

    Options const options_;
    perf::Rows const& rows_;
    std::unique_ptr<Collectives> collectives_;
    limits::Scatter scatter_;
    perf::Buffer<char> out_;
    perf::Buffer<char> in_;
    std::uint64_t in_bytes_ = 0;
};

}  // namespace mgi::peers
