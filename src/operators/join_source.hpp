// The sending of one side of a join.
#pragma once

#include "operators/join_plan.hpp"
#include "operators/run.hpp"

namespace mgi::operators {

// One group's sending of a side's rows, in the form in which its channel carries them.
class JoinSource {
public:
    JoinSource(JoinSide const& side, Channel const& channel, Endpoint endpoint, Morsels& morsels)
        : side_(side), outbox_(channel, endpoint), slices_(morsels, kSliceRows) {
        in_place_.resize(side.inputs.size());
    }

    // True when rows went. Throws Error.
    bool step(device::Group const& group, device::Shared& shared);
    [[nodiscard]] bool exhausted() const { return exhausted_; }
    [[nodiscard]] bool flushed() const { return outbox_.flushed(); }

private:
    static constexpr u32 kSliceRows = 4096;

    bool next_slice();
    // Texts as RowText, which says where their characters are.
    void put_in_place(Buffer& to, ColumnView& view, u32 rows) const;

    JoinSide const& side_;
    Outbox outbox_;
    Slices slices_;
    std::vector<Buffer> in_place_;  // by column of the channel
    bool exhausted_ = false;
};

}  // namespace mgi::operators
