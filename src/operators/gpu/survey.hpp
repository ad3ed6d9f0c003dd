// What an operator wants to know of a part before it starts: nulls, how large numbers are, how many keys
// differ, how many rows each endpoint will get. One source for g++ and nvcc.
#pragma once

#include <cmath>
#include <vector>

#include <cuda/std/bit>

#include "operators/gpu/owners.hpp"

namespace mgi::operators::on_gpu {

// A HyperLogLog sketch of keys (Flajolet et al., 2007): of 4096 registers, which err by 1.6 %.
struct Sketch {
    static constexpr u32 kBits = 12;
    static constexpr u32 kRegisters = 1u << kBits;

    // The largest of its rank stays. `registers` may be in a group's scratch.
    MGI_HD static void add(u32* registers, u64 hash) {
        // Not the bits that routing and tables look at: an endpoint has only some of those.
        u64 const mixed = device::murmur3_mix(hash ^ 0x9e3779b97f4a7c15ULL);
        u32 const rank = 1 + u32(cuda::std::countr_zero(mixed >> kBits | u64{1} << (63 - kBits)));
        raise(&registers[mixed & (kRegisters - 1)], rank);
    }
    MGI_HD static void raise(u32* at, u32 to) {
        auto word = shared_word(at);
        if (word.load(device::relaxed) < to) word.fetch_max(to, device::relaxed);
    }
    static double estimate(std::vector<u32> const& registers) {
        double sum = 0;
        u32 empty = 0;
        for (u32 const rank : registers) {
            sum += std::ldexp(1.0, -int(rank));
            empty += rank == 0 ? 1 : 0;
        }
        double const m = kRegisters;
        double const raw = 0.7213 / (1 + 1.079 / m) * m * m / sum;
        if (raw <= 2.5 * m && empty != 0) return m * std::log(m / empty);
        return raw;
    }
};

// A column that is looked at.
struct SurveyColumn {
    u32 column = 0;
    ValueKind value;
    bool magnitude = false;  // of an integer or a decimal: the largest absolute value
};

// What was found of it.
struct SurveyCounts {
    u64 nulls = 0;
    u64 magnitude = 0;  // of decimals kLong where one does not fit 64 bits
    u64 upper = 0;      // and then the largest absolute value of their upper words

    static constexpr u64 kLong = ~u64{0};
};

struct SurveyArgs {
    ColumnView const* columns = nullptr;
    u64 rows = 0;
    SurveyColumn const* looked_at = nullptr;
    SurveyCounts* counts = nullptr;
    u32 looked_at_count = 0;
    Owners owners;
    u32* registers = nullptr;  // of a sketch; null: none is wanted
    u64* rows_for = nullptr;   // by destination; null: not wanted
};

class Survey {
public:
    static constexpr u32 kMostDestinations = 1024;

    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           SurveyArgs args) const {
        if (args.rows == 0) return;
        for (u32 c = 0; c < args.looked_at_count; ++c) look_at(group, shared, args, c);
        if (args.registers != nullptr || args.rows_for != nullptr) hash_keys(group, shared, args);
    }

    static u32 scratch_bytes(SurveyArgs const& args) {
        // A multiple of 16: what is taken from the end of the scratch begins at one.
        return 64 + (args.registers == nullptr ? 0 : 4 * Sketch::kRegisters) +
               (args.rows_for == nullptr ? 0 : (4 * args.owners.count + 15) / 16 * 16);
    }

private:
    // Calls `use(row, load(row))` for this thread's share of the rows, and loads several of them at a time.
    template <class Load, class Use>
    MGI_HD static void each_row(device::Group const& group, u64 rows, Load&& load, Use&& use) {
        constexpr u32 kAhead = 4;
        u64 const step = u64{group.threads} * group.blocks;
        u64 i = u64{group.block} * group.threads + group.thread;
        for (; i + (kAhead - 1) * step < rows; i += kAhead * step) {
            u64 words[kAhead];
            for (u32 a = 0; a < kAhead; ++a) words[a] = load(i + a * step);
            for (u32 a = 0; a < kAhead; ++a) use(i + a * step, words[a]);
        }
        for (; i < rows; i += step) use(i, load(i));
    }

