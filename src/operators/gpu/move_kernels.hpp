// Kernels that move rows as they are: an exchange, and values gathered or packed into results. One source
// for g++ and nvcc.
#pragma once

#include "operators/gpu/text_kernels.hpp"

namespace mgi::operators::on_gpu {

// Where an endpoint keeps the rows that come to it.
struct Arriving {
    OutputColumn const* columns = nullptr;
    u64* cursor = nullptr;      // rows that have come
    u64* characters = nullptr;  // by column, of texts
    u64 const* character_room = nullptr;
    u64 room = 0;  // and will have come in the end
};

// Copies rows of a column to row `to` and on, by the whole group: several on their way at a time, since a
// GPU's few groups would else wait for its memory most of the time.
template <class T>
MGI_HD void copy_values(device::Group const& group, T* to, T const* from, u32 rows) {
    constexpr u32 kAhead = 8;
    u32 i = group.thread;
    for (; i + (kAhead - 1) * group.threads < rows; i += kAhead * group.threads) {
        T values[kAhead];
        for (u32 a = 0; a < kAhead; ++a) values[a] = from[i + a * group.threads];
        for (u32 a = 0; a < kAhead; ++a) to[i + a * group.threads] = values[a];
    }
    for (; i < rows; i += group.threads) to[i] = from[i];
}

// Texts of a batch, whose segment others get again, and their spans. `cursor` is in the group's scratch.
MGI_HD inline void copy_texts(device::Group const& group, Arriving const& arriving, u64 to,
                              device::ReceivedBatch const& batch, u32 c, u64* cursor) {
    OutputColumn const& column = arriving.columns[c];
    bool const nullable = batch.layout->columns[c].nullable();
    auto const text_of = [&](u32 i) {
        return nullable && !batch.valid(c, i) ? device::Text() : batch.text(c, i);
    };
    group.sync();
    if (group.leads()) *cursor = 0;
    group.sync();
    u64 mine = 0;
    for (u32 i = group.thread; i < batch.rows; i += group.threads) mine += text_of(i).size;
    shared_word(cursor).fetch_add(mine, device::relaxed);
    group.sync();
    if (group.leads()) {
        u64 const all = *cursor;
        *cursor = shared_word(&arriving.characters[c]).fetch_add(all, device::relaxed);
        // Cannot be either.
        if (*cursor + all > arriving.character_room[c]) *cursor = ~u64{0};
    }
    group.sync();
    bool const fits = *cursor != ~u64{0};
    group.sync();
    for (u32 i = group.thread; i < batch.rows; i += group.threads) {
        device::Text const text = fits ? text_of(i) : device::Text();
        u64 const begin = shared_word(cursor).fetch_add(u64{text.size}, device::relaxed);
        store_span(column, to + i, begin, text.size);
        copy_text(column.characters + begin, text, 0, 1);
    }
}

MGI_HD inline void copy_rows(device::Group const& group, OutputColumn const& column, u64 to,
                             device::ReceivedBatch const& batch, u32 c) {
    device::ColumnLayout const& layout = batch.layout->columns[c];
    if (column.text) {
        // They have come.
    } else if (column.bits) {
        for (u32 i = group.thread; i < batch.rows; i += group.threads) {
            column.values[to + i] = batch.bit(c, i) ? 1 : 0;
        }
    } else if (column.wide) {
        char* const values = column.values + to * column.width;
        char const* const from = batch.column<char>(c);
        with_unit(unit_of(column.width, values, from), [&](auto unit) {
            using T = decltype(unit);
            copy_values(group, reinterpret_cast<T*>(values), reinterpret_cast<T const*>(from),
                        batch.rows * (column.width / u32(sizeof(T))));
        });
    } else {
        with_type_of(column.width, [&](auto type) {
            using T = decltype(type);
            copy_values(group, reinterpret_cast<T*>(column.values) + to, batch.column<T>(c),
                        batch.rows);
        });
    }
    if (column.valid == nullptr) return;
    for (u32 i = group.thread; i < batch.rows; i += group.threads) {
        column.valid[to + i] = !layout.nullable() || batch.valid(c, i) ? 1 : 0;
    }
}

// Sends a part, and keeps what comes from all of them, row after row (the paper's Figure 3).
struct KeepArriving {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           device::Channel channel, PartToSend part, Arriving arriving) const {
        ColumnView* const outgoing = shared.take<ColumnView>(part.column_count);
        u64* const first = shared.take<u64>(2);
        send_and_receive(
            group, shared, channel, part, outgoing, [&](device::ReceivedBatch const& batch) {
                u64* const cursor = first + 1;
                group.sync();
                if (group.leads()) {
                    *first =
                        shared_word(arriving.cursor).fetch_add(u64{batch.rows}, device::relaxed);
                }
                group.sync();
                u64 const to = *first;
                // Cannot be: they were counted. Never write behind the end all the same.
                if (to + batch.rows > arriving.room) return;
                for (u32 c = 0; c < batch.layout->column_count; ++c) {
                    if (arriving.columns[c].text) {
                        copy_texts(group, arriving, to, batch, c, cursor);
                    }
                    copy_rows(group, arriving.columns[c], to, batch, c);
                }
            });
    }

    static u32 scratch_bytes(u32 columns) { return columns * u32(sizeof(ColumnView)) + 64; }
};

// Bytes that are 0 or 1 as bits. Reads whole words: the bytes have room for a multiple of 32.
struct PackBits {
    MGI_HD void operator()(device::Group const& group, device::Shared&, u8 const* bytes, u64 count,
                           u32* bits) const {
        u64 const words = (count + 31) / 32;
        u64 const step = u64{group.threads} * group.blocks;
        for (u64 w = u64{group.block} * group.threads + group.thread; w < words; w += step) {
            u64 const* const from = reinterpret_cast<u64 const*>(bytes + 32 * w);
            u32 word = 0;
            for (u32 part = 0; part < 4; ++part) {
                // The lowest bit of each byte comes to the top byte, in order.
                u64 const eight = (from[part] & 0x0101010101010101ULL) * 0x0102040810204080ULL;
                word |= u32(eight >> 56) << (8 * part);
            }
            u64 const rest = count - 32 * w;
            if (rest < 32) word &= (1u << rest) - 1;
            bits[w] = word;
        }
    }
};

}  // namespace mgi::operators::on_gpu
