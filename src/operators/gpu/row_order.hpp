// The order of one endpoint's rows. All of them are sorted by radix, by as many pieces of their keys as fit a word; ties, rows that
// are equal by those, by their groups and the next piece, and so on, until each row is alone or equal to others by all
// keys.
#pragma once

#include "operators/gpu/operation.hpp"
#include "operators/gpu/sort_kernels.hpp"

namespace mgi::operators::on_gpu {

// Rows in order, equal ones in any, and columns that are known in that order.
struct FoundOrder {
    Memory rows;  // their numbers, of 32 bits
    Memory words;
    std::map<u32, WordColumn> in_words;  // by column
};

class RowOrder {
public:
    // `columns`: of the rows, by which `keys` count; `nulls` says which can have any.
    RowOrder(Operation const& operation, std::size_t e, std::vector<ColumnView> const& columns,
             u64 rows, std::vector<KeyOrder> const& keys, std::vector<bool> const& nulls)
        : operation_(operation),
          place_(operation.place(e)),
          nulls_(nulls),
          pieces_(pieces_of(keys, nulls)) {
        has_texts_ = std::any_of(pieces_.begin(), pieces_.end(), is_text);
        std::tie(keys_.columns, keys_.pieces) = place_.upload(keep_, columns, pieces_);
        keys_.piece_count = u32(pieces_.size());
        keys_.rows = rows;
    }

    // Throws Error(OutOfMemory).
    FoundOrder find() {
        if (keys_.rows == 0) return {};
        sort_all();
        while (ties_.count != 0) {
            operation_.check();
            sort_ties();
        }
        return std::move(found_);
    }

private:
    static constexpr std::size_t kMostFirst = 12;  // places that are looked at for the first word
    static constexpr u32 kFirstLevels = 4;         // and levels of a text among them
    static constexpr u32 kLeastRoom = 4;           // bits for a part of a word

    static bool is_text(KeyPiece const& piece) { return piece.kind == PieceKind::Text; }

    // Words and numbers to be sorted, in memory for twice as many. It is given back behind the kernels that use it.
    struct Pairs {
        Pairs(Place& place, u64 count, std::string const& what)
            : words(place.allocate(sizeof(u64) * count, what)),
              other_words(place.allocate(sizeof(u64) * count, what)),
              rows(place.allocate(sizeof(u32) * count, what)),
              other_rows(place.allocate(sizeof(u32) * count, what)) {
            all.words = static_cast<u64*>(words.get());
            all.other_words = static_cast<u64*>(other_words.get());
            all.rows = static_cast<u32*>(rows.get());
            all.other_rows = static_cast<u32*>(other_rows.get());
            all.count = count;
        }
        void sort(Place& place, u32 bits) {
            if (bits == 0 || all.count < 2) return;
            all.bits = bits;
            place.sort(all);
        }
        // What is sorted.
        [[nodiscard]] Memory numbers() const { return all.rows == rows.get() ? rows : other_rows; }
        [[nodiscard]] Memory sorted() const {
            return all.words == words.get() ? words : other_words;
        }

        Memory words;
        Memory other_words;
        Memory rows;
        Memory other_rows;
        WordsToSort all;
    };

    [[nodiscard]] std::string what() const {
        return "the order of " + std::to_string(keys_.rows) + " rows";
    }

    // The first places of rows' sequences, which may fit one word.
    [[nodiscard]] std::vector<PieceAt> first_places() const {
        std::vector<PieceAt> places;
        for (u32 p = 0; p < pieces_.size() && places.size() < kMostFirst; ++p) {
            for (u32 level = 0; level < (is_text(pieces_[p]) ? kFirstLevels : 1); ++level) {
                places.push_back({p, level});
            }
        }
        return places;
    }

    void sort_all() {
        std::vector<PieceAt> places = first_places();
        u32 const looked_at = u32(places.size());
        WordFacts* facts = nullptr;
        PieceAt const* places_at = nullptr;
        std::tie(facts, places_at) =
            place_.upload(keep_, std::vector<WordFacts>(places.size()), places);
        place_.run(SurveyPieces::scratch_bytes(), SurveyPieces{}, keys_, places_at, looked_at,
                   facts);
        std::vector<WordBits> bits;
        u32 all_bits = 0;
        bool goes_on = false;  // some text, behind the last place
        bool part = false;     // of the last word there is only that
        for (WordFacts const& found : place_.download(facts, looked_at)) {
            PieceAt const at = places[bits.size()];
            // What comes behind a text counts for rows where it has ended.
            if (goes_on && at.level == 0) break;
            WordBits one = WordBits::of(found);
            u32 const room = 64 - all_bits;
            bool const fits = one.bits <= room;
            if (!fits && room < kLeastRoom) break;
            part = !fits;
            if (part) one.keep_first(room);
            all_bits += one.bits;
            bits.push_back(one);
            if (part) break;
            goes_on = is_text(pieces_[at.piece]) && found.goes_on(pieces_[at.piece]);
        }
        u32 const count = u32(bits.size());
        Pairs pairs(place_, keys_.rows, what());
        place_.run(0, PackPieces{}, keys_, places_at,
                   static_cast<WordBits const*>(place_.upload_one(keep_, bits)), count,
                   pairs.all.words, pairs.all.rows);
        pairs.sort(place_, all_bits);
        found_.rows = pairs.numbers();
        find_columns(places, bits, part ? count - 1 : count, all_bits);
        if (!found_.in_words.empty()) {
            found_.words = pairs.sorted();
            for (auto& [column, in_words] : found_.in_words) in_words.words = pairs.all.words;
        }
        Sorted sorted;
        sorted.packed = pairs.all.words;
        sorted.numbers = pairs.all.rows;
        sorted.count = keys_.rows;
        // Rows that tie with a part of a word go on with all of it.
        sorted.last = places[count - (part ? 2 : 1)];
        passed_ = sorted.last.piece + 1;
        if (goes_on || passed_ != pieces_.size()) find_ties(sorted);
    }

