#include "operators/join_source.hpp"

namespace mgi::operators {

bool JoinSource::step(device::Group const& group, device::Shared& shared) {
    if (outbox_.empty() && !next_slice()) {
        exhausted_ = true;
        outbox_.flush(group, shared);
        return false;
    }
    return outbox_.send(group, shared) != 0;
}

bool JoinSource::next_slice() {
    Morsel slice;
    if (!slices_.next(slice)) return false;
    std::vector<ColumnView> columns = outbox_.take_columns();
    columns.clear();
    for (std::size_t c = 0; c < side_.inputs.size(); ++c) {
        ColumnView view = view_of(slice.batch->columns[side_.inputs[c]], slice.first);
        if (!side_.nullable[c]) view.validity = nullptr;
        if (side_.in_place[c]) put_in_place(in_place_[c], view, slice.rows);
        columns.push_back(view);
    }
    outbox_.put(std::move(columns), slice.rows);
    return true;
}

void JoinSource::put_in_place(Buffer& to, ColumnView& view, u32 rows) const {
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
