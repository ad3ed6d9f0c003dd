/// \file
/// A channel's tables with checked words, as small as they can be: rows of one u32. Beside every row of
/// every segment lies a checked variable, which scenarios write and read instead of the row where
/// they send by themselves; what the library writes is compared by value.
#pragma once

#include <memory>
#include <vector>

#include <mgi/device/receive.hpp>
#include <mgi/device/send.hpp>

#include "relacy_atomics.hpp"

namespace mgi::relacy {

using namespace mgi::device;
using A = RelacyAtomics;
using State = ChannelState<A>;

struct TableOptions {
    u32 sources = 1;
    u32 destinations = 1;
    u32 groups = 2;    ///< of each endpoint
    u32 slots = 2;     ///< of each lane
    u32 capacity = 2;  ///< rows of a segment
    u32 chunk_rows = 2;
    u32 tile_rows = 2;
    u32 units = 0;    ///< bytes of a segment / 16, for rows with long strings, one each; else 0
    u32 credits = 1;  ///< segments of each (source, destination) by copy
    RoutingKind routing = RoutingKind::Direct;
    bool ordered = false;
    bool by_reference = true;
    u32 near = 0;        ///< by copy: destinations below it read in place
    bool mail = false;   ///< by copy: the mover hears of segments as it does of a GPU's
    bool inbox = false;  ///< by reference (no Balance), or by mail: segments are found in inboxes
    u32 queued = 0;      ///< by mail: sources below it are found in the queue nonetheless
};

/// Owns what a ChannelState points to.
class Tables {
public:
    explicit Tables(TableOptions const& options);

    State state;

    [[nodiscard]] TableOptions const& options() const { return options_; }
    /// The checked variable of a row.
    [[nodiscard]] Plain<u32>& row(char const* segment, u32 index) {
        return rows_[static_cast<u64>(segment - state.pool) / sizeof(u32) + index];
    }

private:
    template <class T>
    T* array(std::vector<std::unique_ptr<T[]>>& arrays, u32 count) {
        return arrays.emplace_back(new T[count]).get();
    }
    [[nodiscard]] bool reads_in_place(u32 destination) const {
        return options_.by_reference || destination < options_.near;
    }
    void build_source(Source<A>& source);
    void set_readers(Lane<A>& lane, u32 number);
    void build_group(GroupState<A>& group);
    void build_destination(u32 d);
    void add_mail(Lane<A>& lane);
    void add_mail(Destination<A>& to);
    void add_inboxes(u32 d);
    Slot<A>* ring(u32 size);

    TableOptions const options_;
    ColumnLayout column_;
    u64 segments_ = 0;
    std::vector<u32> numbers_;  ///< of destinations
    std::unique_ptr<Source<A>[]> sources_;
    std::unique_ptr<Destination<A>[]> destinations_;
    std::vector<std::unique_ptr<Lane<A>[]>> lanes_;
    std::vector<std::unique_ptr<Slot<A>[]>> slots_;
    std::vector<std::unique_ptr<GroupState<A>[]>> groups_;
    struct Carry {
        std::vector<u64> last;
        std::vector<u64> at;
        std::vector<u16> lane;
        std::vector<u32> next;
        std::vector<u32> end;
        std::vector<u32> rows;
        ColumnView column;
    };
    std::vector<std::unique_ptr<Carry>> carries_;
    std::vector<std::unique_ptr<ReceiveQueue<A>[]>> queues_;
    std::vector<std::unique_ptr<ReceiveQueue<A>::Entry[]>> entries_;
    std::vector<std::unique_ptr<ReadRing<A>[]>> rings_;
    std::vector<std::unique_ptr<Word<u64>[]>> counts_;
    std::vector<std::unique_ptr<Word<u64>[]>> receivers_;
    std::vector<std::unique_ptr<Inbox<A>[]>> inboxes_;
    std::vector<std::unique_ptr<Word<u32>[]>> owed_;
    std::vector<std::unique_ptr<u64[]>> offsets_;
    std::vector<std::unique_ptr<Receiver<A>[]>> inbox_receivers_;
    std::unique_ptr<SourceWords<A>[]> source_words_;
    std::unique_ptr<DestinationWords<A>[]> destination_words_;
    std::vector<std::unique_ptr<LaneMail<A>[]>> mails_;
    std::vector<std::unique_ptr<Word<u64>[]>> mail_words_;
    std::vector<std::unique_ptr<Arrivals<A>[]>> arrivals_;
    std::vector<u32> pool_;
    std::unique_ptr<Plain<u32>[]> rows_;
};

}  // namespace mgi::relacy
