#include <algorithm>
#include <cerrno>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "core/arrow_export.hpp"
#include "core/parallel.hpp"

namespace mgi {
namespace {

/// Columns of a batch that were exported before their turn; null for others.
struct Exported {
    std::vector<ArrowArray> columns;

    explicit Exported(std::size_t count) : columns(count) {}
    Exported(Exported&&) = default;
    Exported& operator=(Exported&& other) noexcept {
        columns.swap(other.columns);
        return *this;
    }
    ~Exported() {
        for (ArrowArray& column : columns) {
            if (column.release != nullptr) column.release(&column);
        }
    }
};

/// Private data of an exported stream: a table, and the one way its columns are exported.
struct TableStream {
    Schema schema;
    std::vector<arrow::ColumnFormat> formats;
    std::vector<arrow::Dictionary> dictionaries;  ///< by column
    std::deque<RecordBatch> batches;
    std::deque<Exported> ahead;  ///< of the first batches, their nested columns
    std::string error;

    explicit TableStream(Table const& table) : batches(table.batches.begin(), table.batches.end()) {
        std::vector<Field> fields = table.schema.fields();
        for (RecordBatch const& batch : batches) {
            if (!table.schema.holds(batch.schema) || batch.columns.size() != table.schema.size()) {
                throw Error(ErrorCode::InvalidArgument, "a batch of (" + batch.schema.to_string() +
                                                            ") in a table of (" +
                                                            table.schema.to_string() + ")");
            }
            for (std::size_t c = 0; c < fields.size(); ++c) {
                fields[c].nullable = fields[c].nullable || batch.schema[c].nullable;
            }
        }
        schema = Schema(std::move(fields));
        schema.set_metadata(table.schema.metadata());
        for (std::size_t c = 0; c < schema.size(); ++c) {
            formats.push_back(arrow::format_of(schema[c]));
            if (schema[c].type.arrow == nullptr) formats[c].encoding = common_encoding(c);
        }
        dictionaries.resize(formats.size());
    }

    /// How a column lies in every batch that has rows; Views where they differ, or where none has.
    [[nodiscard]] Encoding common_encoding(std::size_t column) const {
        if (!schema[column].type.is_variable()) return Encoding::Plain;
        RecordBatch const* first = nullptr;
        for (RecordBatch const& batch : batches) {
            if (batch.rows == 0) continue;
            if (first == nullptr) first = &batch;
            if (batch.columns[column].encoding != first->columns[column].encoding) {
                return Encoding::Views;
            }
        }
        return first != nullptr ? first->columns[column].encoding : Encoding::Views;
    }

    /// Exports nested columns of the next batches, a thread each: values are read one by one.
    void export_nested() {
        std::vector<std::size_t> nested;
        for (std::size_t c = 0; c < formats.size(); ++c) {
            if (formats[c].stored == arrow::Stored::Nested) nested.push_back(c);
        }
        std::size_t const count = nested.empty() ? 1 : std::min(batches.size(), all_threads());
        std::size_t const columns = nested.empty() ? 0 : formats.size();
        for (std::size_t b = 0; b < count; ++b) ahead.emplace_back(columns);
        if (count == 1) return;
        in_parallel(count * nested.size(), all_threads(), [&](std::size_t job, std::size_t) {
            std::size_t const b = job / nested.size();
            std::size_t const c = nested[job % nested.size()];
            try {
                ahead[b].columns[c] = arrow::export_column(batches[b], c, formats[c]);
            } catch (std::exception const&) {
                // It fails once more in its turn.
            }
        });
    }

    /// The next batch, or as many of its rows as can be exported at once.
    void take(ArrowArray* out) {
        for (;;) {
            if (ahead.empty()) export_nested();
            RecordBatch const& next = batches.front();
            try {
                arrow::export_batch_as(next, formats, dictionaries, ahead.front().columns, out);
                batches.pop_front();
                ahead.pop_front();
                return;
            } catch (arrow::TooManyRows const&) {
                if (next.rows <= 1) throw;
            }
            RecordBatch const whole = next;
            std::int64_t const half = whole.rows / 2;
            batches.front() = whole.slice(half, whole.rows - half);
            batches.push_front(whole.slice(0, half));
            std::size_t const columns = ahead.front().columns.size();
            ahead.front() = Exported(columns);
            ahead.emplace_front(columns);
        }
    }
};

TableStream& stream_of(ArrowArrayStream* stream) {
    return *static_cast<TableStream*>(stream->private_data);
}

/// Runs a callback's body; no exception may pass into a consumer written in C.
template <class Body>
int guarded(ArrowArrayStream* stream, Body&& body) noexcept {
    try {
        body(stream_of(stream));
        return 0;
    } catch (std::bad_alloc const&) {
        return ENOMEM;
    } catch (std::exception const& failure) {
        try {
            stream_of(stream).error = failure.what();
        } catch (...) {
            return ENOMEM;  // there is not even room for the message
        }
        return EINVAL;
    }
}

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
    return guarded(stream, [&](TableStream& from) {
        arrow::export_schema_as(from.schema, from.formats, out);
    });
}

int get_next(ArrowArrayStream* stream, ArrowArray* out) {
    return guarded(stream, [&](TableStream& from) {
        *out = {};
        if (!from.batches.empty()) from.take(out);
    });
}

char const* get_last_error(ArrowArrayStream* stream) {
    std::string const& error = stream_of(stream).error;
    return error.empty() ? nullptr : error.c_str();
}

void release(ArrowArrayStream* stream) {
    delete &stream_of(stream);
    stream->private_data = nullptr;
    stream->release = nullptr;
}

}  // namespace

void export_stream(Table const& table, ArrowArrayStream* out) {
    auto held = std::make_unique<TableStream>(table);
    *out = {};
    out->get_schema = &get_schema;
    out->get_next = &get_next;
    out->get_last_error = &get_last_error;
    out->release = &release;
    out->private_data = held.release();
}

}  // namespace mgi
