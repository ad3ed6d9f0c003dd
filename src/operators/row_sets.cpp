#include "operators/row_sets.hpp"

#include <algorithm>
#include <memory>

#include <mgi/device/hash.hpp>

#include "core/parallel.hpp"
#include "operators/converted_keys.hpp"

namespace mgi::operators {

namespace {

// Rows that a run's numbers can tell apart.
constexpr i64 kBlockRows = i64{1} << 16;

// Runs that begin and end within so many rows.
std::vector<HostRows> blocks_of(RowSet const& set) {
    std::vector<HostRows> blocks;
    for (HostRows const& run : set.runs) {
        if (run.numbers != nullptr) {
            blocks.push_back(run);
            continue;
        }
        for (i64 at = 0; at < run.rows; at += kBlockRows) {
            HostRows block = run;
            block.first += at;
            block.rows = std::min(kBlockRows, run.rows - at);
            blocks.push_back(block);
        }
    }
    return blocks;
}

i64 number_of(HostRows const& run, i64 row) {
    return run.numbers != nullptr ? run.numbers[row] : row;
}

// Hashes of a block's rows.
std::vector<u32> hashes_of(HostRows const& block, KeyHashes const& hashes) {
    if (block.rows == 0) return {};
    i64 const least = number_of(block, 0);
    i64 const most = number_of(block, block.rows - 1);
    std::vector<u32> all(std::size_t(most - least + 1));
    hashes.hash(*block.batch, block.first + least, most - least + 1, all.data());
    if (block.numbers == nullptr) return all;
    std::vector<u32> chosen(std::size_t(block.rows));
    for (i64 row = 0; row < block.rows; ++row) {
        chosen[std::size_t(row)] = all[std::size_t(block.numbers[row] - least)];
    }
    return chosen;
}

// A block's rows, those of a part one after the other, and where each part begins.
struct Dealt {
    std::vector<std::uint16_t> numbers;
    std::vector<u32> starts;
};

// `part_of`: by row of the block.
Dealt deal(HostRows const& block, std::vector<u32> const& part_of, std::size_t parts) {
    Dealt dealt;
    dealt.starts.resize(parts + 1);
    for (u32 const part : part_of) ++dealt.starts[part + 1];
    for (std::size_t p = 1; p < dealt.starts.size(); ++p) dealt.starts[p] += dealt.starts[p - 1];
    std::vector<u32> next = dealt.starts;
    dealt.numbers.resize(part_of.size());
    for (std::size_t row = 0; row < part_of.size(); ++row) {
        dealt.numbers[next[part_of[row]]++] = std::uint16_t(number_of(block, i64(row)));
    }
    return dealt;
}

// `find(block)` says the part of each of its rows.
template <class Find>
std::vector<RowSet> cut_blocks(RowSet const& set, std::size_t pieces, Find const& find) {
    std::vector<HostRows> const blocks = blocks_of(set);
    auto const dealt = std::make_shared<std::vector<Dealt>>(blocks.size());
    in_parallel(blocks.size(), memory_threads(), [&](std::size_t b, std::size_t) {
        (*dealt)[b] = deal(blocks[b], find(blocks[b]), pieces);
    });
    std::vector<RowSet> parts(pieces);
    for (RowSet& part : parts) part.keep.push_back(dealt);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        Dealt const& of_block = (*dealt)[b];
        for (std::size_t p = 0; p < parts.size(); ++p) {
            HostRows run = blocks[b];
            run.rows = of_block.starts[p + 1] - of_block.starts[p];
            run.numbers = of_block.numbers.data() + of_block.starts[p];
            parts[p].add(run);
        }
    }
    return parts;
}

}  // namespace

RowSet::RowSet(Table const& table) {
    for (RecordBatch const& batch : table.batches) add({&batch, 0, batch.rows, nullptr});
}

void RowSet::add(HostRows const& run) {
    if (run.rows == 0) return;
    runs.push_back(run);
    rows += u64(run.rows);
}

