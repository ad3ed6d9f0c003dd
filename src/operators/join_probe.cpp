#include "operators/join_probe.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

constexpr u32 kResultRows = 1u << 16;
constexpr u32 kFirstResultRows = 1u << 12;

// Whether the rows follow each other, as they do where every row has one match.
bool consecutive(u16 const* index, u32 count) {
    if (u32(index[count - 1]) - index[0] != count - 1) return false;
    for (u32 i = 1; i < count; ++i) {
        if (index[i] != index[0] + i) return false;
    }
    return true;
}

template <class T>
void gather(ColumnView const& view, u16 const* index, u32 count, char* to) {
    T const* const from = values_of<T>(view);
    for (u32 i = 0; i < count; ++i) {
        std::memcpy(to + u64{i} * sizeof(T), from + index[i], sizeof(T));
    }
}

void gather_left(Type const& type, ColumnView const& view, u16 const* index, u32 count,
                 bool run, u32 column, BatchBuilder& builder) {
    if (builder.has_valid_bits(column)) {
        for (u32 i = 0; i < count; ++i) {
            if (valid_at(view, index[i])) builder.set_valid(column, i);
        }
    }
    if (type.is_variable()) {
        for (u32 i = 0; i < count; ++i) {
            bool const valid = valid_at(view, index[i]);
            builder.put_text(column, i, valid ? text_at(view, index[i]) : Text{});
        }
        return;
    }
    if (type.id == TypeId::Bool) {
        for (u32 i = 0; i < count; ++i) {
            if (bit_at(view, index[i])) builder.set_bit(column, i);
        }
        return;
    }
    u32 const width = type.row_width();
    char* const to = builder.next(column);
    char const* const from = static_cast<char const*>(view.values) + view.offset * width;
    if (run) {
        std::memcpy(to, from + u64{index[0]} * width, u64{count} * width);
        return;
    }
    switch (width) {
        case 1: return gather<u8>(view, index, count, to);
        case 2: return gather<u16>(view, index, count, to);
        case 4: return gather<u32>(view, index, count, to);
        case 8: return gather<u64>(view, index, count, to);
        case 16: return gather<i128>(view, index, count, to);
        default:
            for (u32 i = 0; i < count; ++i) {
                std::memcpy(to + u64{i} * width, from + u64{index[i]} * width, width);
            }
    }
}

template <class T>
void gather_rows(char const* const* rows, u32 offset, u32 count, char* to) {
    for (u32 i = 0; i < count; ++i) {
        std::memcpy(to + u64{i} * sizeof(T), rows[i] + offset, sizeof(T));
    }
}

void gather_right(BuiltValue const& value, char const* const* rows, u32 count, u32 column,
                  BatchBuilder& builder) {
    u32 const offset = value.offset;
    if (builder.has_valid_bits(column)) {
        for (u32 i = 0; i < count; ++i) {
            if (rows[i][value.validity] != 0) builder.set_valid(column, i);
        }
    }
    if (value.type.is_variable()) {
        for (u32 i = 0; i < count; ++i) {
            RowText const text = RowText::at(rows[i] + offset);
            builder.put_text(column, i, text.text());
        }
        return;
    }
    char* const to = builder.next(column);
    u32 const width = value.type.row_width();
    switch (width) {
        case 0:
            for (u32 i = 0; i < count; ++i) {
                if (rows[i][offset] != 0) builder.set_bit(column, i);
            }
            return;
        case 1: return gather_rows<u8>(rows, offset, count, to);
        case 2: return gather_rows<u16>(rows, offset, count, to);
        case 4: return gather_rows<u32>(rows, offset, count, to);
        case 8: return gather_rows<u64>(rows, offset, count, to);
        case 16: return gather_rows<i128>(rows, offset, count, to);
        default:
            for (u32 i = 0; i < count; ++i) {
                std::memcpy(to + u64{i} * width, rows[i] + offset, width);
            }
    }
}

}  // namespace

