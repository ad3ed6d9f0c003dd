/// \file
/// Tables for the tests of operators on GPUs, and the operators themselves done plainly. Knows nothing of a
/// test framework, so that programs for GPUs have it too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/device/hash.hpp>
#include <mgi/operators.hpp>

#include "operators/join_kinds.hpp"

namespace mgi::test::plain {

using device::i64;
using device::u32;
using device::u64;

/// A value as its bits extended to 64: floats as a double's; of a null 0.
struct Cell {
    bool valid = true;
    u64 word = 0;
    friend bool operator==(Cell const& a, Cell const& b) {
        return a.valid == b.valid && a.word == b.word;
    }
    friend bool operator<(Cell const& a, Cell const& b) {
        return a.valid != b.valid ? b.valid : a.word < b.word;
    }
};
using Row = std::vector<Cell>;
using Rows = std::vector<Row>;

struct PlainTable {
    Schema schema;
    Rows rows;
};

inline u64 bits_of(double value) {
    u64 bits;
    std::memcpy(&bits, &value, 8);
    return bits;
}
inline double double_of(u64 bits) {
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
}

inline bool is_wide(Type const& type) {
    return type.id == TypeId::Decimal128 || type.id == TypeId::FixedSizeBinary;
}

/// A text's cell is a number that its characters say, some of them at length, with zeros, or behind a front that they share.
inline constexpr std::string_view kCommonFront("a front\0 of texts ", 18);
inline std::string text_of_word(u64 word) {
    std::string text;
    if (word == 0) return text;
    if (word % 3 == 1) text = kCommonFront;
    text += std::to_string(word);
    return text.append(word % 41, word % 5 == 0 ? '\0' : 'x');
}
inline Cell cell_of_text(std::string_view text) {
    Cell cell;
    bool const common = text.substr(0, kCommonFront.size()) == kCommonFront;
    for (char const digit : text.substr(common ? kCommonFront.size() : 0)) {
        if (digit == 'x' || digit == 0) break;
        cell.word = 10 * cell.word + u64(digit - '0');
    }
    if (text_of_word(cell.word) != text) cell.word = 0xbadbadbadbadbadULL;
    return cell;
}

/// A cell's bytes where they are longer than its word: a decimal's digits, else what follows from the word.
inline void store_wide(char* to, Type const& type, u64 word) {
    u32 const width = type.row_width();
    if (type.id == TypeId::Decimal128) {
        u64 const words[] = {word, word >> 63 != 0 ? ~u64{0} : 0};
        std::memcpy(to, words, sizeof(words));
        return;
    }
    for (u32 b = 0; b < width; ++b) {
        u64 const piece = b < 8 ? word : device::murmur3_mix(word + b / 8);
        to[b] = char(piece >> (b % 8 * 8));
    }
}
/// The word of such a cell, and whether its bytes are as they should be.
inline Cell load_wide(char const* from, Type const& type) {
    u32 const width = type.row_width();
    Cell cell;
    std::memcpy(&cell.word, from, std::min(width, 8u));
    std::string should(width, ' ');
    store_wide(should.data(), type, cell.word);
    if (std::memcmp(from, should.data(), width) != 0) cell.word = 0xbadbadbadbadbadULL;
    return cell;
}

/// Texts by offsets; nulls have some characters, too.
inline void add_texts(Column& column, std::vector<std::vector<u64>>& memory, Rows const& rows,
                      std::size_t c, std::size_t first, std::size_t count) {
    std::string characters = "in front";
    std::vector<i64> offsets{i64(characters.size())};
    for (std::size_t i = 0; i < count; ++i) {
        Cell const& cell = rows[first + i][c];
        characters += cell.valid ? text_of_word(cell.word) : "null";
        offsets.push_back(i64(characters.size()));
    }
    auto const add = [&](void const* from, std::size_t bytes) {
        memory.emplace_back(bytes / 8 + 2);
        std::memcpy(memory.back().data(), from, bytes);
        return memory.back().data();
    };
    column.bytes = reinterpret_cast<std::byte const*>(add(characters.data(), characters.size()));
    if (count % 2 == 0) {
        column.encoding = Encoding::Offsets64;
        column.values = add(offsets.data(), offsets.size() * 8);
        return;
    }
    std::vector<std::int32_t> const narrow(offsets.begin(), offsets.end());
    column.encoding = Encoding::Offsets32;
    column.values = add(narrow.data(), narrow.size() * 4);
}

/// Rows [first, first + count) in the host's memory, as Arrow lays them out.
inline RecordBatch batch_of(PlainTable const& table, std::size_t first, std::size_t count) {
    auto memory = std::make_shared<std::vector<std::vector<u64>>>();
    RecordBatch batch;
    batch.schema = table.schema;
    batch.rows = i64(count);
    for (std::size_t c = 0; c < table.schema.size(); ++c) {
        Type const& type = table.schema[c].type;
        std::vector<u64> values(count * std::max(1u, (type.row_width() + 7) / 8) + 1);
        std::vector<u64> valid(count / 64 + 1);
        for (std::size_t i = 0; i < count; ++i) {
            Cell const& cell = table.rows[first + i][c];
            if (cell.valid) valid[i / 64] |= u64{1} << (i % 64);
            if (type.id == TypeId::Bool) values[i / 64] |= cell.word << (i % 64);
            if (type.id == TypeId::Bool || type.is_variable()) continue;
            u64 word = cell.word;
            if (type.id == TypeId::Float32) {
                auto const narrow = float(double_of(cell.word));
                std::memcpy(&word, &narrow, 4);
            }
            char* const at = reinterpret_cast<char*>(values.data()) + i * type.row_width();
            if (is_wide(type)) {
                store_wide(at, type, word);
            } else {
                std::memcpy(at, &word, type.row_width());
            }
        }
        Column column;
        memory->push_back(std::move(values));
        column.values = memory->back().data();
        if (type.is_variable()) add_texts(column, *memory, table.rows, c, first, count);
        if (table.schema[c].nullable) {
            memory->push_back(std::move(valid));
            column.validity = reinterpret_cast<std::uint8_t const*>(memory->back().data());
        }
        batch.columns.push_back(column);
    }
    // Vectors keep their memory when they move, so the addresses above stay.
    batch.owner = memory;
    return batch;
}

inline bool is_unsigned(Type const& type) {
    return type.id >= TypeId::UInt8 && type.id <= TypeId::UInt64;
}

inline Cell cell_of(RecordBatch const& batch, std::size_t c, i64 i) {
    Type const& type = batch.schema[c].type;
    if (!batch.is_valid(c, i)) return {false, 0};
    if (type.id == TypeId::Bool) return {true, batch.bool_at(c, i) ? 1u : 0u};
    if (type.is_variable()) return cell_of_text(batch.string_at(c, i));
    u32 const width = type.row_width();
    char const* const at = static_cast<char const*>(batch.columns[c].values) +
                           u64(batch.columns[c].offset + i) * width;
    if (type.is_float()) return {true, device::load_float(at, width)};
    if (is_wide(type)) return load_wide(at, type);
    return {true, is_unsigned(type) ? device::load_unsigned(at, width)
                                    : u64(device::load_signed(at, width))};
}

inline Rows rows_of(RecordBatch const& batch) {
    Rows rows;
    for (i64 i = 0; i < batch.rows; ++i) {
        rows.emplace_back();
        for (std::size_t c = 0; c < batch.schema.size(); ++c) {
            rows.back().push_back(cell_of(batch, c, i));
        }
    }
    return rows;
}

inline Row key_of(Row const& row, std::vector<std::size_t> const& columns) {
    Row key;
    for (std::size_t const c : columns) key.push_back(row[c]);
    return key;
}

inline std::vector<std::size_t> places(Schema const& schema,
                                       std::vector<std::string> const& names) {
    std::vector<std::size_t> found;
    for (std::string const& name : names) found.push_back(schema.index_of(name));
    return found;
}

inline bool is_less(Type const& type, u64 a, u64 b) {
    if (type.is_variable()) return text_of_word(a) < text_of_word(b);
    if (type.id == TypeId::FixedSizeBinary) {
        std::string bytes[2] = {std::string(type.row_width(), ' '), ""};
        bytes[1] = bytes[0];
        store_wide(bytes[0].data(), type, a);
        store_wide(bytes[1].data(), type, b);
        return bytes[0] < bytes[1];
    }
    if (type.is_float()) {
        double const x = double_of(a);
        double const y = double_of(b);
        return x < y || (x == x && y != y);
    }
    return is_unsigned(type) ? a < b : i64(a) < i64(b);
}

inline long double number_of(Type const& type, u64 word) {
    if (type.is_float()) return double_of(word);
    if (type.id == TypeId::Decimal128) {
        return static_cast<long double>(i64(word)) / std::pow(10.0L, type.scale);
    }
    return is_unsigned(type) ? static_cast<long double>(word) : static_cast<long double>(i64(word));
}

/// Of a sample, as it is defined.
inline Cell variance_of(std::vector<long double> const& values) {
    if (values.size() < 2) return {false, 0};
    auto const count = static_cast<long double>(values.size());
    long double mean = 0;
    for (long double const value : values) mean += value;
    mean /= count;
    long double squares = 0;
    for (long double const value : values) squares += (value - mean) * (value - mean);
    auto const variance = double(squares / (count - 1));
    return {true,
            bits_of(std::isfinite(variance) ? variance : std::numeric_limits<double>::quiet_NaN())};
}

/// Whether float64 results are equal but for rounding.
inline bool nearly_same(Cell const& a, Cell const& b) {
    if (!a.valid || !b.valid) return a.valid == b.valid;
    double const x = double_of(a.word);
    double const y = double_of(b.word);
    if (x != x || y != y) return x != x && y != y;
    return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y));
}