std::vector<RowSet> cut_rows(RowSet const& set, std::size_t pieces) {
    std::vector<RowSet> cut(pieces);
    auto const begin = [&](std::size_t piece) { return set.rows * piece / pieces; };
    std::size_t p = 0;
    u64 before = 0;  // rows of the runs so far
    for (HostRows const& run : set.runs) {
        u64 const end = before + u64(run.rows);
        for (u64 at = before; at != end;) {
            while (begin(p + 1) <= at) ++p;
            u64 const stop = std::min(end, begin(p + 1));
            HostRows some = run;
            some.rows = i64(stop - at);
            if (run.numbers != nullptr) {
                some.numbers += at - before;
            } else {
                some.first += i64(at - before);
            }
            cut[p].add(some);
            at = stop;
        }
        before = end;
    }
    for (RowSet& piece : cut) piece.keep = set.keep;
    return cut;
}

KeyHashes::KeyHashes(std::vector<ComparedKey> keys, std::vector<bool> const& nullable,
                     NullKeys nulls)
    : keys_(std::move(keys)), encoder_([&] {
          std::vector<KeyColumn> columns;
          for (u32 k = 0; k < keys_.size(); ++k) columns.push_back({k, keys_[k].type, nullable[k]});
          return KeyEncoder(std::move(columns), nulls);
      }()) {}

void KeyHashes::hash(RecordBatch const& batch, i64 first, i64 count, u32* to) const {
    auto const keys = std::make_unique<EncodedKeys>();
    std::vector<ColumnView> views(keys_.size());
    std::vector<std::optional<ConvertedKeys>> converted(keys_.size());
    for (std::size_t k = 0; k < keys_.size(); ++k) {
        if (keys_[k].conversion) converted[k].emplace(*keys_[k].conversion, kVector);
    }
    for (i64 at = 0; at < count; at += kVector) {
        u32 const rows = u32(std::min<i64>(kVector, count - at));
        for (std::size_t k = 0; k < keys_.size(); ++k) {
            views[k] = view_of(batch.columns[keys_[k].column], first + at);
            if (converted[k]) views[k] = converted[k]->convert(views[k], rows);
        }
        encoder_.encode(views.data(), rows, *keys);
        auto const mixed = [](u64 word) {
            constexpr u64 kOther = 0x9e3779b97f4a7c15ULL;
            return u32(device::murmur3_mix(word ^ kOther) >> 32);
        };
        u32 next = 0;  // of the rows that are selected
        for (u32 i = 0; i < rows; ++i) {
            bool const has_key =
                keys->all_selected || (next < keys->selected_count && keys->selected[next] == i);
            if (has_key) ++next;
            to[at + i] = mixed(has_key ? keys->hashes[i] : u64(first + at + i));
        }
    }
}

std::vector<RowSet> cut_by_keys(RowSet const& set, KeyHashes const& hashes, u32 bit, u32 bits) {
    return cut_blocks(set, std::size_t{1} << bits, [&](HostRows const& block) {
        std::vector<u32> all = hashes_of(block, hashes);
        for (u32& hash : all) hash = (hash << bit) >> (32 - bits);
        return all;
    });
}

std::vector<RowSet> cut_by(RowSet const& set, std::size_t pieces, FindSets const& find) {
    return cut_blocks(set, pieces, [&](HostRows const& block) {
        std::vector<u32> all(std::size_t(block.rows));
        find(*block.batch, block.first, block.rows, all.data());
        return all;
    });
}

HashSpread spread_of(RowSet const& set, KeyHashes const& hashes) {
    HashSpread spread;
    for (HostRows const& block : blocks_of(set)) {
        HashSpread here;
        for (u32 const hash : hashes_of(block, hashes)) here.add({true, hash, 0});
        spread.add(here);
    }
    return spread;
}

}  // namespace mgi::operators
