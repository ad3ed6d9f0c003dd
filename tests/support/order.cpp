#include "support/order.hpp"

#include <algorithm>
#include <cmath>

namespace mgi::test {

namespace {

template <class T>
int compare_as(Cell const& a, Cell const& b) {
    T x;
    T y;
    std::memcpy(&x, a->data(), sizeof(T));
    std::memcpy(&y, b->data(), sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(x) || std::isnan(y)) return int(std::isnan(x)) - int(std::isnan(y));
    }
    return x < y ? -1 : x > y ? 1 : 0;
}

Cell close_decimal(Random& random) {
    __int128 const edge = __int128{1} << 63;
    __int128 value = static_cast<__int128>(random.below(3)) - 1;
    switch (random.below(4)) {
        case 0: value += edge; break;
        case 1: value -= edge; break;
        case 2: value += static_cast<__int128>(random.next()) << random.below(60); break;
        default: break;
    }
    return cell(random.one_in(2) ? value : -value);
}

std::string close_text(std::size_t size, Random& random) {
    static constexpr char kLetters[] = {'\0', 'a', 'b', '\xff'};
    std::string text(size, 'a');
    // Only the last ones differ, mostly.
    std::size_t const first = random.one_in(2) ? size - std::min<std::size_t>(size, 2) : 0;
    for (std::size_t i = first; i < size; ++i) text[i] = kLetters[random.below(4)];
    return text;
}

Cell close_cell(Field const& field, std::string const& value, Random& random) {
    if (field.type.id == TypeId::Decimal128) return close_decimal(random);
    if (field.type.id == TypeId::FixedSizeBinary) return close_text(value.size(), random);
    if (!field.type.is_variable()) return value;
    std::size_t const size = random.below(random.one_in(3) ? 12 : 40);
    // Now and then longer than what is compared word by word.
    return close_text(random.one_in(20) ? 300 + size : size, random);
}

}  // namespace

int compare_cells(Type const& type, Cell const& a, Cell const& b) {
    switch (type.id) {
        case TypeId::Bool:
        case TypeId::UInt8: return compare_as<std::uint8_t>(a, b);
        case TypeId::UInt16: return compare_as<std::uint16_t>(a, b);
        case TypeId::UInt32: return compare_as<std::uint32_t>(a, b);
        case TypeId::UInt64: return compare_as<std::uint64_t>(a, b);
        case TypeId::Int8: return compare_as<std::int8_t>(a, b);
        case TypeId::Int16: return compare_as<std::int16_t>(a, b);
        case TypeId::Int32:
        case TypeId::Date32: return compare_as<std::int32_t>(a, b);
        case TypeId::Int64: return compare_as<std::int64_t>(a, b);
        case TypeId::Float32: return compare_as<float>(a, b);
        case TypeId::Float64: return compare_as<double>(a, b);
        case TypeId::Decimal128: return compare_as<__int128>(a, b);
        case TypeId::FixedSizeBinary:
        case TypeId::String:
        case TypeId::Binary: break;
    }
    return a->compare(*b);  // by characters without a sign
}

int compare_rows(Schema const& schema, std::vector<SortKey> const& keys, Row const& a,
                 Row const& b) {
    for (SortKey const& key : keys) {
        std::size_t const c = schema.index_of(key.column);
        if (!a[c] && !b[c]) continue;
        if (!a[c] || !b[c]) return a[c].has_value() == key.nulls_first ? 1 : -1;
        int const order = compare_cells(schema[c].type, a[c], b[c]);
        if (order != 0) return key.descending ? -order : order;
    }
    return 0;
}

std::vector<SortKey> random_order(Schema const& schema, Random& random) {
    std::vector<SortKey> keys;
    for (auto const& field : schema.fields()) {
        if (keys.empty() || random.one_in(3)) {
            keys.push_back({field.name, random.one_in(2), random.one_in(2)});
        }
    }
    if (random.one_in(2)) std::reverse(keys.begin(), keys.end());
    return keys;
}

std::vector<Row> close_rows(Schema const& schema, std::size_t count, Random& random) {
    std::vector<Row> rows = random_rows(schema, count, random);
    for (Row& row : rows) {
        for (std::size_t c = 0; c < schema.size(); ++c) {
            if (row[c]) row[c] = close_cell(schema[c], *row[c], random);
        }
    }
    return rows;
}

void sort_rows(Schema const& schema, std::vector<SortKey> const& keys, std::vector<Row>& rows) {
    std::sort(rows.begin(), rows.end(),
              [&](Row const& a, Row const& b) { return compare_rows(schema, keys, a, b) < 0; });
}

}  // namespace mgi::test
