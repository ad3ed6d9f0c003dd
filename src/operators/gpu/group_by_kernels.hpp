// The kernels of a group-by. One source for g++ and nvcc.
#pragma once

#include "operators/gpu/local_groups.hpp"

namespace mgi::operators::on_gpu {

// What the groups of a place say of their table.
struct GroupCounts {
    u64 groups = 0;    // entries that were made
    u32 overfull = 0;  // some row found no entry: nothing of the table counts
};

// In the place's memory: kernels get its address, since a thread's own copy would be in memory as well.
struct GroupByArgs {
    KeyCode code;
    States states;
    HashTable table;
    GroupCounts* counts = nullptr;
    u32 local_copies =
        0;  // 0: no groups in the scratch; so where keys' texts do not stay where they are
    KeyTexts texts;
};

// Scratch of a kernel below, beside what its channel needs.
inline u32 group_by_scratch(GroupByArgs const& args, bool wide, u32 columns) {
    return LocalGroups::scratch_bytes(args.code.words, wide, args.states.words, args.local_copies) +
           columns * u32(sizeof(ColumnView)) + 32;
}

template <bool kWide, StateKinds kKinds>
class Folder {
public:
    MGI_HD Folder(device::Group const& group, device::Shared& shared, GroupByArgs const& args)
        : group_(group),
          args_(args),
          local_(group, shared, args.code, kWide, args.states, args.local_copies) {}

    // Rows [0, rows) of what `views` name. `part`, `first`: the columns of the part that stays, and its row that comes first, for
    // states that name rows. By the whole group.
    MGI_HD void fold(ColumnView const* views, u32 rows, ColumnView const* part = nullptr,
                     u64 first = 0) {
        if constexpr (kKinds == StateKinds::Rows) {
            part_ = part;
            first_ = first;
        }
        bool const looking = local_.looking();
        u32 missed = 0;
        // A table that is too full is made anew: no use in searching all of it for each row.
        bool const goes = shared_word(&args_.counts->overfull).load(device::relaxed) == 0;
        for (u32 i = group_.thread; goes && i < rows; i += group_.threads) {
            missed += fold_row(views, i, looking) ? 0 : 1;
        }
        if (looking) local_.adapt(group_, rows, missed);
    }

    // Once there are no more rows.
    MGI_HD void finish() {
        if (!local_.merge<kWide, kKinds>(group_, args_.table, args_.code, part_, added_)) {
            overfull();
        }
        if (added_ != 0) shared_word(&args_.counts->groups).fetch_add(u64{added_}, device::relaxed);
    }

private:
    // True if the row found its group in the scratch.
    MGI_HD bool fold_row(ColumnView const* views, u32 row, bool looking) {
        u64 words[kWide ? kMostWords : 1];
        Special special = Special::None;
        if constexpr (kWide) {
            encode_key_words(args_.code, views, row, false, words);
        } else {
            special = encode_key(args_.code, views, row, false, words[0]);
        }
        u32 unused = 0;
        if (looking) {
            u64 const slot = insert(local_.directory(), words, special, unused);
            if (slot != kNotThere) {
                fold_states(views, row, local_.states(group_, slot), local_.step());
                return true;
            }
        }
        u64 const index = insert(args_.table, words, special, added_);
        if (index == kNotThere) {
            overfull();
        } else {
            fold_states(views, row, args_.table.values(index), 1);
        }
        return false;
    }

    MGI_HD u64 insert(HashTable const& table, u64 const* words, Special special, u32& added) const {
        if constexpr (kWide) {
            return insert_words(table, words, args_.code, added, args_.texts);
        } else {
            return insert_key(table, words[0], special, added);
        }
    }

    MGI_HD void fold_states(ColumnView const* views, u32 row, u64* at, u64 step) const {
        for (u32 s = 0; s < args_.states.count; ++s) {
            State const state = args_.states.all[s];
            if constexpr (kKinds == StateKinds::Rows) {
                if (names_row(state.fold)) {
                    if (!is_valid(views[state.column], row)) continue;
                    fold_row_of(state, at + state.place * step, part_, first_ + row);
                    continue;
                }
            }
            fold_value<kKinds != StateKinds::Common>(state, at + state.place * step, step, views,
                                                     row);
        }
    }

