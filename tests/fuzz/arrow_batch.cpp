#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "fuzz/foreign_batch.hpp"
#include "fuzz/targets.hpp"

namespace mgi::fuzz {
namespace {

Cell cell(RecordBatch const& batch, std::size_t c, std::int64_t row) {
    if (!batch.is_valid(c, row)) return std::nullopt;
    Type const& type = batch.schema[c].type;
    if (type.is_variable()) return std::string(batch.string_at(c, row));
    if (type.id == TypeId::Bool) return std::string(1, batch.bool_at(c, row) ? '1' : '0');
    std::uint32_t const width = type.row_width();
    auto const* const values = static_cast<char const*>(batch.columns[c].values);
    return std::string(values + (batch.columns[c].offset + row) * width, width);
}

void check_cells(RecordBatch const& batch, ForeignBatch const& from, std::int64_t first) {
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        for (std::int64_t row = 0; row < batch.rows; ++row) {
            require(cell(batch, c, row) == from.cells[c][std::size_t(first + row)],
                    "a value is read as it was given");
        }
    }
}

/// Any part of a batch, or a refusal.
void check_slice(Input& input, RecordBatch const& batch, ForeignBatch const& from) {
    std::int64_t const first = input.number();
    std::int64_t const count = input.number();
    try {
        RecordBatch const part = batch.slice(first, count);
        require(part.rows == count, "a slice has the rows asked for");
        check_cells(part, from, first);
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "a slice is refused as an argument");
        require(first < 0 || count < 0 || first > batch.rows || count > batch.rows - first,
                "a slice inside the batch is not refused");
    }
}

/// What was imported goes out and in again.
void check_export(RecordBatch const& batch, ForeignBatch const& from) {
    ArrowSchema schema{};
    ArrowArray array{};
    export_schema(batch, &schema);
    export_batch(batch, &array);
    RecordBatch const again = import_batch(&array, &schema);
    require(again.rows == batch.rows && again.schema.holds(batch.schema),
            "an exported batch has its rows and columns");
    check_cells(again, from, 0);
}

void one_batch(Input& input) {
    ForeignSchema schema(input);
    ForeignBatch from(input, schema);
    try {
        RecordBatch const batch = import_batch(&from.array, &schema.schema);
        require(schema.sound && from.sound, "what breaks the interface is refused");
        require(batch.bytes() >= 0, "a batch has a size");
        check_cells(batch, from, 0);
        check_slice(input, batch, from);
        check_export(batch, from);
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "a batch is refused as an argument");
        require(!schema.sound || !from.sound, "what keeps to the interface is not refused",
                error.what());
    }
    require(schema.releases == 1, "a schema is released once");
    require(from.releases == 1, "a batch is released once");
}

/// A stream of up to three batches of one schema, whose calls may fail.
struct ForeignStream {
    explicit ForeignStream(Input& input) : schema(input) {
        std::uint32_t const count = input.below(4);
        for (std::uint32_t b = 0; b < count; ++b) {
            batches.push_back(std::make_unique<ForeignBatch>(input, schema));
            sound = sound && batches.back()->sound;
        }
        fails_at = input.one_in(4) ? int(input.below(4)) : -1;
        says_why = input.below(2) != 0;
        sound = sound && schema.sound && (fails_at < 0 || fails_at > int(count) + 1);
        stream.get_schema = [](ArrowArrayStream* s, ArrowSchema* out) {
            ForeignStream& self = of(s);
            if (self.calls++ == self.fails_at) return EIO;
            *out = self.schema.schema;
            return 0;
        };
        stream.get_next = [](ArrowArrayStream* s, ArrowArray* out) {
            ForeignStream& self = of(s);
            if (self.calls++ == self.fails_at) return ENOMEM;
            *out = {};
            if (self.next < self.batches.size()) *out = self.batches[self.next++]->array;
            return 0;
        };
        stream.get_last_error = [](ArrowArrayStream* s) -> char const* {
            return of(s).says_why ? "no such luck" : nullptr;
        };
        stream.release = [](ArrowArrayStream* s) {
            ++of(s).releases;
            s->release = nullptr;
        };
        stream.private_data = this;
    }
    static ForeignStream& of(ArrowArrayStream* s) {
        return *static_cast<ForeignStream*>(s->private_data);
    }

    ForeignSchema schema;
    std::vector<std::unique_ptr<ForeignBatch>> batches;
    std::size_t next = 0;
    ArrowArrayStream stream{};
    int calls = 0;
    int fails_at = -1;
    int releases = 0;
    bool says_why = false;
    bool sound = true;
};

void check_table(Table const& table, ForeignStream const& from) {
    require(table.batches.size() == from.batches.size(), "a stream is read to its end");
    for (std::size_t b = 0; b < table.batches.size(); ++b) {
        check_cells(table.batches[b], *from.batches[b], 0);
    }
}

void stream(Input& input) {
    ForeignStream from(input);
    try {
        Table const table = import_stream(&from.stream);
        require(from.sound, "a stream that fails is refused");
        check_table(table, from);
        ArrowArrayStream exported{};
        export_stream(table, &exported);
        check_table(import_stream(&exported), from);
    } catch (Error const& error) {
        require(!from.sound, "a stream that keeps to the interface is not refused", error.what());
        require(
            error.code() == ErrorCode::InvalidArgument || error.code() == ErrorCode::OutOfMemory,
            "a stream is refused as an argument, or for want of memory");
    }
    require(from.releases == 1, "a stream is released once");
    for (std::size_t b = 0; b < from.next; ++b) {
        require(from.batches[b]->releases == 1, "each batch that was read is released once");
    }
}

}  // namespace

void arrow_batch(Input input) {
    if (input.below(4) == 0) {
        stream(input);
    } else {
        one_batch(input);
    }
}

}  // namespace mgi::fuzz
