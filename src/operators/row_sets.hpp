// Rows of host tables in parts that are worked on one after the other: cut by their number, by a hash of their keys, or by ranges of
// them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <mgi/gpu_copies.hpp>

#include "operators/key_pairs.hpp"
#include "operators/keys.hpp"

namespace mgi::operators {

// Some rows of a table. Its batches must outlive it.
struct RowSet {
    std::vector<HostRows> runs;
    std::vector<std::shared_ptr<void const>> keep;  // has the runs' numbers
    u64 rows = 0;

    RowSet() = default;
    explicit RowSet(Table const& table);
    void add(HostRows const& run);
};

// So many sets of consecutive rows, whose sizes differ by one at most.
std::vector<RowSet> cut_rows(RowSet const& set, std::size_t pieces);

// Hashes of keys that know nothing of which endpoint owns a key, and of where a table has it. Equal keys have equal
// hashes, whatever their form, so the sides of a join are cut alike. Thread-safe.
class KeyHashes {
public:
    // `nulls`: where null keys match nothing such rows have any hashes, so that they are no part of their own. `nullable`: by
    // key, of all sides together.
    KeyHashes(std::vector<ComparedKey> keys, std::vector<bool> const& nullable, NullKeys nulls);

    // Of rows [first, first + count) of a batch.
    void hash(RecordBatch const& batch, i64 first, i64 count, u32* to) const;

private:
    std::vector<ComparedKey> keys_;
    KeyEncoder encoder_;
};

// 2^bits sets, by so many bits of the hashes from number `bit` on, the highest one being number 0. They keep kNumberBytes more
// for each row, until the last of them dies.
inline constexpr u64 kNumberBytes = sizeof(std::uint16_t);
std::vector<RowSet> cut_by_keys(RowSet const& set, KeyHashes const& hashes, u32 bit, u32 bits);

// So many sets, of all rows of a table; `find` writes which one each of rows [first, first + count) of a batch is for. They keep as
// much for each row.
using FindSets = std::function<void(RecordBatch const& batch, i64 first, i64 count, u32* to)>;
std::vector<RowSet> cut_by(RowSet const& set, std::size_t pieces, FindSets const& find);

// The bits in which hashes differ.
struct HashSpread {
    bool any = false;
    u32 one = 0;  // of them
    u32 differing = 0;

    void add(HashSpread const& other) {
        differing |= other.differing;
        if (any && other.any) differing |= one ^ other.one;
        if (!any) one = other.one;
        any = any || other.any;
    }
};
HashSpread spread_of(RowSet const& set, KeyHashes const& hashes);

}  // namespace mgi::operators
