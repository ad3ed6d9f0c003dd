// The built side of a join at one endpoint.
#pragma once

#include <vector>

#include "operators/join_directory.hpp"
#include "operators/join_plan.hpp"
#include "operators/run.hpp"

namespace mgi::operators {

// Rows in the order of their hashes' slots, so that rows of equal keys lie next to each other, and the
// directory of slots. A probe costs a line of the directory, most of which stays in a core's own cache,
// and, unless the slot's tag bits exclude a match, the lines of the slot's rows.
//
// Built by all groups of the endpoint in steps, each of which starts when the one before is complete
// at every group (a Meeting): add, then allocate once, count, place, finish once. After that it is
// only read. Each group fills a part of the directory, so no word is written by two.
class JoinBuild {
public:
    // Counts its table, but not the received batches, which are their channel's, against the run's
    // budget.
    JoinBuild(JoinPlan const& plan, u32 groups, Run& run);

    // Keeps received rows of the right side.
    void add(u32 group, RecordBatch batch);
    // Throws Error(OutOfMemory).
    void allocate();
    // These two throw Error(Interrupted) after another's failure.
    void count(u32 group);
    void place(u32 group);
    // Lets go of received batches that no row points into.
    void finish();

    [[nodiscard]] u64 rows() const { return row_count_; }
    // Starts loading a hash's directory entry.
    void prefetch(u32 hash) const { directory_.prefetch(directory_.slot_of(hash)); }
    // Rows of the hash's slot, [first, last), if `any` of them can match.
    struct Candidates {
        char const* first;
        char const* last;
        bool any;
    };
    [[nodiscard]] Candidates find(u32 hash) const {
        JoinDirectory::Rows const rows = directory_.find(hash);
        char const* const base = memory_.data();
        return {base + rows.first * plan_.row_bytes(), base + rows.last * plan_.row_bytes(),
                rows.any};
    }

private:
    // A kept batch and the hashes of its rows.
    struct Piece {
        RecordBatch batch;
        std::vector<u32> hashes;
        std::vector<bool> dropped;  // empty: none
    };
    // What placing a block of rows needs.
    struct Block;

    // Calls `use(slot, hash)` for the rows of a part.
    template <class Use>
    void each_row(JoinDirectory::Part const& part, Use&& use) const;
    void place_piece(Piece const& piece, JoinDirectory::Part& part, Block& block);
    void place_block(Piece const& piece, u32 first, u32 rows, JoinDirectory::Part& part,
                     Block& block);
    void place_value(BuiltValue const& value, ColumnView const& view, Block const& block) const;

    JoinPlan const& plan_;
    u32 const groups_;
    Run const& run_;
    Charge charge_;
    std::vector<std::vector<Piece>> pieces_;  // by group
    std::vector<u64> totals_;                 // by group: rows in its part
    u64 row_count_ = 0;
    JoinDirectory directory_;
    Buffer memory_;
};

}  // namespace mgi::operators
