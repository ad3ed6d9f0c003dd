// Texts inside rows of tables: 16 bytes that hold short ones whole.
#pragma once

#include <bit>
#include <cstring>
#include <vector>

#include <mgi/device/batch_view.hpp>

#include "operators/buffer.hpp"

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

// A text as two words. Two of them are equal if both words are, or if the first words are and the
// characters behind the pointers.
struct RowText {
    static constexpr u32 kInline = 12;

    u32 size = 0;
    char prefix[4] = {};
    union {
        char rest[8];
        char const* data;  // all characters, of longer ones
    };

    RowText() : rest{} {}
    explicit RowText(Text text) : size(text.size), rest{} {
        if (size > kInline) {
            std::memcpy(prefix, text.data, sizeof(prefix));
            data = text.data;
        } else if (size != 0) {
            load_short(text.data);
        }
    }

    // As a row of a table holds it.
    static RowText at(void const* from) {
        RowText text;
        std::memcpy(static_cast<void*>(&text), from, sizeof(text));
        return text;
    }
    void store(void* to) const { std::memcpy(to, this, sizeof(*this)); }

    [[nodiscard]] bool is_long() const { return size > kInline; }
    // Valid as long as this object and what it points to.
    [[nodiscard]] Text text() const {
        return {is_long() ? data : reinterpret_cast<char const*>(this) + sizeof(size), size};
    }

private:
    // Copies 1 to 12 characters by loads that overlap: a call of memcpy costs more than they do.
    void load_short(char const* from) {
        if (size < 4) {
            prefix[0] = from[0];
            prefix[size / 2] = from[size / 2];
            prefix[size - 1] = from[size - 1];
            return;
        }
        std::memcpy(prefix, from, 4);
        u64 last = 0;
        if (size > 8) {
            std::memcpy(&last, from + size - 8, 8);
            last >>= (kInline - size) * 8;
        } else if (size > 4) {
            u32 half;
            std::memcpy(&half, from + size - 4, 4);
            last = half >> (8 - size) * 8;
        }
        std::memcpy(rest, &last, sizeof(last));
    }
};
static_assert(sizeof(RowText) == 16);

// Copies a long text, in most cases without calling memcpy.
inline void copy_long(char* to, char const* from, u32 size) {
    struct Half {
        u64 words[2];
    };
    Half first;
    Half last;
    if (size < sizeof(Half) || size > 2 * sizeof(Half)) {
        std::memcpy(to, from, size);
        return;
    }
    std::memcpy(&first, from, sizeof(Half));
    std::memcpy(&last, from + size - sizeof(Half), sizeof(Half));
    std::memcpy(to, &first, sizeof(Half));
    std::memcpy(to + size - sizeof(Half), &last, sizeof(Half));
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
        text.data = copy({text.data, text.size});
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
    void clear() {
        blocks_.clear();
        next_ = nullptr;
        left_ = used_ = 0;
    }

private:
    static constexpr std::size_t kFirstBlock = std::size_t{16} << 10;
    static constexpr std::size_t kBlock = std::size_t{256} << 10;

    std::vector<Buffer> blocks_;
    char* next_ = nullptr;
    std::size_t left_ = 0;
    std::size_t used_ = 0;
};

}  // namespace mgi::operators
