// Sorts on a GPU: rows that carry their numbers, so that each is compared with what it was, and with the one before by the
// comparison of CPUs (mgi/device/order.hpp).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include <mgi/device/order.hpp>
#include <mgi/gpu_operators.hpp>

#include "gpu/operators_bed.hpp"

namespace mgi::test::on_gpu {

namespace {

using device::KeyOrder;
using device::OrderKind;
using device::u8;

/// A value's bytes, or null.
struct Value {
    bool valid = true;
    std::string bytes;
};

OrderKind order_of(Type const& type) {
    if (type.id == TypeId::Bool) return OrderKind::Bool;
    if (type.id == TypeId::Decimal128) return OrderKind::Decimal;
    if (type.id == TypeId::FixedSizeBinary) return OrderKind::Bytes;
    if (type.is_variable()) return OrderKind::Text;
    if (type.is_float()) return OrderKind::Float;
    return is_unsigned(type) ? OrderKind::Unsigned : OrderKind::Signed;
}

/// Numbers that look random.
class Numbers {
public:
    explicit Numbers(u64 seed) : state_(seed * 1000003 + 17) {}
    u64 next() { return state_ = device::murmur3_mix(state_ + 0x9e3779b97f4a7c15ULL); }
    u64 below(u64 count) { return next() % count; }

private:
    u64 state_;
};

/// Values that are often equal, differ late, or lie at the ends.
std::string random_value(Type const& type, Numbers& numbers, u64 values) {
    std::string bytes(type.row_width(), '\0');
    u64 const one = numbers.below(values);
    if (type.is_variable()) {
        // Begins that are alike, ends of characters of 0 and 255.
        bytes.assign(one % 3 * 7 + one % 5, 'b');
        for (u64 more = numbers.below(6); more != 0; --more) bytes += "\0ab\xff"[numbers.below(4)];
        return bytes;
    }
    if (type.id == TypeId::Bool) return std::string(1, char(one % 2));
    if (type.is_float()) {
        double const odd[] = {0.0,
                              -0.0,
                              std::numeric_limits<double>::quiet_NaN(),
                              -std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity(),
                              -1e300,
                              1e-310};
        double const wide = one < 7 ? odd[one] : double(one) - double(values) / 2;
        auto const narrow = float(wide);
        bytes.size() == 4 ? std::memcpy(bytes.data(), &narrow, 4)
                          : std::memcpy(bytes.data(), &wide, 8);
        return bytes;
    }
    if (type.id == TypeId::FixedSizeBinary) {
        std::fill(bytes.begin(), bytes.end(), 'z');
        bytes[numbers.below(bytes.size())] = char(one);
        return bytes;
    }
    __int128 number = __int128(one) - __int128(values / 2);
    if (one % 7 == 0 && bytes.size() > 1) number *= __int128{1} << (8 * bytes.size() - 12);
    std::memcpy(bytes.data(), &number, bytes.size());
    return bytes;
}

using Columns = std::vector<std::vector<Value>>;

/// What the last column has.
Value number_of(u64 row) {
    return {true, std::string(reinterpret_cast<char const*>(&row), sizeof(row))};
}

/// Rows [first, first + count) in the host's memory, and their numbers as the last column.
RecordBatch batch_of_values(Schema const& schema, Columns const& columns, std::size_t first,
                            std::size_t count) {
    auto const memory = std::make_shared<std::vector<std::vector<u64>>>();
    auto const keep = [&](std::string const& bytes) {
        memory->emplace_back(bytes.size() / 8 + 2);
        std::memcpy(memory->back().data(), bytes.data(), bytes.size());
        return memory->back().data();
    };
    RecordBatch batch;
    batch.schema = schema;
    batch.rows = i64(count);
    for (std::size_t c = 0; c < schema.size(); ++c) {
        Type const& type = schema[c].type;
        std::string values;
        std::string characters;
        std::string valid(count / 8 + 1, '\0');
        std::string bits(count / 8 + 1, '\0');
        auto const add_offset = [&] {
            auto const offset = std::int32_t(characters.size());
            values.append(reinterpret_cast<char const*>(&offset), 4);
        };
        if (type.is_variable()) add_offset();
        for (std::size_t i = 0; i < count; ++i) {
            if (c + 1 == schema.size()) {
                values += number_of(first + i).bytes;
                continue;
            }
            Value const& value = columns[c][first + i];
            if (value.valid) valid[i / 8] = char(valid[i / 8] | 1 << i % 8);
            if (type.id == TypeId::Bool) {
                bits[i / 8] = char(bits[i / 8] | (value.bytes[0] << i % 8));
            } else if (type.is_variable()) {
                characters += value.bytes;
                add_offset();
            } else {
                values += value.bytes;
            }
        }
        Column column;
        column.values = keep(type.id == TypeId::Bool ? bits : values);
        if (type.is_variable()) {
            column.encoding = Encoding::Offsets32;
            column.bytes = reinterpret_cast<std::byte const*>(keep(characters));
        }
        if (schema[c].nullable) {
            column.validity = reinterpret_cast<std::uint8_t const*>(keep(valid));
        }
        batch.columns.push_back(column);
    }
    batch.owner = memory;
    return batch;
}

/// A row's value, compared as CPUs do.
device::OrderedValue ordered(KeyOrder const& key, Value const& value) {
    device::OrderedValue made;
    made.null = !value.valid;
    made.word = key.null_word();
    if (!value.valid) return made;
    u8 const all_valid = 0xff;
    device::ColumnView view;
    view.values = value.bytes.data();
    view.validity = &all_valid;
    u64 const offsets[] = {0, value.bytes.size()};
    if (key.kind == OrderKind::Text) {
        view.values = offsets;
        view.bytes = value.bytes.data();
        view.encoding = device::InputEncoding::Offsets64;
    }
    device::Batch batch;
    batch.columns = &view;
    device::ColumnLayout layout;
    layout.width = key.width;
    KeyOrder first = key;
    first.column = 0;
    return device::ordered_value(batch, first, layout, 0);
}

class Table {
public:
    Table(std::vector<Type> const& types, bool nullable, std::size_t rows, u64 values, u64 seed)
        : columns_(types.size()), rows_(rows) {
        Numbers numbers(seed);
        std::vector<Field> fields;
        for (std::size_t c = 0; c < types.size(); ++c) {
            fields.push_back({"k" + std::to_string(c), types[c], nullable});
            for (std::size_t i = 0; i < rows; ++i) {
                columns_[c].push_back(
                    {!nullable || numbers.below(6) != 0, random_value(types[c], numbers, values)});
            }
        }
        fields.push_back({"row", int64()});
        schema_ = Schema(fields);
    }

