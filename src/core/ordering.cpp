#include "core/ordering.hpp"

#include <algorithm>

namespace mgi {

namespace {

device::OrderKind order_kind(Type const& type) {
    switch (type.id) {
        case TypeId::Bool: return device::OrderKind::Bool;
        case TypeId::Int8:
        case TypeId::Int16:
        case TypeId::Int32:
        case TypeId::Int64:
        case TypeId::Date32: return device::OrderKind::Signed;
        case TypeId::UInt8:
        case TypeId::UInt16:
        case TypeId::UInt32:
        case TypeId::UInt64: return device::OrderKind::Unsigned;
        case TypeId::Float32:
        case TypeId::Float64: return device::OrderKind::Float;
        case TypeId::Decimal128: return device::OrderKind::Decimal;
        case TypeId::FixedSizeBinary: return device::OrderKind::Bytes;
        case TypeId::String:
        case TypeId::Binary: return device::OrderKind::Text;
    }
    return device::OrderKind::Bytes;
}

[[noreturn]] void refuse_order(std::string const& what, std::string const& why) {
    throw Error(ErrorCode::InvalidArgument, what + ": " + why);
}

}  // namespace

std::vector<device::KeyOrder> key_orders(std::string const& what, std::vector<SortKey> const& order,
                                         Schema const& schema) {
    if (order.empty()) refuse_order(what, "no keys to order by; give at least one column");
    std::vector<device::KeyOrder> keys;
    for (SortKey const& key : order) {
        device::KeyOrder made;
        try {
            made.column = static_cast<std::uint32_t>(schema.index_of(key.column));
        } catch (Error const& error) {
            refuse_order(what, error.what());
        }
        for (device::KeyOrder const& other : keys) {
            if (other.column != made.column) continue;
            refuse_order(what, "key column '" + key.column + "' is given twice");
        }
        Type const& type = schema[made.column].type;
        if (!type.has_order()) {
            refuse_order(what, "key column '" + key.column + "' is " + type.to_string() +
                                   ", whose values have no order (docs/limits.md)");
        }
        made.width = type.row_width();
        made.kind = order_kind(type);
        made.descending = key.descending;
        made.nulls_first = key.nulls_first;
        keys.push_back(made);
    }
    return keys;
}

std::vector<device::ColumnLayout> compared_columns(Schema const& schema) {
    std::vector<device::ColumnLayout> columns(schema.size());
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].width = schema[c].type.row_width();
    return columns;
}

device::RangeTable range_table(std::vector<device::KeyOrder> const& keys,
                               Splitters const& splitters) {
    device::RangeTable table;
    table.keys = keys.data();
    table.values = splitters.values.data();
    table.bytes = splitters.bytes.data();
    table.key_count = static_cast<std::uint32_t>(keys.size());
    table.count = static_cast<std::uint32_t>(splitters.count());
    table.byte_count = static_cast<std::uint32_t>(splitters.bytes.size());
    for (std::uint32_t s = 0; s < table.count; ++s) {
        table.any_null = table.any_null || table.value(s, 0).size == device::SplitterValue::kNull;
    }
    return table;
}

void OrderedRows::append(std::uint64_t row, std::uint32_t longest, Splitters& to) const {
    for (device::KeyOrder const& key : keys_) {
        auto const value = device::ordered_value(input_.get(), key, columns_[key.column], row);
        device::SplitterValue stored;
        stored.word = value.word;
        stored.low = value.low;
        stored.high = value.high;
        stored.size =
            value.null ? device::SplitterValue::kNull : std::min(value.text.size, longest);
        if (!value.null && stored.size != 0) {
            if (to.bytes.size() + stored.size > UINT32_MAX) {
                refuse_order("splitters", "their texts take more than 4 GiB");
            }
            stored.begin = static_cast<std::uint32_t>(to.bytes.size());
            to.bytes.append(value.text.data, stored.size);
        }
        to.values.push_back(stored);
    }
}

}  // namespace mgi
