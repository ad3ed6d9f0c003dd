#include "operators/coded_columns.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <mgi/device/hash.hpp>

#include "core/arrow_distinct.hpp"
#include "core/arrow_field.hpp"
#include "core/arrow_room.hpp"
#include "core/arrow_take.hpp"
#include "core/arrow_values.hpp"
#include "core/batch_input.hpp"
#include "core/key_kind.hpp"
#include "core/parallel.hpp"
#include "core/views.hpp"
#include "operators/message.hpp"

namespace mgi::operators {

namespace {

// So many rows have one value, on average: else numbering values costs more than it saves.
constexpr u64 kRowsOfValue = 8;
// What a process tells the others of all columns together, on average.
constexpr u64 kMostBytes = u64{1} << 20;

Schema with_fields(Schema const& like, std::vector<Field> fields) {
    Schema schema(std::move(fields));
    schema.set_metadata(like.metadata());
    return schema;
}

// A column of a batch that becomes numbers in another dictionary.
struct Encoding {
    Column from;
    std::vector<u32> const* numbers;
    u32* to;
};

template <class Number>
void translate(Encoding const& one, i64 first, i64 rows) {
    Column const& from = one.from;
    auto const* const numbers =
        static_cast<Number const*>(from.codes->numbers) + from.codes->offset + from.offset;
    for (i64 i = first; i < first + rows; ++i) {
        bool const valid =
            from.validity == nullptr || device::bit_at(from.validity, u64(from.offset + i));
        one.to[i] = valid ? (*one.numbers)[std::size_t(numbers[i])] : 0;
    }
}

void translate(Encoding const& one, i64 first, i64 rows) {
    switch (one.from.codes->width) {
        case 1: return translate<std::uint8_t>(one, first, rows);
        case 2: return translate<std::uint16_t>(one, first, rows);
        case 4: return translate<std::uint32_t>(one, first, rows);
        default: return translate<std::uint64_t>(one, first, rows);
    }
}

// What a channel hashes of one key; of a coded one by its numbers.
class KeyHash {
public:
    // `values`: what numbers stand for; null where there are none.
    KeyHash(Schema const& schema, u32 column, std::shared_ptr<RecordBatch const> const& values)
        : column_(column), coded_(values != nullptr) {
        layout_.key = key_kind(schema[column].type);
        layout_.width = schema[column].type.row_width();
        if (!coded_) return;
        arrow::Values const texts(*values, 0);
        for (i64 i = 0; i < values->rows; ++i) {
            std::string_view const value = texts.at(i);
            of_numbers_.push_back(device::murmur3_bytes(value.data(), u32(value.size())));
        }
    }

