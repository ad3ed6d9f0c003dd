#include "peers/pipeline.hpp"

#include <algorithm>
#include <utility>

namespace mgi::peers {

using perf::Clock;

Segments::Segments(Options const& options)
    : rows(limits::segment_rows(limits::best_segment_bytes(options.destinations),
                                options.columns())),
      bytes(rows * options.rows.row_bytes) {}

perf::Checksum read(Options const& options, char const* data, std::uint32_t rows,
                    std::uint64_t stride) {
    auto const* const words = reinterpret_cast<std::uint64_t const*>(data);
    return options.rows.layout == Layout::Rows
               ? perf::checksum_of_rows(words, rows, options.columns())
               : perf::checksum_of_columns(words, rows, options.columns(), stride);
}

namespace {

class Pipeline {
public:
    Pipeline(Options const& options, perf::Rows const& rows, Segments const& segments,
             Carrier& carrier)
        : options_(options),
          rows_(rows),
          segments_(segments),
          carrier_(carrier),
          scatter_(options.destinations, limits::best_tile_rows(options.destinations)),
          filled_(options.destinations),
          open_(options.receives() ? options.sources : 0),
          ended_(options.sources) {}

    Ran run() {
        carrier_.barrier();
        Ran ran;
        ran.start = Clock::now();
        if (options_.sends()) send_all();
        for (std::uint32_t idle = 0; open_ != 0 || !carrier_.all_left();) {
            if (receive()) {
                idle = 0;
            } else {
                device::backoff(std::min(++idle, 63u));
            }
        }
        ran.end = Clock::now();
        ran.received = received_;
        return ran;
    }

private:
    void send_all() {
        for (std::uint64_t at = 0; at < rows_.size();) {
            std::uint32_t const some =
                std::uint32_t(std::min<std::uint64_t>(scatter_.tile_rows(), rows_.size() - at));
            scatter_.sort(rows_, at, some);
            for (std::uint32_t d = 0; d < options_.destinations; ++d) send(d);
            receive();
            at += some;
        }
        for (std::uint32_t d = 0; d < options_.destinations; ++d) {
            wait_for_room(d);
            carrier_.publish(options_.destination(d), filled_[d], true);
        }
    }

    /// The tile's rows to a destination. A segment stays open when it is full, since the last one
    /// says that it is.
    void send(std::uint32_t d) {
        for (std::uint32_t k = scatter_.first(d); k < scatter_.end(d);) {
            if (filled_[d] == segments_.rows) {
                carrier_.publish(options_.destination(d), filled_[d], false);
                filled_[d] = 0;
            }
            char* const segment = wait_for_room(d);
            std::uint32_t const some = std::min(scatter_.end(d) - k, segments_.rows - filled_[d]);
            scatter_.copy(k, some, segment, filled_[d], segments_.rows);
            filled_[d] += some;
            k += some;
        }
    }

    char* wait_for_room(std::uint32_t d) {
        for (std::uint32_t idle = 0;;) {
            if (char* const segment = carrier_.open(options_.destination(d))) return segment;
            if (receive()) {
                idle = 0;
            } else {
                device::backoff(std::min(++idle, 63u));
            }
        }
    }

    /// Reads one segment of each source. False when there was none.
    bool receive() {
        if (open_ == 0) return false;
        bool some = false;
        for (std::uint32_t s = 0; s < options_.sources; ++s) {
            if (ended_[s]) continue;
            auto const segment = carrier_.arrived(s);
            if (!segment.has_value()) continue;
            received_.add(read(options_, segment->data, segment->rows, segments_.rows));
            if (segment->last) {
                ended_[s] = true;
                --open_;
            }
            carrier_.release(s);
            some = true;
        }
        return some;
    }

    Options const& options_;
    perf::Rows const& rows_;
    Segments const& segments_;
    Carrier& carrier_;
    limits::Scatter scatter_;
    std::vector<std::uint32_t> filled_;  ///< rows in each destination's open segment
    std::uint32_t open_;                 ///< sources that have more
    std::vector<bool> ended_;
    perf::Checksum received_;
};

}  // namespace

Ran run_pipelined(Options const& options, perf::Rows const& rows, Segments const& segments,
                  Carrier& carrier) {
    return Pipeline(options, rows, segments, carrier).run();
}

PipelinedMember::PipelinedMember(Options const& options, perf::Rows const& rows,
                                 std::unique_ptr<Carrier> carrier)
    : options_(options), rows_(rows), segments_(options), carrier_(std::move(carrier)) {
    if (options_.broadcast) {
        throw Error(ErrorCode::InvalidArgument, "broadcast=1: there is no pipelined broadcast");
    }
    limits::pin(options_.rank);
}

Ran PipelinedMember::run(std::string_view) {
    return run_pipelined(options_, rows_, segments_, *carrier_);
}

}  // namespace mgi::peers
