// Sort keys as words that order rows: of each row a sequence of pieces, of which each is compared as a number where those before
// are equal. One source for g++ and nvcc.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include <mgi/device/order.hpp>

#include "operators/gpu/columns.hpp"

namespace mgi::operators::on_gpu {

using device::KeyOrder;
using device::OrderKind;

enum class PieceKind : u8 {
    Null,   // whether the value is null
    Value,  // 8 bytes of it
    Text,   // 7 characters, and whether more follow: by levels, as many as ties want
};

struct KeyPiece {
    KeyOrder order;
    PieceKind kind = PieceKind::Value;
    u32 skip =
        0;  // bytes of the value before these; of a decimal, which begins with its upper half, as well
};

// The pieces of some keys, in order.
inline std::vector<KeyPiece> pieces_of(std::vector<KeyOrder> const& keys,
                                       std::vector<bool> const& nulls) {
    std::vector<KeyPiece> pieces;
    for (KeyOrder const& key : keys) {
        KeyPiece piece{key};
        if (nulls[key.column]) {
            piece.kind = PieceKind::Null;
            pieces.push_back(piece);
        }
        piece.kind = key.kind == OrderKind::Text ? PieceKind::Text : PieceKind::Value;
        bool const is_long = key.kind == OrderKind::Decimal || key.kind == OrderKind::Bytes;
        u32 const end = is_long ? key.width : 1;
        for (; piece.skip < end; piece.skip += 8) pieces.push_back(piece);
    }
    return pieces;
}

// Characters of a text's piece, and how the rest of it is said beside them: how many of them there are, or one more where others
// follow. So a text comes before those that begin with it, also where they go on with characters of 0.
inline constexpr u32 kTextPiece = 7;

// How many characters a text has at most that ends in a level.
MGI_HD inline u64 end_of_level(u32 level) {
    return u64{kTextPiece} * (level + 1);
}

// Up to 8 bytes in the order of the address as a number that orders like them.
MGI_HD inline u64 in_order(u64 word) {
#if defined(__CUDA_ARCH__)
    u32 const low = __byte_perm(u32(word), 0, 0x0123);
    u32 const high = __byte_perm(u32(word >> 32), 0, 0x0123);
    return u64{low} << 32 | high;
#else
    return __builtin_bswap64(word);
#endif
}

// Of a text that has ended before this level: nothing.
MGI_HD inline u64 text_piece(device::Text text, u32 level) {
    u32 const first = device::min_of(kTextPiece * level, text.size);
    u32 const left = text.size - first;
    u64 const characters = load_some(text.data + first, device::min_of(left, kTextPiece));
    return in_order(characters) | device::min_of(left, kTextPiece + 1);
}

MGI_HD inline device::Text text_of(ColumnView const& view, u64 row) {
    return is_valid(view, row) ? device::view_text(view, row) : device::Text();
}

// A place in the sequence: a piece, of texts at one of its levels.
struct PieceAt {
    u32 piece = 0;
    u32 level = 0;
};

// Of nulls one that is the same for all of them.
MGI_HD inline u64 piece_word(ColumnView const* columns, KeyPiece const& piece, u32 level, u64 row) {
    KeyOrder const& order = piece.order;
    ColumnView const& view = columns[order.column];
    bool const valid = is_valid(view, row);
    if (piece.kind == PieceKind::Null) return valid == order.nulls_first ? 1 : 0;
    if (!valid && order.kind != OrderKind::Text) return 0;
    u64 word = 0;
    char const* const at =
        static_cast<char const*>(view.values) + (view.offset + row) * order.width + piece.skip;
    switch (order.kind) {
        case OrderKind::Text: word = text_piece(text_of(view, row), level); break;
        case OrderKind::Bytes:
            word = in_order(load_piece(at, device::min_of(order.width - piece.skip, 8u)));
            break;
        case OrderKind::Decimal:
            word = piece.skip == 0 ? device::load_value<u64>(at + 8) ^ device::kSignBit
                                   : device::load_value<u64>(at - 8);
            break;
        default: {
            device::Batch batch;
            batch.columns = columns;
            device::ColumnLayout layout;
            layout.width = order.width;
            return device::order_word(batch, order, layout, row);
        }
    }
    return order.descending ? ~word : word;
}

// Whether a word counts, where those before are equal. Nulls have been told by the piece before, and texts that have ended by the
// level before.
MGI_HD inline bool says_more(ColumnView const* columns, KeyPiece const& piece, u32 level, u64 row) {
    if (piece.kind == PieceKind::Null) return true;
    ColumnView const& view = columns[piece.order.column];
    if (piece.kind == PieceKind::Text && level != 0) {
        return text_of(view, row).size > end_of_level(level - 1);
    }
    return is_valid(view, row);
}

// Where rows that are equal up to a place and at it go on. Any of them says it for all.
MGI_HD inline PieceAt next_piece(ColumnView const* columns, KeyPiece const* pieces, PieceAt at,
                                 u64 row) {
    KeyPiece const& piece = pieces[at.piece];
    if (piece.kind == PieceKind::Text) {
        device::Text const text = text_of(columns[piece.order.column], row);
        if (text.size > end_of_level(at.level)) return {at.piece, at.level + 1};
    }
    return {at.piece + 1, 0};
}

// Characters that two texts which are equal up to a level have in common behind that, in whole levels.
MGI_HD inline u32 common_levels(device::Text a, device::Text b, u32 level) {
    u32 const size = device::min_of(a.size, b.size);
    u32 common = 0;
    for (u64 first = u64{kTextPiece} * level; first + kTextPiece <= size; first += kTextPiece) {
        if (load_some(a.data + first, kTextPiece) != load_some(b.data + first, kTextPiece)) break;
        ++common;
    }
    return common;
}

// What is known of some words: enough to tell in which bits they differ.
struct WordFacts {
    u64 least = ~u64{0};
    u64 most = 0;
    u64 any = 0;        // bits that some word has
    u64 all = ~u64{0};  // and that all words have

