/// \file
/// A pipelined exchange between processes: rows are partitioned into segments, a segment goes its way
/// when it is full, and what arrives is read meanwhile. All of it on one thread, as a rank of MPI has
/// it. Who carries the segments is a library's business.
#pragma once

#include <cstdint>
#include <optional>

#include "limits/scatter.hpp"
#include "peers/member.hpp"

namespace mgi::peers {

/// How large segments are, and how many each pair of processes has under way.
struct Segments {
    std::uint32_t rows = 0;
    std::uint32_t bytes = 0;
    std::uint32_t slots = 4;

    explicit Segments(Options const& options);
};

/// Carries segments between this process and others: in order, in as many slots for each pair.
class Carrier {
public:
    /// A segment that has come from somebody.
    struct Arrived {
        char const* data;
        std::uint32_t rows;
        bool last;  ///< of this run
    };

    Carrier() = default;
    virtual ~Carrier() = default;
    Carrier(Carrier const&) = delete;
    Carrier& operator=(Carrier const&) = delete;

    /// Returns when all processes have called it.
    virtual void barrier() = 0;
    /// The segment for a rank that is to be filled next; null while all are under way.
    virtual char* open(std::uint32_t to) = 0;
    virtual void publish(std::uint32_t to, std::uint32_t rows, bool last) = 0;
    /// The oldest segment that has come from a rank.
    virtual std::optional<Arrived> arrived(std::uint32_t from) = 0;
    virtual void release(std::uint32_t from) = 0;
    /// Whether all that was published has left, so that nobody waits for this process any more.
    virtual bool all_left() = 0;
};

/// Runs the exchange of the options once.
Ran run_pipelined(Options const& options, perf::Rows const& rows, Segments const& segments,
                  Carrier& carrier);

/// The checksum of rows in a segment whose columns are `stride` rows apart.
perf::Checksum read(Options const& options, char const* data, std::uint32_t rows,
                    std::uint64_t stride);

/// A process of a pipelined exchange.
class PipelinedMember : public Member {
public:
    PipelinedMember(Options const& options, perf::Rows const& rows,
                    std::unique_ptr<Carrier> carrier);
    Ran run(std::string_view variant) override;

private:
    Options const options_;
    perf::Rows const& rows_;
    Segments const segments_;
    std::unique_ptr<Carrier> carrier_;
};

}  // namespace mgi::peers
