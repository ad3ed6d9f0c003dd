#include "transport/wire/wire_thread.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <mgi/error.hpp>

#include "core/log.hpp"

namespace mgi::transport::wire {
namespace {

constexpr std::uint64_t kBellId = 0;
// From one wire before the others have their turn; less by who waits for one of them.
constexpr std::size_t kMostRead = 2U << 20;
constexpr std::size_t kMostReadByOthers = 512U << 10;
constexpr Time kLongest = 10 * kSecond;  // sleep, with nothing to do
constexpr std::size_t kEvents = 64;      // of one turn
// While others drive, a turn of its own comes so often.
constexpr Time kWholeTurn = 10 * kMillisecond;

WireThreadOptions checked(WireThreadOptions options) {
    if (!options.encryption.on || !options.medium) return options;
    throw Error(
        ErrorCode::InvalidArgument,
        "MGI_WIRE_ENCRYPTION=on goes with wires over TCP: UCX has connections of its own, which "
        "MGI cannot encrypt; set MGI_WIRES=tcp, or MGI_WIRE_ENCRYPTION=off, in all processes");
}

}  // namespace

Routes routes_of(std::vector<Route> by_slot) {
    if (by_slot.empty()) return nullptr;
    return [routes = std::move(by_slot)](std::uint32_t slot, std::uint64_t) {
        return routes.at(slot);
    };
}

Time WireThread::now() {
    return Time(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

WireThread::WireThread(WireThreadOptions options)
    : options_(checked(std::move(options))),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    epoll_event what{};
    what.events = EPOLLIN;
    what.data.u64 = kBellId;
    if (!epoll_ || !event_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &what) != 0) {
        throw Error(ErrorCode::OutOfMemory, with_error("cannot watch sockets", errno));
    }
    thread_ = std::thread([this] { loop(); });
}

WireThread::~WireThread() {
    stop_ = true;
    leave_it();
    thread_.join();
}

void WireThread::Bell::ring() noexcept {
    rung_.store(true);
    thread_->ring();
}

void WireThread::ring() noexcept {
    if (awake_.exchange(true)) return;
    std::uint64_t const one = 1;
    (void)!::write(event_.get(), &one, sizeof(one));
}

// There is something that only the thread itself does.
void WireThread::leave_it() noexcept {
    if (!left_.exchange(true)) others_.wake();
    ring();
}

void WireThread::run(std::function<void()> const& what) {
    if (std::this_thread::get_id() == in_role_.load()) {
        what();
        return;
    }
    Task task;
    task.what = &what;
    std::unique_lock lock(mutex_);
    tasks_.push_back(&task);
    leave_it();
    done_.wait(lock, [&] { return task.done; });
    lock.unlock();
    if (task.error) std::rethrow_exception(task.error);
}

void WireThread::run_tasks() {
    std::unique_lock lock(mutex_);
    while (!tasks_.empty()) {
        Task* const task = tasks_.front();
        tasks_.pop_front();
        lock.unlock();
        std::exception_ptr error;
        try {
            (*task->what)();
        } catch (...) {
            error = std::current_exception();
        }
        lock.lock();
        task->error = error;
        task->done = true;
        done_.notify_all();
    }
}

std::vector<Address> WireThread::listen(std::vector<Address> const& addresses) {
    std::vector<Address> got;
    run([&] {
        std::vector<Descriptor> sockets;
        for (Address const& address : addresses) (void)medium_at(address);
        for (Address const& address : addresses) sockets.push_back(listen_on(address));
        for (Descriptor& socket : sockets) {
            got.push_back(address_of(socket));
            std::uint64_t const id = next_id_++;
            epoll_event what{};
            what.events = EPOLLIN;
            what.data.u64 = id;
            if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &what) != 0) {
                throw Error(ErrorCode::OutOfMemory, with_error("cannot watch a socket", errno));
            }
            listeners_[id] = {id, std::move(socket), kNever};
        }
    });
    return got;
}

