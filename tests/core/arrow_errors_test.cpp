#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "support/expect_error.hpp"
#include "support/tables.hpp"

namespace mgi {
namespace {

using test::cell;
using test::expect_error;

/// A foreign table of one column, made by hand; counts its releases.
struct Foreign {
    explicit Foreign(char const* format, bool nullable = true) {
        column_schema.format = format;
        column_schema.name = "ts";
        column_schema.flags = nullable ? ARROW_FLAG_NULLABLE : 0;
        column_schema.release = [](ArrowSchema* s) { s->release = nullptr; };
        schema.format = "+s";
        schema.n_children = 1;
        schema.children = schema_children;
        schema.release = [](ArrowSchema* s) {
            ++*static_cast<int*>(s->private_data);
            s->release = nullptr;
        };
        schema.private_data = &schema_releases;
        column.length = 3;
        column.n_buffers = 2;
        column.buffers = column_buffers;
        column.release = [](ArrowArray* a) { a->release = nullptr; };
        array.length = 3;
        array.n_buffers = 1;
        array.buffers = array_buffers;
        array.n_children = 1;
        array.children = array_children;
        array.release = [](ArrowArray* a) {
            ++*static_cast<int*>(a->private_data);
            a->release = nullptr;
        };
        array.private_data = &array_releases;
    }

    RecordBatch import() { return import_batch(&array, &schema); }

    /// The import fails, says this, and releases both structs all the same.
    void expect_refused(std::initializer_list<std::string> texts) {
        expect_error(ErrorCode::InvalidArgument, texts, [&] { import(); });
        EXPECT_EQ(schema_releases, 1);
        EXPECT_EQ(array_releases, 1);
        EXPECT_EQ(schema.release, nullptr);
        EXPECT_EQ(array.release, nullptr);
    }