    void sort_by(Bed& bed, std::vector<SortKey> const& by) const {
        std::vector<GpuTable> parts;
        for (RecordBatch const& batch : dealt(bed)) {
            parts.push_back(copy_to_gpu(batch, bed.ordinal(parts.size())));
        }
        std::vector<RecordBatch> results;
        for (GpuTable const& result :
             sort(bed.runtime(), bed.endpoints(), parts, by, bed.options)) {
            results.push_back(copy_to_host(result));
        }
        check(results, by);
    }
    /// In rounds, from the host and back. Returns how many.
    u64 sort_host_by(Bed& bed, std::vector<SortKey> const& by) const {
        std::vector<mgi::Table> parts;
        for (RecordBatch const& batch : dealt(bed)) parts.push_back({schema_, {batch}});
        std::vector<RecordBatch> results;
        OperatorReport report;
        for (mgi::Table const& result :
             sort_on_gpus(bed.runtime(), bed.endpoints(), parts, by, bed.options, &report)) {
            results.insert(results.end(), result.batches.begin(), result.batches.end());
        }
        check(results, by);
        return report.rounds;
    }

private:
    /// A part for each endpoint; the second one's is empty.
    [[nodiscard]] std::vector<RecordBatch> dealt(Bed const& bed) const {
        std::size_t const endpoints = bed.endpoints().size();
        std::vector<RecordBatch> parts;
        std::size_t first = 0;
        for (std::size_t e = 0; e < endpoints; ++e) {
            std::size_t const left = rows_ - first;
            std::size_t const count = e + 1 == endpoints ? left : e == 1 ? 0 : left / 2;
            parts.push_back(batch_of_values(schema_, columns_, first, count));
            first += count;
        }
        return parts;
    }

