#include "wires/ends.hpp"

#include <chrono>
#include <utility>

namespace mgi::bench {
namespace {

using mover::link::Key;
using mover::link::LinkOptions;
using mover::link::SharedLink;
using mover::link::Word;

constexpr std::uint64_t kPool = 16;  // segments on their way

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

mover::link::LinkName bench_link() {
    return {'b', 'e', 'n', 'c', 'h'};
}

mover::link::LinkName bench_relays() {
    return {'r', 'e', 'l', 'a', 'y'};
}

mover::link::Secret bench_secret() {
    return {'b', 'e', 'n', 'c', 'h'};
}

LinkOptions bench_options(LinkSetup const& setup) {
    LinkOptions options;
    options.slots.resize(setup.wires);
    for (std::uint32_t i = 0; i < setup.wires; ++i) options.slots[i].nic = i % setup.nics;
    return options;
}

SendingEnd::SendingEnd(transport::wire::WireThread& thread, LinkSetup const& setup)
    : waiting_(thread, setup.driven),
      link_(std::make_unique<SharedLink>(thread, bench_link(), bench_secret(),
                                         transport::wire::routes_of(setup.routes),
                                         bench_options(setup), *this, board_)) {}

SendingEnd::~SendingEnd() {
    link_.reset();
}

void SendingEnd::check() {
    std::lock_guard const lock(mutex_);
    if (!why_.empty()) throw Error(ErrorCode::Stalled, why_);
}

double SendingEnd::send(std::size_t segments, std::size_t bytes) {
    memory_.assign(bytes * kPool, 'x');
    std::uint64_t const last = started_ + segments;
    auto const start = std::chrono::steady_clock::now();
    while (started_ != last) {
        waiting_.wait(mutex_, changed_,
                      [&] { return !why_.empty() || started_ - acknowledged_ < kPool; });
        check();
        mover::link::Transfer transfer;
        transfer.key = {1, 0, 0, started_};
        transfer.token = started_;
        transfer.pieces = {{memory_.data() + started_ % kPool * bytes, bytes}};
        ++started_;
        link_->start(std::move(transfer));
    }
    waiting_.wait(mutex_, changed_, [&] { return !why_.empty() || acknowledged_ == last; });
    check();
    return seconds_since(start);
}

double SendingEnd::round_trips(std::size_t count) {
    auto const start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) {
        link_->say({1, 1, 0, 0, ++asked_, {}});
        waiting_.wait(mutex_, changed_, [&] { return !why_.empty() || answered_ == asked_; });
        check();
    }
    return seconds_since(start);
}

bool SendingEnd::target(Key const&, std::uint64_t, std::uint64_t, std::vector<iovec>&) {
    return false;
}

void SendingEnd::arrived(Key const&, std::uint64_t) {}

void SendingEnd::acknowledged(std::uint64_t) {
    {
        std::lock_guard const lock(mutex_);
        ++acknowledged_;
    }
    changed_.notify_one();
}

void SendingEnd::word(Word const& word) {
    {
        std::lock_guard const lock(mutex_);
        answered_ = word.value;
    }
    changed_.notify_one();
}

void SendingEnd::failed(ErrorCode, std::string const& why) {
    {
        std::lock_guard const lock(mutex_);
        why_ = why;
    }
    changed_.notify_one();
}

ReceivingEnd::ReceivingEnd(transport::wire::WireThread& thread, LinkSetup const& setup)
    : waiting_(thread, setup.driven),
      link_(std::make_unique<SharedLink>(thread, bench_link(), bench_secret(),
                                         transport::wire::routes_of(setup.routes),
                                         bench_options(setup), *this, board_)) {}

ReceivingEnd::~ReceivingEnd() {
    link_.reset();
}

void ReceivingEnd::wait() {
    waiting_.wait(mutex_, changed_, [&] { return over_; });
}

bool ReceivingEnd::target(Key const& key, std::uint64_t, std::uint64_t bytes,
                          std::vector<iovec>& pieces) {
    if (memory_.size() < bytes * kPool) memory_.resize(bytes * kPool);
    pieces.push_back({memory_.data() + key.sequence % kPool * bytes, bytes});
    return true;
}

void ReceivingEnd::arrived(Key const&, std::uint64_t) {}
void ReceivingEnd::acknowledged(std::uint64_t) {}

void ReceivingEnd::word(Word const& word) {
    link_->say(word);
}

void ReceivingEnd::failed(ErrorCode, std::string const&) {
    {
        std::lock_guard const lock(mutex_);
        over_ = true;
    }
    changed_.notify_one();
}

}  // namespace mgi::bench
