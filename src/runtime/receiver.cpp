// Receiving in host code.
#include <new>
#include <string>

#include "runtime/channel_impl.hpp"
#include "runtime/host_groups.hpp"
#include "runtime/patience.hpp"
#include "runtime/queued.hpp"

namespace mgi {

using device::Status;

Status Receiver::try_recv(RecordBatch& batch) {
    std::lock_guard const lock(state_->mutex);
    ChannelImpl& channel = state_->channel();
    std::uint32_t const destination = state_->view().destination();
    // On a channel that grows, a segment to trade is taken first: rows that have been received must
    // not be lost for want of one.
    memory::Pool::Loan loan;
    std::optional<std::uint64_t> const& fresh = loan.offset;
    channel.check();
    if (channel.can_grow()) {
        loan = channel.pool().borrow();
        // What another receiver holds for this very moment may come back at once.
        if (!fresh && !loan.others &&
            come_to(channel.state(), destination) != taken_at(channel.state(), destination)) {
            throw Error(ErrorCode::OutOfMemory, channel.growth_limit_text());
        }
        if (!fresh && !channel.ended(destination)) return Status::Pending;
    }
    device::ReceivedBatch received;
    auto const result = state_->view().recv(state_->group(), state_->shared(), received);
    if (fresh && result == Status::Ok) channel.pool().settle();
    if (fresh && result != Status::Ok) channel.pool().give_back(*fresh);
    if (result == Status::Error) {
        channel.check();
        throw Error(result.code,
                    channel.describe() + ": group " + std::to_string(state_->group().block) +
                        " may not receive here: an ordered channel has one consumer group, and "
                        "others at most " +
                        std::to_string(channel.plan().max_groups));
    }
    if (result == Status::Ok) {
        try {
            batch = fresh ? channel.detach(destination, received, *fresh)
                          : channel.view_in_place(destination, received);
        } catch (std::bad_alloc const&) {
            // Its rows were taken and are gone: nobody may believe that all have arrived.
            channel.fail(ErrorCode::OutOfMemory, "no memory for a batch that was received");
            throw;
        }
    }
    return result;
}

std::optional<RecordBatch> Receiver::recv(std::chrono::milliseconds timeout) {
    ChannelImpl& channel = state_->channel();
    Patience patience(timeout);
    RecordBatch batch;
    while (true) {
        Status const status = try_recv(batch);
        if (status == Status::Ok) return batch;
        if (status == Status::End) return std::nullopt;
        if (patience.wait()) continue;
        throw Error(ErrorCode::Timeout, channel.describe() + ": nothing arrived within " +
                                            std::to_string(timeout.count()) +
                                            " ms; have all sources sent and flushed?");
    }
}

}  // namespace mgi
