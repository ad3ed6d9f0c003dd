/// \file
/// Tables of GPUs' operators in the host's memory, and where those run in tests.
#pragma once

#include <gtest/gtest.h>

#include "operators/gpu/host_place.hpp"
#include "operators/gpu/operation.hpp"
#include "operators/plain.hpp"

namespace mgi::operators::on_gpu {

using namespace mgi::test::plain;

/// Two groups of so many threads for each endpoint.
inline Operation::MakePlace places_on_host(u32 threads) {
    return [threads](Device const&, PlaceOptions const& options) {
        return std::make_unique<HostPlace>(2, threads, options);
    };
}

inline Runtime runtime_of_cpus(u32 devices) {
    RuntimeOptions options;
    options.cpu_devices = devices;
    options.pin = false;
    options.gpus = false;
    return Runtime::local(options);
}

inline GpuTable on_host(RecordBatch const& batch) {
    GpuTable table;
    table.schema = batch.schema;
    table.rows = batch.rows;
    table.gpu = -1;
    table.owner = batch.owner;
    for (Column const& column : batch.columns) {
        table.columns.push_back(
            {column.values, column.validity, column.offset, column.encoding, column.bytes});
    }
    return table;
}

inline RecordBatch batch_of_result(GpuTable const& table) {
    RecordBatch batch;
    batch.schema = table.schema;
    batch.rows = table.rows;
    batch.owner = table.owner;
    for (GpuColumn const& column : table.columns) {
        Column to;
        to.values = column.values;
        to.validity = column.validity;
        to.offset = column.offset;
        to.encoding = column.encoding;
        to.bytes = column.bytes;
        batch.columns.push_back(to);
    }
    return batch;
}

inline std::vector<Table> tables_of(std::vector<GpuTable> const& results) {
    std::vector<Table> tables;
    for (GpuTable const& result : results) {
        tables.push_back({result.schema, {batch_of_result(result)}});
    }
    return tables;
}

// Both sorted. Says what differs first, not all of it. `rounded`: columns that may differ by that.
inline void expect_same(Rows const& got, Rows const& expected,
                        std::vector<bool> const& rounded = {}) {
    EXPECT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        for (std::size_t c = 0; c < expected[i].size(); ++c) {
            ASSERT_EQ(got[i].at(c).valid, expected[i][c].valid) << "row " << i << ", column " << c;
            if (c < rounded.size() && rounded[c]) {
                ASSERT_TRUE(nearly_same(got[i][c], expected[i][c]))
                    << double_of(got[i][c].word) << " for " << double_of(expected[i][c].word)
                    << " in row " << i << ", column " << c;
                continue;
            }
            ASSERT_EQ(got[i][c].word, expected[i][c].word) << "row " << i << ", column " << c;
        }
    }
}

}  // namespace mgi::operators::on_gpu
