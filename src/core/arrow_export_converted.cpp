#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/arrow_distinct.hpp"
#include "core/arrow_export.hpp"
#include "core/arrow_holders.hpp"
#include "core/arrow_nested.hpp"
#include "core/arrow_room.hpp"
#include "core/arrow_stored.hpp"
#include "core/arrow_take.hpp"
#include "core/arrow_values.hpp"
#include "core/views.hpp"

namespace mgi::arrow {
namespace {

/// What the converted column's pointers point into, and what the original's do.
struct Owner {
    std::shared_ptr<void const> original;
    Room room;
};

/// One column by itself, in place of the batch's.
struct Lone {
    explicit Lone(RecordBatch const& batch) : owner(std::make_shared<Owner>()) {
        owner->original = batch.owner;
        rows.rows = batch.rows;
        rows.owner = owner;
    }
    Room& room() { return owner->room; }
    ArrowArray exported(ColumnFormat const& format, Column const& column) {
        rows.schema = Schema({format.field});
        rows.columns.assign(1, column);
        ColumnFormat as_typed;
        as_typed.field = format.field;
        as_typed.encoding = rows.columns[0].encoding;
        return export_column(rows, 0, as_typed);
    }

    std::shared_ptr<Owner> owner;
    RecordBatch rows;
};

[[noreturn]] void too_many(Field const& field, std::string const& what) {
    throw TooManyRows("column '" + field.name + "': " + what +
                      "; read it as a table (pyarrow.table, polars.DataFrame), which comes in "
                      "pieces, or give the "
                      "column another type");
}

template <class Offset>
Column with_offsets(RecordBatch const& batch, std::size_t c, Encoding encoding, Room& room) {
    Column const& from = batch.columns[c];
    std::int64_t const front = from.offset % 8;
    auto* const offsets = room.of<Offset>(std::size_t(front + batch.rows + 1));
    std::memset(offsets, 0, std::size_t(front + 1) * sizeof(Offset));
    Values const values(batch, c);
    std::uint64_t end = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        if (values.is_valid(row)) end += values.at(row).size();
        if (end > std::uint64_t(std::numeric_limits<Offset>::max())) {
            too_many(batch.schema[c], "its text is longer than 2 GiB in all, which Arrow's " +
                                          batch.schema[c].type.to_string() + " cannot hold");
        }
        offsets[front + row + 1] = Offset(end);
    }
    auto* const bytes = room.of<char>(std::size_t(end));
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        if (!values.is_valid(row)) continue;
        std::string_view const text = values.at(row);
        if (!text.empty()) std::memcpy(bytes + offsets[front + row], text.data(), text.size());
    }
    Column to;
    to.encoding = encoding;
    to.values = offsets;
    to.bytes = reinterpret_cast<std::byte const*>(bytes);
    to.offset = front;
    if (from.validity != nullptr) to.validity = from.validity + from.offset / 8;
    return to;
}

/// The column's text as Views.
Column with_views_of(RecordBatch const& batch, std::size_t c, Room& room) {
    RecordBatch views = with_views(batch, {c});
    room.keep(std::move(views.owner));
    return std::move(views.columns[c]);
}

Column with_text(RecordBatch const& batch, std::size_t c, Encoding encoding, Room& room) {
    switch (encoding) {
        case Encoding::Offsets32: return with_offsets<std::int32_t>(batch, c, encoding, room);
        case Encoding::Offsets64: return with_offsets<std::int64_t>(batch, c, encoding, room);
        default: return with_views_of(batch, c, room);
    }
}

Column with_stored(Column const& from, std::int64_t rows, Stored stored, Room& room) {
    Column to = from;
    std::int64_t const front = rows == 0 ? 0 : from.offset % 8;
    to.values = stored_values(stored, from.values, from.offset - front, front + rows, room);
    if (from.validity != nullptr) to.validity = from.validity + from.offset / 8;
    to.offset = front;
    return to;
}

/// Some rows of a column, in the way in which the values of runs are stored.
ArrowArray export_rows(RecordBatch const& batch, std::size_t c,
                       std::vector<std::int64_t> const& rows, ColumnFormat const& format) {
    Lone lone(batch);
    bool const text = batch.schema[c].type.is_variable();
    Column const from = text ? with_views_of(batch, c, lone.room()) : batch.columns[c];
    lone.rows.schema = Schema({format.field});
    lone.rows.columns.push_back(take(from, format.field.type, RowNumbers::of(rows), lone.room()));
    lone.rows.rows = std::int64_t(rows.size());
    return export_column(lone.rows, 0, format);
}

/// The values that a column's dictionary has before its first batch.
std::vector<std::string> const& categories_of(ColumnFormat const& format) {
    static std::vector<std::string> const none;
    ArrowField const* const arrow = format.field.type.arrow.get();
    return arrow != nullptr && arrow->categories != nullptr ? *arrow->categories : none;
}

