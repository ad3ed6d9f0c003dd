#include "operators/keys.hpp"

#include <mgi/device/hash.hpp>

namespace mgi::operators {

namespace {

// Words that a value of the type takes in a row.
u32 words_of(Type const& type) {
    if (type.is_variable() || type.id == TypeId::Decimal128) return 2;
    if (type.id == TypeId::FixedSizeBinary) return (static_cast<u32>(type.width) + 7) / 8;
    return 1;
}

template <class T>
void encode_integers(T const* from, u32 rows, u64* to, u32 stride) {
    for (u32 i = 0; i < rows; ++i) to[u64{i} * stride] = static_cast<u64>(i64(load(from + i)));
}

template <class T>
void encode_floats(ColumnView const& view, u32 rows, u64* to, u32 stride) {
    auto const* from = reinterpret_cast<char const*>(values_of<T>(view));
    for (u32 i = 0; i < rows; ++i) {
        to[u64{i} * stride] = device::load_float(from + u64{i} * sizeof(T), sizeof(T));
    }
}

void encode_texts(ColumnView const& view, u32 rows, u64* to, u32 stride) {
    RowTexts const texts(view, false, rows);
    for (u32 i = 0; i < rows; ++i) texts.or_none(i).store(to + u64{i} * stride);
}

void encode_bytes(ColumnView const& view, u32 width, u32 rows, u64* to, u32 stride) {
    auto const* from = static_cast<char const*>(view.values) + view.offset * width;
    u32 const last = (width + 7) / 8 - 1;
    for (u32 i = 0; i < rows; ++i) {
        u64* const at = to + u64{i} * stride;
        at[last] = 0;
        std::memcpy(at, from + u64{i} * width, width);
    }
}

}  // namespace

KeyEncoder::KeyEncoder(std::vector<KeyColumn> keys, NullKeys nulls, std::vector<bool> drop_top_bit)
    : keys_(std::move(keys)), nulls_(nulls), drop_top_bit_(std::move(drop_top_bit)) {
    drop_top_bit_.resize(keys_.size(), false);
    if (nulls_ == NullKeys::Equal) {
        for (KeyColumn const& key : keys_) has_flags_ = has_flags_ || key.nullable;
    }
    if (has_flags_) words_ = (static_cast<u32>(keys_.size()) + 63) / 64;
    for (KeyColumn const& key : keys_) {
        word_of_.push_back(words_);
        if (key.type.is_variable()) text_words_.push_back(words_);
        words_ += words_of(key.type);
    }
    is_text_word_.resize(words_, false);
    for (u32 const word : text_words_) is_text_word_[word] = true;
}

void KeyEncoder::encode(ColumnView const* columns, u32 rows, EncodedKeys& out) const {
    out.rows = rows;
    ColumnView const& first = columns[keys_[0].column];
    bool const word_sized = words_ == 1 && keys_[0].type.is_integer() &&
                            keys_[0].type.row_width() == 8 &&
                            reinterpret_cast<std::uintptr_t>(first.values) % 8 == 0;
    if (word_sized) {
        out.words = values_of<u64>(first);
    } else {
        out.storage.resize(u64{kVector} * words_);
        if (has_flags_) {
            for (u32 i = 0; i < rows; ++i) {
                for (u32 w = 0; w < word_of_[0]; ++w) out.storage[u64{i} * words_ + w] = 0;
            }
        }
        for (u32 k = 0; k < keys_.size(); ++k) {
            encode_column(k, columns[keys_[k].column], rows, out.storage.data());
        }
        out.words = out.storage.data();
    }
    hash(out);
    out.all_selected = nulls_ == NullKeys::Equal || !drops_rows(columns);
    if (!out.all_selected) select(columns, out);
}

void KeyEncoder::encode_column(u32 k, ColumnView const& view, u32 rows, u64* to) const {
    Type const& type = keys_[k].type;
    u64* const at = to + word_of_[k];
    u32 const stride = words_;
    switch (type.id) {
        case TypeId::Bool:
            for (u32 i = 0; i < rows; ++i) at[u64{i} * stride] = bit_at(view, i) ? 1 : 0;
            break;
        case TypeId::Int8: encode_integers(values_of<std::int8_t>(view), rows, at, stride); break;
        case TypeId::Int16: encode_integers(values_of<std::int16_t>(view), rows, at, stride); break;
        case TypeId::Int32:
        case TypeId::Date32:
            encode_integers(values_of<std::int32_t>(view), rows, at, stride);
            break;
        case TypeId::Int64: encode_integers(values_of<i64>(view), rows, at, stride); break;
        case TypeId::UInt8: encode_integers(values_of<u8>(view), rows, at, stride); break;
        case TypeId::UInt16: encode_integers(values_of<u16>(view), rows, at, stride); break;
        case TypeId::UInt32: encode_integers(values_of<u32>(view), rows, at, stride); break;
        case TypeId::UInt64: encode_integers(values_of<u64>(view), rows, at, stride); break;
        case TypeId::Float32: encode_floats<float>(view, rows, at, stride); break;
        case TypeId::Float64: encode_floats<double>(view, rows, at, stride); break;
        case TypeId::Decimal128: encode_bytes(view, 16, rows, at, stride); break;
        case TypeId::FixedSizeBinary:
            encode_bytes(view, static_cast<u32>(type.width), rows, at, stride);
            break;
        case TypeId::String:
        case TypeId::Binary: encode_texts(view, rows, at, stride); break;
    }
    if (!has_flags_ || view.validity == nullptr) return;
    for (u32 i = 0; i < rows; ++i) {
        if (valid_at(view, i)) continue;
        u64* const row = to + u64{i} * stride;
        row[k / 64] |= u64{1} << (k % 64);
        for (u32 w = 0; w < words_of(type); ++w) row[word_of_[k] + w] = 0;
    }
}

void KeyEncoder::hash(EncodedKeys& out) const {
    u64 const* const words = out.words;
    if (words_ == 1) {
        for (u32 i = 0; i < out.rows; ++i) out.hashes[i] = u32(device::murmur3_mix(words[i]));
        return;
    }
    u64* const wide = out.wide_hashes;
    for (u32 i = 0; i < out.rows; ++i) wide[i] = 0;
    for (u32 w = 0; w < words_; ++w) {
        if (!is_text_word_[w]) {
            for (u32 i = 0; i < out.rows; ++i) {
                wide[i] = device::hash_combine(wide[i], words[u64{i} * words_ + w]);
            }
            continue;
        }
        for (u32 i = 0; i < out.rows; ++i) {
            RowText const text = RowText::at(words + u64{i} * words_ + w);
            Text const chars = text.text();
            wide[i] = device::hash_combine(wide[i], device::murmur3_bytes(chars.data, chars.size));
        }
        ++w;  // the text's second word
    }
    for (u32 i = 0; i < out.rows; ++i) out.hashes[i] = u32(wide[i]);
}

bool KeyEncoder::drops_rows(ColumnView const* columns) const {
    for (u32 k = 0; k < keys_.size(); ++k) {
        if (drop_top_bit_[k] || columns[keys_[k].column].validity != nullptr) return true;
    }
    return false;
}

void KeyEncoder::select(ColumnView const* columns, EncodedKeys& out) const {
    u32 count = 0;
    for (u32 i = 0; i < out.rows; ++i) {
        bool keep = true;
        for (u32 k = 0; k < keys_.size() && keep; ++k) {
            keep = valid_at(columns[keys_[k].column], i) &&
                   !(drop_top_bit_[k] && out.words[u64{i} * words_ + word_of_[k]] >> 63 != 0);
        }
        out.selected[count] = u16(i);
        count += keep ? 1 : 0;
    }
    out.selected_count = count;
}

}  // namespace mgi::operators
