#include "control/net/loop.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <span>

#include <mgi/error.hpp>

#include "core/log.hpp"

namespace mgi::control::net {

namespace {

constexpr int kEventsAtOnce = 256;
constexpr std::uint64_t kWakerToken = 0;

}  // namespace

Loop::Loop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      space_(std::make_unique<std::array<char, 1 << 16>>()),
      second_space_(std::make_unique<std::array<char, 1 << 16>>()) {
    if (!epoll_) throw Error(ErrorCode::OutOfMemory, with_errno("epoll", errno));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakerToken;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, waker_.fd(), &event) != 0) {
        throw Error(ErrorCode::OutOfMemory, with_errno("epoll", errno));
    }
}

std::shared_ptr<Loop> Loop::make() {
    std::shared_ptr<Loop> loop(new Loop);
    // The lock keeps the thread from asking who it is before that is known.
    std::lock_guard const lock(loop->mutex_);
    loop->thread_ = std::thread([raw = loop.get()] {
        {
            std::lock_guard const begun(raw->mutex_);
        }
        raw->run();
    });
    return loop;
}

Loop::~Loop() {
    stop();
}

void Loop::stop() {
    {
        std::lock_guard const lock(mutex_);
        stopping_ = true;
    }
    waker_.wake();
    if (thread_.joinable()) thread_.join();
}

bool Loop::post(std::function<void()> task) {
    bool first = false;
    {
        std::lock_guard const lock(mutex_);
        if (stopping_) return false;
        first = tasks_.empty() && poked_.empty();
        tasks_.push_back(std::move(task));
    }
    if (first) waker_.wake();
    return true;
}

void Loop::poke(std::shared_ptr<Source> source) {
    bool first = false;
    {
        std::lock_guard const lock(mutex_);
        if (stopping_) return;
        first = tasks_.empty() && poked_.empty();
        poked_.push_back(std::move(source));
    }
    // The loop's own thread looks before it waits again.
    if (first && !here()) waker_.wake();
}

void Loop::watch(std::shared_ptr<Source> const& source, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = next_token_;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        throw Error(ErrorCode::OutOfMemory, with_errno("epoll", errno));
    }
    source->token_ = next_token_++;
    source->fd_ = fd;
    sources_.emplace(source->token_, source);
}

void Loop::wait(std::shared_ptr<Source> const& source, Time due) {
    if (source->token_ == 0) {
        source->token_ = next_token_++;
        source->fd_ = -1;
        sources_.emplace(source->token_, source);
    }
    set_due(*source, due);
}

void Loop::change(Source& source, std::uint32_t events) {
    if (source.token_ == 0 || source.fd_ < 0) return;
    epoll_event event{};
    event.events = events;
    event.data.u64 = source.token_;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, source.fd_, &event);
}

void Loop::forget(Source& source) {
    if (source.token_ == 0) return;
    set_due(source, kNever);
    if (source.fd_ >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, source.fd_, nullptr);
    sources_.erase(std::exchange(source.token_, 0));
}

void Loop::set_due(Source& source, Time due) {
    if (source.token_ == 0 || source.due_ == due) return;
    if (source.due_ != kNever) deadlines_.erase({source.due_, source.token_});
    source.due_ = due;
    if (due != kNever) deadlines_.emplace(due, source.token_);
}

std::shared_ptr<Loop::Source> Loop::find(std::uint64_t token) const {
    auto const found = sources_.find(token);
    return found == sources_.end() ? nullptr : found->second;
}

int Loop::time_left() const {
    if (deadlines_.empty()) return -1;
    auto const left =
        std::chrono::ceil<std::chrono::milliseconds>(deadlines_.begin()->first - Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

void Loop::run() {
    std::array<epoll_event, kEventsAtOnce> events{};
    for (;;) {
        {
            std::lock_guard const lock(mutex_);
            if (stopping_) break;
        }
        int const count = epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, time_left());
        if (count < 0 && errno != EINTR) {
            // Nothing could be heard any more; a supervisor starts the program again.
            log::error("network: {}; the program ends", with_errno("epoll_wait", errno));
            std::_Exit(EXIT_FAILURE);
        }
        for (bool const late : {false, true}) {
            for (epoll_event const& event : std::span(events).first(std::max(count, 0))) {
                if (event.data.u64 == kWakerToken) {
                    if (!late) waker_.clear();
                    continue;
                }
                auto const source = find(event.data.u64);
                if (source != nullptr && source->waits_for_others() == late) {
                    source->ready(event.events);
                }
            }
        }
        auto const now = Clock::now();
        while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
            auto const source = find(deadlines_.begin()->second);
            deadlines_.erase(deadlines_.begin());
            source->due_ = kNever;
            source->due();
        }
        serve_inbox();
    }
    serve_inbox();  // what was asked for before the end
    auto const last = std::exchange(sources_, {});
    for (auto const& [token, source] : last) {
        source->token_ = 0;
        source->stopped();
    }
    deadlines_.clear();
}

void Loop::serve_inbox() {
    // What these add to is served in this turn, too, but not for ever: sockets wait.
    for (int turn = 0; turn < 16; ++turn) {
        std::vector<std::function<void()>> tasks;
        std::vector<std::shared_ptr<Source>> poked;
        {
            std::lock_guard const lock(mutex_);
            tasks.swap(tasks_);
            poked.swap(poked_);
        }
        if (tasks.empty() && poked.empty()) return;
        for (auto const& task : tasks) task();
        for (auto const& source : poked) source->poked();
    }
    waker_.wake();
}

}  // namespace mgi::control::net
