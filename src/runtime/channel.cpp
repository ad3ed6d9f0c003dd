// The public Channel: a handle on its implementation.
#include <string>

#include "runtime/channel_impl.hpp"
#include "runtime/host_groups.hpp"

namespace mgi {

namespace {

ChannelImpl& impl_of(std::shared_ptr<ChannelImpl> const& impl) {
    if (impl == nullptr) throw Error(ErrorCode::NotFound, "this Channel object names no channel");
    return *impl;
}

[[noreturn]] void refuse_others(ChannelImpl const& channel, Endpoint endpoint, char const* call) {
    throw Error(ErrorCode::InvalidArgument,
                channel.describe() + ": endpoint " + std::to_string(endpoint.id) +
                    " is another process'; only that one may " + call + " there");
}

std::uint32_t index_or_throw(ChannelImpl const& channel, std::uint32_t index, Endpoint endpoint,
                             char const* role) {
    if (index != ChannelImpl::kNone) return index;
    throw Error(ErrorCode::InvalidArgument, channel.describe() + ": endpoint " +
                                                std::to_string(endpoint.id) + " is not a " + role +
                                                " of it");
}

// The endpoint's index among the channel's sources or destinations; throws where it is none, or another
// process'.
std::uint32_t own_source(ChannelImpl const& channel, Endpoint endpoint) {
    std::uint32_t const index =
        index_or_throw(channel, channel.source_index(endpoint), endpoint, "source");
    if (!channel.is_own_source(index)) refuse_others(channel, endpoint, "send");
    return index;
}

std::uint32_t own_destination(ChannelImpl const& channel, Endpoint endpoint) {
    std::uint32_t const index =
        index_or_throw(channel, channel.destination_index(endpoint), endpoint, "destination");
    if (!channel.is_own_destination(index)) refuse_others(channel, endpoint, "receive");
    return index;
}

// Host code has no way into a GPU's memory.
void refuse_on_gpu(ChannelImpl const& channel, Endpoint endpoint, char const* call) {
    if (!channel.is_on_gpu(endpoint)) return;
    throw Error(ErrorCode::InvalidArgument,
                channel.describe() + ": endpoint " + std::to_string(endpoint.id) +
                    " is on a GPU, where only kernels may " + call +
                    "; launch one with Runtime::launch, or create the endpoint on a CPU "
                    "device (\"cpu\")");
}

void check_group(ChannelImpl const& channel, std::uint32_t group, std::uint32_t groups) {
    if (group < groups && groups <= channel.plan().max_groups) return;
    throw Error(ErrorCode::InvalidArgument,
                channel.describe() + ": group " + std::to_string(group) + " of " +
                    std::to_string(groups) + " is not one of at most " +
                    std::to_string(channel.plan().max_groups) + " (option max_groups)");
}

}  // namespace

std::uint32_t Channel::id() const {
    return impl_of(impl_).id();
}
std::string const& Channel::name() const {
    return impl_of(impl_).spec().options.name;
}
Schema const& Channel::schema() const {
    return impl_of(impl_).columns();
}
Plan const& Channel::plan() const {
    return impl_of(impl_).plan();
}
ChannelStats Channel::stats() const {
    return impl_of(impl_).stats();
}

device::Channel Channel::on(Endpoint endpoint) const {
    ChannelImpl& channel = impl_of(impl_);
    channel.check();
    std::uint32_t const source = channel.source_index(endpoint);
    std::uint32_t const destination = channel.destination_index(endpoint);
    if (source == ChannelImpl::kNone) {
        index_or_throw(channel, destination, endpoint, "source or destination");
    }
    if (source != ChannelImpl::kNone) (void)own_source(channel, endpoint);
    if (destination != ChannelImpl::kNone) (void)own_destination(channel, endpoint);
    return {channel.given_at(endpoint), source, destination};
}

Sender Channel::sender(Endpoint source, std::uint32_t group, std::uint32_t groups) const {
    ChannelImpl& channel = impl_of(impl_);
    channel.check();
    std::uint32_t const index = own_source(channel, source);
    refuse_on_gpu(channel, source, "send");
    check_group(channel, group, groups);
    return Sender(channel.sender(index, group, groups));
}

Receiver Channel::receiver(Endpoint destination, std::uint32_t group) const {
    ChannelImpl& channel = impl_of(impl_);
    channel.check();
    std::uint32_t const index = own_destination(channel, destination);
    refuse_on_gpu(channel, destination, "receive");
    check_group(channel, group, group + 1);
    return Receiver(channel.receiver(index, group));
}

RecordBatch Channel::keep(Endpoint destination, device::ReceivedBatch const& batch) const {
    ChannelImpl& channel = impl_of(impl_);
    std::uint32_t const index = own_destination(channel, destination);
    refuse_on_gpu(channel, destination, "keep batches");
    if (!channel.can_grow()) return channel.view_in_place(index, batch);
    for (device::u32 round = 0;; ++round) {
        memory::Pool::Loan const loan = channel.pool().borrow();
        if (loan.offset) {
            channel.pool().settle();
            return channel.detach(index, batch, *loan.offset);
        }
        // A receiver's loan, which it may bring back, ends within its call.
        if (!loan.others || channel.failed()) break;
        device::backoff(round);
    }
    channel.release(index, batch);
    channel.check();
    throw Error(ErrorCode::OutOfMemory, channel.growth_limit_text());
}

void Channel::fail(ErrorCode code, std::string const& message) const {
    impl_of(impl_).fail(code, message);
}

void Channel::check() const {
    impl_of(impl_).check();
}

}  // namespace mgi