std::shared_ptr<WireThread::Bell> WireThread::add(LinkName const& name, Secret const& secret,
                                                  Routes routes, std::shared_ptr<WireClient> client,
                                                  bool by_streams) {
    auto bell = std::make_shared<Bell>();
    bell->thread_ = this;
    run([&] {
        auto [at, fresh] = entries_.try_emplace(name);
        if (!fresh) throw Error(ErrorCode::InvalidArgument, "there is a link of this name already");
        at->second = std::make_unique<Entry>();
        Entry& entry = *at->second;
        entry.name = name;
        entry.secret = secret;
        entry.routes = std::move(routes);
        entry.client = std::move(client);
        entry.by_streams = by_streams;
        entry.bell = bell;
    });
    return bell;
}

void WireThread::remove(LinkName const& name) {
    run([&] {
        auto const at = entries_.find(name);
        if (at == entries_.end()) return;
        while (!at->second->connections.empty()) drop(*at->second->connections.back());
        entries_.erase(at);
    });
}

WireThread::Connection* WireThread::find(std::uint64_t id) {
    auto const at = connections_.find(id);
    return at == connections_.end() ? nullptr : at->second.get();
}

// One thread at a time moves wires: the thread itself, which may wait for that, or one that drives.
class WireThread::Role {
public:
    explicit Role(WireThread& wires) : wires_(wires) {
        wires.wanted_ = true;
        lock_ = std::unique_lock(wires.role_);
        wires.wanted_ = false;
        wires.in_role_ = std::this_thread::get_id();
    }
    Role(WireThread& wires, std::try_to_lock_t how) : wires_(wires), lock_(wires.role_, how) {
        if (lock_) wires.in_role_ = std::this_thread::get_id();
    }
    ~Role() {
        if (lock_) wires_.in_role_ = std::thread::id();
    }
    Role(Role const&) = delete;
    Role& operator=(Role const&) = delete;
    explicit operator bool() const { return bool(lock_); }

private:
    WireThread& wires_;
    std::unique_lock<std::mutex> lock_;
};

void WireThread::loop() {
    // A splice into a connection that is gone has no flag against it.
    sigset_t pipes{};
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
    int wait = 0;
    while (!stop_) {
        if (others_work()) {
            others_.rest();
            continue;
        }
        try {
            wait = step(wait);
        } catch (std::exception const& error) {
            // Of memory, mostly: who was being served is served again.
            log::error("the thread of connections between servers goes on after: {}", error.what());
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            wait = 0;
        }
    }
    Role const role(*this);
    run_tasks();
    while (!connections_.empty()) drop(*connections_.begin()->second);
    media_.clear();
}

// Others drive, and leave nothing that only this thread does.
bool WireThread::others_work() const {
    return others_.works() && !left_ && now() < whole_turn_ + kWholeTurn;
}

// Sleeps for `wait` milliseconds, or until there is something to do; returns how long it may the next time.
int WireThread::step(int wait) {
    std::array<epoll_event, kEvents> events{};
    int const count =
        epoll_wait(epoll_.get(), events.data(), int(events.size()), awake_ ? 0 : wait);
    wakeups_.fetch_add(1, std::memory_order_relaxed);
    bool only_rung = true;
    for (int i = 0; i < count; ++i) {
        std::uint64_t rings = 0;
        if (events[std::size_t(i)].data.u64 == kBellId) {
            (void)!::read(event_.get(), &rings, sizeof(rings));
        } else {
            only_rung = false;  // that must be looked at here: some events come but once
        }
    }
    // Who has rung drives; this thread is awake still, so that it does not sleep on what that changed.
    if (only_rung && others_work()) return 0;
    others_.end();
    Role const role(*this);
    // Before anything is looked at: who rings from now on is heard the next time.
    awake_ = false;
    left_ = false;
    spoiled_ = false;
    run_tasks();
    turn({events.data(), std::size_t(std::max(count, 0))}, true);
    whole_turn_ = now_;
    if (!busy_.empty()) left_ = true;
    return arm() ? timeout() : 0;
}

