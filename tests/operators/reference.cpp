#include "operators/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "support/order.hpp"

namespace mgi::test {

namespace {

using Wide = __int128;

template <class T>
T value_of(Cell const& value) {
    T out;
    std::memcpy(&out, value->data(), sizeof(T));
    return out;
}

bool is_float(Type const& type) {
    return type.id == TypeId::Float32 || type.id == TypeId::Float64;
}

double float_of(Type const& type, Cell const& value) {
    return type.id == TypeId::Float32 ? value_of<float>(value) : value_of<double>(value);
}

Wide integer_of(Type const& type, Cell const& value) {
    switch (type.id) {
        case TypeId::Bool: return value_of<std::uint8_t>(value) != 0;
        case TypeId::Int8: return value_of<std::int8_t>(value);
        case TypeId::Int16: return value_of<std::int16_t>(value);
        case TypeId::Int32:
        case TypeId::Date32: return value_of<std::int32_t>(value);
        case TypeId::Int64: return value_of<std::int64_t>(value);
        case TypeId::UInt8: return value_of<std::uint8_t>(value);
        case TypeId::UInt16: return value_of<std::uint16_t>(value);
        case TypeId::UInt32: return value_of<std::uint32_t>(value);
        case TypeId::UInt64: return value_of<std::uint64_t>(value);
        default: return value_of<Wide>(value);
    }
}

bool less(Type const& type, Cell const& a, Cell const& b) {
    return compare_cells(type, a, b) < 0;
}

/// A decimal's digits.
long double number_of(Type const& type, Cell const& value) {
    if (is_float(type)) return float_of(type, value);
    return static_cast<long double>(integer_of(type, value));
}

// Of a sample, as it is defined.
Cell variance_of(Type const& type, std::vector<Cell> const& values) {
    if (values.size() < 2) return std::nullopt;
    auto const count = static_cast<long double>(values.size());
    long double mean = 0;
    for (Cell const& value : values) mean += number_of(type, value);
    mean /= count;
    long double squares = 0;
    for (Cell const& value : values) {
        long double const difference = number_of(type, value) - mean;
        squares += difference * difference;
    }
    long double const scale = type.id == TypeId::Decimal128 ? std::pow(10.0L, type.scale) : 1;
    auto const variance = static_cast<double>(squares / (count - 1) / scale / scale);
    return cell(std::isfinite(variance) ? variance : std::numeric_limits<double>::quiet_NaN());
}

Cell aggregate_of(Aggregate const& aggregate, Schema const& schema,
                  std::vector<Row const*> const& rows) {
    if (aggregate.column.empty()) return cell(static_cast<std::int64_t>(rows.size()));
    std::size_t const column = schema.index_of(aggregate.column);
    Type const& type = schema[column].type;
    std::vector<Cell> values;
    for (Row const* row : rows) {
        if ((*row)[column]) values.push_back((*row)[column]);
    }
    if (aggregate.function == AggregateFunction::Count) {
        return cell(static_cast<std::int64_t>(values.size()));
    }
    if (aggregate.function == AggregateFunction::CountDistinct) {
        std::set<Cell> different;
        for (Cell const& value : values) different.insert(canonical(type, value));
        return cell(static_cast<std::int64_t>(different.size()));
    }
    if (values.empty()) return std::nullopt;
    auto const by_order = [&](Cell const& a, Cell const& b) { return less(type, a, b); };
    switch (aggregate.function) {
        case AggregateFunction::Variance: return variance_of(type, values);
        case AggregateFunction::StdDev: {
            Cell const variance = variance_of(type, values);
            return variance ? cell(std::sqrt(value_of<double>(variance))) : variance;
        }
        // Which one is the operator's to choose; it takes the least one.
        case AggregateFunction::First:
        case AggregateFunction::Min:
            return *std::min_element(values.begin(), values.end(), by_order);
        case AggregateFunction::Max:
            return *std::max_element(values.begin(), values.end(), by_order);
        default: break;
    }
    bool const average = aggregate.function == AggregateFunction::Avg;
    auto const number = static_cast<double>(values.size());
    if (is_float(type)) {
        double sum = 0;
        for (Cell const& value : values) sum += float_of(type, value);
        return cell(average ? sum / number : sum);
    }
    Wide sum = 0;
    for (Cell const& value : values) sum += integer_of(type, value);
    if (average) {
        double const scale = type.id == TypeId::Decimal128 ? std::pow(10.0, type.scale) : 1.0;
        return cell(static_cast<double>(sum) / (number * scale));
    }
    return type.id == TypeId::Decimal128 ? cell(sum) : cell(static_cast<std::int64_t>(sum));
}

bool nearly(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (std::isinf(a) || std::isinf(b)) return a == b;
    return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

bool same_cell(Type const& type, Cell const& a, Cell const& b) {
    if (!a || !b) return !a && !b;
    return is_float(type) ? nearly(float_of(type, a), float_of(type, b)) : *a == *b;
}

template <class T>
Cell small_integer(Random& random) {
    std::int64_t const low = std::is_signed_v<T> ? -100 : 0;
    return cell(static_cast<T>(random.between(low, 100)));
}

}  // namespace

Cluster::Cluster(std::size_t count, std::uint32_t devices)
    : runtime(Runtime::local({.cpu_devices = devices, .memory_limit = 0, .pin = true})) {
    for (std::size_t i = 0; i < count; ++i) endpoints.push_back(runtime.create_endpoint("cpu"));
}

std::vector<Table> deal(Schema const& schema, std::vector<Row> const& rows, std::size_t parts,
                        Random& random) {
    std::vector<Table> tables(parts);
    for (Table& table : tables) table.schema = schema;
    for (std::size_t first = 0; first < rows.size();) {
        std::size_t const size =
            std::min<std::size_t>(rows.size() - first, random.below(rows.size() / 3 + 2));
        auto const from = rows.begin() + static_cast<std::ptrdiff_t>(first);
        std::vector<Row> const some(from, from + static_cast<std::ptrdiff_t>(size));
        tables[random.below(parts)].batches.push_back(make_batch(schema, some, random));
        first += size;
    }
    return tables;
}

std::vector<Row> rows_of(std::vector<Table> const& parts) {
    std::vector<Row> rows;
    for (Table const& part : parts) {
        for (RecordBatch const& batch : part.batches) {
            for (std::int64_t r = 0; r < batch.rows; ++r) {
                rows.push_back(decode(encode_row(batch, r)));
            }
        }
    }
    return rows;
}

Cell canonical(Type const& type, Cell const& value) {
    if (!value || !is_float(type)) return value;
    double number = float_of(type, value);
    if (std::isnan(number)) number = std::numeric_limits<double>::quiet_NaN();
    if (number == 0) number = 0;
    if (type.id == TypeId::Float32) return cell(static_cast<float>(number));
    return cell(number);
}

std::vector<Row> reference_group_by(Schema const& schema, std::vector<Row> const& rows,
                                    std::vector<std::string> const& keys,
                                    std::vector<Aggregate> const& aggregates) {
    std::map<std::string, std::pair<Row, std::vector<Row const*>>> groups;
    for (Row const& row : rows) {
        Row key;
        for (std::string const& name : keys) {
            std::size_t const column = schema.index_of(name);
            key.push_back(canonical(schema[column].type, row[column]));
        }
        auto& group = groups[encode(key)];
        group.first = std::move(key);
        group.second.push_back(&row);
    }
    std::vector<Row> results;
    for (auto& [encoded, group] : groups) {
        Row row = std::move(group.first);
        for (Aggregate const& aggregate : aggregates) {
            row.push_back(aggregate_of(aggregate, schema, group.second));
        }
        results.push_back(std::move(row));
    }
    return results;
}

std::vector<Row> reference_join(Schema const& left_schema, std::vector<Row> const& left,
                                std::vector<std::string> const& left_keys,
                                Schema const& right_schema, std::vector<Row> const& right,
                                std::vector<std::string> const& right_keys, JoinKind kind) {
    auto const key_of = [](Schema const& schema, Row const& row,
                           std::vector<std::string> const& names) {
        Row key;
        for (std::string const& name : names) {
            std::size_t const column = schema.index_of(name);
            Type const& type = schema[column].type;
            if (!row[column]) return std::string();
            if (type.is_integer()) {
                key.push_back(cell(integer_of(type, row[column])));
            } else if (is_float(type)) {
                key.push_back(canonical(float64(), cell(float_of(type, row[column]))));
            } else {
                key.push_back(row[column]);
            }
        }
        return encode(key);
    };
    std::multimap<std::string, Row const*> built;
    for (Row const& row : right) {
        std::string const key = key_of(right_schema, row, right_keys);
        if (!key.empty()) built.emplace(key, &row);
    }
    bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
    bool const keeps_left = kind == JoinKind::Left || kind == JoinKind::Full;
    bool const keeps_right = kind == JoinKind::Right || kind == JoinKind::Full;
    std::vector<Row> results;
    std::set<Row const*> matched;
    auto const add = [&](Row joined, Row const& more) {
        joined.insert(joined.end(), more.begin(), more.end());
        results.push_back(std::move(joined));
    };
    for (Row const& row : left) {
        std::string const key = key_of(left_schema, row, left_keys);
        auto [match, last] = built.equal_range(key);
        if (key.empty()) match = last;
        bool const alone = match == last;
        if (!pairs && alone == (kind == JoinKind::Anti)) results.push_back(row);
        if (keeps_left && alone) add(row, Row(right_schema.size()));
        for (; pairs && match != last; ++match) {
            add(row, *match->second);
            matched.insert(match->second);
        }
    }
    for (Row const& row : right) {
        if (keeps_right && matched.count(&row) == 0) add(Row(left_schema.size()), row);
    }
    return results;
}

::testing::AssertionResult same_groups(Schema const& schema, std::vector<Row> const& got,
                                       std::vector<Row> const& expected, std::size_t keys) {
    auto const key_of = [&](Row const& row) {
        return encode(Row(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(keys)));
    };
    std::map<std::string, Row const*> by_key;
    for (Row const& row : got) {
        if (!by_key.emplace(key_of(row), &row).second) {
            return ::testing::AssertionFailure() << "a group comes twice";
        }
    }
    if (got.size() != expected.size()) {
        return ::testing::AssertionFailure()
               << got.size() << " groups in place of " << expected.size();
    }
    for (Row const& row : expected) {
        auto const found = by_key.find(key_of(row));
        if (found == by_key.end()) return ::testing::AssertionFailure() << "a group is missing";
        for (std::size_t c = keys; c < row.size(); ++c) {
            if (!same_cell(schema[c].type, (*found->second)[c], row[c])) {
                return ::testing::AssertionFailure()
                       << "column '" << schema[c].name << "' (" << schema[c].type.to_string()
                       << ") of a group differs";
            }
        }
    }
    return ::testing::AssertionSuccess();
}

Cell small_cell(Field const& field, Random& random) {
    if (field.nullable && random.one_in(4)) return std::nullopt;
    switch (field.type.id) {
        case TypeId::Bool: return cell(static_cast<std::uint8_t>(random.below(2)));
        case TypeId::Int8: return small_integer<std::int8_t>(random);
        case TypeId::Int16: return small_integer<std::int16_t>(random);
        case TypeId::Int32:
        case TypeId::Date32: return small_integer<std::int32_t>(random);
        case TypeId::Int64: return small_integer<std::int64_t>(random);
        case TypeId::UInt8: return small_integer<std::uint8_t>(random);
        case TypeId::UInt16: return small_integer<std::uint16_t>(random);
        case TypeId::UInt32: return small_integer<std::uint32_t>(random);
        case TypeId::UInt64: return small_integer<std::uint64_t>(random);
        case TypeId::Float32:
            if (random.one_in(40)) return cell(std::numeric_limits<float>::quiet_NaN());
            return cell(static_cast<float>(random.between(-1000, 1000)));
        case TypeId::Float64:
            if (random.one_in(40)) return cell(std::numeric_limits<double>::quiet_NaN());
            return cell(random.real() * 100 - 50);
        case TypeId::Decimal128: {
            Wide value = random.between(-1'000'000, 1'000'000);
            if (field.type.precision > 30) value *= 1'000'000'000'000'000;
            return cell(value);
        }
        default: return random_cell(field, random, DataShape{});
    }
}

CellPool::CellPool(Field const& field, std::size_t distinct, Random& random) {
    for (std::size_t i = 0; i < std::max<std::size_t>(distinct, 1); ++i) {
        cells_.push_back(random_cell(field, random, DataShape{}));
    }
}

double CellPool::kinds() const {
    std::map<Cell, double> times;
    for (Cell const& cell : cells_) times[cell] += 1;
    double equal = 0;
    for (auto const& [cell, count] : times) equal += count * count;
    return double(cells_.size()) * double(cells_.size()) / equal;
}

}  // namespace mgi::test
