// Columns of a part as they are, one behind the other's, into a table at another endpoint. One source for g++ and nvcc.
#pragma once

#include "operators/gpu/move_kernels.hpp"

namespace mgi::operators::on_gpu {

// A column of a part, and where it goes.
struct BroughtColumn {
    ColumnView from;
    OutputColumn to;
    u64 rows = 0;
    u64 first = 0;            // row of `to` that the part's first one is
    u64 first_character = 0;  // of texts, likewise
    u64 characters = 0;       // that were counted
    u64* changed = nullptr;   // set where there are others now
};

class BringColumns {
public:
    MGI_HD void operator()(device::Group const& group, device::Shared&,
                           BroughtColumn const* columns, u32 count) const {
        for (u32 c = 0; c < count; ++c) bring(group, columns[c]);
    }

private:
    // Rows [begin, end) are this group's.
    struct Share {
        u64 begin;
        u64 end;
    };
    MGI_HD static Share share_of(device::Group const& group, u64 all) {
        return {all * group.block / group.blocks, all * (group.block + 1) / group.blocks};
    }

    MGI_HD static void bring(device::Group const& group, BroughtColumn const& column) {
        ColumnView const& from = column.from;
        OutputColumn const& to = column.to;
        Share const rows = share_of(group, column.rows);
        if (to.text) {
            bring_texts(group, column, rows);
        } else if (to.bits) {
            each(group, rows,
                 [&](u64 i) { to.values[column.first + i] = char(load_raw(from, to, i)); });
        } else {
            copy_bytes(group, to.values + column.first * to.width,
                       static_cast<char const*>(from.values) + from.offset * to.width,
                       column.rows * to.width);
        }
        if (to.valid == nullptr) return;
        each(group, rows, [&](u64 i) { to.valid[column.first + i] = is_valid(from, i) ? 1 : 0; });
    }

    // All characters, in the order in which they lie, and where each row's are.
    MGI_HD static void bring_texts(device::Group const& group, BroughtColumn const& column,
                                   Share rows) {
        ColumnView const& from = column.from;
        if (column.rows == 0) return;
        device::Text const first = device::view_text(from, 0);
        device::Text const last = device::view_text(from, column.rows - 1);
        bool changed = u64(last.data - first.data) + last.size != column.characters;
        if (!changed) {
            copy_bytes(group, column.to.characters + column.first_character, first.data,
                       column.characters);
        }
        each(group, rows, [&](u64 i) {
            device::Text const text = device::view_text(from, i);
            u64 const begin = u64(text.data - first.data);
            bool const there = begin <= column.characters && text.size <= column.characters - begin;
            changed = changed || !there;
            store_span(column.to, column.first + i, column.first_character + (there ? begin : 0),
                       there && is_valid(from, i) ? text.size : 0);
        });
        if (changed) shared_word(column.changed).store(1, device::relaxed);
    }

    template <class Use>
    MGI_HD static void each(device::Group const& group, Share rows, Use&& use) {
        for (u64 i = rows.begin + group.thread; i < rows.end; i += group.threads) use(i);
    }

    // By the groups together.
    MGI_HD static void copy_bytes(device::Group const& group, char* to, char const* from,
                                  u64 bytes) {
        with_unit(unit_of(bytes, to, from), [&](auto unit) {
            using Unit = decltype(unit);
            Share const units = share_of(group, bytes / sizeof(Unit));
            copy_values(group, reinterpret_cast<Unit*>(to) + units.begin,
                        reinterpret_cast<Unit const*>(from) + units.begin,
                        u32(units.end - units.begin));
        });
    }
};

}  // namespace mgi::operators::on_gpu
