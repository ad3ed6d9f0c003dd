#include "operators/join_probe.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

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

// Texts that stayed in the input may lie anywhere there.
void prefetch(RowText const& text) {
    if (!text.is_long()) return;
    __builtin_prefetch(text.data());
    __builtin_prefetch(text.data() + text.size() - 1);
}

void gather_left_texts(ColumnView const& view, bool in_place, u16 const* index, u32 count,
                       u32 column, BatchBuilder& builder) {
    RowTexts const texts(view, in_place);
    if (in_place) {
        for (u32 i = 0; i < count; ++i) prefetch(texts[index[i]]);
    }
    for (u32 i = 0; i < count; ++i) builder.put_row_text(column, i, texts.or_none(index[i]));
}

void gather_left(Type const& type, ColumnView const& view, bool in_place, u16 const* index,
                 u32 count, bool run, u32 column, BatchBuilder& builder) {
    if (builder.has_valid_bits(column)) {
        for (u32 i = 0; i < count; ++i) {
            if (valid_at(view, index[i])) builder.set_valid(column, i);
        }
    }
    if (type.is_variable()) {
        return gather_left_texts(view, in_place, index, count, column, builder);
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
        if (value.in_place) {
            for (u32 i = 0; i < count; ++i) prefetch(RowText::at(rows[i] + offset));
        }
        for (u32 i = 0; i < count; ++i) {
            builder.put_row_text(column, i, RowText::at(rows[i] + offset));
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
            Candidates candidates;
            find_candidates(keys_.selected + at, std::min(kInFlight, keys_.selected_count - at),
                            candidates);
            if (one_word) {
                match<true>(columns, candidates);
            } else {
                match<false>(columns, candidates);
            }
        }
        // Matches name rows of this vector.
        write_matches(columns);
        for (std::size_t c = 0; c < plan_.left().inputs.size(); ++c) columns[c].offset += count;
    }
}

void JoinProbe::find_candidates(u16 const* selected, u32 count, Candidates& candidates) {
    u32 const row_bytes = plan_.row_bytes();
    for (u32 i = 0; i < count; ++i) build_.prefetch(keys_.hashes[selected[i]]);
    // Without branches: whether a row has candidates cannot be foretold.
    u32 found = 0;
    for (u32 i = 0; i < count; ++i) {
        JoinBuild::Candidates const rows = build_.find(keys_.hashes[selected[i]]);
        candidates.row[found] = selected[i];
        candidates.first[found] = rows.first;
        candidates.last[found] = rows.last;
        __builtin_prefetch(rows.first);
        __builtin_prefetch(rows.first + row_bytes - 1);
        found += rows.any ? 1 : 0;
    }
    candidates.count = found;
}

// Compares the first candidate of each row, then the second of those that have one, and so on; how
// many a row has, and which of them match, takes no branch either.
template <bool OneWord>
void JoinProbe::match(ColumnView const* columns, Candidates& candidates) {
    u32 const words = OneWord ? 1 : plan_.left().encoder->words();
    u32 const row_bytes = plan_.row_bytes();
    while (candidates.count != 0) {
        if (match_count_ + candidates.count > kMatches) write_matches(columns);
        u32 matches = match_count_;
        u32 left = 0;
        for (u32 i = 0; i < candidates.count; ++i) {
            u16 const row = candidates.row[i];
            char const* const at = candidates.first[i];
            char const* const last = candidates.last[i];
            left_[matches] = row;
            right_[matches] = at;
            matches += equal<OneWord>(at, keys_.words + u64{row} * words) ? 1 : 0;
            char const* const next = at + row_bytes;
            __builtin_prefetch(next);
            candidates.row[left] = row;
            candidates.first[left] = next;
            candidates.last[left] = last;
            left += next != last ? 1 : 0;
        }
        candidates.count = left;
        match_count_ = matches;
    }
}

void JoinProbe::write_matches(ColumnView const* columns) {
    for (u32 first = 0; first < match_count_;) {
        if (!builder_ || builder_->room() == 0) start_batch();
        u32 const count = std::min(match_count_ - first, builder_->room());
        write(columns, first, count);
        first += count;
        // A few rows on each side can make more than any memory holds.
        u64 const bytes = builder_->bytes();
        if (bytes == counted_) continue;
        run_.check();
        run_.budget().take(bytes - counted_);
        counted_ = bytes;
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
                        plan_.left().in_place[column.source], left_ + first, count, run, to,
                        *builder_);
        } else {
            gather_right(plan_.built()[column.source], right_ + first, count, to, *builder_);
        }
    }
    builder_->advance(count);
}

void JoinProbe::start_batch() {
    BatchRoom room = kFirstRoom;
    if (builder_) {
        room = builder_->next_room();
        results_.push_back(builder_->finish());
    }
    counted_ = 0;
    builder_.emplace(plan_.result_schema(), plan_.result_valid_bits(), room);
}

std::vector<RecordBatch> JoinProbe::finish() {
    if (builder_) results_.push_back(builder_->finish());
    builder_.reset();
    return std::move(results_);
}

}  // namespace mgi::operators
