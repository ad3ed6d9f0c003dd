/// \file
/// A channel's tables built by hand, by reference and with tiny segments: the device calls under test
/// and nothing of the runtime.
#pragma once

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
    std::uint32_t chunk_rows = 64;
    std::uint64_t start = 0;  ///< first sequence and first queue position
    device::RoutingKind routing = device::RoutingKind::Partition;
    device::HashKind hash = device::HashKind::Murmur3;
    std::vector<std::uint32_t> keys{0};
    bool ordered = false;
    Layout layout = Layout::Columns;
};

class TinyChannel {
public:
    using Atomics = device::LibcuAtomics;
    using State = device::ChannelState<Atomics>;

    TinyChannel(Schema const& schema, TinyOptions const& options);
    TinyChannel(TinyChannel const&) = delete;
    TinyChannel& operator=(TinyChannel const&) = delete;

    /// The channel of endpoint i as source and as destination, as far as it is one.
    [[nodiscard]] device::Channel on(std::uint32_t source, std::uint32_t destination) {
        return {&state_, source, destination};
    }
    [[nodiscard]] State& state() { return state_; }

private:
    struct SourceTables {
        std::unique_ptr<device::Lane<Atomics>[]> lanes;
        std::unique_ptr<device::GroupState<Atomics>[]> groups;
        std::vector<std::unique_ptr<device::Slot<Atomics>[]>> slots;
    };
    struct GroupTables {
        std::vector<std::uint64_t> last;
        std::vector<std::uint16_t> carry_lane;
        std::vector<std::uint32_t> carry_next;
        std::vector<std::uint32_t> carry_end;
        char* carry = nullptr;
        char const* carry_text = nullptr;
        std::vector<device::ColumnView> columns;
    };
    struct DestinationTables {
        std::unique_ptr<device::ReceiveQueue<Atomics>> queue;
        std::unique_ptr<device::ReceiveQueue<Atomics>::Entry[]> entries;
        std::vector<device::ReadRing<Atomics>> rings;
        std::unique_ptr<Atomics::System<std::uint64_t>[]> counts;
        std::unique_ptr<Atomics::System<std::uint32_t>[]> receivers;
    };
    void build_source(std::uint32_t s);
    void build_group(device::GroupState<Atomics>& group);
    void build_destination(std::uint32_t d);
    char* segment(std::uint32_t bytes);

    TinyOptions options_;
    memory::ChannelLayout layout_;
    memory::ChannelLayout carry_layout_;
    std::vector<std::uint32_t> ids_;
    State state_;
    std::unique_ptr<device::Source<Atomics>[]> sources_;
    std::unique_ptr<device::Destination<Atomics>[]> destinations_;
    std::vector<SourceTables> source_tables_;
    std::vector<std::unique_ptr<GroupTables>> group_tables_;
    std::vector<DestinationTables> destination_tables_;
    struct alignas(64) Line {
        char bytes[64];
    };
    /// Every segment is an allocation of its own, so that AddressSanitizer sees one run into another.
    std::vector<std::vector<Line>> memory_;
};

}  // namespace mgi::test
