// Rows in the two forms that kernels offer.
#include <cstring>

#include "support/tables.hpp"

namespace mgi::test {

DeviceBatch::DeviceBatch(RecordBatch batch)
    : batch_(std::move(batch)), buffers_(batch_.columns.size()) {
    for (std::size_t c = 0; c < batch_.columns.size(); ++c) {
        Column const& column = batch_.columns[c];
        device::ColumnView view;
        view.values = column.values;
        view.validity = column.validity;
        view.bytes = reinterpret_cast<char const*>(column.bytes);
        view.offset = static_cast<std::uint64_t>(column.offset);
        switch (column.encoding) {
            case Encoding::Plain: view.encoding = device::InputEncoding::Plain; break;
            case Encoding::Offsets32: view.encoding = device::InputEncoding::Offsets32; break;
            case Encoding::Offsets64: view.encoding = device::InputEncoding::Offsets64; break;
            case Encoding::Views: view.encoding = device::InputEncoding::Views; break;
        }
        for (std::byte const* buffer : column.buffers) {
            buffers_[c].push_back(reinterpret_cast<char const*>(buffer));
        }
        view.buffers = buffers_[c].data();
        columns_.push_back(view);
    }
}

device::Batch DeviceBatch::slice(std::uint64_t first, std::uint64_t count) {
    sliced_ = columns_;
    for (auto& column : sliced_) column.offset += first;
    device::Batch batch;
    batch.columns = sliced_.data();
    batch.count = count;
    return batch;
}

RowStructs::RowStructs(Schema const& schema, std::vector<Row> const& rows)
    : rows_(rows), stride_(schema.row_bytes()), count_(rows.size()), bytes_(stride_ * rows.size()) {
    auto const offsets = schema.row_offsets();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        for (std::size_t c = 0; c < schema.size(); ++c) {
            std::string const& value = rows_[r][c].value();
            char* const to = bytes_.data() + r * stride_ + offsets[c];
            if (schema[c].type.is_variable()) {
                device::RowBytes const text{value.data(), value.size()};
                std::memcpy(to, &text, sizeof(text));
            } else {
                std::memcpy(to, value.data(), value.size());
            }
        }
    }
}

device::Batch RowStructs::slice(std::uint64_t first, std::uint64_t count) const {
    device::Batch batch;
    batch.rows = bytes_.data() + first * stride_;
    batch.row_stride = stride_;
    batch.count = count;
    return batch;
}

}  // namespace mgi::test
