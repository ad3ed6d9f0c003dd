#include "operators/join_source.hpp"

namespace mgi::operators {

bool JoinSource::step(device::Group const& group, device::Shared& shared) {
    if (outbox_.empty()) {
        std::vector<ColumnView> columns = outbox_.take_columns();
        u32 const rows = slices_.next(columns);
        if (rows == 0) {
            exhausted_ = true;
            outbox_.flush(group, shared);
            return false;
        }
        outbox_.put(std::move(columns), rows);
    }
    return outbox_.send(group, shared);
}

u32 JoinSlices::next(std::vector<ColumnView>& columns) {
    Morsel slice;
    if (!slices_.next(slice)) return 0;
    columns.clear();
    for (std::size_t c = 0; c < side_.inputs.size(); ++c) {
        ColumnView view = view_of(slice.batch->columns[side_.inputs[c]], slice.first);
        if (!side_.nullable[c]) view.validity = nullptr;
        if (side_.in_place[c]) put_in_place(in_place_[c], view, slice.rows);
        if (auto const& how = side_.converted[c]) {
            if (!converted_[c]) converted_[c].emplace(*how, kSliceRows);
            view = converted_[c]->convert(view, slice.rows);
        }
        columns.push_back(view);
    }
    return slice.rows;
}

RecordBatch JoinSlices::next_batch() {
    Morsel slice;
    RecordBatch batch;
    if (!slices_.next(slice)) return batch;
    batch.rows = slice.rows;
    batch.owner = slice.batch->owner;
    for (std::size_t c = 0; c < side_.inputs.size(); ++c) {
        Column column = slice.batch->columns[side_.inputs[c]];
        column.offset += slice.first;
        if (auto const& how = side_.converted[c]) {
            auto const keys = std::make_shared<ConvertedKeys>(*how, slice.rows);
            ColumnView const view = keys->convert(operators::view_of(column, 0), slice.rows);
            column = {};
            column.values = view.values;
            column.validity = view.validity;
            batch.owner = std::make_shared<
                std::pair<std::shared_ptr<void const>, std::shared_ptr<ConvertedKeys const>>>(
                batch.owner, keys);
        }
        if (!side_.nullable[c]) column.validity = nullptr;
        batch.columns.push_back(std::move(column));
    }
    return batch;
}

void JoinSlices::put_in_place(Buffer& to, ColumnView& view, u32 rows) const {
    if (to.bytes() == 0) to = Buffer((u64{kSliceRows} + 7) * sizeof(RowText), false);
    // Values and validity share a first row, so values start where validity's byte does.
    u64 const row = view.offset % 8;
    RowTexts const texts(view, false, rows);
    for (u32 i = 0; i < rows; ++i) {
        texts.or_none(i).store(to.data() + (row + i) * sizeof(RowText));
    }
    if (view.validity != nullptr) view.validity += view.offset / 8;
    view.values = to.data();
    view.offset = row;
    view.encoding = device::InputEncoding::Plain;
}

}  // namespace mgi::operators