    MGI_HD void overfull() const { shared_word(&args_.counts->overfull).store(1, device::relaxed); }

    device::Group const& group_;
    GroupByArgs const& args_;
    LocalGroups local_;
    ColumnView const* part_ = nullptr;
    u64 first_ = 0;
    u32 added_ = 0;
};

// Folds a part where it lies.
template <bool kWide, StateKinds kKinds>
struct FoldPart {
    static constexpr u32 kTileRows = 4096;

    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           GroupByArgs const* args, PartToSend part) const {
        ColumnView* const views = shared.take<ColumnView>(part.column_count);
        Folder<kWide, kKinds> folder(group, shared, *args);
        u64 const step = u64{group.blocks} * kTileRows;
        for (u64 first = u64{group.block} * kTileRows; first < part.rows; first += step) {
            aim(group, part.columns, part.column_count, first, views);
            folder.fold(views, u32(device::min_of<u64>(kTileRows, part.rows - first)), part.columns,
                        first);
        }
        folder.finish();
    }
};

// With states that name rows. The compiler would take more registers, and a multiprocessor would have fewer rows on their way.
template <bool kWide>
struct FoldRows : FoldPart<kWide, StateKinds::Rows> {
    static constexpr u32 kMostThreads = 256;
    static constexpr u32 kLeastGroups = 4;
};

// Sends a part, and folds what comes from all of them where it has arrived (the paper's Figure 3). It has all registers
// that there are in any case. No state names rows, which do not stay.
template <bool kWide>
struct FoldArriving {
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           device::Channel channel, GroupByArgs const* args,
                           PartToSend part) const {
        ColumnView* const outgoing = shared.take<ColumnView>(part.column_count);
        ColumnView* const views = shared.take<ColumnView>(part.column_count);
        Folder<kWide, StateKinds::Rare> folder(group, shared, *args);
        bool const all = send_and_receive(group, shared, channel, part, outgoing,
                                          [&](device::ReceivedBatch const& batch) {
                                              aim(group, batch, views);
                                              folder.fold(views, batch.rows);
                                          });
        if (all) folder.finish();
    }
};

// How a column of the result is made of a group.
enum class Make : u8 {
    Key,
    Word,         // of 64 bits as it is
    WideSum,      // of two words, which fit one
    WideDecimal,  // of two words
    LongDecimal,  // of three words
    SumWord,      // one of the three that a sum has, of which there may be fewer
    Float,        // the bits of a double
    Extreme,
    AvgWord,
    AvgWide,
    AvgLong,
    AvgFloat,
    Variance,
    Deviation,
    Row,       // the value of the row that the state names
    KeyCount,  // how many different values of a key the group has: one, or none where that is null
};

struct ResultColumn {
    static constexpr u32 kNone = ~0u;
    Make make = Make::Word;
    u32 part = 0;       // of a key
    u32 place = 0;      // of the first word of the state
    u32 column = 0;     // of Row: among the columns of a row
    u32 count = kNone;  // place of how many values there were
    u32 least = 1;      // fewer of them make a null
    u32 word = 0;       // of SumWord: which one
    u32 words = 1;      // and how many there are
    ValueKind value;    // of the result
    double unit = 1;    // of an average of decimals: what their digits are counted in
};

// In the place's memory, see GroupByArgs.
struct WriteArgs {
    KeyCode code;
    HashTable table;
    bool wide = false;
    ResultColumn const* results = nullptr;
    OutputColumn const* columns = nullptr;
    u32 count = 0;
    u64 rows = 0;              // that there is room for
    u64* cursor = nullptr;     // rows that there are, more where keys have changed meanwhile
    u32* overflows = nullptr;  // by result: a sum has left 64 bits
    ColumnView const* part = nullptr;  // the columns of the rows that states name
};

