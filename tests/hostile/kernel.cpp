#include "hostile/kernel.hpp"

#include <cstring>

namespace mgi::hostile {

using device::Group;
using device::RoutingKind;
using device::Status;

Kernel::Kernel(Flow& flow, Flow::GroupRun& run, Group const& group, std::uint32_t source,
               std::uint32_t destination)
    : flow_(flow),
      shape_(flow.shape_),
      run_(run),
      group_(group),
      shared_(run.scratch.shared()),
      agreed_(shared_.take<std::uint32_t>(1)),
      channel_(flow.channel_.on(source, destination)),
      decide_(flow.shape_.seed * 131 + group.launch) {
    // An ordered channel has one consumer group a destination; the others just send.
    ended_ = destination == kNone || (shape_.channel.ordered && group.block != 0);
    if (source == kNone) return;
    flushed_ = false;
    offer_ = &flow.ledger_.offer(source, group.block);
    if (shape_.structs) {
        structs_ = std::make_unique<test::RowStructs>(shape_.schema, offer_->rows);
    } else {
        test::Random form(decide_);
        batch_ = std::make_unique<test::DeviceBatch>(
            test::make_batch(shape_.schema, offer_->rows, form));
    }
}

void Kernel::operator()() {
    try {
        loop();
    } catch (device::GroupAborted const&) {
        // Rows sent divergently: the other thread may be the one that sees the failure.
        if (!shape_.by_row || channel_.error() == ErrorCode::Ok) {
            throw Broken("a thread of a group left the others at a barrier");
        }
    }
    run_.barrier.leave();  // as a launch's thread does
}

void Kernel::loop() {
    for (std::uint64_t i = decide_.below(shape_.slow_start + 1); i != 0; --i) Scheduler::pause();
    while (!flushed_ || !ended_) {
        Went const sent = flushed_ ? Went::Nowhere : send_or_flush();
        if (sent == Went::Wrong) return;
        Went const received = ended_ ? Went::Nowhere : receive();
        if (received == Went::Wrong) return;
        if (sent == Went::Nowhere && received == Went::Nowhere) Scheduler::pause();
    }
    if (offer_ != nullptr) check_closed();
}

Kernel::Went Kernel::wrong(char const* call) const {
    if (channel_.error() != ErrorCode::Ok) return Went::Wrong;
    throw Broken(std::string(call) + " returned an error on a channel that has not failed");
}

device::Batch Kernel::offered(std::uint64_t first, std::uint64_t count) {
    return shape_.structs ? structs_->slice(first, count) : batch_->slice(first, count);
}

Kernel::Went Kernel::send_or_flush() {
    bool sent_all = next_ >= offer_->rows.size();
    if (shape_.by_row) {
        if (sent_all && !told_) run_.rows_sent.fetch_add(1);
        told_ = told_ || sent_all;
        sent_all = device::agree(group_, agreed_, run_.rows_sent == group_.threads ? 1 : 0) != 0;
        if (!sent_all) return send_rows();
    }
    return sent_all ? flush() : send();
}

Kernel::Went Kernel::send() {
    Scheduler::at("send");
    std::uint64_t const left = offer_->rows.size() - next_;
    std::uint64_t const count = decide_.one_in(2) ? left : 1 + decide_.below(left);
    auto const to = static_cast<std::uint32_t>(decide_.below(shape_.channel.destinations));
    bool const named =
        shape_.channel.routing == RoutingKind::Direct || (shape_.names && decide_.one_in(2));
    device::Batch const rows = offered(next_, count);
    device::SendResult const result =
        named ? channel_.send_to(group_, shared_, flow_.channel_.state().destination_ids[to], rows)
              : channel_.send(group_, shared_, rows);
    if (result.rows > count) throw Broken("send took more rows than it was offered");
    if (group_.leads()) {
        for (std::uint64_t i = 0; named && i < result.rows; ++i) offer_->sent_to[next_ + i] = to;
        offer_->accepted += result.rows;
    }
    next_ += result.rows;
    if (result.status == Status::Error) return wrong("send");
    if (shape_.push_one_in != 0 && decide_.one_in(shape_.push_one_in)) {
        Scheduler::at("push");
        if (channel_.push(group_, shared_) == Status::Error) return wrong("push");
    }
    return result.rows != 0 ? Went::On : Went::Nowhere;
}

// Every thread sends its own rows, one by one and without the others: thread t rows t, t + threads ...
Kernel::Went Kernel::send_rows() {
    Scheduler::at("send_row");
    if (next_ == 0) next_ = group_.thread;
    if (told_ || next_ >= offer_->rows.size()) return Went::Nowhere;
    test::KeyValue row;
    std::memcpy(&row, offered(next_, 1).rows, sizeof(row));
    device::SendResult const result = channel_.send_row(group_, row);
    if (result.status == Status::Error) return wrong("send_row");
    if (result.rows == 0) return Went::Nowhere;
    // Threads take turns by their steps, not by luck: one OS thread runs them all.
    std::atomic_ref<std::uint64_t>(offer_->accepted).fetch_add(1, std::memory_order_relaxed);
    next_ += group_.threads;
    return Went::On;
}

Kernel::Went Kernel::flush() {
    Scheduler::at("flush");
    Status const status = channel_.flush(group_, shared_);
    if (status == Status::Error) return wrong("flush");
    if (status == Status::Pending) return Went::Nowhere;
    flushed_ = true;
    if (group_.leads()) flow_.ledger_.check_delivered(*offer_, offer_->rows.size());
    return Went::On;
}

Kernel::Went Kernel::receive() {
    Scheduler::at("recv");
    device::ReceivedBatch batch;
    Status const status = channel_.recv(group_, shared_, batch);
    if (status == Status::Error) return wrong("recv");
    if (status == Status::Pending) return Went::Nowhere;
    if (status == Status::End) {
        ended_ = true;
        return Went::On;
    }
    take(batch);
    Scheduler::at("release");
    channel_.release(group_, shared_, batch);
    return Went::On;
}

void Kernel::take(device::ReceivedBatch const& batch) {
    Scheduler::at("take");
    if (batch.rows == 0) throw Broken("recv handed out a batch of no rows");
    for (std::uint32_t i = group_.thread; i < batch.rows; i += group_.threads) {
        flow_.ledger_.arrived(channel_.destination(), batch, i);
    }
    if (shape_.channel.ordered && group_.leads()) {
        for (std::uint32_t i = 0; i < batch.rows; ++i) {
            flow_.ledger_.arrived_next(channel_.destination(), Ledger::id_of(batch, i));
        }
    }
    for (std::uint64_t i = decide_.below(shape_.slow_receiver + 1); i != 0; --i) {
        Scheduler::pause();
    }
}

// What a group may still do behind its end: nothing, and be told so.
void Kernel::check_closed() {
    Scheduler::at("the end");
    if (offer_->rows.empty() || shape_.by_row || shape_.channel.routing == RoutingKind::Direct) {
        return;
    }
    device::SendResult const result = channel_.send(group_, shared_, offered(0, 1));
    if (channel_.error() != ErrorCode::Ok) return;
    if (result.status != Status::Error || result.code != ErrorCode::Closed || result.rows != 0) {
        throw Broken("send after flush was not refused");
    }
}

}  // namespace mgi::hostile
