// A group's part in moving rows to the endpoints that a channel's routing names.
#pragma once

#include <optional>

#include "operators/two_level.hpp"

namespace mgi::operators {

// Rows offered at once: the caches still hold what is sent when it is received next.
inline constexpr u32 kSliceRows = 1u << 13;
inline constexpr u32 kBatchesARound = 16;

// The channels of an endpoint: what it sends in, what it receives from, and in two levels those
// whose rows it sends on.
struct Channels {
    Passage out;
    std::vector<Passage> arriving;
    Passage in;
};

// One group: sends while there is room, keeps what has come in between (the paper's Figure 3), and
// sends on what came for others of its server.
class Exchanger {
public:
    Exchanger(Channels const& channels, Endpoint endpoint, std::vector<bool> const& has_nulls,
              Schema const& schema, Morsels& morsels)
        : outbox_(channels.out, endpoint),
          inbox_(channels.in, endpoint),
          has_nulls_(has_nulls),
          schema_(schema),
          slices_(morsels, kSliceRows) {
        if (channels.out.rows.impl() != channels.in.rows.impl()) {
            second_.emplace(channels.arriving, channels.in, endpoint);
        }
    }

    std::vector<RecordBatch> run(device::Group const& group, device::Shared& shared) {
        for (u32 idle = 0; !inbox_.ended() || !flushed();) {
            bool sent = send(group, shared);
            if (second_) sent |= second_->pass(group, shared);
            u32 const received =
                inbox_.receive(group, shared, kBatchesARound,
                               [&](device::ReceivedBatch const& batch) { keep(batch); });
            if (sent || received != 0) {
                idle = 0;
            } else {
                device::backoff(idle++);
            }
        }
        return std::move(kept_);
    }

private:
    [[nodiscard]] bool flushed() const {
        return outbox_.flushed() && (!second_ || second_->flushed());
    }

    // True when rows went.
    bool send(device::Group const& group, device::Shared& shared) {
        if (outbox_.empty() && !next_slice()) {
            outbox_.flush(group, shared);
            return false;
        }
        return outbox_.send(group, shared);
    }

    bool next_slice() {
        Morsel slice;
        if (!slices_.next(slice)) return false;
        std::vector<ColumnView> columns = outbox_.take_columns();
        columns.clear();
        for (std::size_t c = 0; c < slice.batch->columns.size(); ++c) {
            columns.push_back(view_of(slice.batch->columns[c], slice.first));
            if (!has_nulls_[c]) columns.back().validity = nullptr;
        }
        outbox_.put(std::move(columns), slice.rows);
        return true;
    }

    void keep(device::ReceivedBatch const& received) {
        RecordBatch batch = inbox_.keep(received);
        batch.schema = schema_;
        kept_.push_back(std::move(batch));
    }

    Outbox outbox_;
    std::optional<SecondLevel> second_;
    Inbox inbox_;
    std::vector<bool> const& has_nulls_;
    Schema const& schema_;
    Slices slices_;
    std::vector<RecordBatch> kept_;
};

}  // namespace mgi::operators