// Writes the groups of a table, one after the other. `kRows`: some states name rows.
template <bool kRows>
class WriteGroups {
public:
    static constexpr u32 kEach = 4;  // entries of a thread at a time

    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           WriteArgs const* given) const {
        WriteArgs const& args = *given;
        struct Words {
            u64 first;
            u32 used;
        };
        Words* const words = shared.take<Words>(1);
        u64 const entries = u64{args.table.capacity} + HashTable::kSpecials;
        u64 const tile = u64{group.threads} * kEach;
        for (u64 first = group.block * tile; first < entries; first += tile * group.blocks) {
            group.sync();
            if (group.leads()) words->used = 0;
            group.sync();
            u32 places[kEach];
            for (u32 e = 0; e < kEach; ++e) {
                u64 const index = first + u64{e} * group.threads + group.thread;
                bool const used = index < entries && args.table.is_used(index, args.wide);
                places[e] = used ? device::shared_add(&words->used, 1) : ~0u;
            }
            group.sync();
            if (group.leads()) {
                words->first =
                    shared_word(args.cursor).fetch_add(u64{words->used}, device::relaxed);
            }
            group.sync();
            for (u32 e = 0; e < kEach; ++e) {
                u64 const index = first + u64{e} * group.threads + group.thread;
                u64 const row = words->first + places[e];
                if (places[e] != ~0u && row < args.rows) write(args, index, row);
            }
        }
    }

    static constexpr u32 scratch_bytes() { return 64; }

