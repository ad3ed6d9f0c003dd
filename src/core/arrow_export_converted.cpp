#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <mgi/device/batch_view.hpp>

#include "core/arrow_export.hpp"
#include "core/arrow_holders.hpp"
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

bool valid_at(Column const& column, std::int64_t row) {
    return column.validity == nullptr ||
           device::bit_at(column.validity, std::uint64_t(column.offset + row));
}

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
    std::uint64_t end = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        end += batch.string_at(c, row).size();
        if (end > std::uint64_t(std::numeric_limits<Offset>::max())) {
            too_many(batch.schema[c], "its text is longer than 2 GiB in all, which Arrow's " +
                                          batch.schema[c].type.to_string() + " cannot hold");
        }
        offsets[front + row + 1] = Offset(end);
    }
    auto* const bytes = room.of<char>(std::size_t(end));
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        std::string_view const text = batch.string_at(c, row);
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

/// Numbers distinct values in the order in which they come.
class Distinct {
public:
    Distinct() : slots_(64, kFree) {}

    std::int64_t number_of(std::string_view value) {
        std::size_t const hash = std::hash<std::string_view>{}(value);
        std::size_t at = hash & (slots_.size() - 1);
        for (; slots_[at] != kFree; at = (at + 1) & (slots_.size() - 1)) {
            auto const number = std::size_t(slots_[at]);
            if (hashes_[number] == hash && values_[number] == value) return slots_[at];
        }
        slots_[at] = std::int64_t(values_.size());
        values_.push_back(value);
        hashes_.push_back(hash);
        if (2 * values_.size() > slots_.size()) grow();
        return std::int64_t(values_.size()) - 1;
    }
    /// By number.
    [[nodiscard]] std::vector<std::string_view> const& values() const { return values_; }

private:
    static constexpr std::int64_t kFree = -1;

    void grow() {
        slots_.assign(4 * slots_.size(), kFree);
        for (std::size_t number = 0; number < hashes_.size(); ++number) {
            std::size_t at = hashes_[number] & (slots_.size() - 1);
            while (slots_[at] != kFree) at = (at + 1) & (slots_.size() - 1);
            slots_[at] = std::int64_t(number);
        }
    }

    std::vector<std::int64_t> slots_;
    std::vector<std::size_t> hashes_;
    std::vector<std::string_view> values_;
};

std::uint64_t most_of(char index) {
    switch (index) {
        case 'c': return std::numeric_limits<std::int8_t>::max();
        case 'C': return std::numeric_limits<std::uint8_t>::max();
        case 's': return std::numeric_limits<std::int16_t>::max();
        case 'S': return std::numeric_limits<std::uint16_t>::max();
        case 'i': return std::numeric_limits<std::int32_t>::max();
        case 'I': return std::numeric_limits<std::uint32_t>::max();
        default: return std::numeric_limits<std::int64_t>::max();
    }
}

Type index_type(char index) {
    static constexpr std::string_view kFormats = "cCsSiIlL";
    static constexpr TypeId kTypes[] = {TypeId::Int8,   TypeId::UInt8, TypeId::Int16,
                                        TypeId::UInt16, TypeId::Int32, TypeId::UInt32,
                                        TypeId::Int64,  TypeId::UInt64};
    return {kTypes[kFormats.find(index)]};
}

/// Numbers as integers of the index's type; little-endian, so that the lower bytes are those.
Column indices_of(std::vector<std::int64_t> const& numbers, Type const& type, Room& room) {
    std::size_t const width = type.row_width();
    auto* const out = room.of<std::byte>(numbers.size() * width);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        std::memcpy(out + i * width, &numbers[i], width);
    }
    Column column;
    column.values = out;
    return column;
}

static_assert(std::endian::native == std::endian::little);

