#include "peers/bulk.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mgi::peers {

using perf::Checksum;
using perf::Clock;

BulkMember::BulkMember(Options const& options, perf::Rows const& rows,
                       std::unique_ptr<Collectives> collectives)
    : options_(options),
      rows_(rows),
      collectives_(std::move(collectives)),
      scatter_(options.destinations, limits::best_tile_rows(options.destinations)) {
    limits::pin(options_.rank);
    if (options_.broadcast && (options_.sources != 1 || !options_.receives())) {
        throw Error(ErrorCode::InvalidArgument,
                    "broadcast=1: give sources=1, and all processes as destinations");
    }
    if (options_.sends() && !options_.broadcast) out_ = perf::make_buffer<char>(rows_.bytes());
    if (options_.broadcast && options_.rank != 0) {
        in_ = perf::make_buffer<char>(options_.rows.rows * options_.rows.row_bytes);
    }
}

Ran BulkMember::run(std::string_view) {
    collectives_->barrier();
    Ran ran;
    ran.start = Clock::now();
    ran.received = options_.broadcast ? broadcast() : exchange();
    ran.end = Clock::now();
    return ran;
}

Checksum BulkMember::exchange() {
    std::vector<std::uint64_t> counts(options_.destinations);
    if (options_.sends()) {
        each_tile(
            [&](std::uint64_t at, std::uint32_t rows) { scatter_.count(rows_, at, rows, counts); });
        partition(counts);
    }
    std::vector<std::uint64_t> to(options_.processes);
    std::vector<std::uint64_t> from(options_.processes);
    for (std::uint32_t d = 0; d < options_.destinations; ++d) {
        to[options_.destination(d)] = counts[d];
    }
    collectives_->alltoall(to, from);
    std::uint64_t const rows = std::accumulate(from.begin(), from.end(), std::uint64_t{0});
    if (rows * options_.rows.row_bytes > in_bytes_) {
        in_bytes_ = rows * options_.rows.row_bytes;
        in_ = perf::make_buffer<char>(in_bytes_);
    }
    collectives_->alltoallv(out_.get(), to, in_.get(), from);
    Checksum received;
    char const* at = in_.get();
    for (std::uint64_t const count : from) {
        received.add(read(options_, at, std::uint32_t(count), count));
        at += count * options_.rows.row_bytes;
    }
    return received;
}

void BulkMember::partition(std::vector<std::uint64_t> const& counts) {
    std::vector<char*> place(counts.size());
    std::vector<std::uint64_t> filled(counts.size());
    char* at = out_.get();
    for (std::size_t d = 0; d < counts.size(); ++d) {
        place[d] = at;
        at += counts[d] * options_.rows.row_bytes;
    }
    each_tile([&](std::uint64_t first, std::uint32_t rows) {
        scatter_.sort(rows_, first, rows);
        for (std::uint32_t d = 0; d < counts.size(); ++d) {
            std::uint32_t const some = scatter_.end(d) - scatter_.first(d);
            scatter_.copy(scatter_.first(d), some, place[d], filled[d], counts[d]);
            filled[d] += some;
        }
    });
}

Checksum BulkMember::broadcast() {
    // The library only reads the first rank's.
    char* const rows = options_.rank == 0
                           ? reinterpret_cast<char*>(const_cast<std::int64_t*>(rows_.words()))
                           : in_.get();
    collectives_->broadcast(rows, options_.rows.rows);
    return read(options_, rows, std::uint32_t(options_.rows.rows), options_.rows.rows);
}

void BulkMember::each_tile(std::function<void(std::uint64_t, std::uint32_t)> const& tile) {
    for (std::uint64_t at = 0; at < rows_.size();) {
        std::uint32_t const some =
            std::uint32_t(std::min<std::uint64_t>(scatter_.tile_rows(), rows_.size() - at));
        tile(at, some);
        at += some;
    }
}

}  // namespace mgi::peers