    MGI_HD static void look_at(device::Group const& group, device::Shared shared,
                               SurveyArgs const& args, u32 c) {
        SurveyColumn const wanted = args.looked_at[c];
        ColumnView const view = args.columns[wanted.column];
        auto* const here = shared.take<SurveyCounts>(1);
        group.sync();
        if (group.leads()) *here = {};
        group.sync();
        u64 nulls = 0;
        u64 magnitude = 0;
        u64 upper = 0;
        bool const is_signed = wanted.value.kind == KeyKind::Signed;
        bool const is_decimal = is_signed && wanted.value.width == 16;
        each_row(
            group, args.rows,
            [&](u64 i) { return wanted.magnitude ? load_word(view, wanted.value, i) : 0; },
            [&](u64 i, u64 word) {
                if (!is_valid(view, i)) {
                    ++nulls;
                    return;
                }
                bool const negative = is_signed && word >> 63 != 0;
                magnitude = device::max_of(magnitude, negative ? 0 - word : word);
                if (!is_decimal || !wanted.magnitude) return;
                u64 const high = load_upper(view, i);
                if (high == (negative ? ~u64{0} : 0)) return;
                magnitude = SurveyCounts::kLong;
                upper = device::max_of(upper, high >> 63 != 0 ? 0 - high : high);
            });
        if (nulls != 0) shared_word(&here->nulls).fetch_add(nulls, device::relaxed);
        if (magnitude != 0) shared_word(&here->magnitude).fetch_max(magnitude, device::relaxed);
        if (upper != 0) shared_word(&here->upper).fetch_max(upper, device::relaxed);
        group.sync();
        if (!group.leads()) return;
        SurveyCounts& counts = args.counts[c];
        if (here->nulls != 0) shared_word(&counts.nulls).fetch_add(here->nulls, device::relaxed);
        if (here->magnitude != 0) {
            shared_word(&counts.magnitude).fetch_max(here->magnitude, device::relaxed);
        }
        if (here->upper != 0) shared_word(&counts.upper).fetch_max(here->upper, device::relaxed);
    }

    MGI_HD static void hash_keys(device::Group const& group, device::Shared shared,
                                 SurveyArgs const& args) {
        u32* const registers =
            args.registers == nullptr ? nullptr : shared.take<u32>(Sketch::kRegisters);
        u32* const rows_for =
            args.rows_for == nullptr ? nullptr : shared.take<u32>(args.owners.count);
        group.sync();
        for (u32 i = group.thread; registers != nullptr && i < Sketch::kRegisters;
             i += group.threads) {
            registers[i] = 0;
        }
        for (u32 i = group.thread; rows_for != nullptr && i < args.owners.count;
             i += group.threads) {
            rows_for[i] = 0;
        }
        group.sync();
        OwnedRows const rows(args.owners, args.columns, args.rows);
        rows.with_first_keys([&](auto const& load) {
            each_row(group, args.rows, load, [&](u64 i, u64 word) {
                u64 const hash = rows.hash(i, word);
                if (registers != nullptr) Sketch::add(registers, hash);
                if (rows_for != nullptr) device::shared_add(&rows_for[rows.owner(i, hash)], 1);
            });
        });
        group.sync();
        for (u32 i = group.thread; registers != nullptr && i < Sketch::kRegisters;
             i += group.threads) {
            if (registers[i] != 0) Sketch::raise(&args.registers[i], registers[i]);
        }
        for (u32 i = group.thread; rows_for != nullptr && i < args.owners.count;
             i += group.threads) {
            if (rows_for[i] != 0) {
                shared_word(&args.rows_for[i]).fetch_add(u64{rows_for[i]}, device::relaxed);
            }
        }
    }
};

// Texts that are to move.
struct TextArgs {
    ColumnView const* columns = nullptr;
    u64 rows = 0;
    Owners owners;
    u32 const* texts = nullptr;  // columns
    u32 text_count = 0;
    u64* characters_for = nullptr;  // by text and destination
    u64* longest = nullptr;         // one text
    u64* longest_row = nullptr;     // all texts of one
};

// Counts the characters that each endpoint will get.
class CountCharacters {
public:
    MGI_HD void operator()(device::Group const& group, device::Shared& shared,
                           TextArgs args) const {
        u32 const counters = args.text_count * args.owners.count;
        bool const local = counters <= kMostLocal;
        u64* const sums = local ? shared.take<u64>(counters) : args.characters_for;
        for (u32 i = group.thread; local && i < counters; i += group.threads) sums[i] = 0;
        group.sync();
        OwnedRows const rows(args.owners, args.columns, args.rows);
        u64 longest = 0;
        u64 longest_row = 0;
        rows.with_first_keys([&](auto const& load) {
            u64 const step = u64{group.threads} * group.blocks;
            u64 i = u64{group.block} * group.threads + group.thread;
            for (; i < args.rows; i += step) {
                u32 const owner = rows.owner(i, rows.hash(i, load(i)));
                u64 all = 0;
                for (u32 t = 0; t < args.text_count; ++t) {
                    ColumnView const& view = args.columns[args.texts[t]];
                    if (!is_valid(view, i)) continue;
                    u64 const size = device::view_text(view, i).size;
                    all += size;
                    longest = device::max_of(longest, size);
                    shared_word(&sums[t * args.owners.count + owner])
                        .fetch_add(size, device::relaxed);
                }
                longest_row = device::max_of(longest_row, all);
            }
        });
        if (longest != 0) {
            shared_word(args.longest).fetch_max(longest, device::relaxed);
            shared_word(args.longest_row).fetch_max(longest_row, device::relaxed);
        }
        group.sync();
        for (u32 i = group.thread; local && i < counters; i += group.threads) {
            if (sums[i] == 0) continue;
            shared_word(&args.characters_for[i]).fetch_add(sums[i], device::relaxed);
        }
    }

    static u32 scratch_bytes(TextArgs const& args) {
        u32 const counters = args.text_count * args.owners.count;
        return counters <= kMostLocal ? (8 * counters + 15) / 16 * 16 + 16 : 0;
    }

private:
    static constexpr u32 kMostLocal = 1024;  // counters in a group's scratch
};

}  // namespace mgi::operators::on_gpu