/// Some rows of a column, in the way in which the values of runs are stored.
ArrowArray export_rows(RecordBatch const& batch, std::size_t c,
                       std::vector<std::int64_t> const& rows, ColumnFormat const& format) {
    Lone lone(batch);
    bool const text = batch.schema[c].type.is_variable();
    Column const from = text ? with_views_of(batch, c, lone.room()) : batch.columns[c];
    lone.rows.schema = Schema({format.field});
    lone.rows.columns.push_back(take(from, format.field.type, rows, lone.room()));
    lone.rows.rows = std::int64_t(rows.size());
    return export_column(lone.rows, 0, format);
}

/// Values of a dictionary.
ArrowArray export_values(RecordBatch const& batch, std::vector<std::string_view> const& values,
                         ColumnFormat const& format) {
    Lone lone(batch);
    lone.rows.schema = Schema({format.field});
    lone.rows.columns.push_back(column_of(values, format.field.type, lone.room()));
    lone.rows.rows = std::int64_t(values.size());
    return export_column(lone.rows, 0, format);
}

bool fits(ColumnFormat const& format, Distinct const& distinct) {
    return distinct.values().empty() || distinct.values().size() - 1 <= most_of(format.index);
}

/// Numbered as they were where the column came from.
Distinct categories_of(ColumnFormat const& format) {
    Distinct distinct;
    ArrowField const* const arrow = format.field.type.arrow.get();
    if (arrow == nullptr || arrow->categories == nullptr) return distinct;
    for (std::string const& category : *arrow->categories) distinct.number_of(category);
    return distinct;
}

ArrowArray export_dictionary(RecordBatch const& batch, std::size_t c, ColumnFormat const& format) {
    Column const& from = batch.columns[c];
    Values const values(batch, c);
    std::int64_t const front = batch.rows == 0 ? 0 : from.offset % 8;
    std::vector<std::int64_t> numbers(std::size_t(front + batch.rows), 0);
    auto const number = [&](Distinct& distinct) {
        for (std::int64_t row = 0; row < batch.rows; ++row) {
            if (!valid_at(from, row)) continue;
            numbers[std::size_t(front + row)] = distinct.number_of(values.at(row));
        }
    };
    Distinct distinct = categories_of(format);
    number(distinct);
    if (!fits(format, distinct)) {
        // There are indices for the values that there are, perhaps.
        distinct = Distinct();
        number(distinct);
    }
    if (!fits(format, distinct)) {
        too_many(format.field, std::to_string(distinct.values().size()) +
                                   " distinct values, more than " +
                                   index_type(format.index).to_string() + " counts");
    }
    Lone lone(batch);
    ColumnFormat index;
    index.field = {format.field.name, index_type(format.index), format.field.nullable};
    Column indices = indices_of(numbers, index.field.type, lone.room());
    indices.offset = front;
    if (from.validity != nullptr) indices.validity = from.validity + from.offset / 8;
    ArrowArray array = lone.exported(index, indices);
    auto* const holder = static_cast<ArrayHolder*>(array.private_data);
    try {
        holder->dictionary = export_values(batch, distinct.values(), *format.values);
    } catch (...) {
        array.release(&array);
        throw;
    }
    array.dictionary = &holder->dictionary;
    return array;
}

ArrowArray export_runs(RecordBatch const& batch, std::size_t c, ColumnFormat const& format) {
    Column const& from = batch.columns[c];
    Values const values(batch, c);
    if (std::uint64_t(batch.rows) > most_of(format.index)) {
        too_many(format.field, std::to_string(batch.rows) + " rows, more than run ends of type " +
                                   index_type(format.index).to_string() + " count");
    }
    std::vector<std::int64_t> first;
    std::vector<std::int64_t> ends;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        bool const valid = valid_at(from, row);
        bool const goes_on = row > 0 && valid == valid_at(from, row - 1) &&
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
    index.field = {"run_ends", index_type(format.index), false};
    auto holder = std::make_unique<ArrayHolder>();
    make_children(*holder, 2);
    holder->child_structs[0] =
        lone.exported(index, indices_of(ends, index.field.type, lone.room()));
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
                            ColumnFormat const& format) {
    switch (format.stored) {
        case Stored::Null: return export_nulls(batch);
        case Stored::Dictionary: return export_dictionary(batch, column, format);
        case Stored::Runs: return export_runs(batch, column, format);
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
