// Extremes of values longer than a word on a GPU: texts, binaries and long decimals.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/operators_bed.hpp"

namespace mgi::test::on_gpu {

namespace {

using F = AggregateFunction;

std::vector<Aggregate> extremes(std::string const& column) {
    return {{F::Min, column, "min"},
            {F::Max, column, "max"},
            {F::First, column, "any"},
            {F::Count, column, "count"}};
}

// Few groups are folded where their rows lie, of many the rows move.
void texts_and_binaries(Bed& bed, std::size_t rows) {
    for (Type const& type : {string(), binary(), fixed_size_binary(3), fixed_size_binary(20),
                             fixed_size_binary(300), decimal128(30, 2)}) {
        for (u64 const groups : {u64{1}, u64{4}, u64(rows / 2)}) {
            Schema const schema{{"key", int32()}, {"value", type, groups != 4}};
            PlainTable table = random_table(schema, rows, groups == 4 ? 30 : rows, 31);
            for (std::size_t i = 0; i < rows; ++i) {
                // Values of a group without any are null.
                table.rows[i][0].word = device::murmur3_mix(i) % groups;
                if (groups > 4 && table.rows[i][0].word % 9 == 1) table.rows[i][1] = {false, 0};
            }
            bed.groups(table, {"key"}, extremes("value"));
        }
    }
}

// With states of all kinds, keys of texts among them, stored at their places and through a channel.
void beside_others(Bed& bed, std::size_t rows) {
    Schema const schema{{"key", string(), true},
                        {"n", int16(), true},
                        {"x", string(), true},
                        {"y", binary()},
                        {"z", fixed_size_binary(12), true}};
    for (u64 const values : {u64{7}, u64(rows)}) {
        PlainTable const table = random_table(schema, rows, values, 32);
        for (bool const by_reference : {true, false}) {
            bed.options.by_reference = by_reference;
            bed.groups(table, {"key"},
                       {{F::Min, "x", "a"},
                        {F::Max, "y", "b"},
                        {F::First, "z", "c"},
                        {F::Max, "key", "d"},
                        {F::StdDev, "n", "e"},
                        {F::CountDistinct, "x", "f"},
                        {F::Avg, "n", "g"}});
            bed.groups(table, {"n"}, extremes("y"));
        }
    }
    bed.options.by_reference = true;
    bed.groups(PlainTable{schema, {}}, {"key"}, extremes("x"));
}

using Long = __int128;

struct Decimals {
    std::vector<i64> keys;
    std::vector<Long> values;

    [[nodiscard]] RecordBatch batch(std::size_t first, std::size_t count) const {
        RecordBatch batch;
        batch.schema = Schema{{"key", int64()}, {"x", decimal128(38, 2)}};
        batch.rows = i64(count);
        batch.columns.resize(2);
        batch.columns[0].values = keys.data() + first;
        batch.columns[1].values = values.data() + first;
        return batch;
    }
};

using Extremes = std::map<i64, std::pair<Long, Long>>;

// From just longer than a word to as long as can be; some differ in their lower words alone.
void long_decimals(Bed& bed, std::size_t rows) {
    for (int const digits : {3, 19, 24, 37}) {
        for (u64 const groups : {u64{1}, u64{5}, u64(rows / 2)}) {
            Long power = 1;
            for (int digit = 0; digit < digits; ++digit) power *= 10;
            Decimals all;
            Extremes expected;
            for (std::size_t i = 0; i < rows; ++i) {
                u64 const random = device::murmur3_mix(i);
                all.keys.push_back(i64(random % groups));
                all.values.push_back((Long(random >> 32) % 19 - 9) * power + i64(i * 7919 % 1009));
                auto& [least, most] =
                    expected.try_emplace(all.keys[i], all.values[i], all.values[i]).first->second;
                least = std::min(least, all.values[i]);
                most = std::max(most, all.values[i]);
            }
            std::vector<GpuTable> parts;
            std::size_t const count = bed.endpoints().size();
            for (std::size_t e = 0; e < count; ++e) {
                std::size_t const first = rows * e / count;
                std::size_t const end = rows * (e + 1) / count;
                parts.push_back(copy_to_gpu(all.batch(first, end - first), bed.ordinal(e)));
            }
            Extremes found;
            for (GpuTable const& result :
                 group_by(bed.runtime(), bed.endpoints(), parts, {"key"},
                          {{F::Min, "x", "min"}, {F::Max, "x", "max"}}, bed.options)) {
                RecordBatch const batch = copy_to_host(result);
                auto const* const least = static_cast<Long const*>(batch.columns[1].values);
                auto const* const most = static_cast<Long const*>(batch.columns[2].values);
                for (i64 i = 0; i < batch.rows; ++i) {
                    found[batch.values<i64>(0)[i]] = {least[i], most[i]};
                }
            }
            if (found != expected) {
                throw Wrong("extremes of decimals of about " + std::to_string(digits) + " digits");
            }
        }
    }
}

}  // namespace

std::vector<GpuTest> long_value_tests(std::size_t rows) {
    return {
        {"group_by: texts and binaries", [rows](Bed& bed) { texts_and_binaries(bed, rows); }},
        {"group_by: texts beside others", [rows](Bed& bed) { beside_others(bed, rows); }},
        {"group_by: long decimals", [rows](Bed& bed) { long_decimals(bed, rows); }},
    };
}

}  // namespace mgi::test::on_gpu
