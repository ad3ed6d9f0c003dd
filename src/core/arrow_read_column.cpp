#include "core/arrow_read_column.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include <mgi/device/batch_view.hpp>

#include "core/arrow_nested.hpp"
#include "core/arrow_stored.hpp"
#include "core/arrow_take.hpp"
#include "core/arrow_values.hpp"
#include "core/views.hpp"

namespace mgi::arrow {
namespace {

/// Bits that are 0 in [first, first + count).
std::int64_t count_nulls(std::uint8_t const* bits, std::int64_t first, std::int64_t count) {
    std::int64_t set = 0;
    std::int64_t at = first;
    std::int64_t const end = first + count;
    for (; at < end && at % 8 != 0; ++at) set += device::bit_at(bits, std::uint64_t(at)) ? 1 : 0;
    for (; end - at >= 64; at += 64) {
        std::uint64_t word;
        std::memcpy(&word, bits + at / 8, sizeof(word));
        set += std::popcount(word);
    }
    for (; at < end; ++at) set += device::bit_at(bits, std::uint64_t(at)) ? 1 : 0;
    return count - set;
}

/// Reads one column's array.
class ColumnReader {
public:
    ColumnReader(ColumnFormat const& format, ArrowArray const& array, std::int64_t skip,
                 std::int64_t rows, std::shared_ptr<void const> const& owner, Room& room,
                 ReadDictionary& last)
        : format_(format),
          array_(array),
          skip_(skip),
          rows_(rows),
          owner_(owner),
          room_(room),
          last_(last) {}

    Column read() {
        check_rows();
        switch (format_.stored) {
            case Stored::Null: return read_null();
            case Stored::Dictionary: return read_dictionary();
            case Stored::Runs: return read_runs();
            case Stored::Nested: return read_nested();
            default: break;
        }
        check_buffers();
        column_.encoding = format_.encoding;
        column_.offset = array_.offset + skip_;
        read_validity();
        if (format_.stored != Stored::AsTyped) return read_stored();
        switch (format_.encoding) {
            case Encoding::Plain: read_plain(); break;
            case Encoding::Offsets32: read_offsets<std::int32_t>(); break;
            case Encoding::Offsets64: read_offsets<std::int64_t>(); break;
            case Encoding::Views: read_views(); break;
        }
        return std::move(column_);
    }

private:
    [[noreturn]] void malformed(std::string const& what) const {
        throw Error(ErrorCode::InvalidArgument,
                    "column '" + format_.field.name + "': the Arrow array " + what);
    }

    void check_rows() const {
        if ((array_.dictionary != nullptr) != (format_.stored == Stored::Dictionary)) {
            malformed("is dictionary-encoded or not, unlike its schema");
        }
        if (array_.offset < 0 || array_.length < 0) malformed("has a negative offset or length");
        if (!possible(array_.offset, array_.length))
            malformed("has an impossible offset or length");
        if (array_.length - skip_ < rows_) {
            malformed("has " + std::to_string(array_.length) + " rows where the batch has " +
                      std::to_string(skip_ + rows_));
        }
    }

    void check_buffers() const {
        bool const views = format_.encoding == Encoding::Views;
        std::int64_t const least = format_.encoding == Encoding::Plain ? 2 : 3;
        if (views ? array_.n_buffers < least : array_.n_buffers != least) {
            malformed("has " + std::to_string(array_.n_buffers) + " buffers instead of " +
                      std::to_string(least));
        }
        if (array_.buffers == nullptr) malformed("has no buffers");
        if (rows_ > 0 && array_.buffers[1] == nullptr) malformed("has no values");
        if (array_.null_count > 0 && array_.buffers[0] == nullptr) {
            malformed("counts nulls but has no validity bits");
        }
    }

    void read_validity() {
        std::int64_t const nulls = nulls_of(array_, skip_, rows_);
        if (nulls == 0) return;
        if (!format_.field.nullable) {
            malformed("has " + std::to_string(nulls) + " nulls, but the column is not nullable");
        }
        column_.validity = static_cast<std::uint8_t const*>(array_.buffers[0]);
    }

