// How a received batch becomes the host's: a view in place, or detached from its slot.
#include <cstring>

#include "runtime/channel_impl.hpp"

namespace mgi {

namespace {

// Gives a view's room back when the last copy of its batch dies.
struct InPlace {
    std::shared_ptr<ChannelImpl> channel;
    std::uint32_t destination;
    device::ReceivedBatch batch;

    InPlace(std::shared_ptr<ChannelImpl> c, std::uint32_t d, device::ReceivedBatch const& b)
        : channel(std::move(c)), destination(d), batch(b) {}
    InPlace(InPlace const&) = delete;
    InPlace& operator=(InPlace const&) = delete;
    ~InPlace() { channel->release(destination, batch); }
};

// A segment of the growing part of the pool.
struct Detached {
    std::shared_ptr<ChannelImpl> channel;
    std::uint64_t offset;

    Detached(std::shared_ptr<ChannelImpl> c, std::uint64_t o) : channel(std::move(c)), offset(o) {}
    Detached(Detached const&) = delete;
    Detached& operator=(Detached const&) = delete;
    ~Detached() { channel->pool().give(offset); }
};

}  // namespace

void ChannelImpl::release(std::uint32_t destination, device::ReceivedBatch const& batch) {
    device::ReceiveCall<Words>(device::Group{}, device::Shared{}, state_, destination)
        .release(batch);
}

RecordBatch ChannelImpl::keep(std::uint32_t destination, device::ReceivedBatch const& batch,
                              bool must_grow) {
    if (layout_.get().rows_together) {
        RecordBatch out = view_of_structs(batch);
        release(destination, batch);
        return out;
    }
    if (spec_.options.receive_limit != 0) {
        if (auto const fresh = pool_->take()) return detach(destination, batch, *fresh);
        if (must_grow) {
            release(destination, batch);
            throw Error(ErrorCode::OutOfMemory,
                        describe() + ": kept batches reached the receive_limit of " +
                            std::to_string(spec_.options.receive_limit) +
                            " bytes; raise it or release batches");
        }
    }
    auto owner = std::make_shared<InPlace const>(shared_from_this(), destination, batch);
    return view(batch, batch.segment, std::move(owner));
}

// The reader that is alone with a whole segment trades it for a fresh one; otherwise its rows are
// copied to the fresh one. Either way the slot is free at once.
RecordBatch ChannelImpl::detach(std::uint32_t destination, device::ReceivedBatch const& batch,
                                std::uint64_t fresh) {
    auto& slot = state_.destinations[destination].rings[batch.source].slots[batch.slot];
    bool const alone =
        batch.whole && (state_.routing != device::RoutingKind::Broadcast || !state_.by_reference);
    char* const segment = state_.pool + fresh;
    if (!alone) {
        std::vector<memory::Range> ranges;
        std::uint64_t const content = slot.content.load(device::relaxed);
        memory::used_ranges(state_.layout, std::uint32_t(content), std::uint32_t(content >> 32),
                            ranges);
        for (memory::Range const& range : ranges) {
            std::memcpy(segment + range.offset, batch.segment + range.offset, range.bytes);
        }
        auto owner = std::make_shared<Detached const>(shared_from_this(), fresh);
        RecordBatch out = view(batch, segment, std::move(owner));
        release(destination, batch);
        return out;
    }
    std::uint64_t const kept = slot.offset;
    auto owner = std::make_shared<Detached const>(shared_from_this(), kept);
    RecordBatch out = view(batch, batch.segment, std::move(owner));
    std::memset(segment, 0, state_.layout.bit_bytes);
    slot.offset = fresh;
    release(destination, batch);
    return out;
}

RecordBatch ChannelImpl::view(device::ReceivedBatch const& batch, char const* segment,
                              std::shared_ptr<void const> owner) const {
    RecordBatch out;
    out.schema = schema_;
    out.rows = batch.rows;
    out.owner = std::move(owner);
    out.columns.resize(schema_.size());
    auto const& layout = layout_.get();
    for (std::uint32_t c = 0; c < layout.column_count; ++c) {
        auto const& from = layout.columns[c];
        Column& to = out.columns[c];
        to.values = segment + from.offset;
        to.offset = batch.row;
        if (from.nullable()) {
            to.validity = reinterpret_cast<std::uint8_t const*>(segment + from.validity);
        }
        if (from.storage == device::Storage::Views) {
            to.encoding = Encoding::Views;
            to.buffers = {reinterpret_cast<std::byte const*>(segment + layout.bytes_offset)};
            to.buffer_sizes = {std::int64_t{layout.units} * device::Ticket::kUnitBytes};
        }
    }
    return out;
}

// Structs have no Arrow form; their columns are copied out.
RecordBatch ChannelImpl::view_of_structs(device::ReceivedBatch const& batch) const {
    RecordBatch out;
    out.schema = schema_;
    out.rows = batch.rows;
    out.columns.resize(schema_.size());
    auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
    for (std::uint32_t c = 0; c < schema_.size(); ++c) {
        std::uint32_t const width = layout_.get().columns[c].width;
        auto& values = memory->emplace_back(std::size_t{batch.rows} * width);
        for (std::uint32_t i = 0; i < batch.rows; ++i) {
            std::memcpy(values.data() + std::size_t{i} * width, batch.value(c, i), width);
        }
        out.columns[c].values = values.data();
    }
    out.owner = std::move(memory);
    return out;
}

}  // namespace mgi