inline Cell aggregate_of(Schema const& schema, Rows const& group, Aggregate const& wanted) {
    if (wanted.column.empty()) return {true, group.size()};
    std::size_t const c = schema.index_of(wanted.column);
    Type const& type = schema[c].type;
    u64 count = 0;
    double float_sum = 0;
    u64 sum = 0;  // of integers; tests keep it in 64 bits
    u64 smallest = 0;
    u64 largest = 0;
    std::vector<long double> values;
    std::set<u64> different;
    for (Row const& row : group) {
        if (!row[c].valid) continue;
        u64 const word = row[c].word;
        if (count == 0 || is_less(type, word, smallest)) smallest = word;
        if (count == 0 || is_less(type, largest, word)) largest = word;
        if (type.is_float()) float_sum += double_of(word);
        sum += word;
        ++count;
        values.push_back(number_of(type, word));
        different.insert(type.is_float() && double_of(word) == 0 ? 0 : word);
    }
    if (wanted.function == AggregateFunction::CountDistinct) return {true, different.size()};
    if (wanted.function == AggregateFunction::Count) return {true, count};
    if (count == 0) return {false, 0};
    // What a decimal's digits are counted in.
    double const unit = type.id == TypeId::Decimal128 ? std::pow(10.0, type.scale) : 1;
    switch (wanted.function) {
        case AggregateFunction::Sum: return {true, type.is_float() ? bits_of(float_sum) : sum};
        case AggregateFunction::Variance: return variance_of(values);
        case AggregateFunction::StdDev: {
            Cell const variance = variance_of(values);
            return {variance.valid, bits_of(std::sqrt(double_of(variance.word)))};
        }
        // Which one is the operator's to choose; it takes the least one.
        case AggregateFunction::First:
        case AggregateFunction::Min: return {true, smallest};
        case AggregateFunction::Max: return {true, largest};
        default:
            return {true, bits_of((type.is_float() ? float_sum : double(i64(sum))) /
                                  (double(count) * unit))};
    }
}