    /// The values buffer, or a copy of it that is aligned. Arrow recommends alignment only.
    [[nodiscard]] void const* aligned(std::int64_t count, std::size_t width, std::size_t to) {
        void const* const values = array_.buffers[1];
        if (rows_ == 0 || reinterpret_cast<std::uintptr_t>(values) % to == 0) return values;
        std::size_t const bytes = std::size_t(count) * width;
        auto* const copy = room_.of<std::byte>(bytes);
        std::memcpy(copy, values, bytes);
        return copy;
    }

    /// Every row is null.
    Column read_null() {
        column_.validity = room_.bits(std::size_t(rows_));
        column_.values = column_.validity;
        return std::move(column_);
    }

    /// Lists, structs, maps and unions, as their bytes.
    Column read_nested() {
        column_ = write_nested(*format_.nested, format_.field.name, array_, skip_, rows_, room_);
        if (nested_has_validity(format_.nested->kind)) read_validity();
        if (column_.validity == nullptr) return std::move(column_);
        std::int64_t const first = array_.offset + skip_;
        std::uint8_t* const bits = room_.bits(std::size_t(rows_));
        for (std::int64_t i = 0; i < rows_; ++i) {
            if (device::bit_at(column_.validity, std::uint64_t(first + i))) {
                set_bit(bits, std::size_t(i));
            }
        }
        column_.validity = bits;
        return std::move(column_);
    }

    /// Values that are narrower or wider than here.
    Column read_stored() {
        std::size_t const width = stored_width(format_.stored);
        void const* const stored =
            aligned(column_.offset + rows_, width, std::min<std::size_t>(width, 8));
        if (format_.stored == Stored::Decimal256) check_digits(stored);
        // Validity bits keep their place in their byte, hence up to seven values in front.
        std::int64_t const front = column_.offset % 8;
        column_.values =
            typed_values(format_.stored, stored, column_.offset - front, front + rows_, room_);
        if (column_.validity != nullptr) column_.validity += column_.offset / 8;
        column_.offset = front;
        return std::move(column_);
    }

    /// A Decimal128 must hold what is not null.
    void check_digits(void const* stored) const {
        auto const* const words = static_cast<std::int64_t const*>(stored);
        for (std::int64_t i = column_.offset; i < column_.offset + rows_; ++i) {
            std::int64_t const sign = words[4 * i + 1] < 0 ? -1 : 0;
            if (words[4 * i + 2] == sign && words[4 * i + 3] == sign) continue;
            bool const valid =
                column_.validity == nullptr || device::bit_at(column_.validity, std::uint64_t(i));
            if (valid) malformed("has a decimal of more digits than its type says");
        }
    }

    /// Of a dictionary or of runs the values [first, first + count): text as Views.
    Column read_values(ArrowArray const& array, std::int64_t first, std::int64_t count) {
        ColumnFormat const& format = *format_.values;
        RecordBatch values;
        values.schema = Schema({format.field});
        values.rows = count;
        ReadDictionary none;
        values.columns.push_back(
            ColumnReader(format, array, first, count, owner_, room_, none).read());
        if (!format.field.type.is_variable()) return std::move(values.columns[0]);
        RecordBatch views = with_views(values, {0});
        room_.keep(std::move(views.owner));
        return std::move(views.columns[0]);
    }

    Column take_rows(Column const& values, RowNumbers const& numbers) {
        Column taken = take(values, format_.field.type, numbers, room_);
        if (taken.validity != nullptr && !format_.field.nullable) {
            malformed("has nulls among its values, but the column is not nullable");
        }
        return taken;
    }

    void read_dictionary_values() {
        ArrowArray const& array = *array_.dictionary;
        std::vector<void const*> buffers;
        for (std::int64_t i = 0; array.buffers != nullptr && i < array.n_buffers; ++i) {
            buffers.push_back(array.buffers[i]);
        }
        bool const again = array.n_children == 0 && array.dictionary == nullptr &&
                           last_.buffers == buffers && last_.offset == array.offset &&
                           last_.length == array.length;
        if (!again) {
            last_.values = read_values(array, 0, array.length);
            last_.buffers = std::move(buffers);
            last_.offset = array.offset;
            last_.length = array.length;
            last_.owner = owner_;
            last_.texts = texts_of_dictionary();
        } else if (last_.owner != owner_) {
            room_.keep(last_.owner);
        }
    }