    std::int64_t values[4] = {10, 11, 12, 13};
    std::uint8_t bits[1] = {0b1011};
    ArrowSchema schema{};
    ArrowSchema column_schema{};
    ArrowSchema* schema_children[1] = {&column_schema};
    ArrowArray array{};
    ArrowArray column{};
    ArrowArray* array_children[1] = {&column};
    void const* array_buffers[1] = {nullptr};
    void const* column_buffers[4] = {nullptr, values, nullptr, nullptr};
    int schema_releases = 0;
    int array_releases = 0;
};

TEST(ArrowErrors, UnsupportedTypesAreRefusedByColumnAndFormat) {
    struct Case {
        char const* format;
        char const* what;
    };
    for (Case const& c : std::vector<Case>{{"tsx:UTC", "none"},
                                           {"tsu", "none"},
                                           {"ttx", "none"},
                                           {"+r", "none"},
                                           {"+l", "0 children"},
                                           {"+vl", "0 children"},
                                           {"+w:-1", "0 children"},
                                           {"+", "0 children"},
                                           {"+x", "0 children"},
                                           {"+sx", "0 children"},
                                           {"+m", "0 children"},
                                           {"+ud:1,2", "0 children"},
                                           {"d:80,2,256", "impossible precision"},
                                           {"d:0,0", "impossible precision"},
                                           {"w:0", "impossible width"},
                                           {"w:99999999999", "impossible width"},
                                           {"??", "none"},
                                           {"", "none"}}) {
        SCOPED_TRACE(c.format);
        Foreign foreign(c.format);
        std::string const quoted = std::string("'") + c.format + "'";
        foreign.expect_refused({"column 'ts'", quoted.c_str(), c.what});
    }
}

TEST(ArrowErrors, ADictionaryThatIsMissing) {
    Foreign foreign("i");
    ArrowSchema dictionary{};
    dictionary.format = "u";
    foreign.column_schema.dictionary = &dictionary;
    foreign.expect_refused({"column 'ts'", "dictionary-encoded or not"});
}

TEST(ArrowErrors, ASchemaMustBeATable) {
    Foreign foreign("l");
    foreign.schema.format = "l";
    foreign.expect_refused({"'l'", "'+s'"});
}

TEST(ArrowErrors, ReleasedStructsAreRefused) {
    Foreign foreign("l");
    (void)foreign.import();
    EXPECT_EQ(foreign.array_releases, 1);
    expect_error(ErrorCode::InvalidArgument, {"released"}, [&] { foreign.import(); });
    expect_error(ErrorCode::InvalidArgument, {"released"}, [&] { import_schema(&foreign.schema); });
    expect_error(ErrorCode::InvalidArgument, {"released"}, [] { import_stream(nullptr); });
    expect_error(ErrorCode::InvalidArgument, {"released"}, [] { import_batch(nullptr, nullptr); });
    Foreign other("l");
    expect_error(ErrorCode::InvalidArgument, {"released"},
                 [&] { import_batch(&other.array, nullptr); });
    EXPECT_EQ(other.array_releases, 1);
}

TEST(ArrowErrors, RowsThatAreNullAsAWholeAreRefused) {
    Foreign foreign("l");
    foreign.array_buffers[0] = foreign.bits;
    foreign.array.null_count = -1;
    foreign.expect_refused({"1 rows", "null as a whole"});

    Foreign without_nulls("l");
    without_nulls.array_buffers[0] = without_nulls.bits;
    without_nulls.array.length = 2;
    without_nulls.array.null_count = -1;
    EXPECT_EQ(without_nulls.import().rows, 2);
}

TEST(ArrowErrors, NullsInAColumnThatHasNoneAreRefused) {
    Foreign foreign("l", false);
    foreign.column_buffers[0] = foreign.bits;
    foreign.column.null_count = -1;
    foreign.expect_refused({"column 'ts'", "1 nulls", "not nullable"});
}

TEST(ArrowErrors, MalformedArraysAreRefused) {
    Foreign short_column("l");
    short_column.column.length = 2;
    short_column.expect_refused({"column 'ts'", "2 rows"});
    Foreign buffers("l");
    buffers.column.n_buffers = 3;
    buffers.expect_refused({"3 buffers instead of 2"});
    Foreign nothing("l");
    nothing.column_buffers[1] = nullptr;
    nothing.expect_refused({"no values"});
    Foreign nulls("l");
    nulls.column.null_count = 2;
    nulls.expect_refused({"no validity"});
    Foreign negative("l");
    negative.column.offset = -1;
    negative.expect_refused({"negative"});
    Foreign children("l");
    children.array.n_children = 0;
    children.expect_refused({"0 columns"});
    Foreign views("vu");
    views.column.n_buffers = 4;
    views.expect_refused({"no sizes"});
    Foreign offsets("U");
    offsets.column.n_buffers = 3;
    offsets.values[3] = 1;
    offsets.expect_refused({"decrease"});
    Foreign characters("U");
    characters.column.n_buffers = 3;
    characters.expect_refused({"no characters"});
}

TEST(ArrowErrors, MissingPointersAreRefused) {
    Foreign no_columns("l");
    no_columns.schema.children = nullptr;
    no_columns.expect_refused({"schema has no column 0", "counts 1"});
    Foreign no_column("l");
    no_column.schema_children[0] = nullptr;
    no_column.expect_refused({"schema has no column 0"});
    Foreign fewer("l");
    fewer.schema.n_children = -1;
    fewer.expect_refused({"-1 columns"});
    Foreign no_array("l");
    no_array.array_children[0] = nullptr;
    no_array.expect_refused({"batch has no column 0"});
    Foreign no_buffers("l");
    no_buffers.column.buffers = nullptr;
    no_buffers.expect_refused({"column 'ts'", "no buffers"});
    // A struct that has no validity may leave its buffers away.
    Foreign plain("l");
    plain.array.buffers = nullptr;
    EXPECT_EQ(plain.import().rows, 3);
}

TEST(ArrowErrors, NumbersThatWouldOverflowAreRefused) {
    std::int64_t const most = std::numeric_limits<std::int64_t>::max();
    Foreign far("l");
    far.column.offset = most - 1;
    far.expect_refused({"column 'ts'", "impossible"});
    Foreign moved("l");
    moved.array.offset = most - 1;
    moved.expect_refused({"batch has an impossible length or offset"});
    Foreign views("vu");
    views.column.n_buffers = 4;
    std::int64_t sizes[1] = {-1};
    views.column_buffers[2] = views.values;
    views.column_buffers[3] = sizes;
    views.expect_refused({"column 'ts'", "data buffer 0", "-1 bytes"});
}

TEST(ArrowErrors, OffsetsOfTheStructAndOfItsColumnsAddUp) {
    Foreign foreign("l");
    foreign.array.offset = 1;
    foreign.array.length = 2;
    foreign.column.offset = 1;
    foreign.column_buffers[0] = foreign.bits;
    foreign.column.null_count = -1;
    RecordBatch const batch = foreign.import();
    ASSERT_EQ(batch.rows, 2);
    EXPECT_FALSE(batch.is_valid(0, 0));
    EXPECT_TRUE(batch.is_valid(0, 1));
    EXPECT_EQ(batch.values<std::int64_t>(0)[1], 13);
    EXPECT_EQ(foreign.array_releases, 0);
}

TEST(ArrowErrors, ValidityWithoutNullsIsDropped) {
    Foreign foreign("l");
    foreign.array.length = 2;
    foreign.column_buffers[0] = foreign.bits;
    foreign.column.null_count = -1;
    EXPECT_EQ(foreign.import().columns[0].validity, nullptr);
}

TEST(ArrowErrors, ValuesThatAreNotAlignedAreCopied) {
    Foreign foreign("l");
    alignas(16) char bytes[40] = {};
    std::memcpy(bytes + 1, foreign.values, sizeof(foreign.values));
    foreign.column_buffers[1] = bytes + 1;
    foreign.column.offset = 1;
    RecordBatch const batch = foreign.import();
    EXPECT_EQ(batch.values<std::int64_t>(0)[0], 11);
    EXPECT_EQ(batch.values<std::int64_t>(0)[2], 13);

    Foreign text("U");
    std::int64_t const offsets[4] = {0, 1, 1, 3};
    std::memcpy(bytes + 4, offsets, sizeof(offsets));
    text.column.n_buffers = 3;
    text.column_buffers[1] = bytes + 4;
    text.column_buffers[2] = "abc";
    EXPECT_EQ(text.import().string_at(0, 2), "bc");
}

/// A stream that fails, by hand.
struct FailingStream {
    explicit FailingStream(int at, int code) : fail_at(at), result(code) {
        stream.get_schema = [](ArrowArrayStream* s, ArrowSchema* out) {
            auto& self = *static_cast<FailingStream*>(s->private_data);
            if (self.fail_at == 0) return self.result;
            export_schema(Schema{{"k", int64()}}, out);
            return 0;
        };
        stream.get_next = [](ArrowArrayStream* s, ArrowArray* out) {
            auto& self = *static_cast<FailingStream*>(s->private_data);
            if (self.fail_at == ++self.calls) return self.result;
            export_batch(test::make_batch({{"k", int64()}}, {{cell(std::int64_t(1))}}), out);
            return 0;
        };
        stream.get_last_error = [](ArrowArrayStream*) -> char const* { return "the disk is gone"; };
        stream.release = [](ArrowArrayStream* s) {
            ++static_cast<FailingStream*>(s->private_data)->releases;
            s->release = nullptr;
        };
        stream.private_data = this;
    }
    int fail_at;
    int result;
    int calls = 0;
    int releases = 0;
    ArrowArrayStream stream{};
};

TEST(ArrowErrors, AStreamsFailureIsToldAndTheStreamReleased) {
    for (int at = 0; at < 3; ++at) {
        FailingStream failing(at, EIO);
        expect_error(ErrorCode::InvalidArgument, {"the disk is gone"},
                     [&] { import_stream(&failing.stream); });
        EXPECT_EQ(failing.releases, 1);
    }
    FailingStream memory(1, ENOMEM);
    expect_error(ErrorCode::OutOfMemory, {"the disk is gone"},
                 [&] { import_stream(&memory.stream); });
}

TEST(ArrowErrors, ExportsRefuseWhatDoesNotFitTogether) {
    RecordBatch const batch = test::make_batch({{"k", int64()}}, {{cell(std::int64_t(1))}});
    ArrowArrayStream stream;
    expect_error(ErrorCode::InvalidArgument, {"(k: int64)", "(v: int64)"},
                 [&] { export_stream({{{"v", int64()}}, {batch}}, &stream); });
    RecordBatch missing = batch;
    missing.columns.clear();
    ArrowArray array;
    expect_error(ErrorCode::InvalidArgument, {"0 columns"}, [&] { export_batch(missing, &array); });
    RecordBatch encoded = batch;
    encoded.columns[0].encoding = Encoding::Views;
    expect_error(ErrorCode::InvalidArgument, {"'k'"}, [&] { export_batch(encoded, &array); });
}

}  // namespace
}  // namespace mgi
