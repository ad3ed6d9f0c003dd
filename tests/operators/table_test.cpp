/// \file
/// The operators' building blocks by themselves: keys as words, group tables, states, batches.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "operators/aggregates.hpp"
#include "operators/batch_builder.hpp"
#include "operators/group_table.hpp"
#include "operators/reference.hpp"
#include "support/expect_error.hpp"
#include "support/tables.hpp"

namespace mgi::test {
namespace {

using namespace operators;

GroupLayout one_counter(u32 key_words, std::vector<u32> text_words = {}) {
    GroupLayout layout;
    layout.key_words = key_words;
    layout.text_words = std::move(text_words);
    append_empty_state(State{}, layout.states);
    return layout;
}

i64& counter(char* row, u32 key_words) {
    return *reinterpret_cast<i64*>(row + u64{key_words} * 8);
}

/// Counts keys and compares with a map; `spread` is how many bits of the hash there are.
void count_keys(u32 distinct, u32 spread, u32 scatter = 1) {
    Random random(distinct + spread);
    Budget budget("a test", u64{1} << 30);
    GroupTable table(one_counter(1), true, budget, scatter);
    std::map<u64, i64> expected;
    for (int round = 0; round < 60; ++round) {
        u64 words[kVector];
        u32 hashes[kVector];
        char* rows[kVector];
        u32 const count = static_cast<u32>(1 + random.below(kVector));
        for (u32 i = 0; i < count; ++i) {
            words[i] = random.below(distinct);
            u64 const hash = words[i] * 0x9e3779b97f4a7c15ULL >> 32;
            hashes[i] = spread == 0 ? 7 : static_cast<u32>(hash) << (32 - spread);
            ++expected[words[i]];
        }
        table.find_or_insert(words, hashes, count, rows);
        for (u32 i = 0; i < count; ++i) {
            ASSERT_EQ(*reinterpret_cast<u64*>(rows[i]), words[i]);
            ++counter(rows[i], 1);
        }
    }
    ASSERT_EQ(table.size(), expected.size());
    std::map<u64, i64> got;
    for (u32 g = 0; g < table.size(); ++g) {
        got[*reinterpret_cast<u64*>(table.row(g))] = counter(table.row(g), 1);
    }
    EXPECT_EQ(got, expected);
    // Every group lies in exactly one range of hashes.
    for (u32 const ranges : {1U, 3U, 7U}) {
        std::multiset<u64> seen;
        for (u64 r = 0; r < ranges; ++r) {
            table.visit_range(
                (r << 32) / ranges, ((r + 1) << 32) / ranges,
                [&](u32, char const* row) { seen.insert(*reinterpret_cast<u64 const*>(row)); });
        }
        EXPECT_EQ(seen.size(), expected.size());
        EXPECT_EQ(std::set<u64>(seen.begin(), seen.end()).size(), expected.size());
    }
    table.clear();
    EXPECT_EQ(table.size(), 0U);
}

TEST(GroupTable, CountsLikeAMap) {
    count_keys(1, 32);
    count_keys(1000, 32);
    count_keys(20'000, 32);
}

TEST(GroupTable, HashesThatCollide) {
    count_keys(300, 0);
    count_keys(2000, 6);
    count_keys(5000, 12);
    count_keys(300, 0, 0x9e3779b9);
    count_keys(5000, 12, 0x9e3779b9);
}

/// Seconds that it takes to insert so many groups, in the order of their hashes or in another one.
double seconds_to_insert(u32 groups, bool in_order) {
    Budget budget("a test", u64{1} << 30);
    GroupTable table(one_counter(1), true, budget, 0x9e3779b9);
    u64 words[kVector];
    u32 hashes[kVector];
    char* rows[kVector];
    auto const began = std::chrono::steady_clock::now();
    for (u32 first = 0; first < groups; first += kVector) {
        for (u32 i = 0; i < kVector; ++i) {
            words[i] = first + i;
            // Of the lowest quarter: what one of four kernel groups merges.
            u32 const ascending = (first + i) * ((1u << 30) / groups);
            hashes[i] = in_order ? ascending : u32(words[i] * 0x9e3779b97f4a7c15ULL >> 32);
        }
        table.find_or_insert(words, hashes, kVector, rows);
    }
    EXPECT_GE(table.size(), groups);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

TEST(GroupTable, GroupsInTheOrderOfTheirHashesCrowdNoSlots) {
    constexpr u32 kGroups = 400'000;
    double const usual = seconds_to_insert(kGroups, false);
    // In order it took minutes.
    EXPECT_LT(seconds_to_insert(kGroups, true), 20 * usual + 1);
}

TEST(GroupTable, CountsAgainstItsBudget) {
    Budget budget("a test", u64{1} << 20);
    {
        GroupTable table(one_counter(1), true, budget);
        u64 words[kVector];
        u32 hashes[kVector];
        char* rows[kVector];
        u64 key = 0;
        auto const insert = [&] {
            for (u32 i = 0; i < kVector; ++i, ++key) {
                words[i] = key;
                hashes[i] = static_cast<u32>(key * 0x9e3779b97f4a7c15ULL >> 32);
            }
            table.find_or_insert(words, hashes, kVector, rows);
        };
        expect_error(ErrorCode::OutOfMemory, {"a test", "1 MiB", "receive_limit"}, [&] {
            for (u32 round = 0; round < 1000; ++round) insert();
        });
        EXPECT_GT(table.size(), 10'000U);
        EXPECT_GE(budget.used(), table.size() * (8 + 8 + 16));
        EXPECT_LE(budget.used(), u64{1} << 20);
    }
    EXPECT_EQ(budget.used(), 0U) << "a table that is gone takes nothing";
}

/// Encodes a column of a random batch, row by row in one vector.
std::unique_ptr<EncodedKeys> encode_keys(KeyEncoder const& encoder, RecordBatch const& batch) {
    std::vector<ColumnView> views;
    for (Column const& column : batch.columns) views.push_back(view_of(column, 0));
    auto keys = std::make_unique<EncodedKeys>();
    encoder.encode(views.data(), static_cast<u32>(batch.rows), *keys);
    return keys;
}

TEST(Keys, EqualExactlyIfTheValuesAre) {
    Random random(11);
    for (int round = 0; round < 60; ++round) {
        Schema const schema = random_schema(random, 4);
        std::vector<CellPool> pools;
        std::vector<KeyColumn> columns;
        for (u32 c = 0; c < schema.size(); ++c) {
            pools.emplace_back(schema[c], 3, random);
            columns.push_back({c, schema[c].type, schema[c].nullable});
        }
        std::vector<Row> rows;
        for (u32 r = 0; r < 60; ++r) {
            Row row;
            for (CellPool const& pool : pools) row.push_back(pool.pick(random));
            rows.push_back(std::move(row));
        }
        KeyEncoder const encoder(columns, NullKeys::Equal);
        RecordBatch const batch = make_batch(schema, rows, random);
        auto const keys = encode_keys(encoder, batch);
        u32 const words = encoder.words();
        for (u32 a = 0; a < rows.size(); ++a) {
            for (u32 b = 0; b < rows.size(); ++b) {
                bool same = true;
                for (u32 c = 0; c < schema.size(); ++c) {
                    same = same && canonical(schema[c].type, rows[a][c]) ==
                                       canonical(schema[c].type, rows[b][c]);
                }
                bool const equal =
                    equal_keys(keys->words + u64{a} * words, keys->words + u64{b} * words, words,
                               encoder.text_words());
                ASSERT_EQ(equal, same) << schema.to_string();
                if (same) {
                    ASSERT_EQ(keys->hashes[a], keys->hashes[b]);
                }
            }
        }
    }
}

TEST(Keys, DroppedRowsAreThoseWithANull) {
    Random random(2);
    Schema const schema{{"a", int32(), true}, {"b", string(), true}};
    auto const rows = random_rows(schema, 300, random);
    KeyEncoder const encoder({{0, int32(), true}, {1, string(), true}}, NullKeys::Drop);
    RecordBatch const batch = make_batch(schema, rows, random);
    auto const keys = encode_keys(encoder, batch);
    ASSERT_FALSE(keys->all_selected);
    std::vector<u32> expected;
    for (u32 r = 0; r < rows.size(); ++r) {
        if (rows[r][0] && rows[r][1]) expected.push_back(r);
    }
    EXPECT_EQ(std::vector<u32>(keys->selected, keys->selected + keys->selected_count), expected);
}

TEST(Aggregates, OrderedWordsOrderLikeFloats) {
    double const infinity = std::numeric_limits<double>::infinity();
    std::vector<double> const values{
        -infinity, -1e300, -2,    -1e-300,  -0.0,
        1e-300,    3,      1e300, infinity, std::numeric_limits<double>::quiet_NaN()};
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
        EXPECT_LT(ordered(values[i]), ordered(values[i + 1]));
        EXPECT_EQ(from_ordered(ordered(values[i])), values[i]);
    }
    EXPECT_TRUE(std::isnan(from_ordered(ordered(values.back()))));
}

TEST(BatchBuilder, NextRoomHoldsTheSameRowsInWholeHugePages) {
    Schema const schema{{"t", string()}, {"n", int64()}, {"u", string()}};
    std::string const text(40, 'x');
    BatchRoom room = kFirstRoom;
    for (int batch = 0; batch < 3; ++batch) {
        BatchBuilder builder(schema, {false, false, false}, room);
        u64 const bytes = builder.bytes();
        while (builder.room() != 0) {
            builder.put_text(0, 0, {text.data(), 40});
            builder.put_text(2, 0, {text.data(), 20});
            std::memset(builder.next(1), 0, 8);
            builder.advance(1);
        }
        u64 const blocks = builder.bytes() - bytes;
        EXPECT_EQ(blocks == 0, batch > 0);
        room = builder.next_room();
        RecordBatch const made = builder.finish();
        std::size_t const buffers = made.columns[0].buffers.size();
        EXPECT_EQ(buffers == 1, batch > 0);
        EXPECT_EQ(made.columns[2].buffers.size(), buffers);
    }
    u64 const bytes = room.rows * (16 + 8 + 16) + room.characters;
    EXPECT_LE(bytes, u64{4} << 20);
    EXPECT_GE(bytes, (u64{4} << 20) - (u64{64} << 10));
}

TEST(BatchBuilder, RoomForLongTextsIsBounded) {
    Schema const schema{{"t", string()}};
    std::string const text(1 << 20, 'x');
    BatchBuilder builder(schema, {false}, {4, 0});
    for (int row = 0; row < 4; ++row) {
        builder.put_text(0, 0, {text.data(), u32(text.size())});
        builder.advance(1);
    }
    BatchRoom const room = builder.next_room();
    EXPECT_LE(room.characters, u64{4} << 20);
    BatchBuilder next(schema, {false}, room);
    for (int row = 0; row < 20; ++row) {
        next.put_text(0, 0, {text.data(), u32(text.size())});
        next.advance(1);
    }
    Table const table{schema, {next.finish()}};
    auto const rows = rows_of({table});
    ASSERT_EQ(rows.size(), 20U);
    for (Row const& row : rows) EXPECT_EQ(row[0]->size(), text.size());
}

TEST(BatchBuilder, BitsTextsAndTheirMemory) {
    Random random(4);
    Schema const schema{{"b", boolean(), true}, {"t", string(), true}, {"f", fixed_size_binary(3)}};
    BatchBuilder builder(schema, {true, true, false}, {1000, 0});
    std::vector<Row> expected;
    for (int part = 0; part < 3; ++part) {
        if (part == 1) {
            builder.clear();
            expected.clear();
        }
        auto const rows = random_rows(schema, 300, random, {Keys::Uniform, 3, 200});
        for (u32 i = 0; i < rows.size(); ++i) {
            if (rows[i][0]) {
                builder.set_valid(0, i);
                if ((*rows[i][0])[0] != 0) builder.set_bit(0, i);
            }
            if (rows[i][1]) {
                builder.set_valid(1, i);
                builder.put_text(1, i, {rows[i][1]->data(), u32(rows[i][1]->size())});
            } else {
                builder.put_text(1, i, {});
            }
            std::memcpy(builder.next(2) + u64{i} * 3, rows[i][2]->data(), 3);
            expected.push_back(rows[i]);
        }
        builder.advance(static_cast<u32>(rows.size()));
    }
    EXPECT_EQ(builder.room(), 400U);
    Table table{schema, {builder.finish()}};
    EXPECT_EQ(rows_of({table}), expected);
}

}  // namespace
}  // namespace mgi::test