    // Joins those of rows [begin, begin + count) to the ones of keys before.
    void add(device::Batch const& rows, u64 begin, bool first, u64* to, u64 count) const {
        ColumnView const& view = rows.columns[column_];
        for (u64 i = 0; i < count; ++i) {
            u64 const row = begin + i;
            u64 const hash = !coded_               ? device::hash_value(rows, layout_, column_, row)
                             : valid_at(view, row) ? of_numbers_[values_of<u32>(view)[row]]
                                                   : device::kNullHash;
            to[i] = first ? hash : device::hash_combine(to[i], hash);
        }
    }

private:
    u32 const column_;
    bool const coded_;
    device::ColumnLayout layout_;
    std::vector<u64> of_numbers_;
};

std::vector<RecordBatch*> batches_of(std::vector<Table>& tables) {
    std::vector<RecordBatch*> batches;
    for (Table& table : tables) {
        for (RecordBatch& batch : table.batches) batches.push_back(&batch);
    }
    return batches;
}

// Calls `work(b, first, rows)` for blocks of rows of all batches, in threads.
template <class Work>
void each_block(std::vector<RecordBatch*> const& batches, Work const& work) {
    constexpr i64 kRows = 1 << 15;
    struct Block {
        std::size_t batch;
        i64 first;
    };
    std::vector<Block> blocks;
    for (std::size_t b = 0; b < batches.size(); ++b) {
        for (i64 first = 0; first < batches[b]->rows; first += kRows) blocks.push_back({b, first});
    }
    in_parallel(blocks.size(), all_threads(), [&](std::size_t i, std::size_t) {
        Block const& block = blocks[i];
        work(block.batch, block.first, std::min(kRows, batches[block.batch]->rows - block.first));
    });
}

}  // namespace

CodedColumns::CodedColumns(Conversation& talk, Runtime const& runtime,
                           OperatorOptions const& options, std::vector<Input const*> const& inputs,
                           std::vector<std::vector<InputColumn>> const& groups)
    : talk_(talk),
      inputs_(inputs),
      memory_(talk.what() + "'s numbers and views of values of dictionaries",
              options.receive_limit != 0 ? options.receive_limit : runtime.memory_left()),
      parts_(inputs.size()) {
    for (Input const* const input : inputs) {
        places_.emplace_back(input->schema().size(), InputColumn::kNone);
    }
    choose(groups);
    if (coded_.empty()) return;
    MessageWriter mine;
    for (Coded& one : coded_) mine.text(number_own(one));
    std::vector<std::string> const all = talk.gather(mine.take());
    std::vector<MessageReader> from(all.begin(), all.end());
    for (Coded& one : coded_) {
        std::vector<std::string> said;
        for (MessageReader& reader : from) said.emplace_back(reader.text());
        number_all(one, said);
    }
    for (u32 i = 0; i < inputs_.size(); ++i) encode(i);
}

// By what all processes know, so that all choose alike.
void CodedColumns::choose(std::vector<std::vector<InputColumn>> const& groups) {
    u64 said = 0;
    for (std::vector<InputColumn> const& group : groups) {
        u64 rows = 0;
        DictionarySum sum{true};
        for (InputColumn const& one : group) {
            DictionarySum const more = inputs_[one.input]->dictionaries(one.column);
            sum.all_rows = sum.all_rows && more.all_rows;
            sum.values += more.values;
            sum.bytes += more.bytes;
            rows += inputs_[one.input]->rows();
        }
        u64 const most = std::min(rows / kRowsOfValue, u64(INT32_MAX));
        if (!sum.all_rows || sum.values == 0 || sum.values > most) continue;
        // Each value behind its length.
        u64 const bytes = sum.bytes + sizeof(u64) * sum.values;
        if (!talk_.alone() && said + bytes > kMostBytes * talk_.processes().count()) continue;
        said += bytes;
        for (InputColumn const& one : group) places_[one.input][one.column] = u32(coded_.size());
        coded_.push_back({group});
    }
}

Field const& CodedColumns::field(InputColumn const& of) const {
    return inputs_[of.input]->schema()[of.column];
}

CodedColumns::Coded const* CodedColumns::coded(InputColumn const& of) const {
    if (of.column == InputColumn::kNone) return nullptr;
    u32 const place = places_[of.input][of.column];
    return place == InputColumn::kNone ? nullptr : &coded_[place];
}

bool CodedColumns::has_any(u32 input, std::vector<u32> const& columns) const {
    return std::any_of(columns.begin(), columns.end(),
                       [&](u32 column) { return coded({input, column}) != nullptr; });
}

std::string CodedColumns::number_own(Coded& coded) const {
    arrow::Distinct own;
    for (InputColumn const& of : coded.columns) {
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

void CodedColumns::number_all(Coded& coded, std::vector<std::string> const& said) const {
    arrow::Distinct all;
    // Results begin with the values that the types name, in their order; the types are the same everywhere.
    for (InputColumn const& of : coded.columns) {
        auto const& arrow = field(of).type.arrow;
        if (arrow == nullptr || arrow->categories == nullptr) continue;
        for (std::string const& value : *arrow->categories) (void)all.find(value);
    }
    std::size_t const me = talk_.alone() ? 0 : talk_.processes().me();
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
    Field of_values = field(coded.columns[0]);
    of_values.type.arrow = nullptr;
    of_values.nullable = false;
    auto const room = std::make_shared<arrow::Room>();
    RecordBatch values;
    values.schema = Schema({of_values});
    values.rows = i64(all.values().size());
    values.columns.push_back(arrow::column_of(all.values(), of_values.type, *room));
    values.owner = room;
    coded.values = std::make_shared<RecordBatch const>(arrow::with_views(values, {0}));
}

void CodedColumns::encode(u32 input) {
    std::vector<Table>& parts = parts_[input];
    std::vector<Field> fields = inputs_[input]->schema().fields();
    u64 columns = 0;
    for (u32 c = 0; c < fields.size(); ++c) {
        if (coded({input, c}) == nullptr) continue;
        fields[c].type = int32();
        ++columns;
    }
    schemas_.push_back(with_fields(inputs_[input]->schema(), std::move(fields)));
    for (std::size_t p = 0; p < inputs_[input]->parts(); ++p) {
        parts.push_back(inputs_[input]->part(p));
        if (!parts[p].schema.empty()) parts[p].schema = schemas_[input];
        memory_.take(u64(parts[p].rows()) * columns * sizeof(u32));
    }
    std::vector<RecordBatch*> const batches = batches_of(parts);
    std::vector<std::vector<Encoding>> all(batches.size());
    for (std::size_t b = 0; b < batches.size(); ++b) {
        RecordBatch& batch = *batches[b];
        batch.schema = schemas_[input];
        auto const room = arrow::room_in(batch);
        for (u32 c = 0; c < batch.columns.size(); ++c) {
            Coded const* const one = coded({input, c});
            if (one == nullptr) continue;
            Column const from = std::exchange(batch.columns[c], {});
            if (batch.rows == 0) continue;
            // Validity bits keep their place in their byte, hence up to seven numbers in front.
            i64 const front = from.offset % 8;
            auto* const out = room->of<u32>(std::size_t(front + batch.rows));
            std::fill(out, out + front, 0);
            Column& to = batch.columns[c];
            to.values = out;
            to.offset = front;
            if (from.validity != nullptr) to.validity = from.validity + from.offset / 8;
            all[b].push_back({from, &one->numbers.at(from.codes->values.get()), out + front});
        }
    }
    each_block(batches, [&](std::size_t b, i64 first, i64 rows) {
        for (Encoding const& one : all[b]) translate(one, first, rows);
    });
}

void CodedColumns::add_owners(u32 input, std::vector<u32> const& keys, std::string const& name,
                              u32 endpoints) {
    std::vector<KeyHash> hashes;
    for (u32 const key : keys) {
        Coded const* const one = coded({input, key});
        hashes.emplace_back(schemas_[input], key, one != nullptr ? one->values : nullptr);
    }
    std::vector<Field> fields = schemas_[input].fields();
    fields.push_back({name, int32(), false});
    schemas_[input] = with_fields(schemas_[input], std::move(fields));
    for (Table& part : parts_[input]) {
        if (!part.schema.empty()) part.schema = schemas_[input];
        memory_.take(u64(part.rows()) * sizeof(u32));
    }
    std::vector<RecordBatch*> const batches = batches_of(parts_[input]);
    std::vector<u32*> owners;
    for (RecordBatch* const batch : batches) {
        owners.push_back(arrow::room_in(*batch)->of<u32>(std::size_t(batch->rows)));
        batch->schema = schemas_[input];
        batch->columns.emplace_back();
        batch->columns.back().values = owners.back();
    }
    each_block(batches, [&](std::size_t b, i64 first, i64 rows) {
        constexpr i64 kTogether = 1 << 10;
        std::array<u64, kTogether> all{};
        BatchInput const here(*batches[b], 0);
        for (i64 at = first; at < first + rows; at += kTogether) {
            auto const count = u64(std::min(kTogether, first + rows - at));
            for (std::size_t k = 0; k < hashes.size(); ++k) {
                hashes[k].add(here.get(), u64(at), k == 0, all.data(), count);
            }
            for (u64 i = 0; i < count; ++i) {
                owners[b][u64(at) + i] = device::destination_of_hash(all[i], endpoints);
            }
        }
    });
}

void CodedColumns::restore(std::vector<Table>& results, std::vector<InputColumn> const& from) {
    std::exception_ptr failure;
    try {
        std::vector<Field> fields = results[0].schema.fields();
        u64 columns = 0;
        for (std::size_t c = 0; c < fields.size(); ++c) {
            if (coded(from[c]) == nullptr) continue;
            fields[c].type = field(from[c]).type;
            ++columns;
        }
        Schema const schema = with_fields(results[0].schema, std::move(fields));
        for (Table& result : results) {
            result.schema = schema;
            memory_.take(u64(result.rows()) * columns * sizeof(device::StringView16));
        }
        std::vector<RecordBatch*> const batches = batches_of(results);
        in_parallel(batches.size(), all_threads(), [&](std::size_t b, std::size_t) {
            restore(*batches[b], from);
            batches[b]->schema = schema;
        });
    } catch (...) {
        failure = std::current_exception();
    }
    talk_.end({failure}, {});
}

void CodedColumns::restore(RecordBatch& batch, std::vector<InputColumn> const& from) const {
    auto const room = arrow::room_in(batch);
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
        Coded const* const one = coded(from[c]);
        if (one == nullptr) continue;
        Column& column = batch.columns[c];
        arrow::RowNumbers const numbers{column.values, sizeof(u32), batch.rows, column.offset,
                                        column.validity};
        Column values = arrow::take(one->values->columns[0], field(from[c]).type, numbers, *room);
        values.codes = std::make_shared<Codes const>(
            Codes{column.values, sizeof(u32), column.offset, one->values});
        room->keep(one->values);
        column = std::move(values);
    }
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

std::string free_name(std::string name, std::vector<Input const*> const& inputs,
                      std::vector<std::string> const& of_result) {
    auto const taken = [&] {
        return std::find(of_result.begin(), of_result.end(), name) != of_result.end() ||
               std::any_of(inputs.begin(), inputs.end(), [&](Input const* const input) {
                   return has_name(input->schema(), name);
               });
    };
    while (taken()) name += '\'';
    return name;
}

void drop_column(std::vector<Table>& tables, std::size_t column) {
    auto const drop_from = [&](Schema& schema) {
        std::vector<Field> fields = schema.fields();
        fields.erase(fields.begin() + std::ptrdiff_t(column));
        schema = with_fields(schema, std::move(fields));
    };
    for (Table& table : tables) {
        drop_from(table.schema);
        for (RecordBatch& batch : table.batches) {
            drop_from(batch.schema);
            batch.columns.erase(batch.columns.begin() + std::ptrdiff_t(column));
        }
    }
}

}  // namespace mgi::operators