/// By column of a group-by's result: whether it may differ by rounding.
inline std::vector<bool> rounded(std::size_t keys, std::vector<Aggregate> const& aggregates) {
    std::vector<bool> columns(keys);
    for (Aggregate const& wanted : aggregates) {
        columns.push_back(wanted.function == AggregateFunction::Variance ||
                          wanted.function == AggregateFunction::StdDev);
    }
    return columns;
}

/// Groups in order of their keys.
inline Rows group_by(PlainTable const& table, std::vector<std::string> const& keys,
                     std::vector<Aggregate> const& aggregates) {
    std::map<Row, Rows> groups;
    auto const columns = places(table.schema, keys);
    for (Row const& row : table.rows) groups[key_of(row, columns)].push_back(row);
    Rows results;
    for (auto const& [key, rows] : groups) {
        Row result = key;
        for (Aggregate const& wanted : aggregates) {
            result.push_back(aggregate_of(table.schema, rows, wanted));
        }
        results.push_back(result);
    }
    return results;
}

/// Columns of both sides, one after the other, with nulls for a side that is missing, in no particular order. Of Semi
/// and Anti, columns of the left.
inline Rows join(PlainTable const& left, PlainTable const& right,
                 std::vector<std::string> const& left_keys,
                 std::vector<std::string> const& right_keys,
                 std::vector<std::string> const& left_columns,
                 std::vector<std::string> const& right_columns, JoinKind kind = JoinKind::Inner) {
    auto const has_null = [](Row const& key) {
        return std::any_of(key.begin(), key.end(), [](Cell const& cell) { return !cell.valid; });
    };
    std::multimap<Row, Row const*> built;
    auto const right_places = places(right.schema, right_keys);
    auto const left_places = places(left.schema, left_keys);
    auto const from_left = places(left.schema, left_columns);
    auto const from_right = places(right.schema, right_columns);
    for (Row const& row : right.rows) built.emplace(key_of(row, right_places), &row);
    // The largest unsigned numbers and the negative ones look alike, and are not.
    auto const is_foreign = [&](Row const& key) {
        for (std::size_t k = 0; k < key.size(); ++k) {
            Type const& a = left.schema[left_places[k]].type;
            Type const& b = right.schema[right_places[k]].type;
            bool const differ = a.is_integer() && is_unsigned(a) != is_unsigned(b);
            if (differ && key[k].word >> 63 != 0) return true;
        }
        return false;
    };
    bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
    Row const no_left(from_left.size(), Cell{false, 0});
    Row const no_right(from_right.size(), Cell{false, 0});
    Rows results;
    std::map<Row const*, bool> matched;
    auto const add = [&](Row result, Row const& more) {
        result.insert(result.end(), more.begin(), more.end());
        results.push_back(result);
    };
    for (Row const& row : left.rows) {
        Row const key = key_of(row, left_places);
        auto [at, last] = built.equal_range(key);
        if (has_null(key) || is_foreign(key)) at = last;
        bool const alone = at == last;
        if (!pairs && alone == (kind == JoinKind::Anti)) results.push_back(key_of(row, from_left));
        if (alone && (kind == JoinKind::Left || kind == JoinKind::Full)) {
            add(key_of(row, from_left), no_right);
        }
        for (; pairs && at != last; ++at) {
            add(key_of(row, from_left), key_of(*at->second, from_right));
            matched[at->second] = true;
        }
    }
    if (kind != JoinKind::Right && kind != JoinKind::Full) return results;
    for (Row const& row : right.rows) {
        if (matched.count(&row) == 0) add(no_left, key_of(row, from_right));
    }
    return results;
}

