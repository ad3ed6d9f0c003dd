// Texts inside rows of tables: 16 bytes that hold short ones whole.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include <mgi/device/batch_view.hpp>

#include "core/buffer.hpp"

namespace mgi::operators {

using device::i64;
using device::Text;
using device::u16;
using device::u32;
using device::u64;
using device::u8;
using i128 = __int128;
using u128 = unsigned __int128;

// Rows that the operators treat at once, column after column: few enough for what they touch to
// stay in the first-level caches.
inline constexpr u32 kVector = 512;

// Short characters are put together by shifts; Arrow's views are little-endian, too.
static_assert(std::endian::native == std::endian::little);

// A text as two words, and always handled as such: put together from single characters in memory, a
// load of a whole word would wait for them. The first is the size and the first characters, the second
// is the rest of a short text, or where all characters of a long one lie. Two texts are equal if both
// words are, or if the first words are and the characters behind the pointers.
class RowText {
public:
    static constexpr u32 kInline = 12;

    RowText() = default;
    explicit RowText(Text text) : head_(text.size) {
        if (text.size > kInline) {
            head_ |= load<u32>(text.data) << 32;
            point_to(text.data);
        } else if (text.size != 0) {
            load_short(text.data, text.size);
        }
    }

    // Of a text with at least kInline characters to read from where it starts, its own or others: no
    // branch, for sizes that cannot be foretold.
    static RowText with_others_behind(Text text) {
        RowText row;
        row.set_short(text.data, text.size);
        if (text.size > kInline) row.point_to(text.data);
        return row;
    }
    // Of an Arrow view, which is nearly the same: no character of a long one is touched.
    RowText(device::StringView16 const& view, char const* const* buffers) {
        set_short(view.text, view.length);
        if (view.length > kInline) point_to(buffers[view.ref.buffer] + view.ref.offset);
    }

    // As a row of a table holds it.
    static RowText at(void const* from) {
        RowText text;
        std::memcpy(static_cast<void*>(&text), from, sizeof(text));
        return text;
    }
    void store(void* to) const { std::memcpy(to, this, sizeof(*this)); }

    [[nodiscard]] u32 size() const { return u32(head_); }
    [[nodiscard]] bool is_long() const { return size() > kInline; }
    // The size and the first characters.
    [[nodiscard]] u64 head() const { return head_; }
    // All characters, of a long one.
    [[nodiscard]] char const* data() const { return std::bit_cast<char const*>(tail_); }
    void point_to(char const* data) { tail_ = std::bit_cast<u64>(data); }
    // Valid as long as this object and what it points to.
    [[nodiscard]] Text text() const {
        return {is_long() ? data() : reinterpret_cast<char const*>(this) + sizeof(u32), size()};
    }

private:
    // The bits of the characters that a text of each size has in its words.
    struct Kept {
        u64 head;
        u64 tail;
    };
    static constexpr auto kKept = [] {
        std::array<Kept, kInline + 1> kept{};
        for (u32 size = 0; size <= kInline; ++size) {
            kept[size].head = size < 4 ? ~(~u64{0} << size * 8) : ~u64{0} >> 32;
            kept[size].tail = size <= 4 ? 0 : ~u64{0} >> (kInline - size) * 8;
        }
        return kept;
    }();

    // From kInline readable characters; what follows the text's own is dropped.
    void set_short(char const* from, u32 size) {
        Kept const& kept = kKept[size < kInline ? size : kInline];
        head_ = (load<u32>(from) & kept.head) << 32 | size;
        tail_ = load<u64>(from + 4) & kept.tail;
    }
    template <class T>
    static u64 load(char const* from) {
        T value;
        std::memcpy(&value, from, sizeof(T));
        return value;
    }
    // 1 to 12 characters, by loads that overlap: a call of memcpy costs more than they do.
    void load_short(char const* from, u32 size) {
        if (size < 4) {
            u32 const middle = size / 2;
            u32 const last = size - 1;
            u64 const first = load<u8>(from) | load<u8>(from + middle) << middle * 8 |
                              load<u8>(from + last) << last * 8;
            head_ |= first << 32;
            return;
        }
        head_ |= load<u32>(from) << 32;
        if (size > 8) {
            tail_ = load<u64>(from + size - 8) >> (kInline - size) * 8;
        } else if (size > 4) {
            tail_ = load<u32>(from + size - 4) >> (8 - size) * 8;
        }
    }

    u64 head_ = 0;
    u64 tail_ = 0;
};
static_assert(sizeof(RowText) == 16);

// Copies a long text, in most cases without calling memcpy.
inline void copy_long(char* to, char const* from, u32 size) {
    auto const both_ends = [&](auto half) {
        auto last = half;
        std::memcpy(&half, from, sizeof(half));
        std::memcpy(&last, from + size - sizeof(half), sizeof(half));
        std::memcpy(to, &half, sizeof(half));
        std::memcpy(to + size - sizeof(half), &last, sizeof(half));
    };
    struct Half16 {
        u64 words[2];
    };
    struct Half32 {
        u64 words[4];
    };
    static_assert(RowText::kInline >= sizeof(u64));
    if (size <= 2 * sizeof(u64)) return both_ends(u64{});
    if (size <= 2 * sizeof(Half16)) return both_ends(Half16{});
    if (size <= 2 * sizeof(Half32)) return both_ends(Half32{});
    std::memcpy(to, from, size);
}

// By bytes, as SQL's binary collation: <0, 0 or >0.
inline int compare(Text a, Text b) {
    u32 const common = a.size < b.size ? a.size : b.size;
    int const order = common == 0 ? 0 : std::memcmp(a.data, b.data, common);
    if (order != 0) return order;
    return a.size < b.size ? -1 : a.size > b.size ? 1 : 0;
}

// Characters that stay where they are until the arena is cleared. Not thread-safe.
class TextArena {
public:
    // Copies the characters of a long text in and points it at them.
    void adopt(RowText& text) {
        if (!text.is_long()) return;
        text.point_to(copy({text.data(), text.size()}));
    }
    char const* copy(Text text) {
        char* const to = room(text.size);
        std::memcpy(to, text.data, text.size);
        return to;
    }
    // Room for `size` characters.
    char* room(u32 size) {
        if (size > left_) {
            std::size_t const least = blocks_.empty() ? kFirstBlock : kBlock;
            blocks_.emplace_back(size > least ? size : least, false);
            bytes_ += blocks_.back().bytes();
            next_ = blocks_.back().data();
            left_ = blocks_.back().bytes();
        }
        char* const at = next_;
        next_ += size;
        left_ -= size;
        used_ += size;
        return at;
    }
    [[nodiscard]] std::size_t used() const { return used_; }
    // Memory it holds.
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    void clear() {
        blocks_.clear();
        next_ = nullptr;
        left_ = used_ = bytes_ = 0;
    }

private:
    static constexpr std::size_t kFirstBlock = std::size_t{16} << 10;
    static constexpr std::size_t kBlock = std::size_t{256} << 10;

    std::vector<Buffer> blocks_;
    char* next_ = nullptr;
    std::size_t left_ = 0;
    std::size_t used_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace mgi::operators