/// Writes the rows' numbers behind `out`.
void number_rows(RecordBatch const& batch, std::size_t c, ColumnFormat const& format,
                 Dictionary& dictionary, void* out) {
    std::size_t const width = format.index.row_width();
    std::uint64_t const counted = largest(format.index);
    auto const fits = [&] {
        std::size_t const values = dictionary.values().size();
        return values == 0 || values - 1 <= counted;
    };
    std::vector<std::string> const& categories = categories_of(format);
    // What batches before had stays, so that all share one; a small batch is not to carry many values
    // that others had.
    bool const shared = dictionary.first().has_value() &&
                        dictionary.values().size() <= *dictionary.first() + std::size_t(batch.rows);
    if (!shared) dictionary.restart(categories);
    dictionary.write(batch, c, width, out);
    if (fits()) return;
    dictionary.restart(categories);
    dictionary.write(batch, c, width, out);
    if (fits()) return;
    // There are indices for the values that there are, perhaps.
    dictionary.restart({});
    dictionary.write(batch, c, width, out);
    if (fits()) return;
    too_many(format.field, std::to_string(dictionary.values().size()) +
                               " distinct values, more than " + format.index.to_string() +
                               " counts");
}

/// Has a dictionary's values lie as they are exported.
void lay_out(RecordBatch& values, ColumnFormat const& format, Room& room) {
    bool const otherwise = format.field.type.is_variable() && format.stored == Stored::AsTyped &&
                           values.columns[0].encoding != format.encoding;
    values.schema = Schema({format.field});
    if (otherwise) values.columns[0] = with_text(values, 0, format.encoding, room);
}

RecordBatch const& numbered_values(RecordBatch const& batch, ColumnFormat const& format,
                                   Dictionary& dictionary) {
    RecordBatch& values = dictionary.exported;
    if (values.rows != std::int64_t(dictionary.values().size()) || values.columns.empty()) {
        Lone lone(batch);
        lone.owner->original = nullptr;
        values = lone.rows;
        values.schema = Schema({format.field});
        values.rows = std::int64_t(dictionary.values().size());
        values.columns.assign(1, column_of(dictionary.values(), format.field.type, lone.room()));
        lay_out(values, format, lone.room());
    }
    return values;
}

/// The first of a dictionary's values, if they are these, and each is there once.
std::shared_ptr<RecordBatch const> first_values(RecordBatch const& dictionary,
                                                std::vector<std::string> const& categories,
                                                ColumnFormat const& format) {
    if (std::uint64_t(dictionary.rows) < categories.size()) return nullptr;
    Values const values(dictionary, 0);
    Distinct distinct;
    for (std::size_t i = 0; i < categories.size(); ++i) {
        std::string_view const value = values.at(std::int64_t(i));
        if (value != categories[i] || distinct.find(value).second == nullptr) return nullptr;
    }
    Lone lone(dictionary);
    RecordBatch first = dictionary.slice(0, std::int64_t(categories.size()));
    first.owner = lone.owner;
    lay_out(first, format, lone.room());
    return std::make_shared<RecordBatch const>(std::move(first));
}

/// Whether each valid row's number is below `limit`.
bool all_below(Column const& column, std::int64_t rows, std::size_t limit) {
    Codes const& codes = *column.codes;
    auto const* const numbers = static_cast<std::byte const*>(codes.numbers);
    RowNumbers const all{numbers + std::size_t(codes.offset) * codes.width, codes.width, rows,
                         column.offset, column.validity};
    return first_beyond(all, std::int64_t(limit)) < 0;
}

/// The format's categories as they are exported, where the rows are known by their numbers; null where one
/// has another value, or numbers do not fit the format.
std::shared_ptr<RecordBatch const> known_values(RecordBatch const& batch, std::size_t c,
                                                ColumnFormat const& format,
                                                Dictionary& dictionary) {
    Codes const* const codes = batch.columns[c].codes.get();
    std::vector<std::string> const& categories = categories_of(format);
    if (codes == nullptr || batch.rows == 0 || categories.empty()) return nullptr;
    if (categories.size() - 1 > largest(format.index)) return nullptr;
    bool const others = std::uint64_t(codes->values->rows) > categories.size();
    if (others && !all_below(batch.columns[c], batch.rows, categories.size())) return nullptr;
    if (dictionary.known != codes->values) {
        dictionary.known = codes->values;
        dictionary.known_exported = first_values(*codes->values, categories, *format.values);
    }
    return dictionary.known_exported;
}

/// Numbers of a column's rows as integers of so many bytes, 0 for a null, and `front` others before them.
void const* numbers_of(Column const& column, std::int64_t front, std::int64_t rows,
                       std::size_t width, Room& room) {
    Codes const& codes = *column.codes;
    auto const* const from = static_cast<std::byte const*>(codes.numbers) +
                             std::size_t(codes.offset + column.offset) * codes.width;
    if (width == codes.width && column.validity == nullptr) {
        return from - std::size_t(front) * width;
    }
    auto* const out = room.of<std::byte>(std::size_t(front + rows) * width);
    std::memset(out, 0, std::size_t(front + rows) * width);
    std::size_t const both = std::min<std::size_t>(width, codes.width);
    for (std::int64_t i = 0; i < rows; ++i) {
        bool const valid = column.validity == nullptr ||
                           device::bit_at(column.validity, std::uint64_t(column.offset + i));
        if (!valid) continue;
        std::memcpy(out + std::size_t(front + i) * width, from + std::size_t(i) * codes.width,
                    both);
    }
    return out;
}

