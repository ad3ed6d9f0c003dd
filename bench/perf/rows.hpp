/// \file
/// The rows that the exchange benchmark sends, and what must come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mgi/device.hpp>

#include "perf/buffer.hpp"
#include "perf/exchange.hpp"

namespace mgi::perf {

/// What was sent or received, whatever the order: equal checksums, equal rows.
struct Checksum {
    std::uint64_t rows = 0;
    std::uint64_t key_sum = 0;
    std::uint64_t payload_parity = 0;  ///< exclusive or of all payload words

    void add(Checksum const& other) {
        rows += other.rows;
        key_sum += other.key_sum;
        payload_parity ^= other.payload_parity;
    }
    friend bool operator==(Checksum const&, Checksum const&) = default;
};

/// One endpoint's rows: int64 columns one behind the other, or structs of int64.
class Rows {
public:
    /// Makes the rows, none for an endpoint that does not send; throws Error(Interrupted) when `options.cancel` says so.
    Rows(ExchangeOptions const& options, std::uint32_t endpoint);

    /// Rows [first, first + count) as `send` takes them; uses `views`, one for each column.
    [[nodiscard]] device::Batch slice(std::uint64_t first, std::uint64_t count,
                                      std::vector<device::ColumnView>& views) const;
    [[nodiscard]] std::uint64_t size() const { return rows_; }
    [[nodiscard]] std::uint32_t columns() const { return columns_; }
    [[nodiscard]] std::uint64_t bytes() const { return rows_ * columns_ * 8; }
    [[nodiscard]] bool structs() const { return structs_; }
    [[nodiscard]] std::int64_t const* words() const { return words_.get(); }
    [[nodiscard]] Checksum const& checksum() const { return checksum_; }

private:
    std::uint64_t rows_;
    std::uint32_t columns_;
    bool structs_;
    Buffer<std::int64_t> words_;
    Checksum checksum_;
};

/// Checksums of `rows` structs of `columns` words, and of as many columns `stride` words apart.
Checksum checksum_of_rows(std::uint64_t const* words, std::uint32_t rows, std::uint32_t columns);
Checksum checksum_of_columns(std::uint64_t const* words, std::uint32_t rows, std::uint32_t columns,
                             std::uint64_t stride);

/// The calling thread's share of a received batch, every word of it read.
Checksum consume(device::Group const& group, device::ReceivedBatch const& batch,
                 std::uint32_t columns);

}  // namespace mgi::perf
