// Values of columns as kernels of operators read and write them. One source for g++ and nvcc.
#pragma once

#include <cuda/atomic>

#include <mgi/device/batch_view.hpp>
#include <mgi/device/channel.hpp>
#include <mgi/device/hash.hpp>
#include <mgi/device/values.hpp>

namespace mgi::operators::on_gpu {

using device::ColumnView;
using device::i64;
using device::KeyKind;
using device::u16;
using device::u32;
using device::u64;
using device::u8;

// A word that groups of a place add to. Kernels are ordered by what starts them, so all of it is relaxed.
template <class T>
MGI_HD auto shared_word(T* at) {
    return cuda::atomic_ref<T, cuda::thread_scope_device>(*at);
}

// Calls `use(i)` for this thread's share of [0, count).
template <class Use>
MGI_HD void each_of(device::Group const& group, u64 count, Use&& use) {
    u64 const step = u64{group.threads} * group.blocks;
    for (u64 i = u64{group.block} * group.threads + group.thread; i < count; i += step) use(i);
}

// What a column's values are. Bool: a bit a row, width 0. Of Bytes, which decimals are too, one piece is looked at, the up to 8
// bytes behind the first `skip`; of Text a word with its size and a part of its hash, or where it lies.
struct ValueKind {
    KeyKind kind = KeyKind::Signed;
    u8 width = 8;  // of longer values kMostWidth: no kernel looks at them
    u8 skip = 0;

    static constexpr u32 kMostWidth = 255;
    static constexpr u32 kTextWord = 0;   // `skip` of a text's first word
    static constexpr u32 kTextBegin = 8;  // and of the address of its characters

