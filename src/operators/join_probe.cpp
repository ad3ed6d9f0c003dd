#include "operators/join_probe.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

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

void gather_probing_texts(ColumnView const& view, bool in_place, u16 const* index, u32 count,
                          u32 column, BatchBuilder& builder) {
    RowTexts const texts(view, in_place);
    if (in_place) {
        for (u32 i = 0; i < count; ++i) prefetch(texts[index[i]]);
    }
    for (u32 i = 0; i < count; ++i) builder.put_row_text(column, i, texts.or_none(index[i]));
}

void gather_probing(Type const& type, ColumnView const& view, bool in_place, u16 const* index,
                    u32 count, bool run, u32 column, BatchBuilder& builder) {
    if (builder.has_valid_bits(column)) {
        for (u32 i = 0; i < count; ++i) {
            if (valid_at(view, index[i])) builder.set_valid(column, i);
        }
    }
    if (type.is_variable()) {
        return gather_probing_texts(view, in_place, index, count, column, builder);
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

void gather_built(BuiltValue const& value, char const* const* rows, u32 count, u32 column,
                  BatchBuilder& builder) {
    u32 const offset = value.offset;
    if (builder.has_valid_bits(column)) {
        for (u32 i = 0; i < count; ++i) {
            if (!value.nullable || rows[i][value.validity] != 0) builder.set_valid(column, i);
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

// Of rows without a partner.
void leave_null(Type const& type, u32 count, u32 column, BatchBuilder& builder) {
    // Bits are 0 until they are set.
    if (type.id == TypeId::Bool) return;
    std::memset(builder.next(column), 0, u64{count} * type.row_width());
}

}  // namespace

template <bool OneWord>
bool JoinProbe::equal(char const* row, u64 const* words) const {
    auto const* const key = reinterpret_cast<u64 const*>(row);
    if constexpr (OneWord) {
        return key[0] == words[0];
    } else {
        KeyEncoder const& encoder = *plan_.probe().encoder;
        return equal_keys(key, words, encoder.words(), encoder.text_words());
    }
}

void JoinProbe::probe(ColumnView* columns, u32 rows) {
    bool const alone = plan_.roles().probe != Alone::None;
    if (build_.rows() == 0 && plan_.roles().probe != Alone::Unmatched) return;
    KeyEncoder const& encoder = *plan_.probe().encoder;
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
            match(columns, candidates);
        }
        if (alone) add_alone(columns, count);
        // Matches name rows of this vector.
        write_matches(columns);
        for (std::size_t c = 0; c < plan_.probe().inputs.size(); ++c) columns[c].offset += count;
    }
}

void JoinProbe::match(ColumnView const* columns, Candidates& candidates) {
    bool const one_word = plan_.probe().encoder->words() == 1;
    if (plan_.roles().only_pairs()) {
        one_word ? match<true, Gives::OnlyPairs>(columns, candidates)
                 : match<false, Gives::OnlyPairs>(columns, candidates);
    } else {
        one_word ? match<true, Gives::Alone>(columns, candidates)
                 : match<false, Gives::Alone>(columns, candidates);
    }
}

void JoinProbe::add_alone(ColumnView const* columns, u32 rows) {
    bool const wanted = plan_.roles().probe == Alone::Matched;
    for (u32 i = 0; i < rows; ++i) {
        if (match_count_ == kMatches) write_matches(columns);
        probing_[match_count_] = u16(i);
        built_[match_count_] = no_partner_.data();
        match_count_ += std::exchange(has_partner_[i], false) == wanted ? 1 : 0;
    }
}

void JoinProbe::give_built(u64 first, u64 last) {
    bool const wanted = plan_.roles().build == Alone::Matched;
    for (u64 r = first; r < last; ++r) {
        if (match_count_ == kMatches) write_matches(nullptr);
        char const* const row = build_.row(r);
        built_[match_count_] = row;
        match_count_ += (row[plan_.mark()] != 0) == wanted ? 1 : 0;
    }
    write_matches(nullptr);
}

void JoinProbe::find_candidates(u16 const* selected, u32 count, Candidates& candidates) {
    u32 const row_bytes = plan_.row_bytes();
    u32 const* const hashes = keys_.hashes;
    for (u32 i = 0; i < count; ++i) build_.prefetch_tags(hashes[selected[i]]);
    // Without branches: whether a row has candidates cannot be foretold. Those that have none, often most of them, are
    // done with that.
    u32 found = 0;
    for (u32 i = 0; i < count; ++i) {
        candidates.row[found] = selected[i];
        found += build_.may_have(hashes[selected[i]]) ? 1 : 0;
    }
    candidates.count = found;
    for (u32 i = 0; i < found; ++i) build_.prefetch_line(hashes[candidates.row[i]]);
    for (u32 i = 0; i < found; ++i) {
        JoinBuild::Candidates const rows = build_.find(hashes[candidates.row[i]]);
        candidates.first[i] = rows.first;
        candidates.last[i] = rows.last;
        __builtin_prefetch(rows.first);
        __builtin_prefetch(rows.first + row_bytes - 1);
    }
}

// Compares the first candidate of each row, then the second of those that have one, and so on; how
// many a row has, and which of them match, takes no branch either.
template <bool OneWord, JoinProbe::Gives kGives>
void JoinProbe::match(ColumnView const* columns, Candidates& candidates) {
    auto const mark = [at = plan_.mark()](char const* row) {
        // Other groups mark rows as well.
        std::atomic_ref<char> const byte(const_cast<char*>(row)[at]);
        if (byte.load(std::memory_order_relaxed) == 0) byte.store(1, std::memory_order_relaxed);
    };
    u32 const words = OneWord ? 1 : plan_.probe().encoder->words();
    u32 const row_bytes = plan_.row_bytes();
    bool const marks = plan_.marks();
    bool const pairs = plan_.roles().pairs;
    while (candidates.count != 0) {
        if (match_count_ + candidates.count > kMatches) write_matches(columns);
        u32 matches = match_count_;
        u32 left = 0;
        for (u32 i = 0; i < candidates.count; ++i) {
            u16 const row = candidates.row[i];
            char const* const at = candidates.first[i];
            char const* const last = candidates.last[i];
            probing_[matches] = row;
            built_[matches] = at;
            bool const same = equal<OneWord>(at, keys_.words + u64{row} * words);
            bool enough = false;
            if constexpr (kGives == Gives::OnlyPairs) {
                matches += same ? 1 : 0;
            } else if (same) {
                has_partner_[row] = true;
                if (marks) mark(at);
                matches += pairs ? 1 : 0;
                enough = !pairs && !marks;
            }
            char const* const next = at + row_bytes;
            __builtin_prefetch(next);
            candidates.row[left] = row;
            candidates.first[left] = next;
            candidates.last[left] = last;
            left += next != last && !enough ? 1 : 0;
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
        if (builder_->bytes() == checked_) continue;
        run_.check();
        checked_ = builder_->bytes();
    }
    match_count_ = 0;
}

void JoinProbe::write(ColumnView const* columns, u32 first, u32 count) {
    bool const run = columns != nullptr && consecutive(probing_ + first, count);
    for (std::size_t c = 0; c < plan_.columns().size(); ++c) {
        JoinColumn const& column = plan_.columns()[c];
        u32 const to = static_cast<u32>(c);
        Type const& type = plan_.result_schema().fields()[c].type;
        if (columns != nullptr && column.probe != JoinColumn::kNone) {
            gather_probing(type, columns[column.probe], plan_.probe().in_place[column.probe],
                           probing_ + first, count, run, to, *builder_);
        } else if (column.built != JoinColumn::kNone) {
            gather_built(plan_.built()[column.built], built_ + first, count, to, *builder_);
        } else {
            leave_null(type, count, to, *builder_);
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
    checked_ = 0;
    builder_.emplace(plan_.result_schema(), plan_.result_valid_bits(), room, &run_.budget());
}

std::vector<RecordBatch> JoinProbe::finish() {
    if (builder_) results_.push_back(builder_->finish());
    builder_.reset();
    return std::move(results_);
}

}  // namespace mgi::operators