bool WireThread::drive() noexcept {
    if (wanted_ || spoiled_ || stop_) return false;
    Role const role(*this, std::try_to_lock);
    if (!role) return false;
    others_.note();
    // From now on the thread rests; it must not sleep until something comes that is moved here.
    ring();
    std::array<epoll_event, kEvents> events;
    int const count = epoll_wait(epoll_.get(), events.data(), int(events.size()), 0);
    try {
        return turn({events.data(), std::size_t(std::max(count, 0))}, false);
    } catch (std::exception const& error) {
        // Nobody drives again before the thread itself has had a turn, which may wait for better times.
        spoiled_ = true;
        leave_it();
        log::error("who drives connections between servers goes on after: {}", error.what());
        return false;
    }
}

// Moves what can be moved; true if there was anything. `whole`: also what is no wire.
bool WireThread::turn(std::span<epoll_event const> events, bool whole) {
    now_ = now();
    most_read_ = whole ? kMostRead : kMostReadByOthers;
    bool moved = false;
    for (epoll_event const& event : events) {
        std::uint64_t const id = event.data.u64;
        if (Connection* const connection = find(id)) {
            bool const is_wire = connection->stage == Stage::Open;
            moved |= is_wire;
            if (is_wire || whole) {
                on_event(*connection, event.events);
                continue;
            }
            // Of what is passed on, events come but once.
            if (connection->stage == Stage::Passing) busy_.insert(id);
            leave_it();
        } else if (auto const at = listeners_.find(id); at != listeners_.end()) {
            whole ? accept(at->second) : leave_it();
        }
    }
    look_at_streams();
    if (whole) {
        pass_more();
        expire();
    }
    for (auto& [name, entry] : entries_) {
        // A client is told of what happens outside only when its bell rings, or its time has come.
        bool const rung = entry->bell->rung_.exchange(false);
        if (!rung && !entry->touched && entry->next > now_) continue;
        serve(*entry);
        moved = true;
    }
    return moved;
}

void WireThread::serve(Entry& entry) {
    try {
        serve_rounds(entry);
    } catch (...) {
        entry.touched = true;
        throw;
    }
}

void WireThread::serve_rounds(Entry& entry) {
    entry.touched = false;
    bool more = true;
    for (int rounds = 0; more && rounds < 4; ++rounds) {
        entry.next = entry.client->tick(now_);
        more = obey(entry);
        auto const connections = entry.connections;
        for (Connection* const connection : connections) {
            if (connection->stage == Stage::Open && !connection->blocked) write(*connection);
            if (!entry.touched) continue;
            more = true;  // one is gone, and with it perhaps its object
            break;
        }
        more |= entry.touched || obey(entry);
        entry.touched = false;
    }
    entry.touched = more;
}

void WireThread::expire() {
    std::vector<std::uint64_t> late;
    for (auto const& [id, connection] : connections_) {
        if (connection->deadline <= now_) late.push_back(id);
    }
    for (std::uint64_t const id : late) {
        Connection* const connection = find(id);
        if (connection == nullptr) continue;
        if (connection->stage == Stage::Open) {
            beat(*connection);
        } else if (connection->stage == Stage::Draining || connection->stage == Stage::Passing) {
            drop(*connection);
        } else if (connection->joined != nullptr) {
            decline(*connection->joined, "no answer from " + connection->peer.text() + " in time");
        } else if (connection->entry == nullptr) {
            refuse(*connection, "it has not proven in time who it is", true);
        } else {
            gone(*connection, "no answer from " + connection->peer.text() + " in time");
        }
    }
    for (auto& [id, listener] : listeners_) {
        if (listener.retry > now_) continue;
        listener.retry = kNever;
        watch(listener, true);
    }
}

int WireThread::timeout() const {
    if (!busy_.empty()) return 0;
    Time next = kNever;
    for (auto const& [name, entry] : entries_) {
        if (entry->touched) return 0;
        next = std::min(next, entry->next);
    }
    for (auto const& [id, connection] : connections_) next = std::min(next, connection->deadline);
    for (auto const& [id, listener] : listeners_) next = std::min(next, listener.retry);
    Time const since = now();
    if (next <= since) return 0;
    Time const wait = std::min(next - since, kLongest);
    return int((wait + kMillisecond - 1) / kMillisecond);
}

}  // namespace mgi::transport::wire
