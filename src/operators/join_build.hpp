// The built side of a join at one endpoint.
#pragma once

#include <vector>

#include "operators/join_plan.hpp"
#include "operators/run.hpp"

namespace mgi::operators {

// Rows in the order of their hashes' slots, so that rows of equal keys lie next to each other, and a
// directory that says where each slot's rows end. A probe costs one line of the directory and, if the
// slot's 16 tag bits do not exclude a match, the lines of the slot's rows.
//
// Built by all groups of the endpoint in steps, each of which starts when the one before is complete
// at every group (a Meeting): add, then allocate once, count, place, finish once. After that it is
// only read. Each group owns a range of slots, so no word is written by two.
class JoinBuild {
public:
    JoinBuild(JoinPlan const& plan, u32 groups);

    // Keeps received rows of the right side.
    void add(u32 group, RecordBatch batch);
    // Throws Error(OutOfMemory).
    void allocate();
    void count(u32 group);
    void place(u32 group);
    // Lets go of received batches that no row points into.
    void finish();

    [[nodiscard]] u64 rows() const { return row_count_; }
    // Starts loading a hash's directory entry.
    void prefetch(u32 hash) const { __builtin_prefetch(directory_.as<u64>() + (hash >> shift_)); }
    // Rows of the hash's slot, [first, last), if `any` of them can match.
    struct Candidates {
        char const* first;
        char const* last;
        bool any;
    };
    [[nodiscard]] Candidates find(u32 hash) const {
        u64 const* const at = directory_.as<u64>() + (hash >> shift_);
        char const* const base = memory_.data();
        return {base + (at[0] >> kTagBits) * plan_.row_bytes(),
                base + (at[1] >> kTagBits) * plan_.row_bytes(), (at[1] >> (hash & 15) & 1) != 0};
    }

private:
    static constexpr u32 kTagBits = 16;

    // A kept batch and the hashes of its rows.
    struct Piece {
        RecordBatch batch;
        std::vector<u32> hashes;
        std::vector<bool> dropped;  // empty: none
    };
    struct Range {
        u64 first;
        u64 last;
    };
    // What placing a block of rows needs.
    struct Block;

    [[nodiscard]] Range slots_of(u32 group) const;
    void place_piece(Piece const& piece, Range range, Block& block);
    void place_block(Piece const& piece, u32 first, u32 rows, Range range, Block& block);
    void place_value(BuiltValue const& value, ColumnView const& view, Block const& block) const;

    JoinPlan const& plan_;
    u32 const groups_;
    std::vector<std::vector<Piece>> pieces_;  // by group
    std::vector<u64> totals_;                 // by group: rows in its range
    u64 row_count_ = 0;
    u32 shift_ = 0;
    // By slot + 1: where its rows end << 16 | tags. While counting: how many << 16 | tags.
    Buffer directory_;
    Buffer memory_;
};

}  // namespace mgi::operators