    void check(std::vector<RecordBatch> const& results, std::vector<SortKey> const& by) const {
        std::vector<KeyOrder> keys;
        for (SortKey const& one : by) {
            KeyOrder key;
            key.column = u32(schema_.index_of(one.column));
            key.width = schema_[key.column].type.row_width();
            key.kind = order_of(schema_[key.column].type);
            key.descending = one.descending;
            key.nulls_first = one.nulls_first;
            keys.push_back(key);
        }
        std::vector<bool> seen(rows_);
        u64 before = 0;
        std::size_t count = 0;
        for (RecordBatch const& batch : results) {
            for (i64 i = 0; i < batch.rows; ++i, ++count) {
                u64 const row = u64(batch.values<i64>(columns_.size())[i]);
                if (row >= rows_ || seen[row]) throw Wrong("a row is there twice, or none");
                seen[row] = true;
                expect_row(batch, i, row);
                if (count != 0 && compare(keys, before, row) > 0) {
                    throw Wrong("row " + std::to_string(count) + " comes before the one ahead");
                }
                before = row;
            }
        }
        if (count != rows_) throw Wrong(std::to_string(count) + " rows");
    }

    void expect_row(RecordBatch const& batch, i64 i, u64 row) const {
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            Type const& type = schema_[c].type;
            Value const& expected = columns_[c][row];
            bool same = batch.is_valid(c, i) == expected.valid;
            if (same && expected.valid) {
                u32 const width = type.row_width();
                std::string got;
                if (type.id == TypeId::Bool) {
                    got = std::string(1, char(batch.bool_at(c, i) ? 1 : 0));
                } else if (type.is_variable()) {
                    got = std::string(batch.string_at(c, i));
                } else {
                    got.assign(static_cast<char const*>(batch.columns[c].values) +
                                   u64(batch.columns[c].offset + i) * width,
                               width);
                }
                same = got == expected.bytes;
            }
            if (!same) throw Wrong("column " + std::to_string(c) + " has another value");
        }
    }

    [[nodiscard]] int compare(std::vector<KeyOrder> const& keys, u64 a, u64 b) const {
        for (KeyOrder const& key : keys) {
            auto const value = [&](u64 row) {
                return key.column == columns_.size() ? number_of(row) : columns_[key.column][row];
            };
            int const order =
                device::compare_values(key, ordered(key, value(a)), ordered(key, value(b)));
            if (order != 0) return order;
        }
        return 0;
    }

