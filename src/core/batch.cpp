#include <string>

#include <mgi/batch.hpp>
#include <mgi/device/batch_view.hpp>
#include <mgi/error.hpp>

namespace mgi {
namespace {

using device::StringView16;

/// Characters of one value of a String or Binary column, `at` counted from the buffers' start.
std::string_view text_of(Column const& column, std::int64_t at) {
    if (column.encoding == Encoding::Views) {
        StringView16 const& view = static_cast<StringView16 const*>(column.values)[at];
        if (view.length <= StringView16::kInline) return {view.text, view.length};
        auto const* from = reinterpret_cast<char const*>(column.buffers[view.ref.buffer]);
        return {from + view.ref.offset, view.length};
    }
    auto const* bytes = reinterpret_cast<char const*>(column.bytes);
    if (column.encoding == Encoding::Offsets32) {
        auto const* offsets = static_cast<std::int32_t const*>(column.values) + at;
        return {bytes + offsets[0], std::size_t(offsets[1] - offsets[0])};
    }
    auto const* offsets = static_cast<std::int64_t const*>(column.values) + at;
    return {bytes + offsets[0], std::size_t(offsets[1] - offsets[0])};
}

bool valid_at(Column const& column, std::int64_t row) {
    return column.validity == nullptr ||
           device::bit_at(column.validity, std::uint64_t(column.offset + row));
}

/// Characters of a String or Binary column; what lies behind a null does not count.
std::int64_t text_bytes_of(Column const& column, std::int64_t rows) {
    bool const dense = column.validity == nullptr && rows > 0;
    if (dense && column.encoding == Encoding::Offsets32) {
        auto const* offsets = static_cast<std::int32_t const*>(column.values) + column.offset;
        return std::int64_t(offsets[rows]) - offsets[0];
    }
    if (dense && column.encoding == Encoding::Offsets64) {
        auto const* offsets = static_cast<std::int64_t const*>(column.values) + column.offset;
        return offsets[rows] - offsets[0];
    }
    std::int64_t sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
        if (valid_at(column, row)) sum += std::int64_t(text_of(column, column.offset + row).size());
    }
    return sum;
}

}  // namespace

RecordBatch RecordBatch::slice(std::int64_t first, std::int64_t count) const {
    if (first < 0 || count < 0 || first > rows || count > rows - first) {
        throw Error(ErrorCode::InvalidArgument,
                    "rows [" + std::to_string(first) + ", " + std::to_string(first) + " + " +
                        std::to_string(count) + ") of a batch of " + std::to_string(rows));
    }
    RecordBatch part = *this;
    part.rows = count;
    for (Column& column : part.columns) column.offset += first;
    return part;
}

std::int64_t RecordBatch::bytes() const {
    std::int64_t sum = 0;
    std::int64_t const bits = (rows + 7) / 8;
    for (std::size_t c = 0; c < columns.size(); ++c) {
        Field const& field = schema[c];
        if (field.nullable) sum += bits;
        if (field.type.is_variable()) {
            sum += text_bytes_of(columns[c], rows);
        } else if (field.type.id == TypeId::Bool) {
            sum += bits;
        } else {
            sum += rows * std::int64_t(field.type.row_width());
        }
    }
    return sum;
}

bool RecordBatch::is_valid(std::size_t column, std::int64_t row) const {
    return valid_at(columns.at(column), row);
}

bool RecordBatch::bool_at(std::size_t column, std::int64_t row) const {
    Column const& c = columns.at(column);
    return device::bit_at(static_cast<std::uint8_t const*>(c.values),
                          std::uint64_t(c.offset + row));
}

std::string_view RecordBatch::string_at(std::size_t column, std::int64_t row) const {
    Column const& c = columns.at(column);
    if (!valid_at(c, row)) return {};
    return text_of(c, c.offset + row);
}

void const* RecordBatch::fixed_values(std::size_t column, std::size_t width) const {
    Column const& c = columns.at(column);
    Field const& field = schema[column];
    if (field.type.is_variable() || field.type.row_width() != width) {
        throw Error(ErrorCode::InvalidArgument, "column '" + field.name + "' is " +
                                                    field.type.to_string() + ", not values of " +
                                                    std::to_string(width) + " bytes");
    }
    if (c.values == nullptr) return nullptr;
    return static_cast<std::byte const*>(c.values) + c.offset * std::int64_t(width);
}

std::int64_t Table::rows() const {
    std::int64_t sum = 0;
    for (RecordBatch const& batch : batches) sum += batch.rows;
    return sum;
}

std::int64_t Table::bytes() const {
    std::int64_t sum = 0;
    for (RecordBatch const& batch : batches) sum += batch.bytes();
    return sum;
}

}  // namespace mgi
