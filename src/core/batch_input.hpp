// Host batches as device calls take them.
#pragma once

#include <vector>

#include <mgi/batch.hpp>
#include <mgi/device/batch_view.hpp>

namespace mgi {

// The columns of a RecordBatch from its row `first` on. Borrows the batch, which must outlive it.
class BatchInput {
public:
    BatchInput(RecordBatch const& batch, std::int64_t first);
    BatchInput(BatchInput const&) = delete;
    BatchInput& operator=(BatchInput const&) = delete;

    [[nodiscard]] device::Batch const& get() const { return batch_; }

private:
    std::vector<device::ColumnView> columns_;
    device::Batch batch_;
};

}  // namespace mgi
