// Hash tables, sums, sketches and bits of GPUs' operators, on threads of the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "operators/gpu/group_by.hpp"
#include "operators/host_tables.hpp"
#include "support/expect_error.hpp"

namespace mgi::operators::on_gpu {
namespace {

// A table in the host's memory, with a word for each key.
struct TableOnHost {
    TableOnHost(u32 capacity, u32 key_words, bool wide) {
        table.capacity = capacity;
        table.value_offset = 8 * (key_words + (wide ? 1 : 0));
        table.stride = table.value_offset + 8;
        table.most_probes = capacity;
        memory.resize((capacity + HashTable::kSpecials) * u64{table.stride} / 8);
        for (u64 e = 0; e < capacity + u64{HashTable::kSpecials}; ++e) {
            memory[e * table.stride / 8] = wide ? HashTable::kEmpty : kNoKey;
        }
        table.entries = reinterpret_cast<char*>(memory.data());
    }
    std::vector<u64> memory;
    HashTable table;
};

// Each of four threads does it at the same time.
void by_four(std::function<void(u32)> const& body) {
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 4; ++t) threads.emplace_back([&body, t] { body(t); });
    for (auto& thread : threads) thread.join();
}

// Of keys without texts.
KeyCode code_of_words(u32 words) {
    KeyCode code;
    code.words = words;
    return code;
}

TEST(GpuHashTable, ThreadsPutEachKeyThereOnce) {
    constexpr u64 kKeys = 500;
    TableOnHost here(1000, 1, false);
    std::atomic<u32> all{0};
    by_four([&](u32 t) {
        u32 added = 0;
        for (u64 i = 0; i < 4 * kKeys; ++i) {
            u64 const key = (i * 7 + t) % kKeys;
            u64 const index = insert_key(here.table, key, Special::None, added);
            shared_word(here.table.values(index)).fetch_add(u64{1}, device::relaxed);
        }
        all += added;
    });
    EXPECT_EQ(all, kKeys);
    std::set<u64> places;
    for (u64 key = 0; key < kKeys; ++key) {
        u64 const index = find_key(here.table, key, Special::None);
        ASSERT_NE(index, kNotThere);
        EXPECT_EQ(*here.table.values(index), 16u);
        places.insert(index);
    }
    EXPECT_EQ(places.size(), kKeys);
    EXPECT_EQ(find_key(here.table, kKeys, Special::None), kNotThere);
}

TEST(GpuHashTable, ThreadsPutEachLongKeyThereOnce) {
    constexpr u64 kKeys = 300;
    TableOnHost here(500, 3, true);
    std::atomic<u32> all{0};
    by_four([&](u32 t) {
        u32 added = 0;
        for (u64 i = 0; i < 3 * kKeys; ++i) {
            // Differ in one word each time.
            u64 const n = (i * 11 + t) % kKeys;
            u64 const key[] = {n % 7, 5, n / 7};
            u64 const index = insert_words(here.table, key, code_of_words(3), added);
            shared_word(here.table.values(index)).fetch_add(u64{1}, device::relaxed);
        }
        all += added;
    });
    EXPECT_EQ(all, kKeys);
    for (u64 n = 0; n < kKeys; ++n) {
        u64 const key[] = {n % 7, 5, n / 7};
        u64 const index = find_words(here.table, key, code_of_words(3));
        ASSERT_NE(index, kNotThere);
        EXPECT_EQ(*here.table.values(index), 12u);
    }
    u64 const other[] = {0, 6, 0};
    EXPECT_EQ(find_words(here.table, other, code_of_words(3)), kNotThere);
}

TEST(GpuHashTable, KeysWithoutAPlaceByHashHaveTheirOwn) {
    TableOnHost here(4, 1, false);
    u32 added = 0;
    EXPECT_EQ(find_key(here.table, kNoKey, Special::AllOnes), kNotThere);
    u64 const ones = insert_key(here.table, kNoKey, Special::AllOnes, added);
    u64 const null = insert_key(here.table, 0, Special::Null, added);
    EXPECT_EQ(insert_key(here.table, kNoKey, Special::AllOnes, added), ones);
    EXPECT_EQ(added, 2u);
    EXPECT_EQ(ones, 4u);
    EXPECT_EQ(null, 5u);
    EXPECT_EQ(find_key(here.table, kNoKey, Special::AllOnes), ones);
    EXPECT_EQ(find_key(here.table, 0, Special::None), kNotThere);
}

TEST(GpuHashTable, SaysThatItIsTooFull) {
    TableOnHost here(8, 1, false);
    u32 added = 0;
    for (u64 key = 0; key < 8; ++key) {
        EXPECT_NE(insert_key(here.table, key, Special::None, added), kNotThere);
    }
    EXPECT_EQ(insert_key(here.table, 8, Special::None, added), kNotThere);
    EXPECT_NE(insert_key(here.table, 7, Special::None, added), kNotThere);
    TableOnHost wide(4, 2, true);
    for (u64 n = 0; n < 5; ++n) {
        u64 const key[] = {n, n};
        EXPECT_EQ(insert_words(wide.table, key, code_of_words(2), added) == kNotThere, n == 4);
    }
}

TEST(GpuKeys, ShareWordsWhereTheyFit) {
    auto const words = [](std::vector<std::pair<Type, bool>> const& types) {
        std::vector<KeyPart> parts;
        for (auto const& [type, nullable] : types) {
            add_key("", parts, 0, Field{"x", type}, nullable);
        }
        return code_of(parts).words;
    };
    EXPECT_EQ(words({{int64(), false}}), 1u);
    EXPECT_EQ(words({{int64(), true}}), 1u);
    EXPECT_EQ(words({{int32(), false}, {int32(), false}}), 1u);
    EXPECT_EQ(words({{int32(), true}, {int32(), false}}), 2u);
    EXPECT_EQ(words({{uint8(), true}, {uint8(), true}, {boolean(), true}}), 1u);
    EXPECT_EQ(words({{float32(), false}, {boolean(), false}}), 2u);
    EXPECT_EQ(words({{int64(), true}, {int64(), true}}), 3u);
    EXPECT_EQ(words({{decimal128(20, 2), false}}), 2u);
    EXPECT_EQ(words({{fixed_size_binary(3), true}, {int32(), false}}), 2u);
    EXPECT_EQ(words({{fixed_size_binary(20), true}}), 3u);
    EXPECT_EQ(words({{fixed_size_binary(128), true}}), 17u);
    test::expect_error(ErrorCode::InvalidArgument, {"'x'", "every 8 bytes"},
                       [&] { words({{fixed_size_binary(129), true}}); });
}

TEST(GpuSums, OfAHundredAndTwentyEightBits) {
    u64 sum[2] = {0, 0};
    by_four([&](u32 t) {
        for (int i = 0; i < 1000; ++i) {
            u64 const value = t % 2 == 0 ? 0x7fffffffffffffffULL : u64(-0x7fffffffffffffffLL);
            add_wide(&sum[0], &sum[1], value, value >> 63 != 0 ? ~u64{0} : 0);
        }
        add_wide(&sum[0], &sum[1], t, 0);
    });
    EXPECT_EQ(sum[0], 6u);
    EXPECT_EQ(sum[1], 0u);
    add_wide(&sum[0], &sum[1], u64(-7), ~u64{0});
    EXPECT_EQ(i64(sum[0]), -1);
    EXPECT_EQ(i64(sum[1]), -1);
}

TEST(GpuSketch, IsAFewPerCentOff) {
    for (u64 const keys : {10u, 1000u, 30'000u, 300'000u}) {
        std::vector<u32> registers(Sketch::kRegisters);
        for (int again = 0; again < 2; ++again) {
            for (u64 key = 0; key < keys; ++key) {
                Sketch::add(registers.data(), device::murmur3_mix(key));
            }
        }
        EXPECT_NEAR(Sketch::estimate(registers), double(keys), 0.08 * double(keys));
    }
}

TEST(GpuBits, ArePackedInOrder) {
    for (u64 const count : {1u, 31u, 32u, 100u, 1000u}) {
        std::vector<u64> bytes((count + 32) / 8 + 4, 0xffffffffffffffffULL);
        auto* const byte = reinterpret_cast<u8*>(bytes.data());
        for (u64 i = 0; i < count; ++i) byte[i] = device::murmur3_mix(i) % 3 == 0 ? 1 : 0;
        std::vector<u32> bits((count + 31) / 32);
        HostPlace place(2, 2, {});
        place.run(0, PackBits{}, static_cast<u8 const*>(byte), count, bits.data());
        for (u64 i = 0; i < bits.size() * 32; ++i) {
            u32 const expected = i < count ? byte[i] : 0;
            EXPECT_EQ(bits[i / 32] >> (i % 32) & 1, expected) << i << " of " << count;
        }
    }
}

// Parts of a table for endpoints of one CPU device, and what moves them.
class GpuMoving : public ::testing::TestWithParam<u32> {
protected:
    void split(PlainTable const& table, u32 endpoints) {
        std::size_t first = 0;
        for (u32 e = 0; e < endpoints; ++e) {
            endpoints_.push_back(runtime_.create_endpoint("cpu:0"));
            std::size_t const end = table.rows.size() * (e + 1) * (e + 1) / endpoints / endpoints;
            parts_.push_back(on_host(batch_of(table, first, end - first)));
            first = end;
        }
        begin({});
    }
    // Groups have as many threads as the parameter says.
    void begin(OperatorOptions const& options) {
        report_ = {};
        processes_ = processes_of(runtime_, endpoints_);
        operation_.emplace(*processes_, "exchange", runtime_, endpoints_, options,
                           places_on_host(GetParam()), &report_);
    }

