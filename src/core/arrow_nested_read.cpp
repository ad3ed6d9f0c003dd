#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <mgi/error.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_nested_pattern.hpp"
#include "core/arrow_nested_reader.hpp"
#include "core/arrow_values.hpp"

namespace mgi::arrow {
namespace {

/// What the array that is made of a column points into.
struct ReadColumn {
    ReadColumn(Nested const& from, std::string const& called)
        : type(from), name(called), reader(type, name) {}

    Nested const type;
    std::string const name;
    NestedReader reader;
};

/// Rows [first, first + count) of a batch, at most a block of them, where they are plain; else it does nothing.
bool read_plain(NestedReader& reader, Values const& values, std::int64_t first, std::int64_t count,
                Pattern const& rows) {
    std::size_t const size = reader.plain_size();
    bool plain = size != 0 && rows.is_each(std::size_t(count));
    std::byte const* from[kBlockRows];
    for (std::int64_t i = 0; plain && i < count; ++i) {
        std::string_view const body =
            values.is_valid(first + i) ? values.at(first + i) : std::string_view();
        from[i] = reinterpret_cast<std::byte const*>(body.data());
        plain = body.size() == size;
    }
    return plain && reader.plain_bodies(rows, from);
}

/// Has room for so many times what a batch's first block took, within reason: it may be no measure for the others.
void reserve_others(NestedReader& reader, double times) {
    constexpr double kMost = 64 << 20;
    auto const size = double(reader.size());
    reader.reserve(std::min(times, size == 0 ? 0 : kMost / size));
}

/// Rows [first, first + count) of a batch, at most a block of them; returns how many bytes they have.
std::size_t read_block(NestedReader& reader, Values const& values, std::int64_t first,
                       std::int64_t count, Pattern& rows) {
    if (read_plain(reader, values, first, count, rows)) {
        return reader.plain_size() * std::size_t(count);
    }
    Cursor in[kBlockRows];
    std::int64_t nulls[kBlockRows + 1] = {};  // before the first valid row, and behind each
    std::size_t valid = 0;
    std::size_t bytes = 0;
    for (std::int64_t row = first; row < first + count; ++row) {
        if (values.is_valid(row)) {
            std::string_view const body = values.at(row);
            bytes += body.size();
            in[valid++] = Cursor(body);
        } else {
            ++nulls[valid];
        }
    }
    reader.nulls(nulls[0]);
    if (valid == 0) return 0;
    bool const same = std::int64_t(valid) == count && rows.is_each(valid);
    if (!same) rows.clear();
    for (std::size_t row = 0; !same && row < valid; ++row) {
        rows.take(1);
        rows.fill(nulls[row + 1]);
        rows.end_row();
    }
    reader.bodies(rows, in);
    for (std::size_t i = 0; i < valid; ++i) in[i].end();
    return bytes;
}

[[noreturn]] void refuse_rows(ReadColumn const& column, std::string const& what) {
    throw Error(ErrorCode::InvalidArgument,
                "column '" + column.name + "': " + what + " holds no " + column.type.text +
                    " in the bytes that MGI has for such values (docs/types.md)");
}

/// Throws Error(InvalidArgument) that names the first row whose bytes are no value, where there is one.
void check_rows(ReadColumn const& column, Values const& values, std::int64_t first,
                std::int64_t count) {
    for (std::int64_t row = first; row < first + count; ++row) {
        NestedReader reader(column.type, column.name);
        Pattern one;
        try {
            static_cast<void>(read_block(reader, values, row, 1, one));
        } catch (Cursor::NotAValue const&) {
            refuse_rows(column, "value " + std::to_string(row));
        }
    }
}

}  // namespace

ArrowArray read_nested(Nested const& type, RecordBatch const& batch, std::size_t column) {
    auto const read = std::make_shared<ReadColumn>(type, batch.schema[column].name);
    Values const values(batch, column);
    Pattern rows;
    std::int64_t count = 0;
    std::int64_t next = kBlockRows;
    for (std::int64_t first = 0; first < batch.rows; first += count) {
        count = std::min(next, batch.rows - first);
        try {
            std::size_t const bytes = read_block(read->reader, values, first, count, rows);
            next = rows_of_block(bytes, count);
        } catch (Cursor::NotAValue const&) {
            check_rows(*read, values, first, count);
            // Each alone is a value; it should not happen.
            refuse_rows(*read, "one of the values " + std::to_string(first) + " to " +
                                   std::to_string(first + count - 1));
        } catch (Error const&) {
            // Of bytes that are no value there may seem to be too many.
            check_rows(*read, values, first, count);
            throw;
        }
        // Only now: bytes that are no value may be of any width.
        if (first == 0) {
            reserve_others(read->reader, 1.125 * double(batch.rows - count) / double(count));
        }
    }
    return read->reader.finish(read);
}

}  // namespace mgi::arrow