private:
    MGI_HD static u64 narrowed(double value, u32 width) {
        if (width == 8) return bits_of(value);
        float const narrow = float(value);
        u32 bits;
        memcpy(&bits, &narrow, 4);
        return bits;
    }

    MGI_HD static void write(WriteArgs const& args, u64 index, u64 row) {
        u64 const* const key = args.table.key_words(index, args.wide);
        u64 const* const states = args.table.values(index);
        for (u32 c = 0; c < args.count; ++c) {
            ResultColumn const result = args.results[c];
            OutputColumn const& to = args.columns[c];
            bool valid = true;
            u64 word = 0;
            if (result.make == Make::Key && (to.wide || to.text)) {
                write_long_key(args, result.part, index, key, to, row);
                continue;
            }
            if constexpr (kRows) {
                if (result.make == Make::Row) {
                    write_row(args, result, states[result.place], to, row);
                    continue;
                }
            }
            if (result.make == Make::Key) {
                valid = !is_null(args, result.part, index, key);
                if (valid) word = key_value(args, result, index, key);
            } else if (result.make == Make::KeyCount) {
                word = is_null(args, result.part, index, key) ? 0 : 1;
            } else {
                valid = result.count == ResultColumn::kNone || states[result.count] >= result.least;
                if (valid) word = value_of(args, result, c, states);
            }
            if (to.wide) {
                u64 const sign = sign_of(word);
                bool const is_long =
                    valid && (result.make == Make::WideDecimal || result.make == Make::LongDecimal);
                write_decimal(args, c, row, word, is_long ? states[result.place + 1] : sign);
            } else {
                store_word(to, row, word);
            }
            if (to.valid != nullptr) to.valid[row] = valid ? 1 : 0;
        }
    }

    // Of 38 digits at most.
    MGI_HD static void write_decimal(WriteArgs const& args, u32 column, u64 row, u64 low,
                                     u64 high) {
        constexpr u64 kHigh = 0x4b3b4ca85a86c47a;  // of 10^38
        constexpr u64 kLow = 0x098a224000000000;
        bool const negative = high >> 63 != 0;
        u64 const size = negative ? 0 - low : low;
        u64 const upper = negative ? ~high + (low == 0 ? 1 : 0) : high;
        if (upper > kHigh || (upper == kHigh && size >= kLow)) {
            shared_word(&args.overflows[column]).store(1, device::relaxed);
        }
        u64* const to = reinterpret_cast<u64*>(args.columns[column].values) + 2 * row;
        to[0] = low;
        to[1] = high;
    }

    MGI_HD static void write_row(WriteArgs const& args, ResultColumn const& result, u64 state,
                                 OutputColumn const& to, u64 row) {
        if (state != kNoRow) return copy_value<true>(to, row, args.part[result.column], u32(state));
        // Without validity each group has a value, unless keys change meanwhile, which is found out.
        if (to.valid != nullptr) store_null(to, row);
    }

    // All pieces of a key, from part `k` on.
    MGI_HD static void write_long_key(WriteArgs const& args, u32 k, u64 index, u64 const* key,
                                      OutputColumn const& to, u64 row) {
        if (is_null(args, k, index, key)) return store_null(to, row);
        if (to.text) {
            u64 const word = key[args.code.parts[k].word];
            store_span(to, row, key[args.code.parts[k + 1].word], size_of_text(word));
        }
        for (u32 at = 0; to.wide && at < to.width; ++k) {
            KeyPart const part = args.code.parts[k];
            u64 const words = is_all_ones(args, index) ? kNoKey : key[part.word];
            u64 const word = words >> part.shift & low_bits(part.bits);
            store_piece(to.values + row * to.width + at, part.value.piece(), word);
            at += part.value.piece();
        }
        if (to.valid != nullptr) to.valid[row] = 1;
    }
    MGI_HD static bool is_null(WriteArgs const& args, u32 k, u64 index, u64 const* key) {
        KeyPart const part = args.code.parts[k];
        if (!part.nullable) return false;
        if (part.null_apart) return index == args.table.capacity + u32(Special::Null) - 1;
        return !is_all_ones(args, index) && (key[part.null_word] >> part.null_shift & 1) != 0;
    }
    MGI_HD static bool is_all_ones(WriteArgs const& args, u64 index) {
        return !args.wide && index == args.table.capacity + u32(Special::AllOnes) - 1;
    }
    MGI_HD static u64 key_value(WriteArgs const& args, ResultColumn const& result, u64 index,
                                u64 const* key) {
        KeyPart const part = args.code.parts[result.part];
        u64 const words = is_all_ones(args, index) ? kNoKey : key[part.word];
        u64 const word = words >> part.shift & low_bits(part.bits);
        if (part.value.kind != KeyKind::Float) return word;
        return narrowed(double_of(word), part.value.width);
    }

    // The words above a word.
    MGI_HD static u64 sign_of(u64 word) { return word >> 63 != 0 ? ~u64{0} : 0; }

    MGI_HD static u64 value_of(WriteArgs const& args, ResultColumn const& result, u32 column,
                               u64 const* states) {
        u64 const low = states[result.place];
        bool const average = result.make == Make::AvgWord || result.make == Make::AvgWide ||
                             result.make == Make::AvgLong || result.make == Make::AvgFloat;
        double const values = average ? double(states[result.count]) * result.unit : 1;
        switch (result.make) {
            case Make::WideSum: {
                u64 const high = states[result.place + 1];
                if (high != sign_of(low)) {
                    shared_word(&args.overflows[column]).store(1, device::relaxed);
                }
                return low;
            }
            case Make::LongDecimal:
                if (states[result.place + 2] != sign_of(states[result.place + 1])) {
                    shared_word(&args.overflows[column]).store(1, device::relaxed);
                }
                return low;
            case Make::SumWord:
                if (result.word < result.words) return states[result.place + result.word];
                return sign_of(states[result.place + result.words - 1]);
            case Make::Extreme: {
                u64 const word = from_ordered(i64(low), result.value.kind);
                if (result.value.kind != KeyKind::Float) return word;
                return narrowed(double_of(word), result.value.width);
            }
            case Make::AvgWord: return bits_of(double(i64(low)) / values);
            case Make::AvgWide: return bits_of(number_of(low, states[result.place + 1]) / values);
            case Make::AvgLong:
                return bits_of(number_of(low, states[result.place + 1], states[result.place + 2]) /
                               values);
            case Make::AvgFloat: return bits_of(double_of(low) / values);
            case Make::Variance:
                return bits_of(load_moments(states + result.place, 1).variance() /
                               (result.unit * result.unit));
            case Make::Deviation:
                return bits_of(sqrt(load_moments(states + result.place, 1).variance()) /
                               result.unit);
            default: return low;
        }
    }
};

}  // namespace mgi::operators::on_gpu