    Runtime runtime_ = runtime_of_cpus(1);
    std::vector<Endpoint> endpoints_;
    std::vector<GpuTable> parts_;
    OperatorReport report_;
    std::unique_ptr<Processes> processes_;
    std::optional<Operation> operation_;
};

// Runs of a column that are shorter than a word of 16 bytes, and longer ones; tiles that are not full.
TEST_P(GpuMoving, PlacesValuesOfEachWidthForManyEndpoints) {
    Schema const schema{{"key", int64()},      {"a", int8()},    {"b", int16(), true},
                        {"c", uint32()},       {"d", boolean()}, {"e", boolean(), true},
                        {"f", float64(), true}};
    PlainTable table = random_table(schema, 9000, 1u << 30, 21);
    // One endpoint gets a third of them.
    for (std::size_t i = 0; i < table.rows.size(); i += 3) table.rows[i][0].word = 7;
    split(table, 37);
    Rows rows;
    for (GpuTable const& result : exchange_on(*operation_, parts_, {"key"})) {
        for (Row& row : rows_of(batch_of_result(result))) rows.push_back(std::move(row));
    }
    expect_same(sorted(rows), sorted(table.rows));
}

// Keys that somebody changes behind the count would go where there is no room for them.
TEST_P(GpuMoving, RefusesPartsThatChange) {
    PlainTable const table = random_table(Schema{{"key", int64()}}, 500, 1u << 30, 22);
    split(table, 3);
    Input const input(*operation_, parts_);
    Wanted wanted;
    wanted.keys = {0};
    wanted.going = Going::ToOwners;
    Facts facts = find_facts(*operation_, input, wanted);
    std::swap(facts.rows_of_part_for[2][0], facts.rows_of_part_for[2][1]);
    facts.rows_of_part_for[2][1] += 1;
    facts.rows_of_part_for[2][0] -= 1;
    test::expect_error(ErrorCode::InvalidArgument, {"keys or texts of part 2 changed"},
                       [&] { Moving(*operation_, input, {0}, {0}, facts).run("exchange"); });
}

// Rows for which there is no room are folded as they come, with all the memory that there was before.
TEST_P(GpuMoving, GroupsWhereThereIsNoRoomForRows) {
    PlainTable const table =
        random_table(Schema{{"key", int64()}, {"x", int64()}}, 20'000, 1u << 30, 23);
    split(table, 2);
    auto const fits = [&](u64 limit, bool by_reference) {
        OperatorOptions options;
        options.receive_limit = limit;
        options.by_reference = by_reference;
        begin(options);
        try {
            u64 rows = 0;
            for (GpuTable const& result : group_by_on(*operation_, parts_, {"key"},
                                                      {{AggregateFunction::Sum, "x", "sum"}})) {
                rows += u64(result.rows);
            }
            EXPECT_GT(rows, 19'000u);
            EXPECT_EQ(report_.rows, table.rows.size());
            return true;
        } catch (Error const& error) {
            EXPECT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
            return false;
        }
    };
    u64 too_little = 1 << 10;
    u64 enough = 8 << 20;
    while (enough - too_little > 1 << 10) {
        u64 const half = (too_little + enough) / 2;
        (fits(half, false) ? enough : too_little) = half;
    }
    // What counts rows for their endpoints takes little more.
    EXPECT_TRUE(fits(enough + (4 << 10), true)) << enough;
}

INSTANTIATE_TEST_SUITE_P(Threads, GpuMoving, ::testing::Values(1u, 2u));

// What the survey says is believed, so a sketch that is far off must not cost a group.
TEST(GpuGroupTable, IsMadeAgainWhereItTurnsOutTooSmall) {
    Runtime runtime = runtime_of_cpus(1);
    // Of two endpoints rows are exchanged first, or folded as they come.
    for (auto const& [endpoints, counted] : {std::pair{1u, false}, {2u, true}, {2u, false}}) {
        std::vector<Endpoint> all;
        std::vector<GpuTable> parts;
        PlainTable const table =
            random_table(Schema{{"key", int64()}, {"x", int64()}}, 40'000, 1u << 30, 1);
        RecordBatch const batch = batch_of(table, 0, table.rows.size());
        for (u32 e = 0; e < endpoints; ++e) {
            all.push_back(runtime.create_endpoint("cpu:0"));
            parts.push_back(on_host(batch));
        }
        auto const processes = processes_of(runtime, all);
        Operation operation(*processes, "group_by", runtime, all, {}, places_on_host(1));
        Input const input(operation, parts);
        Wanted wanted;
        wanted.keys = {0};
        if (counted) wanted.going = Going::ToOwners;
        Facts facts = find_facts(operation, input, wanted);
        facts.keys_of_part.assign(endpoints, 10);
        facts.keys = 10;
        std::vector<Item> items(1);
        items[0].field = {"n", int64()};
        GroupPlan const plan(input, {0}, items, facts);
        u64 groups = 0;
        if (endpoints == 1) {
            groups = u64(group_where_it_lies(operation, 0, input, plan, facts).rows);
        } else {
            for (GpuTable const& result : group_moving(operation, input, {0}, plan, facts)) {
                groups += u64(result.rows);
            }
        }
        std::set<u64> keys;
        for (auto const& row : table.rows) keys.insert(row[0].word);
        EXPECT_EQ(groups, keys.size());
    }
}

}  // namespace
}  // namespace mgi::operators::on_gpu
