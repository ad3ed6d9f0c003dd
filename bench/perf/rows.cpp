#include "perf/rows.hpp"

#include "perf/zipf.hpp"

namespace mgi::perf {

Rows::Rows(ExchangeOptions const& options, std::uint32_t endpoint)
    : rows_(endpoint < options.endpoints ? options.rows * (endpoint + 1) / options.endpoints -
                                               options.rows * endpoint / options.endpoints
                                         : 0),
      columns_(options.row_bytes / 8),
      structs_(options.layout == Layout::Rows || options.staged),
      words_(make_buffer<std::int64_t>(rows_ * columns_)) {
    std::mt19937_64 random(options.seed * 1'000'003 + endpoint);
    Zipf const zipf(options.rows, options.zipf_theta > 0 ? options.zipf_theta : 1);
    std::uint64_t const row_step = structs_ ? columns_ : 1;
    std::uint64_t const column_step = structs_ ? 1 : rows_;
    checksum_.rows = rows_;
    // A counter, well mixed: payload that no two rows share, at a fraction of a generator's cost.
    std::uint64_t counter = (std::uint64_t(endpoint) << 40) + options.seed;
    for (std::uint64_t row = 0; row < rows_; ++row) {
        if (row % 65536 == 0 && options.cancel != nullptr && options.cancel->load()) {
            throw Error(ErrorCode::Interrupted, "stopped while it made the rows");
        }
        std::uint64_t const key = options.zipf_theta > 0 ? zipf(random) : random();
        words_[row * row_step] = std::int64_t(key);
        checksum_.key_sum += key;
        for (std::uint32_t c = 1; c < columns_; ++c) {
            std::uint64_t const word = device::murmur3_mix(++counter);
            words_[row * row_step + c * column_step] = std::int64_t(word);
            checksum_.payload_parity ^= word;
        }
    }
}

device::Batch Rows::slice(std::uint64_t first, std::uint64_t count,
                          std::vector<device::ColumnView>& views) const {
    device::Batch batch;
    batch.count = count;
    if (structs_) {
        batch.rows = reinterpret_cast<char const*>(words_.get() + first * columns_);
        batch.row_stride = columns_ * 8;
        return batch;
    }
    views.resize(columns_);
    for (std::uint32_t c = 0; c < columns_; ++c) {
        views[c].values = words_.get() + c * rows_;
        views[c].offset = first;
    }
    batch.columns = views.data();
    return batch;
}

namespace {

/// Rows of `Columns` words, a number that the compiler knows; 0: of `columns`.
template <std::uint32_t Columns>
Checksum checksum_of(std::uint64_t const* row, std::uint32_t rows, std::uint32_t columns) {
    std::uint32_t const width = Columns != 0 ? Columns : columns;
    Checksum sum;
    sum.rows = rows;
    for (std::uint32_t i = 0; i < rows; ++i, row += width) {
        sum.key_sum += row[0];
        for (std::uint32_t c = 1; c < width; ++c) sum.payload_parity ^= row[c];
    }
    return sum;
}

}  // namespace

Checksum checksum_of_rows(std::uint64_t const* words, std::uint32_t rows, std::uint32_t columns) {
    switch (columns) {
        case 1: return checksum_of<1>(words, rows, columns);
        case 2: return checksum_of<2>(words, rows, columns);
        case 4: return checksum_of<4>(words, rows, columns);
        case 8: return checksum_of<8>(words, rows, columns);
        default: return checksum_of<0>(words, rows, columns);
    }
}

Checksum checksum_of_columns(std::uint64_t const* words, std::uint32_t rows, std::uint32_t columns,
                             std::uint64_t stride) {
    Checksum sum;
    sum.rows = rows;
    for (std::uint32_t i = 0; i < rows; ++i) sum.key_sum += words[i];
    for (std::uint32_t c = 1; c < columns; ++c) {
        std::uint64_t const* const column = words + c * stride;
        std::uint64_t parity = 0;
        for (std::uint32_t i = 0; i < rows; ++i) parity ^= column[i];
        sum.payload_parity ^= parity;
    }
    return sum;
}

Checksum consume(device::Group const& group, device::ReceivedBatch const& batch,
                 std::uint32_t columns) {
    std::uint32_t const first =
        std::uint32_t(std::uint64_t(batch.rows) * group.thread / group.threads);
    std::uint32_t const last =
        std::uint32_t(std::uint64_t(batch.rows) * (group.thread + 1) / group.threads);
    if (batch.layout->rows_together) {
        auto const* const rows = batch.structs<std::uint64_t>() + std::uint64_t(first) * columns;
        return checksum_of_rows(rows, last - first, columns);
    }
    auto const* const keys = batch.column<std::uint64_t>(0);
    std::uint64_t const stride =
        columns > 1 ? std::uint64_t(batch.column<std::uint64_t>(1) - keys) : 0;
    return checksum_of_columns(keys + first, last - first, columns, stride);
}

}  // namespace mgi::perf