    // Bytes of the piece.
    [[nodiscard]] MGI_HD u32 piece() const { return width - skip < 8 ? u32(width - skip) : 8; }
    // Whether values are longer than a word, as kernels see them.
    [[nodiscard]] MGI_HD bool is_long() const { return kind >= KeyKind::Bytes; }
};

// The largest unit of values that lie `width` bytes apart at both addresses, of 16 bytes at most.
MGI_HD inline u32 unit_of(u64 width, void const* a, void const* b) {
    u64 const bits = width | reinterpret_cast<u64>(a) | reinterpret_cast<u64>(b) | 16;
    return u32(bits & (0 - bits));
}

// Such a unit of 16 bytes.
struct alignas(16) Unit16 {
    u64 low;
    u64 high;
};

// Calls `use` with a value of a unit's type.
template <class Use>
MGI_HD void with_unit(u32 unit, Use&& use) {
    switch (unit) {
        case 1: return use(u8{});
        case 2: return use(u16{});
        case 4: return use(u32{});
        case 8: return use(u64{});
        default: return use(Unit16{});
    }
}

// Up to 8 bytes as a number.
MGI_HD inline u64 load_piece(char const* at, u32 bytes) {
    if (bytes == 8 && reinterpret_cast<u64>(at) % 8 == 0) return *reinterpret_cast<u64 const*>(at);
    u64 word = 0;
    for (u32 b = 0; b < bytes; ++b) word |= u64(u8(at[b])) << (8 * b);
    return word;
}
MGI_HD inline void store_piece(char* at, u32 bytes, u64 word) {
    if (bytes == 8 && reinterpret_cast<u64>(at) % 8 == 0) {
        *reinterpret_cast<u64*>(at) = word;
        return;
    }
    for (u32 b = 0; b < bytes; ++b) at[b] = char(word >> (8 * b));
}

MGI_HD inline bool is_valid(ColumnView const& view, u64 row) {
    return view.validity == nullptr || device::bit_at(view.validity, view.offset + row);
}

inline constexpr u32 kLongestText = 0x7fffffff;  // as Arrow has it

// Up to 8 bytes at any address, the others 0. A GPU loads the one or two words that they lie in, not byte after byte, and
// without a branch, at which a warp's threads would part for long: each has texts of another size.
MGI_HD inline u64 load_some(char const* at, u32 bytes) {
#if defined(__CUDA_ARCH__)
    u64 const address = reinterpret_cast<u64>(at);
    u64 const* const words = reinterpret_cast<u64 const*>(address & ~u64{7});
    u32 const before = u32(address & 7);
    u64 const low = bytes != 0 ? words[0] : 0;
    u64 const high = before + bytes > 8 ? words[1] : 0;
    u64 const word = low >> (8 * before) | high << 1 << (63 - 8 * before);
    return word & ~u64{0} >> ((64 - 8 * bytes) & 63);
#else
    u64 word = 0;
    if (bytes != 0) memcpy(&word, at, bytes);
    return word;
#endif
}

// Word `w` of a text, of which the last one's missing characters are 0, and so are words behind it.
MGI_HD inline u64 load_word_of(char const* text, u32 size, u32 w) {
    u32 const first = device::min_of(8 * w, size);
    return load_some(text + first, device::min_of(size - first, 8u));
}
MGI_HD inline u32 words_of(u32 size) {
    return u32((u64{size} + 7) / 8);
}

MGI_HD inline bool same_bytes(char const* a, char const* b, u32 size) {
    u64 differ = 0;
    for (u32 w = 0; w < words_of(size) && differ == 0; ++w) {
        differ = load_word_of(a, size, w) ^ load_word_of(b, size, w);
    }
    return differ == 0;
}

// device::murmur3_bytes of a text, by words.
MGI_HD inline u64 hash_of(device::Text text) {
    return device::murmur3_of(text.data, text.size, load_some);
}

// A text's word: texts are equal if their words and characters are.
MGI_HD inline u64 text_word(u64 hash, u32 size) {
    return hash << 32 | size;
}
MGI_HD inline u64 text_word(device::Text text) {
    return text_word(hash_of(text), text.size);
}
MGI_HD inline u32 size_of_text(u64 word) {
    return u32(word);
}

// An integer extended to 64 bits; a float as the bits of a double, one NaN and one zero; a Bool as 0 or 1.
MGI_HD inline u64 load_word(ColumnView const& view, ValueKind kind, u64 row) {
    u64 const at = view.offset + row;
    auto const* values = static_cast<char const*>(view.values);
    if (kind.kind == KeyKind::Bool) {
        return device::bit_at(static_cast<u8 const*>(view.values), at) ? 1 : 0;
    }
    values += at * kind.width;
    if (kind.kind == KeyKind::Signed) return u64(device::load_signed(values, kind.width));
    if (kind.kind == KeyKind::Unsigned) return device::load_unsigned(values, kind.width);
    return device::load_float(values, kind.width);
}

// The same, or a word of a long value. Where there are none, kernels do without: it takes registers.
MGI_HD inline u64 load_any_word(ColumnView const& view, ValueKind kind, u64 row) {
    if (!kind.is_long()) return load_word(view, kind, row);
    if (kind.kind == KeyKind::Text) {
        device::Text const text = device::view_text(view, row);
        if (kind.skip == ValueKind::kTextWord) return text_word(text);
        return reinterpret_cast<u64>(text.data);
    }
    auto const* const values = static_cast<char const*>(view.values);
    return load_piece(values + (view.offset + row) * kind.width + kind.skip, kind.piece());
}

// The upper word of a decimal.
MGI_HD inline u64 load_upper(ColumnView const& view, u64 row) {
    return static_cast<u64 const*>(view.values)[2 * (view.offset + row) + 1];
}

// Calls `use(load)`, where `load(row)` is load_word of a column: of the kinds that most keys are without a branch for each
// row, so that a thread's loads are on their way together.
template <class Use>
MGI_HD void with_words_of(ColumnView const& view, ValueKind kind, Use&& use) {
    bool const integer = kind.kind == KeyKind::Signed || kind.kind == KeyKind::Unsigned;
    if (integer && kind.width == 8) {
        u64 const* const at = static_cast<u64 const*>(view.values) + view.offset;
        use([at](u64 row) { return at[row]; });
    } else if (kind.kind == KeyKind::Signed && kind.width == 4) {
        auto const* const at = static_cast<std::int32_t const*>(view.values) + view.offset;
        use([at](u64 row) { return u64(i64(at[row])); });
    } else {
        use([&view, kind](u64 row) { return load_word(view, kind, row); });
    }
}

MGI_HD inline double load_double(ColumnView const& view, u32 width, u64 row) {
    u64 const at = view.offset + row;
    if (width == 4) return double(static_cast<float const*>(view.values)[at]);
    return static_cast<double const*>(view.values)[at];
}

// A column of a result. Bools and validity are bytes here, and packed into bits at the end, since groups
// write rows that share a word.
struct OutputColumn {
    char* values = nullptr;
    u8* valid = nullptr;         // null: no row is null
    u32 width = 8;               // of a value; 1 of a Bool
    bool bits = false;           // a Bool
    bool wide = false;           // a decimal or a fixed-size binary, whatever its width
    bool text = false;           // spans
    char* characters = nullptr;  // of spans; null: they lie anywhere
};

// Calls `use` with a value of the unsigned type of a width.
template <class Use>
MGI_HD void with_type_of(u32 width, Use&& use) {
    switch (width) {
        case 1: return use(u8{});
        case 2: return use(u16{});
        case 4: return use(u32{});
        default: return use(u64{});
    }
}

MGI_HD inline void store_word(OutputColumn const& column, u64 row, u64 word) {
    with_type_of(column.width, [&](auto type) {
        reinterpret_cast<decltype(type)*>(column.values)[row] = decltype(type)(word);
    });
}

// A value as it is.
MGI_HD inline u64 load_raw(ColumnView const& view, OutputColumn const& column, u64 row) {
    u64 const at = view.offset + row;
    if (column.bits) return device::bit_at(static_cast<u8 const*>(view.values), at) ? 1 : 0;
    return device::load_unsigned(static_cast<char const*>(view.values) + at * column.width,
                                 column.width);
}

MGI_HD inline void store_span(OutputColumn const& to, u64 row, u64 begin, u64 size) {
    reinterpret_cast<device::TextSpan*>(to.values)[row] = {begin, size};
}

// `kLong`: whether some column's values are longer than a word, or texts.
template <bool kLong>
MGI_HD void copy_value(OutputColumn const& to, u64 row, ColumnView const& from, u64 at) {
    bool const is_long = kLong && (to.text || to.wide);
    if (!is_long) store_word(to, row, load_raw(from, to, at));
    if constexpr (kLong) {
        if (to.text) {
            bool const valid = is_valid(from, at);
            device::Text const text = valid ? device::view_text(from, at) : device::Text();
            store_span(to, row, reinterpret_cast<u64>(text.data), text.size);
        } else if (to.wide) {
            char* const value = to.values + row * to.width;
            char const* const source =
                static_cast<char const*>(from.values) + (from.offset + at) * to.width;
            with_unit(unit_of(to.width, value, source), [&](auto unit) {
                using T = decltype(unit);
                for (u32 u = 0; u < to.width; u += u32(sizeof(T))) {
                    *reinterpret_cast<T*>(value + u) = *reinterpret_cast<T const*>(source + u);
                }
            });
        }
    }
    if (to.valid != nullptr) to.valid[row] = is_valid(from, at) ? 1 : 0;
}

MGI_HD inline void store_null(OutputColumn const& to, u64 row) {
    if (to.text) {
        store_span(to, row, 0, 0);
    } else if (to.wide) {
        for (u32 b = 0; b < to.width; ++b) to.values[row * to.width + b] = 0;
    } else {
        store_word(to, row, 0);
    }
    to.valid[row] = 0;
}

// Where the columns of a batch that was received lie. By the whole group; `views` are in its scratch.
MGI_HD inline void aim(device::Group const& group, device::ReceivedBatch const& batch,
                       ColumnView* views) {
    group.sync();  // nobody reads the last batch any more
    for (u32 c = group.thread; c < batch.layout->column_count; c += group.threads) {
        device::ColumnLayout const& column = batch.layout->columns[c];
        ColumnView view;
        view.values = batch.segment + column.offset;
        if (column.nullable()) {
            view.validity = reinterpret_cast<u8 const*>(batch.segment + column.validity);
        }
        view.offset = batch.row;
        if (column.key == KeyKind::Text) {
            view.encoding = device::InputEncoding::Views;
            view.bytes = batch.segment + batch.layout->bytes_offset;
        }
        views[c] = view;
    }
    group.sync();
}

// The same of rows [first, ...) of an input.
MGI_HD inline void aim(device::Group const& group, ColumnView const* columns, u32 count, u64 first,
                       ColumnView* views) {
    group.sync();
    for (u32 c = group.thread; c < count; c += group.threads) {
        views[c] = columns[c];
        views[c].offset += first;
    }
    group.sync();
}

// A group's part of a channel: rows of an input that it sends, slice by slice.
struct PartToSend {
    ColumnView const* columns = nullptr;
    u32 column_count = 0;
    u64 rows = 0;
};

// The paper's Figure 3: sends this group's share of the part, and hands each batch that comes to
// `use(batch)` in between. False if the channel failed. `views` are in the group's scratch.
template <class Use>
MGI_HD bool send_and_receive(device::Group const& group, device::Shared& shared,
                             device::Channel const& channel, PartToSend const& part,
                             ColumnView* views, Use&& use) {
    u64 sent = part.rows * group.block / group.blocks;
    u64 const end = part.rows * (group.block + 1) / group.blocks;
    bool flushed = false;
    for (u32 idle = 0;;) {
        bool moved = false;
        if (sent != end) {
            aim(group, part.columns, part.column_count, sent, views);
            device::Batch batch;
            batch.columns = views;
            batch.count = end - sent;
            device::SendResult const result = channel.send(group, shared, batch);
            if (result.status == device::Status::Error) return false;
            sent += result.rows;
            moved = result.rows != 0;
        }
        if (sent == end && !flushed) {
            device::Status const status = channel.flush(group, shared);
            if (status == device::Status::Error) return false;
            flushed = status == device::Status::Ok;
        }
        device::ReceivedBatch batch;
        device::Status const status = channel.recv(group, shared, batch);
        if (status == device::Status::Ok) {
            use(batch);
            channel.release(group, shared, batch);
            moved = true;
        } else if (status == device::Status::Error) {
            return false;
        } else if (status == device::Status::End && flushed) {
            return true;
        }
        idle = moved ? 0 : idle + 1;
        if (!moved) device::backoff(idle);
    }
}

}  // namespace mgi::operators::on_gpu
