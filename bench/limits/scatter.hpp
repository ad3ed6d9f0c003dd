/// \file
/// A partition of rows a tile at a time, as the limit and the peers of an exchange have it: rows are
/// sorted by the destination of their key while they are in the cache, and copied to where the
/// destination's rows are gathered.
#pragma once

#include <cstdint>
#include <vector>

#include "perf/rows.hpp"
#include "simd/tile_ops.hpp"

namespace mgi::limits {

/// Bytes of a column's value.
inline constexpr std::uint32_t kWord = 8;

/// Bytes of a segment, and rows of a tile, that measured best for so many destinations.
std::uint32_t best_segment_bytes(std::uint32_t fan_out);
std::uint32_t best_tile_rows(std::uint32_t fan_out);

/// Rows that a segment of about `bytes` has: wide rows have 64 at least, and all a multiple of it.
std::uint32_t segment_rows(std::uint32_t bytes, std::uint32_t columns);

/// Keeps the calling thread on the `index`th core that it may use, counted round.
void pin(std::uint32_t index);

/// One thread's. Not thread-safe.
class Scatter {
public:
    /// `tile_rows` at most are sorted at a time.
    Scatter(std::uint32_t fan_out, std::uint32_t tile_rows);

    [[nodiscard]] std::uint32_t tile_rows() const { return tile_rows_; }

    /// Adds to `counts` how many of rows [at, at + rows) each destination has.
    void count(perf::Rows const& input, std::uint64_t at, std::uint32_t rows,
               std::vector<std::uint64_t>& counts);

    /// Sorts rows [at, at + rows); destination d then has those from `first(d)` to `end(d)`.
    void sort(perf::Rows const& input, std::uint64_t at, std::uint32_t rows);
    [[nodiscard]] std::uint32_t first(std::uint32_t d) const { return first_[d]; }
    [[nodiscard]] std::uint32_t end(std::uint32_t d) const { return end_[d]; }

    /// Copies `some` of the sorted rows, from the `k`th on, to places [filled, filled + some) of a
    /// segment whose columns are `stride` rows apart (or whose rows are structs).
    void copy(std::uint32_t k, std::uint32_t some, char* segment, std::uint64_t filled,
              std::uint64_t stride) const;

private:
    void route(perf::Rows const& input, std::uint64_t at, std::uint32_t rows);
    void gather(char* to, char const* from, std::uint32_t k, std::uint32_t some,
                std::uint32_t width) const;

    std::uint32_t const fan_out_;
    std::uint32_t const tile_rows_;
    device::TileOps const& ops_;
    std::vector<std::uint16_t> lane_;
    std::vector<std::uint16_t> order_;
    std::vector<std::uint32_t> first_;
    std::vector<std::uint32_t> end_;
    perf::Rows const* input_ = nullptr;
    char const* keys_ = nullptr;  ///< of the tile
    std::uint32_t rows_ = 0;      ///< in the tile
};

}  // namespace mgi::limits
