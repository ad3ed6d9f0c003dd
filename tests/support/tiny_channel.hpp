/// \file
/// A channel's tables built by hand, with tiny segments: the device calls under test and nothing of the
/// runtime. A template over the atomics policy, as the device calls are.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include <mgi/device.hpp>
#include <mgi/schema.hpp>

#include "memory/segment_layout.hpp"

namespace mgi::test {

struct TinyOptions {
    std::uint32_t sources = 1;
    std::uint32_t destinations = 1;
    std::uint32_t max_groups = 16;
    std::uint32_t segment_rows = 64;
    std::uint32_t text_bytes = 0;
    std::uint32_t slots = 2;
    std::uint32_t tile_rows = 64;
    bool staged = false;  ///< tiles are brought into the scratch, as on a GPU
    std::uint32_t chunk_rows = 64;
    /// First sequence of every lane and, by copy, of every receive ring; queues start at what their
    /// sources' sum to.
    std::uint64_t start = 0;
    std::uint64_t rows_start = 0;  ///< what every counter of rows starts at
    device::RoutingKind routing = device::RoutingKind::Partition;
    device::HashKind hash = device::HashKind::Murmur3;
    std::vector<std::uint32_t> keys{0};
    bool ordered = false;
    bool by_reference = true;
    std::uint32_t credits = 2;  ///< by copy: segments of a receive ring
    std::uint32_t near = 0;     ///< by copy: destinations below it read in place (no Balance)
    bool mail = false;          ///< by copy: the mover hears of segments as it does of a GPU's
    /// What is read in place, or comes by mail, is found in inboxes (no Balance, no one order).
    bool inbox = true;
    /// By mail: sources below it are found in the queue nonetheless, as those that share a GPU's memory may be.
    std::uint32_t queued = 0;
    bool takes_ahead = true;  ///< see ChannelState; false of a stage
    /// A stage's: rows that a thread may keep before it appends them; 0: none.
    std::uint32_t staged_rows = 0;
    std::uint32_t seats = 0;  ///< a stage's: sorters that senders may help
    Layout layout = Layout::Columns;
};

template <class A>
class BasicTinyChannel {
public:
    using State = device::ChannelState<A>;

    BasicTinyChannel(Schema const& schema, TinyOptions const& options);
    BasicTinyChannel(BasicTinyChannel const&) = delete;
    BasicTinyChannel& operator=(BasicTinyChannel const&) = delete;

