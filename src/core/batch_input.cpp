#include "core/batch_input.hpp"

namespace mgi {

namespace {

device::InputEncoding encoding_of(Encoding encoding) {
    switch (encoding) {
        case Encoding::Plain: return device::InputEncoding::Plain;
        case Encoding::Offsets32: return device::InputEncoding::Offsets32;
        case Encoding::Offsets64: return device::InputEncoding::Offsets64;
        case Encoding::Views: return device::InputEncoding::Views;
    }
    return device::InputEncoding::Plain;
}

}  // namespace

BatchInput::BatchInput(RecordBatch const& batch, std::int64_t first) {
    columns_.reserve(batch.columns.size());
    for (Column const& column : batch.columns) {
        device::ColumnView view;
        view.values = column.values;
        view.validity = column.validity;
        view.bytes = reinterpret_cast<char const*>(column.bytes);
        view.buffers = reinterpret_cast<char const* const*>(column.buffers.data());
        view.offset = static_cast<device::u64>(column.offset + first);
        view.encoding = encoding_of(column.encoding);
        columns_.push_back(view);
    }
    batch_.columns = columns_.data();
    batch_.count = static_cast<device::u64>(batch.rows - first);
}

}  // namespace mgi