template <bool OneWord>
bool JoinProbe::equal(char const* row, u64 const* words) const {
    auto const* const key = reinterpret_cast<u64 const*>(row);
    if constexpr (OneWord) {
        return key[0] == words[0];
    } else {
        KeyEncoder const& encoder = *plan_.left().encoder;
        return equal_keys(key, words, encoder.words(), encoder.text_words());
    }
}

void JoinProbe::probe(ColumnView* columns, u32 rows) {
    if (build_.rows() == 0) return;
    KeyEncoder const& encoder = *plan_.left().encoder;
    bool const one_word = encoder.words() == 1;
    for (u32 first = 0; first < rows; first += kVector) {
        u32 const count = std::min(kVector, rows - first);
        encoder.encode(columns, count, keys_);
        if (keys_.all_selected) {
            for (u32 i = 0; i < count; ++i) keys_.selected[i] = u16(i);
            keys_.selected_count = count;
        }
        for (u32 at = 0; at < keys_.selected_count; at += kInFlight) {
            u32 const some = std::min(kInFlight, keys_.selected_count - at);
            if (one_word) {
                match<true>(columns, at, some);
            } else {
                match<false>(columns, at, some);
            }
        }
        // Matches name rows of this vector.
        write_matches(columns);
        for (std::size_t c = 0; c < plan_.left().inputs.size(); ++c) columns[c].offset += count;
    }
}

template <bool OneWord>
void JoinProbe::match(ColumnView const* columns, u32 first, u32 count) {
    u32 const words = OneWord ? 1 : plan_.left().encoder->words();
    u32 const row_bytes = plan_.row_bytes();
    u16 const* const selected = keys_.selected + first;
    for (u32 i = 0; i < count; ++i) build_.prefetch(keys_.hashes[selected[i]]);
    u16 row[kInFlight];
    JoinBuild::Candidates found[kInFlight];
    u32 found_count = 0;
    for (u32 i = 0; i < count; ++i) {
        row[found_count] = selected[i];
        found[found_count] = build_.find(keys_.hashes[selected[i]]);
        char const* const at = found[found_count].first;
        __builtin_prefetch(at);
        __builtin_prefetch(at + row_bytes - 1);
        found_count += at != nullptr ? 1 : 0;
    }
    for (u32 i = 0; i < found_count; ++i) {
        u64 const* const key = keys_.words + u64{row[i]} * words;
        for (char const* at = found[i].first; at != found[i].last; at += row_bytes) {
            if (!equal<OneWord>(at, key)) continue;
            if (match_count_ == kMatches) write_matches(columns);
            left_[match_count_] = row[i];
            right_[match_count_++] = at;
        }
    }
}

void JoinProbe::write_matches(ColumnView const* columns) {
    for (u32 first = 0; first < match_count_;) {
        if (!builder_ || builder_->room() == 0) start_batch();
        u32 const count = std::min(match_count_ - first, builder_->room());
        write(columns, first, count);
        first += count;
    }
    match_count_ = 0;
}

void JoinProbe::write(ColumnView const* columns, u32 first, u32 count) {
    bool const run = consecutive(left_ + first, count);
    for (std::size_t c = 0; c < plan_.columns().size(); ++c) {
        JoinColumn const& column = plan_.columns()[c];
        u32 const to = static_cast<u32>(c);
        if (column.from_left) {
            gather_left(plan_.result_schema().fields()[c].type, columns[column.source],
                        left_ + first, count, run, to, *builder_);
        } else {
            gather_right(plan_.built()[column.source], right_ + first, count, to, *builder_);
        }
    }
    builder_->advance(count);
}

void JoinProbe::start_batch() {
    u32 const rows = builder_ ? kResultRows : kFirstResultRows;
    if (builder_) results_.push_back(builder_->finish());
    builder_.emplace(plan_.result_schema(), plan_.result_valid_bits(), rows);
}

std::vector<RecordBatch> JoinProbe::finish() {
    if (builder_) results_.push_back(builder_->finish());
    builder_.reset();
    return std::move(results_);
}

}  // namespace mgi::operators