    /// The channel as an endpoint sees it that is this source and this destination.
    [[nodiscard]] device::BasicChannel<A> on(std::uint32_t source, std::uint32_t destination) {
        return {&state_, source, destination};
    }
    [[nodiscard]] State& state() { return state_; }
    [[nodiscard]] TinyOptions const& options() const { return options_; }
    /// Entries of every receive queue.
    [[nodiscard]] std::uint32_t queue_entries() const {
        std::uint32_t size = 0;
        for (std::uint32_t d = 0; d < options_.destinations; ++d) {
            size = std::max(size, ring_size(d));
        }
        return std::bit_ceil(options_.sources * size);
    }

private:
    using Slot = device::Slot<A>;
    using Queue = device::ReceiveQueue<A>;
    struct SourceTables {
        std::unique_ptr<device::Lane<A>[]> lanes;
        std::unique_ptr<device::GroupState<A>[]> groups;
        device::SourceWords<A> words;
    };
    struct GroupTables {
        std::vector<std::uint64_t> last;
        std::vector<std::uint64_t> carry_at;
        std::vector<std::uint16_t> carry_lane;
        std::vector<std::uint32_t> carry_next;
        std::vector<std::uint32_t> carry_end;
        char* carry = nullptr;
        char const* carry_text = nullptr;
        std::vector<device::ColumnView> columns;
    };
    struct DestinationTables {
        std::unique_ptr<Queue> queue;
        std::unique_ptr<typename Queue::Entry[]> entries;
        std::vector<device::ReadRing<A>> rings;
        std::unique_ptr<typename A::template System<std::uint64_t>[]> counts;
        std::unique_ptr<typename A::template System<std::uint64_t>[]> receivers;
        device::DestinationWords<A> words;
        device::Arrivals<A> arrivals;
        std::unique_ptr<typename A::template System<std::uint64_t>[]> arrival_entries;
        std::unique_ptr<typename A::template System<std::uint64_t>[]> arrival_counts;
    };
    struct InboxTables {
        device::Inbox<A> inbox;
        std::unique_ptr<typename A::template System<std::uint64_t>[]> came;
        std::unique_ptr<typename A::template Device<std::uint32_t>[]> owed;
        std::unique_ptr<std::uint64_t[]> offsets;
    };
    struct ReceiverTables {
        std::unique_ptr<device::Receiver<A>[]> receivers;
        std::vector<std::unique_ptr<typename A::template System<std::uint64_t>[]>> holds;
    };
    struct MailTables {
        device::LaneMail<A> mail;
        std::unique_ptr<typename A::template System<std::uint64_t>[]> contents;
    };
    void fill_in_state();
    Slot* build_slots(std::uint32_t count);
    void build_source(std::uint32_t s);
    void set_readers(device::Lane<A>& lane, std::uint32_t number);
    void build_group(device::GroupState<A>& group);
    void build_destination(std::uint32_t d);
    void add_mail(device::Lane<A>& lane);
    void add_mail(std::uint32_t destination);
    [[nodiscard]] bool has_inbox(std::uint32_t source, std::uint32_t destination) const {
        if (!options_.inbox || state_.one_order()) return false;
        if (reads_in_place(destination)) {
            return options_.routing != device::RoutingKind::Balance && options_.takes_ahead;
        }
        return options_.mail && source >= options_.queued && std::has_single_bit(options_.credits);
    }
    void add_inboxes(std::uint32_t destination);
    void add_inbox(device::Destination<A>& to, std::uint32_t source);
    void build_staged_rows();
    char* segment(std::uint32_t bytes);
    [[nodiscard]] std::uint32_t lanes() const {
        bool const apart = options_.routing == device::RoutingKind::Partition ||
                           options_.routing == device::RoutingKind::Direct;
        return apart ? options_.destinations : 1;
    }
    [[nodiscard]] std::uint32_t carry_text_bytes() const {
        return options_.text_bytes + lanes() * device::Ticket::kUnitBytes;
    }
    [[nodiscard]] bool reads_in_place(std::uint32_t destination) const {
        return options_.by_reference || destination < options_.near;
    }
    [[nodiscard]] std::uint32_t ring_size(std::uint32_t destination) const {
        return reads_in_place(destination) ? options_.slots : options_.credits;
    }
    /// Offsets count from here: an address that is not null and below every other.
    static char* pool() { return reinterpret_cast<char*>(std::uintptr_t{64}); }

    TinyOptions options_;
    memory::ChannelLayout layout_;
    memory::ChannelLayout carry_layout_;
    std::vector<std::uint32_t> ids_;
    std::vector<std::uint32_t> numbers_;  ///< of destinations
    State state_;
    std::unique_ptr<device::Source<A>[]> sources_;
    std::unique_ptr<device::Destination<A>[]> destinations_;
    std::vector<SourceTables> source_tables_;
    std::vector<std::unique_ptr<GroupTables>> group_tables_;
    std::vector<DestinationTables> destination_tables_;
    std::vector<std::unique_ptr<Slot[]>> slots_;
    std::vector<std::unique_ptr<MailTables>> mail_tables_;
    std::vector<std::unique_ptr<InboxTables>> inbox_tables_;
    std::vector<ReceiverTables> receiver_tables_;
    std::vector<std::unique_ptr<typename A::template System<std::uint64_t>[]>> freed_;
    std::unique_ptr<device::SorterSeat<A>[]> seats_;
    std::unique_ptr<device::StagedRows[]> staged_;
    std::vector<std::vector<char>> staged_data_;
    struct alignas(64) Line {
        char bytes[64];
    };
    /// Every segment is an allocation of its own, so that AddressSanitizer sees one run into another.
    std::vector<std::vector<Line>> memory_;
};

using TinyChannel = BasicTinyChannel<device::LibcuAtomics>;

}  // namespace mgi::test

#include "support/tiny_channel.inl"