    [[nodiscard]] std::shared_ptr<RecordBatch const> texts_of_dictionary() const {
        Field const& field = format_.values->field;
        if (!field.type.is_variable() || last_.values.validity != nullptr) return nullptr;
        auto texts = std::make_shared<RecordBatch>();
        texts->schema = Schema({field});
        texts->rows = last_.length;
        texts->columns.push_back(last_.values);
        texts->owner = last_.owner;
        return texts;
    }

    Column read_dictionary() {
        check_buffers();
        read_validity();
        std::int64_t const first = array_.offset + skip_;
        RowNumbers numbers;
        numbers.width = format_.index.row_width();
        numbers.values = aligned(first + rows_, numbers.width, numbers.width);
        numbers.count = rows_;
        numbers.offset = first;
        numbers.validity = column_.validity;
        read_dictionary_values();
        // Read without a sign, a number below 0 is one that the type does not have.
        std::uint64_t const counted = largest(format_.index);
        std::int64_t const rows =
            std::uint64_t(last_.length) <= counted ? last_.length : std::int64_t(counted) + 1;
        if (std::int64_t const wrong = first_beyond(numbers, rows); wrong >= 0) {
            malformed("has index " +
                      std::to_string(integer_at(format_.index, numbers.values, first + wrong)) +
                      " in a dictionary of " + std::to_string(last_.length) + " values");
        }
        Column taken = take_rows(last_.values, numbers);
        if (last_.texts != nullptr) {
            taken.codes = std::make_shared<Codes const>(
                Codes{numbers.values, std::uint8_t(numbers.width), first, last_.texts});
        }
        return taken;
    }

    Column read_runs() {
        if (array_.n_children != 2) malformed("has no run ends and values");
        ArrowArray const& ends = child_of(array_, 0, "run-end encoded column");
        ArrowArray const& values = child_of(array_, 1, "run-end encoded column");
        std::int64_t const runs = ends.length;
        if (!are_run_ends(ends, values.length)) malformed("has run ends that cannot be");
        std::int64_t const begin = array_.offset + skip_;
        std::int64_t const first = run_behind(ends, format_.index, begin);
        std::vector<std::int64_t> rows;
        rows.reserve(std::size_t(rows_));
        std::int64_t run = first;
        for (std::int64_t i = 0; i < rows_; ++i) {
            while (run < runs && run_end(ends, format_.index, run) <= begin + i) ++run;
            if (run == runs) malformed("has runs that end before its rows do");
            rows.push_back(run - first);
        }
        std::int64_t const count = rows_ == 0 ? 0 : run - first + 1;
        return take_rows(read_values(values, first, count), RowNumbers::of(rows));
    }

    void read_plain() {
        Type const& type = format_.field.type;
        if (type.id == TypeId::Bool || type.id == TypeId::FixedSizeBinary) {
            column_.values = array_.buffers[1];
        } else {
            column_.values = aligned(column_.offset + rows_, type.row_width(), type.row_width());
        }
    }

    template <class Offset>
    void read_offsets() {
        column_.values = aligned(column_.offset + rows_ + 1, sizeof(Offset), sizeof(Offset));
        column_.bytes = static_cast<std::byte const*>(array_.buffers[2]);
        if (rows_ == 0) return;
        auto const* const offsets = static_cast<Offset const*>(column_.values) + column_.offset;
        if (offsets[0] < 0 || offsets[rows_] < offsets[0]) malformed("has offsets that decrease");
        if (column_.bytes == nullptr && offsets[rows_] != offsets[0])
            malformed("has no characters");
    }

