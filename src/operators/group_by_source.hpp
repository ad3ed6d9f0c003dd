// The sending side of a group-by.
#pragma once

#include "operators/group_rows.hpp"
#include "operators/run.hpp"

namespace mgi::operators {

// Slices of input batches in the form in which the raw channel carries them.
class RawSlices {
public:
    // Slices of at most `rows` rows.
    RawSlices(GroupByPlan const& plan, u32 rows);

    // Fills `columns` for rows of a batch; valid until the next call.
    void aim(Morsel const& slice, std::vector<ColumnView>& columns);

private:
    GroupByPlan const& plan_;
    u32 rows_;
    std::vector<Buffer> narrowed_;  // by raw column
    std::vector<u8> ones_;
};

// Folds vectors of rows into the groups of a table.
class Folder {
public:
    // See GroupTable.
    Folder(GroupByPlan const& plan, bool own_texts, Budget& budget)
        : Folder(plan, own_texts, budget, plan.scatter()) {}
    Folder(GroupByPlan const& plan, bool own_texts, Budget& budget, u32 scatter)
        : plan_(plan), table_(plan.layout(), own_texts, budget, scatter) {}

    // Rows as the raw channel carries them; `columns` is moved past them. Throws NarrowOverflow.
    void fold_raw(ColumnView* columns, u32 rows) {
        fold(columns, rows, plan_.raw_schema(), plan_.raw_states());
    }
    // Rows as the partial channel carries them.
    void fold_partial(ColumnView* columns, u32 rows) {
        fold(columns, rows, plan_.partial_schema(), plan_.partial_states());
    }
    // Rows of a table of pairs.
    void fold_pairs(Morsel const& pairs, DistinctColumn const& distinct);
    // Groups of another table, whose texts stay, by their scattered hashes there.
    void fold_groups(u64 const* words, u32 const* hashes, char const* const* rows, u32 count);

    [[nodiscard]] GroupTable& table() { return table_; }

private:
    void fold(ColumnView* columns, u32 rows, Schema const& schema,
              std::vector<State> const& states);

    GroupByPlan const& plan_;
    GroupTable table_;
    EncodedKeys keys_;
    char* rows_[kVector];
    FoldScratch scratch_;
};

// One group's sending side: rows are folded into a table that fits the cache as long as that leaves
// clearly fewer of them, and sent as they are while it does not; from time to time it looks again.
class GroupBySource {
public:
    GroupBySource(GroupByPlan const& plan, Passage const& raw, Passage const& partial,
                  Endpoint endpoint, Morsels& morsels, Budget& budget);

    // Goes a step; false when there was nothing to do or no room. Throws Error, NarrowOverflow.
    bool step(device::Group const& group, device::Shared& shared);
    [[nodiscard]] bool flushed() const { return raw_.flushed() && partial_.flushed(); }

private:
    bool fold_slice(Morsel const& slice);
    void pass_slice(Morsel const& slice);
    void send_groups();

    GroupByPlan const& plan_;
    Outbox raw_;
    Outbox partial_;
    Slices slices_;
    RawSlices raw_slices_;
    Folder local_;
    BatchBuilder partials_;
    u32 const most_groups_;  // of the local table
    u64 folded_ = 0;         // rows since the local table was empty
    u64 pass_left_ = 0;      // rows to pass before looking again
    u32 next_group_ = 0;     // of the local table, while its groups are sent
    bool sending_groups_ = false;
};

}  // namespace mgi::operators
