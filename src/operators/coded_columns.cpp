#include "operators/coded_columns.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <mgi/device/hash.hpp>

#include "core/arrow_distinct.hpp"
#include "core/arrow_field.hpp"
#include "core/arrow_room.hpp"
#include "core/arrow_take.hpp"
#include "core/arrow_values.hpp"
#include "core/parallel.hpp"
#include "core/views.hpp"
#include "operators/message.hpp"

namespace mgi::operators {

namespace {

// So many rows have one value, on average: else numbering values costs more than it saves.
constexpr u64 kRowsOfValue = 8;
// What processes tell each other of one column.
constexpr u64 kMostBytes = u64{16} << 20;

// What a batch's columns point into, beside its own memory.
struct Kept {
    std::shared_ptr<void const> original;
    arrow::Room room;
};

Schema with_fields(Schema const& like, std::vector<Field> fields) {
    Schema schema(std::move(fields));
    schema.set_metadata(like.metadata());
    return schema;
}

template <class Number>
void translate(Column const& column, i64 rows, std::vector<u32> const& numbers, u32* out) {
    Codes const& codes = *column.codes;
    auto const* const from =
        static_cast<Number const*>(codes.numbers) + codes.offset + column.offset;
    if (column.validity == nullptr) {
        for (i64 i = 0; i < rows; ++i) out[i] = numbers[std::size_t(from[i])];
        return;
    }
    for (i64 i = 0; i < rows; ++i) {
        bool const valid = device::bit_at(column.validity, u64(column.offset + i));
        out[i] = valid ? numbers[std::size_t(from[i])] : 0;
    }
}

// A column's numbers, by another dictionary.
Column numbers_of(Column const& column, i64 rows, std::vector<u32> const& numbers,
                  arrow::Room& room) {
    Column to;
    if (rows == 0) return to;
    // Validity bits keep their place in their byte, hence up to seven numbers in front.
    i64 const front = column.offset % 8;
    auto* const out = room.of<u32>(std::size_t(front + rows));
    std::fill(out, out + front, 0);
    switch (column.codes->width) {
        case 1: translate<std::uint8_t>(column, rows, numbers, out + front); break;
        case 2: translate<std::uint16_t>(column, rows, numbers, out + front); break;
        case 4: translate<std::uint32_t>(column, rows, numbers, out + front); break;
        default: translate<std::uint64_t>(column, rows, numbers, out + front); break;
    }
    to.values = out;
    to.offset = front;
    if (column.validity != nullptr) to.validity = column.validity + column.offset / 8;
    return to;
}

// Calls `work(batch)` for all of them, in threads.
template <class Work>
void each_batch(std::vector<Table>& tables, Work const& work) {
    std::vector<RecordBatch*> batches;
    for (Table& table : tables) {
        for (RecordBatch& batch : table.batches) batches.push_back(&batch);
    }
    in_parallel(batches.size(), all_threads(),
                [&](std::size_t b, std::size_t) { work(*batches[b]); });
}

}  // namespace

CodedColumns::CodedColumns(Conversation& talk, std::vector<Input const*> const& inputs,
                           std::vector<std::vector<InputColumn>> const& groups)
    : inputs_(inputs), parts_(inputs.size()) {
    for (std::vector<InputColumn> const& group : groups) {
        if (pays(group)) coded_.push_back({group});
    }
    if (coded_.empty()) return;
    MessageWriter mine;
    for (Coded& one : coded_) mine.text(number_own(one));
    std::vector<std::string> all{mine.take()};
    if (!talk.alone()) all = talk.gather(all.front());
    std::vector<MessageReader> from(all.begin(), all.end());
    for (Coded& one : coded_) {
        std::vector<std::string_view> said;
        for (MessageReader& reader : from) said.push_back(reader.text());
        number_all(one, said, talk.alone() ? 0 : talk.processes().me());
    }
    for (u32 i = 0; i < inputs_.size(); ++i) encode(i);
}

bool CodedColumns::pays(std::vector<InputColumn> const& group) const {
    u64 rows = 0;
    u64 values = 0;
    u64 bytes = 0;
    for (InputColumn const& one : group) {
        DictionarySum const sum = inputs_[one.input]->dictionaries(one.column);
        if (!sum.all_rows || coded(one) != nullptr) return false;
        rows += inputs_[one.input]->rows();
        values += sum.values;
        bytes += sum.bytes;
    }
    return values != 0 && values <= std::min(rows / kRowsOfValue, u64(INT32_MAX)) &&
           (inputs_[0]->of_one_process() || bytes <= kMostBytes);
}

Field const& CodedColumns::field(InputColumn const& of) const {
    return inputs_[of.input]->schema()[of.column];
}

CodedColumns::Coded const* CodedColumns::coded(InputColumn const& of) const {
    for (Coded const& one : coded_) {
        for (InputColumn const& column : one.columns) {
            if (column == of) return &one;
        }
    }
    return nullptr;
}

std::string CodedColumns::number_own(Coded& coded) const {
    arrow::Distinct own;
    for (InputColumn const& of : coded.columns) {
        // Results begin with the values that the type names, in their order.
        auto const& arrow = field(of).type.arrow;
        if (arrow != nullptr && arrow->categories != nullptr) {
            for (std::string const& value : *arrow->categories) (void)own.find(value);
        }
        Input const& input = *inputs_[of.input];
        for (std::size_t p = 0; p < input.parts(); ++p) {
            for (RecordBatch const& batch : input.part(p).batches) {
                if (batch.rows == 0) continue;
                RecordBatch const& dictionary = *batch.columns[of.column].codes->values;
                auto const [at, added] = coded.numbers.try_emplace(&dictionary);
                if (!added) continue;
                arrow::Values const values(dictionary, 0);
                for (i64 i = 0; i < dictionary.rows; ++i) {
                    at->second.push_back(own.find(values.at(i)).first);
                }
            }
        }
    }
    MessageWriter words;
    words.number(own.values().size());
    for (std::string_view const value : own.values()) words.text(value);
    return words.take();
}

void CodedColumns::number_all(Coded& coded, std::vector<std::string_view> const& said,
                              std::size_t me) const {
    arrow::Distinct all;
    Numbers mine;
    for (std::size_t p = 0; p < said.size(); ++p) {
        MessageReader from(said[p]);
        for (u64 left = from.number(u64(INT32_MAX)); left != 0; --left) {
            u32 const number = all.find(from.text()).first;
            if (p == me) mine.push_back(number);
        }
    }
    for (auto& [dictionary, numbers] : coded.numbers) {
        for (u32& number : numbers) number = mine[number];
    }
    Field values_field = field(coded.columns[0]);
    values_field.type.arrow = nullptr;
    values_field.nullable = false;
    auto const kept = std::make_shared<Kept>();
    RecordBatch values;
    values.schema = Schema({values_field});
    values.rows = i64(all.values().size());
    values.columns.push_back(arrow::column_of(all.values(), values_field.type, kept->room));
    values.owner = kept;
    coded.values = std::make_shared<RecordBatch const>(arrow::with_views(values, {0}));
}

void CodedColumns::encode(u32 input) {
    std::vector<Table>& parts = parts_[input];
    for (std::size_t p = 0; p < inputs_[input]->parts(); ++p) {
        parts.push_back(inputs_[input]->part(p));
        if (!parts[p].schema.empty()) parts[p].schema = with_numbers(input, parts[p].schema);
    }
    each_batch(parts, [&](RecordBatch& batch) { encode(input, batch); });
}

void CodedColumns::encode(u32 input, RecordBatch& batch) const {
    auto const kept = std::make_shared<Kept>();
    for (u32 c = 0; c < batch.columns.size(); ++c) {
        Coded const* const one = coded({input, c});
        if (one == nullptr) continue;
        Column& column = batch.columns[c];
        if (batch.rows == 0) {
            column = {};
        } else {
            Numbers const& numbers = one->numbers.at(column.codes->values.get());
            column = numbers_of(column, batch.rows, numbers, kept->room);
        }
    }
    batch.schema = with_numbers(input, batch.schema);
    kept->original = std::move(batch.owner);
    batch.owner = kept;
}

Schema CodedColumns::with_numbers(u32 input, Schema const& schema) const {
    std::vector<Field> fields = schema.fields();
    for (u32 c = 0; c < fields.size(); ++c) {
        if (coded({input, c}) != nullptr) fields[c].type = int32();
    }
    return with_fields(schema, std::move(fields));
}

void CodedColumns::add_owners(InputColumn const& text, std::string const& name, u32 endpoints) {
    auto const owner_of = [&](u64 hash) { return device::destination_of_hash(hash, endpoints); };
    RecordBatch const& dictionary = *coded(text)->values;
    arrow::Values const values(dictionary, 0);
    std::vector<u32> owners;
    for (i64 i = 0; i < dictionary.rows; ++i) {
        std::string_view const value = values.at(i);
        owners.push_back(owner_of(device::murmur3_bytes(value.data(), u32(value.size()))));
    }
    u32 const of_null = owner_of(device::kNullHash);
    auto const with_owners = [&](Schema const& schema) {
        std::vector<Field> fields = schema.fields();
        fields.push_back({name, int32(), false});
        return with_fields(schema, std::move(fields));
    };
    for (Table& part : parts_[text.input]) {
        if (!part.schema.empty()) part.schema = with_owners(part.schema);
    }
    each_batch(parts_[text.input], [&](RecordBatch& batch) {
        ColumnView const numbers = view_of(batch.columns[text.column], 0);
        auto const kept = std::make_shared<Kept>();
        auto* const out = kept->room.of<u32>(std::size_t(batch.rows));
        for (u64 i = 0; i < u64(batch.rows); ++i) {
            out[i] = valid_at(numbers, i) ? owners[values_of<u32>(numbers)[i]] : of_null;
        }
        Column column;
        column.values = out;
        batch.columns.push_back(std::move(column));
        batch.schema = with_owners(batch.schema);
        kept->original = std::move(batch.owner);
        batch.owner = kept;
    });
}

void CodedColumns::restore(std::vector<Table>& results,
                           std::vector<InputColumn> const& from) const {
    for (Table& result : results) result.schema = with_values(result.schema, from);
    each_batch(results, [&](RecordBatch& batch) { restore(batch, from); });
}

void CodedColumns::restore(RecordBatch& batch, std::vector<InputColumn> const& from) const {
    auto const kept = std::make_shared<Kept>();
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        Coded const* const one = coded(from[c]);
        if (one == nullptr) continue;
        Column& column = batch.columns[c];
        arrow::RowNumbers const numbers{column.values, sizeof(u32), batch.rows, column.offset,
                                        column.validity};
        Column values =
            arrow::take(one->values->columns[0], field(from[c]).type, numbers, kept->room);
        values.codes = std::make_shared<Codes const>(
            Codes{column.values, sizeof(u32), column.offset, one->values});
        kept->room.keep(one->values);
        column = std::move(values);
    }
    batch.schema = with_values(batch.schema, from);
    kept->original = std::move(batch.owner);
    batch.owner = kept;
}

Schema CodedColumns::with_values(Schema const& schema,
                                 std::vector<InputColumn> const& from) const {
    std::vector<Field> fields = schema.fields();
    for (std::size_t c = 0; c < fields.size(); ++c) {
        if (coded(from[c]) != nullptr) fields[c].type = field(from[c]).type;
    }
    return with_fields(schema, std::move(fields));
}

std::vector<InputColumn> all_columns(Input const& input) {
    std::vector<InputColumn> all;
    for (u32 c = 0; c < input.schema().size(); ++c) all.push_back({0, c});
    return all;
}

std::vector<std::vector<InputColumn>> other_columns(Input const& input,
                                                    std::vector<u32> const& some) {
    std::vector<std::vector<InputColumn>> others;
    for (InputColumn const& one : all_columns(input)) {
        if (std::find(some.begin(), some.end(), one.column) == some.end()) others.push_back({one});
    }
    return others;
}

}  // namespace mgi::operators