    void read_views() {
        column_.values = aligned(column_.offset + rows_, sizeof(device::StringView16),
                                 alignof(device::StringView16));
        // Validity, views, any number of data buffers, and their sizes.
        std::size_t const buffers = std::size_t(array_.n_buffers) - 3;
        void const* const sizes = array_.buffers[array_.n_buffers - 1];
        if (buffers == 0) return;
        if (sizes == nullptr) malformed("has no sizes of its data buffers");
        column_.buffer_sizes.resize(buffers);
        std::memcpy(column_.buffer_sizes.data(), sizes, buffers * sizeof(std::int64_t));
        for (std::size_t i = 0; i < buffers; ++i) {
            void const* const data = array_.buffers[2 + i];
            std::int64_t const size = column_.buffer_sizes[i];
            if (size < 0 || (size > 0 && data == nullptr)) {
                malformed("says that its data buffer " + std::to_string(i) + " has " +
                          std::to_string(size) + " bytes" + (size > 0 ? ", but has none" : ""));
            }
            column_.buffers.push_back(static_cast<std::byte const*>(data));
        }
    }

    ColumnFormat const& format_;
    ArrowArray const& array_;
    std::int64_t const skip_;  ///< rows of the enclosing struct's own offset
    std::int64_t const rows_;
    std::shared_ptr<void const> const& owner_;
    Room& room_;
    ReadDictionary& last_;
    Column column_;
};

}  // namespace

std::int64_t nulls_of(ArrowArray const& array, std::int64_t skip, std::int64_t count) {
    if (array.null_count == 0 || array.n_buffers == 0) return 0;
    if (array.buffers == nullptr || array.buffers[0] == nullptr) return 0;
    return count_nulls(static_cast<std::uint8_t const*>(array.buffers[0]), array.offset + skip,
                       count);
}

std::int64_t integer_at(Type const& type, void const* integers, std::int64_t at) {
    switch (type.id) {
        case TypeId::Int8: return static_cast<std::int8_t const*>(integers)[at];
        case TypeId::UInt8: return static_cast<std::uint8_t const*>(integers)[at];
        case TypeId::Int16: return static_cast<std::int16_t const*>(integers)[at];
        case TypeId::UInt16: return static_cast<std::uint16_t const*>(integers)[at];
        case TypeId::Int32: return static_cast<std::int32_t const*>(integers)[at];
        case TypeId::UInt32: return static_cast<std::uint32_t const*>(integers)[at];
        default: return static_cast<std::int64_t const*>(integers)[at];
    }
}

bool are_run_ends(ArrowArray const& ends, std::int64_t values) {
    return ends.n_buffers == 2 && ends.buffers != nullptr && possible(ends.offset, ends.length) &&
           values >= ends.length && (ends.length == 0 || ends.buffers[1] != nullptr);
}

std::int64_t run_end(ArrowArray const& ends, Type const& type, std::int64_t run) {
    return integer_at(type, ends.buffers[1], ends.offset + run);
}

std::int64_t run_behind(ArrowArray const& ends, Type const& type, std::int64_t row) {
    std::int64_t first = 0;
    for (std::int64_t beyond = ends.length; first < beyond;) {
        std::int64_t const middle = first + (beyond - first) / 2;
        if (run_end(ends, type, middle) <= row) {
            first = middle + 1;
        } else {
            beyond = middle;
        }
    }
    return first;
}

Column read_column(ColumnFormat const& format, ArrowArray const& array, std::int64_t skip,
                   std::int64_t rows, std::shared_ptr<void const> const& owner, Room& room,
                   ReadDictionary& last) {
    return ColumnReader(format, array, skip, rows, owner, room, last).read();
}

std::shared_ptr<std::vector<std::string> const> categories_of(ColumnFormat const& format,
                                                              ReadDictionary const& dictionary) {
    if (std::size_t(dictionary.length) > kMostCategories) return nullptr;
    RecordBatch batch;
    batch.schema = Schema({format.values->field});
    batch.rows = dictionary.length;
    batch.columns.push_back(dictionary.values);
    Values const values(batch, 0);
    std::vector<std::string> categories;
    std::size_t bytes = 0;
    for (std::int64_t i = 0; i < batch.rows; ++i) {
        // A null among them is a null of the rows that have it.
        if (!batch.is_valid(0, i)) continue;
        bytes += values.at(i).size();
        if (bytes > kMostCategoryBytes) return nullptr;
        categories.emplace_back(values.at(i));
    }
    return std::make_shared<std::vector<std::string> const>(std::move(categories));
}

}  // namespace mgi::arrow
