// How a received batch becomes the host's: a view in place, or detached from its slot.
#include <cstring>
#include <optional>

#include <mgi/device/assert.hpp>

#include "core/text.hpp"
#include "runtime/channel_impl.hpp"

namespace mgi {

namespace {

// Gives a view's room back when the last copy of its batch dies.
struct InPlace {
    std::shared_ptr<ChannelImpl> channel;
    std::uint32_t destination;
    device::ReceivedBatch batch;

    InPlace(std::shared_ptr<ChannelImpl> c, std::uint32_t d, device::ReceivedBatch const& b)
        : channel(std::move(c)), destination(d), batch(b) {
        channel->held[destination].fetch_add(1, std::memory_order_relaxed);
    }
    InPlace(InPlace const&) = delete;
    InPlace& operator=(InPlace const&) = delete;
    ~InPlace() {
        auto const held = channel->held[destination].fetch_sub(1, std::memory_order_relaxed);
        MGI_ASSERT(held != 0, destination, channel->id());
        channel->release(destination, batch);
    }
};

// A segment of the growing part of the pool. Empty until it is told which.
struct Detached {
    std::shared_ptr<ChannelImpl> channel;
    std::optional<std::uint64_t> offset;

    explicit Detached(std::shared_ptr<ChannelImpl> c) : channel(std::move(c)) {}
    Detached(Detached const&) = delete;
    Detached& operator=(Detached const&) = delete;
    ~Detached() {
        if (offset) channel->pool().give(*offset);
    }
};

// Runs at the end of a scope.
template <class Action>
class Finally {
public:
    explicit Finally(Action action) : action_(std::move(action)) {}
    Finally(Finally const&) = delete;
    Finally& operator=(Finally const&) = delete;
    ~Finally() { action_(); }

private:
    Action action_;
};

}  // namespace

bool ChannelImpl::can_grow() const {
    return spec_.options.receive_limit != 0 && !layout_.get().rows_together;
}

std::string ChannelImpl::growth_limit_text() const {
    return describe() + ": kept batches take " + bytes_text(pool_->taken_bytes()) +
           "; the receive_limit is " + bytes_text(spec_.options.receive_limit) +
           ", and the runtime's memory limit counts too; raise it or drop batches";
}

void ChannelImpl::release(std::uint32_t destination, device::ReceivedBatch const& batch) {
    device::ReceiveCall<Words>(device::Group{}, device::Shared{}, state_, destination)
        .release(batch);
}

RecordBatch ChannelImpl::view_in_place(std::uint32_t destination,
                                       device::ReceivedBatch const& batch) {
    if (layout_.get().rows_together) {
        Finally const done([&] { release(destination, batch); });
        return view_of_structs(batch);
    }
    std::shared_ptr<InPlace const> owner;
    try {
        owner = std::make_shared<InPlace const>(shared_from_this(), destination, batch);
    } catch (...) {
        release(destination, batch);
        throw;
    }
    return view(batch, batch.segment, std::move(owner));
}

// The reader that is alone with a whole segment trades it for the fresh one; otherwise its rows are
// copied there. Either way the slot is free at once.
RecordBatch ChannelImpl::detach(std::uint32_t destination, device::ReceivedBatch const& batch,
                                std::uint64_t fresh) {
    Finally const done([&] { release(destination, batch); });
    std::shared_ptr<Detached> owner;
    try {
        owner = std::make_shared<Detached>(shared_from_this());
    } catch (...) {
        pool_->give(fresh);
        throw;
    }
    owner->offset = fresh;
    auto const& ring = state_.destinations[destination].rings[batch.source];
    auto const& slot = ring.slots[batch.slot];
    // A broadcast's segment is everybody's where it is read in place; and what GPUs copy to stays pinned.
    bool const alone = batch.whole && pinned_ == nullptr &&
                       (state_.routing != device::RoutingKind::Broadcast || !ring.in_place);
    char* const segment = state_.pool + fresh;
    if (alone) {
        RecordBatch out = view(batch, batch.segment, owner);
        std::memset(segment, 0, state_.layout.bit_bytes);
        owner->offset = slot.offset;
        ring.set_offset(batch.slot, fresh);
        return out;
    }
    std::vector<memory::Range> ranges;
    memory::chunk_ranges(state_.layout, batch.row, batch.rows,
                         device::Content::units(slot.content.load(device::relaxed)), ranges);
    for (memory::Range const& range : ranges) {
        std::memcpy(segment + range.offset, batch.segment + range.offset, range.bytes);
    }
    return view(batch, segment, owner);
}

RecordBatch ChannelImpl::view(device::ReceivedBatch const& batch, char const* segment,
                              std::shared_ptr<void const> owner) const {
    RecordBatch out;
    out.schema = columns();
    out.rows = batch.rows;
    out.owner = std::move(owner);
    out.columns.resize(out.schema.size());
    auto const& layout = layout_.get();
    for (std::uint32_t c = 0; c < out.columns.size(); ++c) {
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
            to.buffer_sizes = {std::int64_t(layout.bytes_of(layout.units))};
        }
    }
    return out;
}

// Structs have no Arrow form; their columns are copied out.
RecordBatch ChannelImpl::view_of_structs(device::ReceivedBatch const& batch) const {
    RecordBatch out;
    out.schema = columns();
    out.rows = batch.rows;
    out.columns.resize(out.schema.size());
    auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
    for (std::uint32_t c = 0; c < out.columns.size(); ++c) {
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