    Columns columns_;
    std::size_t rows_;
    Schema schema_;
};

void of_each_type(Bed& bed, std::size_t rows) {
    u64 seed = 0;
    for (Type const& type :
         {boolean(), int8(), uint8(), int16(), uint16(), int32(), uint32(), int64(), uint64(),
          date32(), float32(), float64(), decimal128(38, 2), fixed_size_binary(3),
          fixed_size_binary(16), fixed_size_binary(21), string(), binary()}) {
        for (bool const nullable : {false, true}) {
            ++seed;
            u64 const values = seed % 3 == 0 ? 20 : u64{1} << 40;
            Table const table({type, int16()}, nullable, rows, values, seed);
            bool const descending = seed % 4 < 2;
            table.sort_by(bed, {{"k0", descending, nullable && seed % 5 < 3}});
            table.sort_by(bed, {{"k0", !descending, nullable && seed % 5 < 3}, {"row", true}});
        }
    }
}

void by_several_keys(Bed& bed, std::size_t rows) {
    u64 seed = 100;
    for (u64 const values : {u64{3}, u64{40}, u64{1} << 60}) {
        Table const table({string(), int64(), float32(), decimal128(30, 1), boolean(), binary(),
                           fixed_size_binary(9)},
                          true, rows, values, ++seed);
        table.sort_by(bed, {{"k0"}, {"k1", true}});
        table.sort_by(bed, {{"k4", true, true}, {"k1", false, true}, {"k3"}, {"k2", true}});
        table.sort_by(bed, {{"k6", true}, {"k5", true, true}, {"k0", true}, {"row"}});
        table.sort_by(bed, {{"k5"}, {"k4"}, {"k6", false, true}, {"k3", true}, {"k0"}});
    }
}

void of_few_rows(Bed& bed) {
    for (std::size_t const rows : {0, 1, 2, 3, 33}) {
        Table const table({int64(), string()}, true, rows, 3, rows);
        table.sort_by(bed, {{"k1"}, {"k0", true}});
        table.sort_by(bed, {{"k0"}});
    }
}

// All rows are equal, and so are most.
void of_equal_keys(Bed& bed, std::size_t rows) {
    for (u64 const values : {1, 2}) {
        Table const table({int64(), string()}, false, rows, values, 7);
        table.sort_by(bed, {{"k0"}});
        table.sort_by(bed, {{"k1", true}, {"k0"}});
    }
}

void of_host_tables(Bed& bed, std::size_t rows) {
    Table const table({int64(), string()}, true, rows, 1u << 30, 11);
    if (table.sort_host_by(bed, {{"k0", true}, {"k1"}}) != 1) throw Wrong("more than one round");
    bed.options.receive_limit = 64 * rows;
    if (table.sort_host_by(bed, {{"k1"}, {"k0", true, true}}) == 1) throw Wrong("one round");
    table.sort_by(bed, {{"k1"}, {"k0", true, true}});  // on GPUs, and with too little room there
}

void refused(Bed& bed) {
    Table const table({int64()}, false, 5000, 1u << 30, 9);
    expect_error(ErrorCode::InvalidArgument, "no column 'x'", [&] { table.sort_by(bed, {{"x"}}); });
    expect_error(ErrorCode::InvalidArgument, "no keys", [&] { table.sort_by(bed, {}); });
    bed.options.receive_limit = 10'000;
    expect_error(ErrorCode::OutOfMemory, "receive_limit", [&] { table.sort_by(bed, {{"k0"}}); });
    bed.options.receive_limit = 0;
    std::atomic<bool> cancel{true};
    bed.options.cancel = &cancel;
    expect_error(ErrorCode::Interrupted, "stopped", [&] { table.sort_by(bed, {{"k0"}}); });
    bed.options.cancel = nullptr;
    table.sort_by(bed, {{"k0"}});
}

}  // namespace

std::vector<GpuTest> sort_tests(std::size_t rows) {
    return {
        {"sort: keys of each type", [rows](Bed& bed) { of_each_type(bed, rows / 4); }},
        {"sort: several keys", [rows](Bed& bed) { by_several_keys(bed, rows); }},
        {"sort: few rows", of_few_rows},
        {"sort: equal keys", [rows](Bed& bed) { of_equal_keys(bed, rows); }},
        {"sort: tables on the host", [rows](Bed& bed) { of_host_tables(bed, rows); }},
        {"sort: what is refused", refused},
        {"sort: through a channel",
         [rows](Bed& bed) {
             bed.options.by_reference = false;
             by_several_keys(bed, rows / 4);
         }},
    };
}

}  // namespace mgi::test::on_gpu
