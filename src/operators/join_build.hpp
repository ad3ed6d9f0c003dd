// The built side of a join at one endpoint.
#pragma once

#include <algorithm>
#include <vector>

#include "operators/join_directory.hpp"
#include "operators/join_plan.hpp"
#include "operators/run.hpp"

namespace mgi::operators {

// Rows in the order of their hashes' slots, so that rows of equal keys lie next to each other, and the
// directory of slots. A probe costs a line of the directory, most of which stays in a core's own cache,
// and, unless the slot's tag bits exclude a match, the lines of the slot's rows.
//
// Rows whose keys match nothing lie behind all others, if they come out alone; no probe finds them.
//
// Built by all groups of the endpoint in steps, each of which starts when the one before is complete
// at every group (a Meeting): add, then allocate once, count, place, finish once. After that it is
// only read. Each group fills a part of the directory, so no word is written by two.
class JoinBuild {
public:
    // Counts its table, but not the received batches, which are their channel's, against the run's
    // budget.
    JoinBuild(JoinPlan const& plan, u32 groups, Run& run);

    // Keeps received rows of the built side.
    void add(u32 group, RecordBatch batch);
    // Throws Error(OutOfMemory).
    void allocate();
    // These two throw Error(Interrupted) after another's failure.
    void count(u32 group);
    void place(u32 group);
    // Lets go of received batches that no row points into.
    void finish();

    // That probes can find.
    [[nodiscard]] u64 rows() const { return row_count_; }
    // Of all of them, the findable first.
    [[nodiscard]] u64 all_rows() const { return row_count_ + unmatchable_; }
    [[nodiscard]] char* row(u64 number) const {
        return memory_.data() + number * plan_.row_bytes();
    }
    // Starts loading what tells whether a row can have a hash.
    void prefetch_tags(u32 hash) const { directory_.prefetch_tags(directory_.slot_of(hash)); }
    [[nodiscard]] bool may_have(u32 hash) const { return directory_.may_have(hash); }
    // Starts loading what tells where its rows are.
    void prefetch_line(u32 hash) const { directory_.prefetch_line(directory_.slot_of(hash)); }
    // Rows of the hash's slot, [first, last).
    struct Candidates {
        char const* first;
        char const* last;
    };
    [[nodiscard]] Candidates find(u32 hash) const {
        JoinDirectory::Rows const rows = directory_.find(hash);
        char const* const base = memory_.data();
        return {base + rows.first * plan_.row_bytes(), base + rows.last * plan_.row_bytes()};
    }

private:
    // A kept batch and the hashes of its rows.
    struct Piece {
        RecordBatch batch;
        std::vector<u32> hashes;
        std::vector<bool> dropped;  // whose keys match nothing; empty: none
        [[nodiscard]] u64 dropped_count() const {
            return u64(std::count(dropped.begin(), dropped.end(), true));
        }
    };
    // What placing a block of rows needs.
    struct Block;

    // Calls `use(slot, hash)` for the rows of a part.
    template <class Use>
    void each_row(JoinDirectory::Part const& part, Use&& use) const;
    void place_piece(Piece const& piece, JoinDirectory::Part& part, Block& block);
    void place_block(Piece const& piece, u32 first, u32 rows, JoinDirectory::Part& part,
                     Block& block);
    // Rows that match nothing, from row `next` on, which moves behind them.
    void place_unmatchable(Piece const& piece, u64& next, Block& block);
    // Writes the rows that the block has chosen.
    void fill(Piece const& piece, u32 first, u32 rows, Block& block) const;
    void place_value(BuiltValue const& value, ColumnView const& view, Block const& block) const;

    JoinPlan const& plan_;
    u32 const groups_;
    Run const& run_;
    Charge charge_;
    std::vector<std::vector<Piece>> pieces_;  // by group
    std::vector<u64> totals_;                 // by group: rows in its part
    u64 row_count_ = 0;
    std::vector<u64> unmatchable_of_;  // by group
    u64 unmatchable_ = 0;
    JoinDirectory directory_;
    Buffer memory_;
};

}  // namespace mgi::operators