inline Rows sorted(Rows rows) {
    std::sort(rows.begin(), rows.end());
    return rows;
}

/// Random columns: of each type and nullability in the schema, values below `values` of them (the largest
/// ones included where `wild`); every 8th value of a nullable column is null.
inline PlainTable random_table(Schema const& schema, std::size_t rows, u64 values, u64 seed,
                               bool wild = false) {
    PlainTable table{schema, {}};
    u64 state = seed * 1000003 + 17;
    auto const next = [&] { return state = device::murmur3_mix(state + 0x9e3779b97f4a7c15ULL); };
    for (std::size_t i = 0; i < rows; ++i) {
        Row row;
        for (Field const& field : schema.fields()) {
            Cell cell;
            u64 const value = next() % values;
            i64 const centred = i64(value) - i64(values / 2);
            u32 const bits = 8 * std::max(1u, field.type.row_width());
            if (field.nullable && next() % 8 == 0) {
                cell = {false, 0};
            } else if (field.type.id == TypeId::Bool) {
                cell.word = value % 2;
            } else if (field.type.is_float()) {
                cell.word = bits_of(value == 3 && wild ? double(0.0 / 0.0 * 1.0) : double(centred));
                if (value == 3 && wild) cell.word = 0x7ff8000000000000ULL;
            } else if (field.type.is_variable()) {
                cell.word = value;
            } else if (field.type.id == TypeId::Decimal128) {
                cell.word = u64(centred * (wild ? 1'000'000'007 : 1));
            } else if (is_wide(field.type)) {
                u32 const kept = std::min(bits, 64u);
                cell.word = device::murmur3_mix(value) & (~u64{0} >> (64 - kept));
            } else if (is_unsigned(field.type)) {
                u64 const most = ~u64{0} >> (64 - bits);
                cell.word = wild && value == 1 ? most : value & most;
            } else {
                i64 const least = i64(~u64{0} << (bits - 1));
                i64 const most = -(least + 1);
                i64 const word = wild && value == 1 ? least : wild && value == 2 ? -1 : centred;
                cell.word = u64(std::min(std::max(word, least), most));
            }
            row.push_back(cell);
        }
        table.rows.push_back(row);
    }
    return table;
}

}  // namespace mgi::test::plain
