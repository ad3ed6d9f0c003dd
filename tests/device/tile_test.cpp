// Sorting a tile's rows by lane, and writing claimed rows into segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <mgi/device/segment_writer.hpp>

#include "memory/segment_layout.hpp"
#include "support/groups.hpp"
#include "support/tables.hpp"

namespace mgi::device {
namespace {

struct SortCase {
    u32 threads;
    u32 rows;
    u32 lanes;
    bool stable;
};

class DeviceSortTile : public ::testing::TestWithParam<SortCase> {};

TEST_P(DeviceSortTile, GroupsRowsByLane) {
    SortCase const& p = GetParam();
    test::Random random(p.rows * 31 + p.lanes);
    std::vector<u16> lane(p.rows);
    for (auto& l : lane) l = u16(random.below(p.lanes));
    test::run_groups(1, p.threads, TileShape{p.rows, p.lanes}.scratch_bytes(),
                     [&](Group const& group, Shared& shared) {
                         Tile tile = Tile::in(shared, {p.rows, p.lanes});
                         tile.rows = p.rows;
                         for (u32 i = group.thread; i < p.rows; i += group.threads)
                             tile.lane[i] = lane[i];
                         group.sync();
                         sort_tile(group, tile, p.lanes, p.stable, nullptr);
                         group.sync();
                         if (!group.leads()) return;
                         std::vector<bool> seen(p.rows);
                         u32 at = 0;
                         for (u32 d = 0; d < p.lanes; ++d) {
                             ASSERT_EQ(tile.next[d], at);
                             ASSERT_EQ(tile.end[d] - at, std::count(lane.begin(), lane.end(), d));
                             u32 last = 0;
                             for (; at < tile.end[d]; ++at) {
                                 u32 const row = tile.row_at(at);
                                 ASSERT_EQ(lane[row], d);
                                 ASSERT_EQ(tile.lane_at(at), d);
                                 ASSERT_FALSE(seen[row]);
                                 seen[row] = true;
                                 if (p.stable || p.threads == 1) {
                                     ASSERT_TRUE(at == tile.next[d] || row > last);
                                 }
                                 last = row;
                             }
                         }
                         ASSERT_EQ(at, p.rows);
                     });
}

INSTANTIATE_TEST_SUITE_P(Shapes, DeviceSortTile,
                         ::testing::Values(SortCase{1, 1, 1, false}, SortCase{1, 500, 7, false},
                                           SortCase{1, 64, 100, true}, SortCase{2, 500, 7, false},
                                           SortCase{2, 500, 7, true}, SortCase{3, 1, 5, true},
                                           SortCase{4, 1000, 3, false},
                                           SortCase{4, 300, 64, true}));

// Bits of neighbouring claims share words: each must leave the others' bits alone.
TEST(DeviceSegmentWriter, BitsAtWordEdges) {
    for (u32 threads : {1U, 3U}) {
        for (u32 const edge : {1U, 63U, 64U, 65U, 127U, 128U, 129U, 191U, 200U}) {
            u32 const rows = 256;
            test::Random random(edge);
            std::vector<bool> bits(rows);
            for (u32 i = 0; i < rows; ++i) bits[i] = random.one_in(2);
            std::vector<u64> words(rows / 64 + 2);
            words.back() = words.front() = 0x5555;
            test::run_groups(1, threads, TileShape{rows, 2}.scratch_bytes(),
                             [&](Group const& group, Shared& shared) {
                                 Tile tile = Tile::in(shared, {rows, 2});
                                 tile.rows = rows;
                                 tile.order = nullptr;
                                 if (group.leads()) {
                                     tile.next[0] = 0;
                                     tile.next[1] = edge;
                                     tile.claims[0] = Claim{0, 0, 0, edge, 0, 0};
                                     tile.claims[1] = Claim{0, 0, edge, rows - edge, 0, 0};
                                 }
                                 group.sync();
                                 write_bits(
                                     group, tile, 2, 8, [&](u32 row) { return bool(bits[row]); },
                                     [&](u32) { return reinterpret_cast<char*>(words.data()); });
                             });
            for (u32 i = 0; i < rows; ++i) {
                ASSERT_EQ((words[1 + i / 64] >> (i % 64)) & 1, u64(bits[i])) << edge << " " << i;
            }
            EXPECT_EQ(words.front(), 0x5555U);
            EXPECT_EQ(words.back(), 0x5555U);
        }
    }
}

// A batch written row by row into one segment and read back as a receiver does.
void write_and_read(Schema const& schema, std::vector<test::Row> const& rows, u32 threads,
                    Layout form, bool structs, u64 seed) {
    test::Random random(seed);
    u32 const count = u32(rows.size());
    memory::ChannelLayout const layout(schema, form, count, 1 << 16);
    test::Scratch segment(layout.get().size);
    char* const base = reinterpret_cast<char*>(segment.shared().data);
    test::DeviceBatch columns(test::make_batch(schema, rows, random));
    std::optional<test::RowStructs> packed;
    if (structs) packed.emplace(schema, rows);
    Batch const batch = structs ? packed->slice(0, count) : columns.slice(0, count);
    test::run_groups(1, threads, TileShape{count, 1}.scratch_bytes(),
                     [&](Group const& group, Shared& shared) {
                         Tile tile = Tile::in(shared, {count, 1});
                         tile.rows = count;
                         aim_tile(group, tile, 1, 0);
                         if (group.leads()) {
                             tile.claims[0] = Claim{0, 0, 0, count, 0, 0};
                             u32 at = 0;
                             for (u32 i = 0; i < count; ++i) {
                                 tile.text[i] = at;
                                 at += u32(text_bytes(batch, layout.get(), i));
                             }
                         }
                         group.sync();
                         write_claimed(group, tile, 1, batch, 0, layout.get(), nullptr,
                                       [&](u32) { return base; });
                     });
    ReceivedBatch received;
    received.segment = base;
    received.layout = &layout.get();
    received.rows = count;
    for (u32 i = 0; i < count; ++i) {
        ASSERT_EQ(test::encode_row(received, schema, i), test::encode(rows[i])) << i;
    }
}

TEST(DeviceSegmentWriter, EveryTypeIsReadBackAsItWas) {
    for (u64 seed = 0; seed < 40; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        test::Random random(seed);
        Schema const schema = test::random_schema(random, 6);
        auto const rows = test::random_rows(schema, 1 + random.below(200), random);
        write_and_read(schema, rows, seed % 3 == 0 ? 2 : 1, Layout::Columns, false, seed);
    }
}

TEST(DeviceSegmentWriter, RowStructsInEitherLayout) {
    for (u64 seed = 0; seed < 40; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        test::Random random(seed);
        bool const plain = seed % 2 == 0;
        Schema const schema = test::random_schema(random, 6, plain);
        test::DataShape shape;
        shape.nulls = 0;
        auto const rows = test::random_rows(schema, 1 + random.below(200), random, shape);
        u32 const threads = seed % 3 == 0 ? 2 : 1;
        write_and_read(schema, rows, threads, Layout::Columns, true, seed);
        if (!plain) continue;
        write_and_read(schema, rows, threads, Layout::Rows, true, seed);
        write_and_read(schema, rows, threads, Layout::Rows, false, seed);
    }
}

TEST(DeviceSegmentWriter, MovesAtOnceWhatEveryPlaceIsAMultipleOf) {
    EXPECT_EQ(unit_of(64, 8), 8U);
    EXPECT_EQ(unit_of(64, 4), 4U);
    EXPECT_EQ(unit_of(64, 1), 1U);
    EXPECT_EQ(unit_of(64, 16), 16U);
    EXPECT_EQ(unit_of(64 | 8, 16), 8U) << "a Wide16 lies at multiples of 16";
    EXPECT_EQ(unit_of(64 | 8, 24), 8U);
    EXPECT_EQ(unit_of(64 | 4, 24), 4U) << "row structs of six 32-bit numbers";
    EXPECT_EQ(unit_of(64 | 4, 16), 4U);
    EXPECT_EQ(unit_of(64 | 1, 8), 1U) << "behind an int8 in a row struct";
    EXPECT_EQ(unit_of(64 | 6, 8), 2U);
    EXPECT_EQ(unit_of(64, 12), 4U);
    EXPECT_EQ(unit_of(64, 3), 1U);
    EXPECT_EQ(unit_of(64, 0x10000), 16U);
}

// Values of all widths, most of them at places in a row struct that are no multiple of their width. A CPU
// would not mind, a GPU faults where a move is not at multiples of what it moves.
TEST(DeviceSegmentWriter, ValuesInRowStructsAtAnyPlace) {
    std::vector<Field> fields{{"b", int8()}};
    for (int const width : {2, 4, 8, 16, 3, 12, 20, 24, 32, 64, 7}) {
        fields.push_back({"f" + std::to_string(width), fixed_size_binary(width)});
    }
    fields.push_back({"i", int32()});
    fields.push_back({"g", fixed_size_binary(24)});
    Schema const schema{std::vector<Field>(fields)};
    test::Random random(5);
    test::DataShape shape;
    shape.nulls = 0;
    auto const rows = test::random_rows(schema, 100, random, shape);
    for (u32 const threads : {1U, 2U, 3U}) {
        write_and_read(schema, rows, threads, Layout::Columns, true, 1);
        write_and_read(schema, rows, threads, Layout::Rows, true, 2);
        write_and_read(schema, rows, threads, Layout::Rows, false, 3);
    }
    memory::ChannelLayout const apart(schema, Layout::Columns, 128, 0);
    memory::ChannelLayout const together(schema, Layout::Rows, 128, 0);
    test::RowStructs const structs(schema, rows);
    test::DeviceBatch columns(test::make_batch(schema, rows, random));
    std::vector<ColumnMove> moves;
    for (u64 first = 0; first < 5; ++first) {
        for (u32 c = 0; c < schema.size(); ++c) {
            Batch const of_rows = structs.slice(0, 100);
            Batch const of_columns = columns.slice(0, 100);
            moves.push_back(move_of(apart.get().columns[c], of_rows, c, first));
            moves.push_back(move_of(apart.get().columns[c], of_columns, c, first));
            moves.push_back(move_of(together.get().columns[c], of_columns, c, first));
        }
    }
    for (ColumnMove const& move : moves) {
        SCOPED_TRACE("width " + std::to_string(move.width) + " by " + std::to_string(move.unit));
        u32 const alignment = min_of(move.unit, u32(alignof(Wide16)));
        EXPECT_EQ(move.width % move.unit, 0U);
        bool doubled = alignment < 8 && move.width % (2 * alignment) == 0;
        for (u64 row = 0; row < 5; ++row) {
            u64 const from = reinterpret_cast<std::uintptr_t>(move.from + row * move.from_stride);
            u64 const to = move.to_offset + row * move.to_stride;
            ASSERT_EQ((from | to) % alignment, 0U);
            doubled = doubled && (from | to) % (2 * alignment) == 0;
        }
        EXPECT_FALSE(doubled) << "twice as much could be moved at once";
    }
}

TEST(DeviceSegmentWriter, ViewsOfShortAndLongTexts) {
    Schema const schema{{"s", string(), true}, {"b", binary(), true}};
    std::vector<test::Row> rows;
    for (std::size_t size : {0U, 1U, 11U, 12U, 13U, 16U, 17U, 500U}) {
        rows.push_back({std::string(size, 'x'), std::string(size + 1, '\0')});
        rows.push_back({std::nullopt, std::string(size, 'y')});
    }
    write_and_read(schema, rows, 1, Layout::Columns, false, 1);
    write_and_read(schema, rows, 2, Layout::Columns, false, 2);
}

TEST(DeviceSegmentWriter, TextPastFourGiBIsNotCut) {
    // Only the length is looked at: such a row is refused by its size.
    RowBytes const value{"x", (u64{1} << 32) + 3};
    Batch batch;
    batch.rows = reinterpret_cast<char const*>(&value);
    batch.row_stride = sizeof(value);
    batch.count = 1;
    ColumnLayout column;
    column.storage = Storage::Views;
    EXPECT_EQ(batch.text(column, 0, 0).size, 0xffffffffU);
}

}  // namespace
}  // namespace mgi::device
