#include "operators/input.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "core/arrow_room.hpp"
#include "operators/schema_message.hpp"

namespace mgi::operators {

namespace {

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

void TextSum::add(u64 size) {
    u64 const counted = size > device::StringView16::kInline ? size : 0;
    bytes += counted;
    longest = std::max(longest, counted);
}

Input::Input(std::string what, std::vector<Endpoint> const& endpoints,
             std::vector<Table> const& parts, Conversation& talk,
             std::vector<std::string> const& used)
    : InputColumns(std::move(what)), given_(parts) {
    read_parts(endpoints, talk);
    if (!talk.alone()) hear(talk.gather(describe(used)), talk);
    // Whoever says that there are no nulls and has some is believed in the latter.
    finish([this](u32 c) { return has_nulls(c); });
    fill_nulls();
}

void Input::take_type(u32 column, Type const& type) {
    std::vector<Field> fields = schema_.fields();
    fields[column].type = type;
    set_fields(std::move(fields));
    fill_nulls();
}

namespace {

// Whether a batch's column is of type null, and the input's is not.
bool wants_type(RecordBatch const& batch, Schema const& schema, u32 column) {
    return is_null_type(batch.schema[column].type) && !is_null_type(schema[column].type);
}
bool wants_types(RecordBatch const& batch, Schema const& schema) {
    for (u32 c = 0; c < batch.schema.size(); ++c) {
        if (wants_type(batch, schema, c)) return true;
    }
    return false;
}

// Such columns' rows as nulls of the input's type.
void take_types(RecordBatch& batch, Schema const& schema) {
    std::vector<Field> fields = batch.schema.fields();
    std::size_t widest = 16;
    for (u32 c = 0; c < fields.size(); ++c) {
        if (wants_type(batch, schema, c)) fields[c].type = schema[c].type;
        widest = std::max<std::size_t>(widest, fields[c].type.row_width());
    }
    // Zeros are no value by their validity, and nothing to read beneath: no offset, no character.
    std::size_t const bytes = widest * std::size_t(std::max<i64>(batch.rows, 1));
    u8 const* const zeros = arrow::room_in(batch)->bits(8 * bytes);
    for (u32 c = 0; c < fields.size(); ++c) {
        if (!wants_type(batch, schema, c)) continue;
        Column nulls;
        nulls.encoding = fields[c].type.is_variable() ? Encoding::Views : Encoding::Plain;
        nulls.values = zeros;
        nulls.validity = zeros;
        batch.columns[c] = std::move(nulls);
    }
    batch.schema = Schema(std::move(fields));
}

}  // namespace

// Where a part's column is of type null and others' are not, its rows are nulls of the others' type.
void Input::fill_nulls() {
    bool const any = std::any_of(tables().begin(), tables().end(), [this](Table const& part) {
        return std::any_of(
            part.batches.begin(), part.batches.end(),
            [this](RecordBatch const& batch) { return wants_types(batch, schema_); });
    });
    if (!any) return;
    if (filled_.empty()) filled_ = given_;
    for (Table& part : filled_) {
        for (RecordBatch& batch : part.batches) {
            if (wants_types(batch, schema_)) take_types(batch, schema_);
        }
    }
}

void Input::read_parts(std::vector<Endpoint> const& endpoints, Conversation const& talk) {
    if (endpoints.empty()) refuse(what_, "no endpoints; create one with create_endpoint");
    check_parts(given_.size(), endpoints.size());
    for (std::size_t p = 0; p < given_.size(); ++p) {
        std::string const where = "part " + std::to_string(p);
        if (!talk.processes().mine(endpoints[p])) {
            if (given_[p].rows() == 0) continue;
            refuse(what_, where + " has " + std::to_string(given_[p].rows()) +
                              " rows, but endpoint " + std::to_string(endpoints[p].id) +
                              " is another process'; rows go in where their endpoint is");
        }
        // A part that says nothing about its columns and has no rows is an empty one.
        if (!given_[p].schema.empty()) join_in(given_[p].schema, where, true);
        for (std::size_t b = 0; b < given_[p].batches.size(); ++b) {
            RecordBatch const& batch = given_[p].batches[b];
            join_in(batch.schema, where + ", batch " + std::to_string(b), true);
            if (batch.columns.size() != schema_.size()) {
                refuse(what_, where + ", batch " + std::to_string(b) + " has " +
                                  std::to_string(batch.columns.size()) + " columns in place of " +
                                  std::to_string(schema_.size()));
            }
        }
        rows_ += u64(given_[p].rows());
    }
}

bool Input::has_nulls(u32 column) const {
    if (!facts_.empty()) return facts_[column].has_nulls;
    for (Table const& part : tables()) {
        for (RecordBatch const& batch : part.batches) {
            if (batch.rows == 0) continue;
            Column const& one = batch.columns[column];
            if (one.validity != nullptr && any_unset(one.validity, one.offset, batch.rows)) {
                return true;
            }
        }
    }
    return false;
}

TextSum Input::texts(u32 column) const {
    if (!facts_.empty()) return facts_[column].texts;
    TextSum sum;
    for (Table const& part : tables()) {
        for (RecordBatch const& batch : part.batches) {
            if (batch.rows != 0) add_texts(batch.columns[column], batch.rows, sum);
        }
    }
    return sum;
}

DictionarySum Input::dictionaries(u32 column) const {
    if (!facts_.empty()) return facts_[column].dictionaries;
    // More values save nobody anything, other than beside many rows of others.
    u64 const most = std::max<u64>(rows_, u64{1} << 16);
    DictionarySum sum{true};
    std::set<RecordBatch const*> seen;
    for (Table const& part : tables()) {
        for (RecordBatch const& batch : part.batches) {
            if (batch.rows == 0) continue;
            Codes const* const codes = batch.columns[column].codes.get();
            if (codes == nullptr) return {};
            if (!seen.insert(codes->values.get()).second) continue;
            sum.values += u64(codes->values->rows);
            if (sum.values > most) return {};
            sum.bytes += u64(codes->values->bytes());
        }
    }
    return sum;
}

// Columns of this process' parts, if they say any, and what the others must know of them.
std::string Input::describe(std::vector<std::string> const& used) const {
    MessageWriter facts;
    facts.number(rows_);
    say_schema(facts, schema_);
    for (u32 c = 0; c < schema_.size(); ++c) {
        Field const& field = schema_[c];
        facts.number(has_nulls(c) ? 1 : 0);
        bool const asked =
            used.empty() || std::find(used.begin(), used.end(), field.name) != used.end();
        TextSum const sum = asked && field.type.is_variable() ? texts(c) : TextSum{};
        facts.number(sum.bytes).number(sum.longest);
        DictionarySum const known = asked ? dictionaries(c) : DictionarySum{};
        facts.number(known.all_rows ? 1 : 0).number(known.values).number(known.bytes);
    }
    return facts.take();
}

// Takes in what all processes say, this one too, in the same order everywhere.
void Input::hear(std::vector<std::string> const& all, Conversation const& talk) {
    schema_ = Schema();
    rows_ = 0;
    std::vector<Facts> heard;
    for (std::size_t p = 0; p < all.size(); ++p) {
        MessageReader from(all[p]);
        rows_ += from.number();
        Schema const schema = hear_schema(from);
        if (heard.empty()) heard.resize(schema.size());
        for (std::size_t c = 0; c < schema.size(); ++c) {
            Facts facts;
            facts.has_nulls = from.number(1) == 1;
            facts.texts.bytes = from.number();
            facts.texts.longest = from.number();
            facts.dictionaries.all_rows = from.number(1) == 1;
            facts.dictionaries.values = from.number();
            facts.dictionaries.bytes = from.number();
            // Other columns than those before are refused below.
            if (c >= heard.size()) continue;
            heard[c].has_nulls = heard[c].has_nulls || facts.has_nulls;
            heard[c].texts.bytes += facts.texts.bytes;
            heard[c].texts.longest = std::max(heard[c].texts.longest, facts.texts.longest);
            heard[c].dictionaries.all_rows &= facts.dictionaries.all_rows;
            heard[c].dictionaries.values += facts.dictionaries.values;
            heard[c].dictionaries.bytes += facts.dictionaries.bytes;
        }
        if (!schema.empty()) join_in(schema, talk.processes().name(p), true);
    }
    facts_ = std::move(heard);
}

TextNeeds measure_texts(Input const& input, std::vector<u32> const& columns) {
    u64 bytes = 0;
    u64 longest_row = 0;
    for (u32 const c : columns) {
        if (!input.schema()[c].type.is_variable()) continue;
        TextSum const sum = input.texts(c);
        bytes += sum.bytes;
        longest_row += sum.longest;
    }
    return TextNeeds::of(bytes, input.rows(), longest_row);
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

}  // namespace mgi::operators
