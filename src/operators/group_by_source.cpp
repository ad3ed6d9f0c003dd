#include "operators/group_by_source.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

// Rows treated in one step: what is folded or sent stays in the cache until it is received.
constexpr u32 kFoldedRows = 4096;
// Bytes of the local table; half of a core's second-level cache.
constexpr u64 kLocalBytes = u64{512} << 10;
constexpr u32 kLeastGroups = 2 * kVector;
// Rows that a local table must save for one it keeps: folding and sending a group costs about as much
// as sending and folding one and a half rows.
constexpr double kWorthwhile = 1.5;
// After a look that did not pay, so many times its rows are passed on unseen.
constexpr u64 kLookAgain = 32;
constexpr u32 kPartialRows = 2048;

u32 most_groups(GroupByPlan const& plan) {
    u64 const each = plan.layout().row_bytes() + 16;
    return std::max(kLeastGroups, u32(kLocalBytes / each));
}

}  // namespace

RawSlices::RawSlices(GroupByPlan const& plan, u32 rows) : plan_(plan), rows_(rows) {
    narrowed_.resize(plan.raw().size());
}

void RawSlices::aim(Morsel const& slice, std::vector<ColumnView>& columns) {
    columns.clear();
    for (std::size_t r = 0; r < plan_.raw().size(); ++r) {
        RawColumn const& raw = plan_.raw()[r];
        ColumnView view = view_of(slice.batch->columns[raw.input], slice.first);
        if (raw.form == RawColumn::Form::Narrow) {
            Buffer& to = narrowed_[r];
            if (to.bytes() == 0) to = Buffer((u64{rows_} + 7) * sizeof(i64), false);
            // Values and validity share a first row, so values start where validity's byte does.
            u64 const row = view.offset % 8;
            narrow_decimals(view, slice.rows, to.as<i64>() + row);
            view.values = to.data();
            if (view.validity != nullptr) view.validity += view.offset / 8;
            view.offset = row;
        } else if (raw.form == RawColumn::Form::Presence) {
            if (view.validity == nullptr) {
                ones_.resize((rows_ + 7) / 8, 0xff);
                view.values = ones_.data();
                view.offset = 0;
            } else {
                view.values = view.validity;
            }
            view.encoding = device::InputEncoding::Plain;
            view.validity = nullptr;
        }
        if (!raw.nullable) view.validity = nullptr;
        columns.push_back(view);
    }
}

void Folder::fold(ColumnView* columns, u32 rows, Schema const& schema,
                  std::vector<State> const& states) {
    for (u32 first = 0; first < rows; first += kVector) {
        u32 const count = std::min(kVector, rows - first);
        plan_.keys().encode(columns, count, keys_);
        table_.find_or_insert(keys_.words, keys_.hashes, count, rows_);
        for (State const& state : states) {
            fold_values(state, schema.fields()[state.column].type, columns[state.column], count,
                        rows_, table_.texts(), scratch_);
        }
        for (std::size_t c = 0; c < schema.size(); ++c) columns[c].offset += count;
    }
}

void Folder::fold_pairs(Morsel const& pairs, DistinctColumn const& distinct) {
    std::vector<ColumnView> columns;
    for (Column const& column : pairs.batch->columns) {
        columns.push_back(view_of(column, pairs.first));
    }
    fold(columns.data(), pairs.rows, pairs.batch->schema, {distinct.state});
}

void Folder::fold_groups(u64 const* words, u32 const* hashes, char const* const* rows, u32 count) {
    table_.find_or_insert(words, hashes, count, rows_);
    for (State const& state : plan_.states()) fold_rows(state, rows, count, rows_);
}

GroupBySource::GroupBySource(GroupByPlan const& plan, Passage const& raw, Passage const& partial,
                             Endpoint endpoint, Morsels& morsels, Budget& budget)
    : plan_(plan),
      raw_(raw, endpoint),
      partial_(partial, endpoint),
      slices_(morsels, kFoldedRows),
      raw_slices_(plan, kFoldedRows),
      local_(plan, true, budget),
      partials_(plan.partial_schema(), plan.partial_valid_bits(), {kPartialRows, 0}),
      most_groups_(most_groups(plan)) {}

bool GroupBySource::step(device::Group const& group, device::Shared& shared) {
    if (!raw_.empty()) return raw_.send(group, shared);
    if (!partial_.empty()) return partial_.send(group, shared);
    if (sending_groups_) {
        send_groups();
        return true;
    }
    Morsel slice;
    if (slices_.next(slice)) {
        if (pass_left_ != 0) {
            pass_slice(slice);
            return raw_.send(group, shared);
        }
        sending_groups_ = fold_slice(slice);
        return true;
    }
    if (local_.table().size() != 0) {
        sending_groups_ = true;
        return true;
    }
    bool const before = raw_.flushed() && partial_.flushed();
    raw_.flush(group, shared);
    partial_.flush(group, shared);
    return !before && flushed();
}

// Folds a slice; true when the local table is full.
bool GroupBySource::fold_slice(Morsel const& slice) {
    std::vector<ColumnView> columns = raw_.take_columns();
    raw_slices_.aim(slice, columns);
    local_.fold_raw(columns.data(), slice.rows);
    raw_.put(std::move(columns), 0);
    folded_ += slice.rows;
    GroupTable& table = local_.table();
    bool const full = table.size() >= most_groups_ || table.texts().used() > kLocalBytes;
    if (full && double(folded_) < kWorthwhile * double(table.size())) {
        pass_left_ = folded_ * kLookAgain;
    }
    return full;
}

void GroupBySource::pass_slice(Morsel const& slice) {
    std::vector<ColumnView> columns = raw_.take_columns();
    raw_slices_.aim(slice, columns);
    raw_.put(std::move(columns), slice.rows);
    pass_left_ -= std::min<u64>(pass_left_, slice.rows);
}

// Puts the next groups of the local table into the partial outbox; behind the last one it is emptied.
void GroupBySource::send_groups() {
    GroupTable& table = local_.table();
    if (next_group_ == table.size()) {
        table.clear();
        folded_ = 0;
        next_group_ = 0;
        sending_groups_ = false;
        return;
    }
    partials_.clear();
    while (partials_.room() != 0 && next_group_ < table.size()) {
        char const* rows[kVector];
        u32 const count = std::min({kVector, partials_.room(), table.size() - next_group_});
        for (u32 i = 0; i < count; ++i) rows[i] = table.row(next_group_ + i);
        append_partials(plan_, rows, count, partials_);
        next_group_ += count;
    }
    partial_.put(partials_.views(), partials_.rows());
}

}  // namespace mgi::operators