    // Integers of which the word has all bits, of the first `count` places.
    void find_columns(std::vector<PieceAt> const& places, std::vector<WordBits> const& bits,
                      u32 count, u32 all_bits) {
        u32 shift = all_bits;
        for (u32 p = 0; p < count; ++p) {
            shift -= bits[p].bits;
            KeyOrder const& order = pieces_[places[p].piece].order;
            bool const is_signed = order.kind == OrderKind::Signed;
            if (!is_signed && order.kind != OrderKind::Unsigned) continue;
            if (nulls_[order.column] || !bits[p].together || shift == 64) continue;
            WordColumn column;
            column.shift = shift;
            column.mask = bits[p].mask;
            column.least = bits[p].least;
            column.flip = (order.descending ? ~u64{0} : 0) ^ (is_signed ? device::kSignBit : 0);
            found_.in_words.emplace(order.column, column);
        }
    }

    void sort_ties() {
        if (has_texts_) {
            Memory const levels = place_.allocate(sizeof(u32) * ties_.group_count, what());
            place_.fill(levels.get(), 0xff, sizeof(u32) * ties_.group_count);
            u32* const at = static_cast<u32*>(levels.get());
            place_.run(0, FindCommonLevels{}, keys_, ties_, at);
            place_.run(0, SkipLevels{}, ties_, static_cast<u32 const*>(at));
        }
        Memory const memory = place_.allocate(sizeof(u64) * ties_.count, what());
        u64* const words = static_cast<u64*>(memory.get());
        place_.run(0, FindWords{}, keys_, ties_, words);
        std::vector<Memory> keep;
        WordFacts* const facts = place_.upload_one(keep, std::vector<WordFacts>(1));
        place_.run(SurveyTies::scratch_bytes(), SurveyTies{}, ties_, static_cast<u64 const*>(words),
                   facts);
        WordBits const bits = WordBits::of(place_.download(facts, 1)[0]);
        if (bits.bits == 0 && !has_texts_) {
            // All groups are at the same piece.
            if (++passed_ == pieces_.size()) {
                ties_ = {};
            } else {
                place_.run(0, PassPiece{}, ties_);
            }
            return;
        }
        u32 const group_bits = u32(std::bit_width(ties_.group_count - 1));
        bool const whole = group_bits + bits.bits <= 64;
        Pairs pairs(place_, ties_.count, what());
        place_.run(0, PackTies{}, ties_, static_cast<u64 const*>(words), bits, whole,
                   pairs.all.words, pairs.all.rows);
        if (!whole) {
            // By what they are first sorted by they stay sorted.
            pairs.sort(place_, bits.bits);
            place_.run(0, GroupsOf{}, ties_, static_cast<u32 const*>(pairs.all.rows),
                       pairs.all.words);
            pairs.sort(place_, group_bits);
        } else if (bits.bits != 0) {
            pairs.sort(place_, group_bits + bits.bits);
        }
        Sorted sorted;
        sorted.packed = pairs.all.words;
        sorted.numbers = pairs.all.rows;
        sorted.count = ties_.count;
        sorted.ties = ties_;
        sorted.bits = bits;
        if (!whole) sorted.words = words;
        find_ties(sorted);
        ++passed_;
    }

    // Those that are left; and puts rows that were ties where they belong.
    void find_ties(Sorted const& sorted) {
        PackArgs tiles;
        tiles.rows = sorted.count;
        Memory const sums = place_.allocate((tiles.tile_count() + 1) * 8, what());
        tiles.tiles = static_cast<u64*>(sums.get());
        place_.run(CountTies::scratch_bytes(), CountTies{}, keys_, sorted, tiles,
                   static_cast<u32*>(found_.rows.get()));
        place_.run(PlaceTiles::scratch_bytes(place_.threads()), PlaceTiles{}, tiles);
        u64 const sum = place_.download(tiles.tiles + tiles.tile_count(), 1)[0];
        Ties left;
        left.count = sum & 0xffffffffu;
        left.group_count = sum >> CountTies::kGroup;
        Memory memory;
        if (left.count != 0) {
            memory = place_.allocate(
                sizeof(PieceAt) * left.group_count + 3 * sizeof(u32) * left.count, what());
            left.next = static_cast<PieceAt*>(memory.get());
            left.rows = reinterpret_cast<u32*>(left.next + left.group_count);
            left.slots = left.rows + left.count;
            left.groups = left.slots + left.count;
            place_.run(WriteTies::scratch_bytes(place_.threads()), WriteTies{}, keys_, sorted,
                       tiles, left);
        }
        ties_ = left;
        ties_memory_ = std::move(memory);
    }

    Operation const& operation_;
    Place& place_;
    std::vector<bool> const& nulls_;
    std::vector<KeyPiece> const pieces_;
    bool has_texts_ = false;
    std::vector<Memory> keep_;
    RowKeys keys_;
    FoundOrder found_;
    std::size_t passed_ = 0;  // pieces, where there are no texts
    Ties ties_;
    Memory ties_memory_;
};

}  // namespace mgi::operators::on_gpu
