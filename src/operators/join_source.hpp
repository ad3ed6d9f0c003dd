// The sending of one side of a join.
#pragma once

#include "operators/converted_keys.hpp"
#include "operators/join_plan.hpp"
#include "operators/run.hpp"

namespace mgi::operators {

// One group's share of a side's rows, in the form in which its channel carries them.
class JoinSlices {
public:
    JoinSlices(JoinSide const& side, Morsels& morsels)
        : side_(side),
          slices_(morsels, kSliceRows),
          in_place_(side.inputs.size()),
          converted_(side.inputs.size()) {}

    // The rows of the next slice, whose columns it writes: 0 when there is none. They stay until the next call.
    u32 next(std::vector<ColumnView>& columns);
    // The next slice as a batch that borrows from the input's all but converted keys; no rows when there is none. For sides
    // without texts in place.
    RecordBatch next_batch();

private:
    static constexpr u32 kSliceRows = 4096;

    // Texts as RowText, which says where their characters are.
    void put_in_place(Buffer& to, ColumnView& view, u32 rows) const;

    JoinSide const& side_;
    Slices slices_;
    std::vector<Buffer> in_place_;                         // by column of the channel
    std::vector<std::optional<ConvertedKeys>> converted_;  // likewise
};

// One group's sending of a side's rows.
class JoinSource {
public:
    JoinSource(JoinSlices& slices, Passage const& passage, Endpoint endpoint)
        : slices_(slices), outbox_(passage, endpoint) {}

    // True when rows went. Throws Error.
    bool step(device::Group const& group, device::Shared& shared);
    [[nodiscard]] bool exhausted() const { return exhausted_; }
    [[nodiscard]] bool flushed() const { return outbox_.flushed(); }

private:
    JoinSlices& slices_;
    Outbox outbox_;
    bool exhausted_ = false;
};

}  // namespace mgi::operators