    // Of a text's level: whether some text goes on behind it.
    [[nodiscard]] bool goes_on(KeyPiece const& piece) const {
        constexpr u64 kMore = kTextPiece + 1;  // a bit that fewer characters do not have
        return least <= most && ((piece.order.descending ? ~all : any) & kMore) != 0;
    }
};

// Words of which only the bits in which they differ are kept, so that they order as before.
struct WordBits {
    u64 least = 0;         // taken off before
    u64 mask = 0;          // then these bits are kept
    u64 moves[6] = {};     // of those the ones that go 1, 2, 4, 8, 16 and 32 places down, in turn
    u32 bits = 0;          // that come out
    bool together = true;  // they are the lowest ones
    u32 dropped = 0;       // of the lowest ones that were kept

    // As fits best what words are: numbers lie in a span, characters in some bits.
    static WordBits of(WordFacts const& facts) {
        WordBits made;
        if (facts.least == facts.most) made.least = facts.least;
        if (facts.least >= facts.most) return made;
        u64 const differ = facts.any & ~facts.all;
        u32 const span = u32(std::bit_width(facts.most - facts.least));
        if (span <= u32(std::popcount(differ))) {
            made.least = facts.least;
            made.mask = span == 64 ? ~u64{0} : (u64{1} << span) - 1;
        } else {
            made.least = facts.all;
            made.mask = differ;
        }
        made.bits = u32(std::popcount(made.mask));
        made.together = (made.mask & (made.mask + 1)) == 0;
        made.find_moves();
        return made;
    }

    // The highest of them alone.
    void keep_first(u32 some) {
        dropped = bits - some;
        bits = some;
    }

    [[nodiscard]] MGI_HD u64 keep(u64 word) const {
        u64 kept = (word - least) & mask;
        if (together) return kept >> dropped;
        for (u32 m = 0; m < 6; ++m) {
            u64 const moving = kept & moves[m];
            kept = (kept ^ moving) | moving >> (1u << m);
        }
        return kept >> dropped;
    }

private:
    // Hacker's Delight, 7-4: a bit goes down by how many below it are dropped, which is said in binary.
    void find_moves() {
        u64 kept = mask;
        u64 gone = ~mask << 1;
        for (u32 m = 0; m < 6; ++m) {
            u64 odd = gone;
            for (u32 shift = 1; shift < 64; shift *= 2) odd ^= odd << shift;
            moves[m] = odd & kept;
            kept = (kept ^ moves[m]) | moves[m] >> (1u << m);
            gone &= ~odd;
        }
    }
};

}  // namespace mgi::operators::on_gpu