ArrowArray export_dictionary(RecordBatch const& batch, std::size_t c, ColumnFormat const& format,
                             Dictionary& dictionary) {
    static_assert(std::endian::native == std::endian::little);
    Column const& from = batch.columns[c];
    Lone lone(batch);
    ColumnFormat index;
    index.field = {format.field.name, format.index, format.field.nullable};
    // Validity bits keep their place in their byte, hence up to seven indices in front.
    std::int64_t const front = batch.rows == 0 ? 0 : from.offset % 8;
    std::size_t const width = format.index.row_width();
    Column indices;
    indices.offset = front;
    std::shared_ptr<RecordBatch const> const known = known_values(batch, c, format, dictionary);
    if (known != nullptr) {
        indices.values = numbers_of(from, front, batch.rows, width, lone.room());
    } else {
        auto* const out = lone.room().of<std::byte>(std::size_t(front + batch.rows) * width);
        std::memset(out, 0, std::size_t(front) * width);
        number_rows(batch, c, format, dictionary, out + std::size_t(front) * width);
        indices.values = out;
    }
    if (from.validity != nullptr) indices.validity = from.validity + from.offset / 8;
    ArrowArray array = lone.exported(index, indices);
    auto* const holder = static_cast<ArrayHolder*>(array.private_data);
    try {
        RecordBatch const& values =
            known != nullptr ? *known : numbered_values(batch, *format.values, dictionary);
        holder->dictionary = export_column(values, 0, *format.values);
    } catch (...) {
        array.release(&array);
        throw;
    }
    array.dictionary = &holder->dictionary;
    return array;
}

/// Numbers as integers of a type; little-endian, so that the lower bytes are those.
Column integers_of(std::vector<std::int64_t> const& numbers, Type const& type, Room& room) {
    static_assert(std::endian::native == std::endian::little);
    std::size_t const width = type.row_width();
    auto* const out = room.of<std::byte>(numbers.size() * width);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        std::memcpy(out + i * width, &numbers[i], width);
    }
    Column column;
    column.values = out;
    return column;
}

ArrowArray export_runs(RecordBatch const& batch, std::size_t c, ColumnFormat const& format) {
    Values const values(batch, c);
    if (std::uint64_t(batch.rows) > largest(format.index)) {
        too_many(format.field, std::to_string(batch.rows) + " rows, more than run ends of type " +
                                   format.index.to_string() + " count");
    }
    std::vector<std::int64_t> first;
    std::vector<std::int64_t> ends;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        bool const valid = values.is_valid(row);
        bool const goes_on = row > 0 && valid == values.is_valid(row - 1) &&
                             (!valid || values.at(row) == values.at(row - 1));
        if (!goes_on) {
            first.push_back(row);
            ends.push_back(row);
        }
        ends.back() = row + 1;
    }
    Lone lone(batch);
    lone.rows.rows = std::int64_t(ends.size());
    ColumnFormat index;
    index.field = {"run_ends", format.index, false};
    auto holder = std::make_unique<ArrayHolder>();
    make_children(*holder, 2);
    holder->child_structs[0] = lone.exported(index, integers_of(ends, format.index, lone.room()));
    holder->child_structs[1] = export_rows(batch, c, first, *format.values);
    ArrowArray array = seal(std::move(holder));
    array.length = batch.rows;
    return array;
}

ArrowArray export_nulls(RecordBatch const& batch) {
    ArrowArray array = seal(std::make_unique<ArrayHolder>());
    array.length = batch.rows;
    array.null_count = batch.rows;
    return array;
}

}  // namespace

ArrowArray export_converted(RecordBatch const& batch, std::size_t column,
                            ColumnFormat const& format, Dictionary& dictionary) {
    switch (format.stored) {
        case Stored::Null: return export_nulls(batch);
        case Stored::Dictionary: return export_dictionary(batch, column, format, dictionary);
        case Stored::Runs: return export_runs(batch, column, format);
        case Stored::Nested: return read_nested(*format.nested, batch, column);
        default: break;
    }
    Lone lone(batch);
    Column const& from = batch.columns[column];
    if (format.stored != Stored::AsTyped) {
        // A schema of its own, since the values no longer lie as the type says.
        ColumnFormat as_typed;
        as_typed.field = format.field;
        lone.rows.schema = Schema({format.field});
        lone.rows.columns.push_back(with_stored(from, batch.rows, format.stored, lone.room()));
        return export_column(lone.rows, 0, as_typed);
    }
    lone.rows.schema = Schema({format.field});
    lone.rows.columns.push_back(with_text(batch, column, format.encoding, lone.room()));
    return export_column(lone.rows, 0, format);
}

}  // namespace mgi::arrow
