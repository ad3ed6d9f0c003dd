// Rows in the order of keys: how columns are compared, and rows as splitters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/channel.hpp>

#include "core/batch_input.hpp"

namespace mgi {

// The keys' columns and how they are compared. Throws Error(InvalidArgument), which `what` starts, for no keys,
// a key that is given twice, and a column that the schema does not have.
std::vector<device::KeyOrder> key_orders(std::string const& what, std::vector<SortKey> const& order,
                                         Schema const& schema);

// What comparing needs to know of a batch's columns.
std::vector<device::ColumnLayout> compared_columns(Schema const& schema);

// Splitters as they are compared, those of well-formed ones. Borrows from both.
device::RangeTable range_table(std::vector<device::KeyOrder> const& keys,
                               Splitters const& splitters);

// Rows of a batch, by their keys. Borrows the batch, which must outlive it.
class OrderedRows {
public:
    // Throws as `key_orders`.
    OrderedRows(std::string const& what, std::vector<SortKey> const& order,
                RecordBatch const& batch)
        : keys_(key_orders(what, order, batch.schema)),
          columns_(compared_columns(batch.schema)),
          input_(batch, 0) {}

    [[nodiscard]] std::vector<device::KeyOrder> const& keys() const { return keys_; }
    // Adds a row to splitters of the same types, no more than `longest` bytes of a text.
    void append(std::uint64_t row, std::uint32_t longest, Splitters& to) const;

private:
    std::vector<device::KeyOrder> keys_;
    std::vector<device::ColumnLayout> columns_;
    BatchInput input_;
};

}  // namespace mgi
