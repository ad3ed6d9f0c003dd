#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mgi/error.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_nested_plain.hpp"
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

void read_row(ReadColumn& column, Values const& values, std::int64_t row) {
    if (!values.is_valid(row)) return column.reader.nulls(1);
    Cursor in(values.at(row));
    try {
        column.reader.value(in);
        in.end();
    } catch (Cursor::NotAValue const&) {
        throw Error(ErrorCode::InvalidArgument,
                    "column '" + column.name + "': value " + std::to_string(row) + " holds no " +
                        column.type.text +
                        " in the bytes that MGI has for such values (docs/types.md)");
    }
}

/// The bodies of rows from `first` on that may be plain: those that are as long, one behind another; returns how many.
std::int64_t find_plain(std::size_t size, Values const& values, std::int64_t first,
                        std::int64_t rows, std::byte const** bodies) {
    std::int64_t const most = std::min(kPlainBlock, rows - first);
    std::int64_t count = 0;
    for (; count < most && values.is_valid(first + count); ++count) {
        std::string_view const body = values.at(first + count);
        if (body.size() != size) break;
        bodies[count] = reinterpret_cast<std::byte const*>(body.data());
    }
    return count;
}

}  // namespace

ArrowArray read_nested(Nested const& type, RecordBatch const& batch, std::size_t column) {
    auto const read = std::make_shared<ReadColumn>(type, batch.schema[column].name);
    Values const values(batch, column);
    std::size_t const plain = plain_size(type);
    std::byte const* bodies[kPlainBlock];
    for (std::int64_t row = 0; row < batch.rows;) {
        std::int64_t const count =
            plain == 0 ? 0 : find_plain(plain, values, row, batch.rows, bodies);
        std::int64_t const end = row + std::max<std::int64_t>(count, 1);
        if (count != 0 && are_plain(type, bodies, 0, count)) {
            if (row == 0) read->reader.reserve_plain(batch.rows);
            read->reader.plain(bodies, 0, count);
            row = end;
        }
        for (; row < end; ++row) read_row(*read, values, row);
    }
    return read->reader.finish(read);
}

}  // namespace mgi::arrow
