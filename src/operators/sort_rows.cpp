#include "operators/sort_rows.hpp"

#include <algorithm>
#include <utility>

#include "core/ordering.hpp"

namespace mgi::operators {

namespace {

using device::OrderKind;

constexpr u32 kWordBytes = 8;
// Texts that are equal for so many words are compared as a whole.
constexpr u32 kDeepest = 32;
// Rows between two looks at whether to go on.
constexpr u64 kCheckEvery = u64{1} << 16;

}  // namespace

SortRows::SortRows(Schema const& schema, std::vector<device::KeyOrder> keys,
                   std::vector<bool> has_nulls)
    : keys_(std::move(keys)),
      has_nulls_(std::move(has_nulls)),
      layouts_(compared_columns(schema)),
      width_(schema.size()) {}

void SortRows::take(std::vector<std::vector<RecordBatch>> batches) {
    for (auto& some : batches) {
        for (RecordBatch& batch : some) batches_.push_back(std::move(batch));
    }
    for (RecordBatch const& batch : batches_) {
        begins_.push_back(rows_);
        rows_ += u64(batch.rows);
        for (Column const& column : batch.columns) views_.push_back(view_of(column, 0));
    }
}

void SortRows::fill(u64 first, u64 last, SortEntry* to) const {
    if (first == last) return;
    auto const at = std::upper_bound(begins_.begin(), begins_.end(), first) - 1;
    for (u32 b = u32(at - begins_.begin()); first != last; ++b) {
        u64 const end = std::min(last, begins_[b] + u64(batches_[b].rows));
        for (; first != end; ++first) {
            SortEntry entry{0, b, u32(first - begins_[b])};
            entry.word = word(entry, 0);
            *to++ = entry;
        }
    }
}

int SortRows::compare(SortEntry const& a, SortEntry const& b, u32 first_key) const {
    for (u32 k = first_key; k < keys_.size(); ++k) {
        int const order = device::compare_values(keys_[k], value(a, k), value(b, k));
        if (order != 0) return order;
    }
    return 0;
}

template <class Visit>
void RowSorter::for_ties(Equal const& rows, Visit const& visit) {
    for (u64 first = 0; first != rows.count;) {
        u64 last = first + 1;
        while (last != rows.count && rows.at[last].word == rows.at[first].word) ++last;
        if (last - first > 1) visit(rows.part(first, last));
        first = last;
    }
}

void RowSorter::sort_by(Equal const& rows, u32 key, u32 level) {
    since_check_ += rows.count;
    if (since_check_ >= kCheckEvery) {
        check_();
        since_check_ = 0;
    }
    sort_words(rows.at, rows.scratch, rows.count, check_);
    for_ties(rows, [&](Equal const& ties) { resolve(ties, key, level); });
}

void RowSorter::resolve(Equal const& rows, u32 key, u32 level) {
    device::KeyOrder const& order = rows_.keys()[key];
    if (level != 0 || !rows_.has_nulls(key) || rows.at->word != order.null_word()) {
        return resolve_values(rows, key, level);
    }
    SortEntry* const middle = std::partition(
        rows.at, rows.at + rows.count,
        [&](SortEntry const& entry) { return rows_.is_null(entry, key) == order.nulls_first; });
    Equal const ahead = rows.part(0, u64(middle - rows.at));
    Equal const behind = rows.part(ahead.count, rows.count);
    next_key(order.nulls_first ? ahead : behind, key + 1);
    resolve_values(order.nulls_first ? behind : ahead, key, level);
}

void RowSorter::resolve_values(Equal const& rows, u32 key, u32 level) {
    if (rows.count < 2) return;
    device::KeyOrder const& order = rows_.keys()[key];
    bool more = false;
    switch (order.kind) {
        case OrderKind::Text: return resolve_texts(rows, key, level);
        // Its higher half, then its lower one.
        case OrderKind::Decimal:
            more = level == 1 || (level == 0 && order.hides_more(rows.at->word));
            break;
        case OrderKind::Bytes: more = (level + 1) * kWordBytes < order.width; break;
        default: break;
    }
    more ? next_level(rows, key, level + 1) : next_key(rows, key + 1);
}

// Of texts that are equal for so many words, those that end there come first, the shortest one ahead: the last word
// has zeros behind their characters, and others may have characters of zero there.
void RowSorter::resolve_texts(Equal const& rows, u32 key, u32 level) {
    u32 const end = (level + 1) * kWordBytes;
    u64 const flip = rows_.keys()[key].descending ? ~u64{0} : 0;
    for (u64 i = 0; i < rows.count; ++i) {
        SortEntry& entry = rows.at[i];
        entry.word = std::min(rows_.value(entry, key).text.size, end + 1) ^ flip;
    }
    sort_words(rows.at, rows.scratch, rows.count, check_);
    for_ties(rows, [&](Equal const& ties) {
        bool const longer = (ties.at->word ^ flip) > end;
        longer ? next_level(ties, key, level + 1) : next_key(ties, key + 1);
    });
}

void RowSorter::next_key(Equal const& rows, u32 key) {
    if (rows.count < 2 || key == rows_.keys().size()) return;
    for (u64 i = 0; i < rows.count; ++i) rows.at[i].word = rows_.word(rows.at[i], key);
    sort_by(rows, key, 0);
}

void RowSorter::next_level(Equal const& rows, u32 key, u32 level) {
    if (level == kDeepest) {
        std::sort(rows.at, rows.at + rows.count, [&](SortEntry const& a, SortEntry const& b) {
            return rows_.compare(a, b, key) < 0;
        });
        return;
    }
    for (u64 i = 0; i < rows.count; ++i) rows.at[i].word = level_word(rows.at[i], key, level);
    sort_by(rows, key, level);
}

u64 RowSorter::level_word(SortEntry const& at, u32 key, u32 level) const {
    device::KeyOrder const& order = rows_.keys()[key];
    device::OrderedValue const value = rows_.value(at, key);
    u64 word = 0;
    if (order.kind == OrderKind::Decimal) {
        word = level == 1 ? value.high ^ device::kSignBit : value.low;
    } else {
        u32 const skip = level * kWordBytes;
        word = device::first_characters({value.text.data + skip, value.text.size - skip});
    }
    return order.descending ? ~word : word;
}

}  // namespace mgi::operators
