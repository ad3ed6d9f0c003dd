#include "operators/input.hpp"

#include <algorithm>
#include <bit>

namespace mgi::operators {

namespace {

[[noreturn]] void refuse(std::string const& what, std::string const& why) {
    throw Error(ErrorCode::InvalidArgument, what + ": " + why);
}

bool any_unset(u8 const* bits, i64 offset, i64 rows) {
    i64 i = 0;
    for (; i < rows && (offset + i) % 8 != 0; ++i) {
        if (!device::bit_at(bits, u64(offset + i))) return true;
    }
    for (; i + 64 <= rows; i += 64) {
        u64 word;
        std::memcpy(&word, bits + (offset + i) / 8, 8);
        if (word != ~u64{0}) return true;
    }
    for (; i < rows; ++i) {
        if (!device::bit_at(bits, u64(offset + i))) return true;
    }
    return false;
}

struct TextSum {
    u64 bytes = 0;
    u64 longest = 0;

    void add(u64 size) {
        u64 const counted = size > device::StringView16::kInline ? size : 0;
        bytes += counted;
        longest = std::max(longest, counted);
    }
};

template <class Offset>
void add_texts(Column const& column, i64 rows, TextSum& sum) {
    auto const* const at = static_cast<Offset const*>(column.values) + column.offset;
    for (i64 i = 0; i < rows; ++i) sum.add(static_cast<u64>(at[i + 1] - at[i]));
}

void add_texts(Column const& column, i64 rows, TextSum& sum) {
    if (column.encoding == Encoding::Offsets32) return add_texts<std::int32_t>(column, rows, sum);
    if (column.encoding == Encoding::Offsets64) return add_texts<i64>(column, rows, sum);
    auto const* const at = static_cast<device::StringView16 const*>(column.values) + column.offset;
    for (i64 i = 0; i < rows; ++i) {
        // A null's view may hold anything.
        bool const valid =
            column.validity == nullptr || device::bit_at(column.validity, u64(column.offset + i));
        sum.add(valid ? at[i].length : 0);
    }
}

}  // namespace

Input::Input(std::string what, std::vector<Endpoint> const& endpoints,
             std::vector<Table> const& parts)
    : what_(std::move(what)), parts_(parts) {
    if (endpoints.empty()) refuse(what_, "no endpoints; create one with create_endpoint");
    if (parts.size() != endpoints.size()) {
        refuse(what_, std::to_string(parts.size()) + " parts for " +
                          std::to_string(endpoints.size()) +
                          " endpoints; part i is what lies at endpoint i");
    }
    std::vector<Field> fields;
    auto const join_in = [&](Schema const& schema, std::string const& where) {
        if (fields.empty()) {
            fields = schema.fields();
            return;
        }
        if (!schema.same_columns(Schema(fields))) {
            refuse(what_, where + " has columns " + schema.to_string() + ", others have " +
                              Schema(fields).to_string());
        }
        for (std::size_t c = 0; c < fields.size(); ++c) {
            fields[c].nullable = fields[c].nullable || schema[c].nullable;
        }
    };
    for (std::size_t p = 0; p < parts.size(); ++p) {
        std::string const where = "part " + std::to_string(p);
        // A part that says nothing about its columns and has no rows is an empty one.
        if (!parts[p].schema.empty()) join_in(parts[p].schema, where);
        for (std::size_t b = 0; b < parts[p].batches.size(); ++b) {
            RecordBatch const& batch = parts[p].batches[b];
            join_in(batch.schema, where + ", batch " + std::to_string(b));
            if (batch.columns.size() != fields.size()) {
                refuse(what_, where + ", batch " + std::to_string(b) + " has " +
                                  std::to_string(batch.columns.size()) + " columns in place of " +
                                  std::to_string(fields.size()));
            }
        }
    }
    if (fields.empty()) refuse(what_, "no part has any columns");
    schema_ = Schema(fields);
    // Whoever says that there are no nulls and has some is believed in the latter.
    for (u32 c = 0; c < fields.size(); ++c) {
        fields[c].nullable = fields[c].nullable || has_nulls(c);
    }
    schema_ = Schema(std::move(fields));
}

u32 Input::column(std::string const& name) const {
    auto const& fields = schema_.fields();
    for (std::size_t c = 0; c < fields.size(); ++c) {
        if (fields[c].name == name) return static_cast<u32>(c);
    }
    std::string names;
    for (Field const& field : fields) names += (names.empty() ? "" : ", ") + field.name;
    refuse(what_, "no column '" + name + "'; there are: " + names);
}

std::vector<u32> Input::columns(std::vector<std::string> const& names) const {
    std::vector<u32> columns;
    columns.reserve(names.size());
    for (std::string const& name : names) columns.push_back(column(name));
    return columns;
}

bool Input::has_nulls(u32 column) const {
    for (Table const& part : parts_) {
        for (RecordBatch const& batch : part.batches) {
            Column const& one = batch.columns[column];
            if (one.validity != nullptr && any_unset(one.validity, one.offset, batch.rows)) {
                return true;
            }
        }
    }
    return false;
}

TextNeeds measure_texts(Input const& input, std::vector<u32> const& columns) {
    TextNeeds needs;
    u64 bytes = 0;
    u64 rows = 0;
    bool any = false;
    for (std::size_t p = 0; p < input.parts(); ++p) rows += u64(input.part(p).rows());
    for (u32 const c : columns) {
        if (!input.schema()[c].type.is_variable()) continue;
        any = true;
        TextSum sum;
        for (std::size_t p = 0; p < input.parts(); ++p) {
            for (RecordBatch const& batch : input.part(p).batches) {
                add_texts(batch.columns[c], batch.rows, sum);
            }
        }
        bytes += sum.bytes;
        needs.longest_row += sum.longest;
    }
    if (any) {
        u64 const average = rows == 0 ? 0 : bytes / rows;
        needs.bytes_per_row = u32(std::min<u64>(average + average / 4 + 1, u64{1} << 20));
    }
    return needs;
}

Morsels::Morsels(Table const& table) {
    for (RecordBatch const& batch : table.batches) {
        for (i64 first = 0; first < batch.rows; first += kRows) {
            morsels_.push_back({&batch, first, u32(std::min<i64>(kRows, batch.rows - first))});
        }
    }
}

bool Morsels::next(Morsel& morsel) {
    std::size_t const at = next_.fetch_add(1, std::memory_order_relaxed);
    if (at >= morsels_.size()) return false;
    morsel = morsels_[at];
    return true;
}

void check_keys(Input const& input, std::vector<u32> const& keys, Hash hash) {
    if (keys.empty()) refuse(input.what(), "no key columns");
    if (hash != Hash::Modulo) return;
    if (keys.size() != 1)
        refuse(input.what(), "Modulo takes one key, not " + std::to_string(keys.size()));
    Field const& field = input.schema()[keys[0]];
    if (!field.type.is_integer()) {
        refuse(input.what(),
               "Modulo takes an integer key; '" + field.name + "' is " + field.type.to_string());
    }
}

}  // namespace mgi::operators
