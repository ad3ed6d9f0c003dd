#include "support/tables.hpp"

#include <cmath>
#include <limits>
#include <memory>

namespace mgi::test {

namespace {

/// What a batch's columns point to.
struct Memory {
    std::vector<std::vector<std::byte>> blocks;
    std::byte* add(std::size_t size) {
        // Exactly as large as needed, so that a read past it is found.
        return blocks.emplace_back(size).data();
    }
};

std::uint8_t* set_bits(Memory& memory, std::vector<bool> const& bits) {
    auto* const to = reinterpret_cast<std::uint8_t*>(memory.add((bits.size() + 7) / 8));
    for (std::size_t i = 0; i < bits.size(); ++i) {
        if (bits[i]) to[i / 8] = static_cast<std::uint8_t>(to[i / 8] | 1U << (i % 8));
    }
    return to;
}

template <class Offset>
void lay_offsets(Memory& memory, std::vector<std::string> const& texts, Column& column) {
    std::string all;
    auto* const offsets =
        reinterpret_cast<Offset*>(memory.add((texts.size() + 1) * sizeof(Offset)));
    for (std::size_t i = 0; i < texts.size(); ++i) {
        offsets[i] = static_cast<Offset>(all.size());
        all += texts[i];
    }
    offsets[texts.size()] = static_cast<Offset>(all.size());
    std::byte* const bytes = memory.add(all.size());
    if (!all.empty()) std::memcpy(bytes, all.data(), all.size());
    column.encoding = sizeof(Offset) == 4 ? Encoding::Offsets32 : Encoding::Offsets64;
    column.values = offsets;
    column.bytes = bytes;
}

/// Views into two data buffers by turns.
void lay_views(Memory& memory, std::vector<std::string> const& texts, Column& column) {
    std::string all[2];
    auto* const views = reinterpret_cast<device::StringView16*>(
        memory.add(texts.size() * sizeof(device::StringView16)));
    for (std::size_t i = 0; i < texts.size(); ++i) {
        std::string const& text = texts[i];
        device::StringView16 view;
        view.length = static_cast<std::uint32_t>(text.size());
        if (text.size() <= device::StringView16::kInline) {
            if (!text.empty()) std::memcpy(view.text, text.data(), text.size());
        } else {
            std::memcpy(view.ref.prefix, text.data(), 4);
            view.ref.buffer = static_cast<std::uint32_t>(i % 2);
            view.ref.offset = static_cast<std::uint32_t>(all[i % 2].size());
            all[i % 2] += text;
        }
        std::memcpy(static_cast<void*>(&views[i]), &view, sizeof(view));
    }
    column.encoding = Encoding::Views;
    column.values = views;
    for (std::string const& part : all) {
        std::byte* const bytes = memory.add(part.size());
        if (!part.empty()) std::memcpy(bytes, part.data(), part.size());
        column.buffers.push_back(bytes);
        column.buffer_sizes.push_back(static_cast<std::int64_t>(part.size()));
    }
}

RecordBatch build(Schema const& schema, std::vector<Row> const& rows, Random* random) {
    auto const memory = std::make_shared<Memory>();
    RecordBatch batch;
    batch.schema = schema;
    batch.rows = static_cast<std::int64_t>(rows.size());
    for (std::size_t c = 0; c < schema.size(); ++c) {
        Type const& type = schema[c].type;
        std::size_t const skip = random == nullptr ? 0 : random->below(70);
        Column column;
        column.offset = static_cast<std::int64_t>(skip);
        std::vector<bool> valid(skip, false);
        bool all_valid = true;
        for (Row const& row : rows) {
            valid.push_back(row[c].has_value());
            all_valid = all_valid && row[c].has_value();
        }
        if (!all_valid || (random != nullptr && random->one_in(2))) {
            column.validity = set_bits(*memory, valid);
        }
        if (type.is_variable()) {
            std::vector<std::string> texts(skip, "before the first row of this batch");
            // What lies behind a null must not matter.
            for (Row const& row : rows) texts.push_back(row[c].value_or("behind a null value"));
            std::uint64_t const form = random == nullptr ? 0 : random->below(3);
            if (form == 0) lay_offsets<std::int32_t>(*memory, texts, column);
            if (form == 1) lay_offsets<std::int64_t>(*memory, texts, column);
            if (form == 2) lay_views(*memory, texts, column);
        } else if (type.id == TypeId::Bool) {
            std::vector<bool> bits(skip, true);
            for (Row const& row : rows) bits.push_back(row[c] && (*row[c])[0] != 0);
            column.values = set_bits(*memory, bits);
        } else {
            std::size_t const width = type.row_width();
            std::byte* const to = memory->add((skip + rows.size()) * width);
            for (std::size_t r = 0; r < rows.size(); ++r) {
                if (rows[r][c]) std::memcpy(to + (skip + r) * width, rows[r][c]->data(), width);
            }
            column.values = to;
        }
        batch.columns.push_back(std::move(column));
    }
    batch.owner = memory;
    return batch;
}

template <class T>
Cell random_integer(Random& random) {
    switch (random.below(4)) {
        case 0: return cell(static_cast<T>(random.next()));
        case 1: return cell(std::numeric_limits<T>::min());
        case 2: return cell(std::numeric_limits<T>::max());
        default: return cell(static_cast<T>(random.below(100)));
    }
}

template <class T>
Cell random_float(Random& random) {
    switch (random.below(6)) {
        case 0: return cell(std::numeric_limits<T>::quiet_NaN());
        case 1: return cell(static_cast<T>(-0.0));
        case 2: return cell(std::numeric_limits<T>::infinity());
        default: return cell(static_cast<T>(random.real() * 1000));
    }
}

std::string random_text(Random& random, std::uint64_t size) {
    std::string text(size, ' ');
    for (char& letter : text) letter = static_cast<char>('a' + random.below(26));
    return text;
}

}  // namespace

Schema random_schema(Random& random, std::size_t most, bool plain) {
    std::vector<Type> const types{int8(),
                                  int16(),
                                  int32(),
                                  int64(),
                                  uint8(),
                                  uint16(),
                                  uint32(),
                                  uint64(),
                                  float32(),
                                  float64(),
                                  date32(),
                                  decimal128(static_cast<int>(random.between(1, 38)), 0),
                                  fixed_size_binary(static_cast<int>(random.between(1, 40))),
                                  fixed_size_binary(32),
                                  boolean(),
                                  string(),
                                  binary()};
    std::size_t const kinds = plain ? types.size() - 3 : types.size();
    std::vector<Field> fields;
    std::size_t const count = 1 + random.below(most);
    for (std::size_t c = 0; c < count; ++c) {
        Type const& type = types[random.below(kinds)];
        fields.push_back({"c" + std::to_string(c), type, !plain && random.one_in(2)});
    }
    return Schema(fields);
}

Cell random_cell(Field const& field, Random& random, DataShape const& shape) {
    if (field.nullable && shape.nulls != 0 && random.one_in(shape.nulls)) return std::nullopt;
    switch (field.type.id) {
        case TypeId::Bool: return cell(static_cast<std::uint8_t>(random.below(2)));
        case TypeId::Int8: return random_integer<std::int8_t>(random);
        case TypeId::Int16: return random_integer<std::int16_t>(random);
        case TypeId::Int32:
        case TypeId::Date32: return random_integer<std::int32_t>(random);
        case TypeId::Int64: return random_integer<std::int64_t>(random);
        case TypeId::UInt8: return random_integer<std::uint8_t>(random);
        case TypeId::UInt16: return random_integer<std::uint16_t>(random);
        case TypeId::UInt32: return random_integer<std::uint32_t>(random);
        case TypeId::UInt64: return random_integer<std::uint64_t>(random);
        case TypeId::Float32: return random_float<float>(random);
        case TypeId::Float64: return random_float<double>(random);
        case TypeId::Decimal128: return random_text(random, 16);
        case TypeId::FixedSizeBinary:
            return random_text(random, static_cast<std::uint64_t>(field.type.width));
        case TypeId::String:
        case TypeId::Binary: break;
    }
    // Around the 12 characters that fit a view, mostly.
    std::uint64_t const longest = random.one_in(4) ? shape.longest_text : 16;
    return random_text(random, random.below(longest + 1));
}

std::vector<Row> random_rows(Schema const& schema, std::size_t count, Random& random,
                             DataShape const& shape) {
    std::vector<Cell> keys;
    std::size_t const distinct = shape.keys == Keys::One ? 1 : shape.keys == Keys::Few ? 3 : 64;
    for (std::size_t k = 0; k < distinct; ++k) {
        keys.push_back(random_cell(schema[0], random, shape));
    }
    std::vector<Row> rows(count);
    for (Row& row : rows) {
        for (std::size_t c = 0; c < schema.size(); ++c) {
            if (c != 0 || shape.keys == Keys::Uniform) {
                row.push_back(random_cell(schema[c], random, shape));
            } else {
                double const place =
                    shape.keys == Keys::Skewed ? std::pow(random.real(), 6) : random.real();
                row.push_back(
                    keys[static_cast<std::size_t>(place * static_cast<double>(distinct))]);
            }
        }
    }
    return rows;
}

Schema numbered_schema() {
    return {{"key", int64()}, {"value", int64()}};
}

std::vector<Row> numbered_rows(std::size_t count, std::int64_t keys, std::int64_t first) {
    std::vector<Row> rows;
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t const value = first + static_cast<std::int64_t>(i);
        rows.push_back({cell(value % keys), cell(value)});
    }
    return rows;
}

RecordBatch make_batch(Schema const& schema, std::vector<Row> const& rows, Random& random) {
    return build(schema, rows, &random);
}

RecordBatch make_batch(Schema const& schema, std::vector<Row> const& rows) {
    return build(schema, rows, nullptr);
}

}  // namespace mgi::test
