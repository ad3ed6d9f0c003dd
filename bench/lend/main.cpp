// bench_lend: how soon an owner has its NIC back (FuseLink's Figure 7), over TCP.
//
//     bench_lend receive ADDRESS:PORT ADDRESS:PORT
//     bench_lend send LOCAL:0=ADDRESS:PORT LOCAL:0=ADDRESS:PORT [--processes] [--rounds N] [--bytes N]
//
// Two devices, each with a NIC of its own; one always wants both NICs, the other one sends its own way for
// a second, again and again. With --processes they are two processes, which share a board. `send` prints
// one JSON object. bench/lend.sh runs both in network namespaces. `receive` ends with the sender.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include <mgi/error.hpp>

#include "mover/link/shared_link.hpp"
#include "wires/command.hpp"

namespace {

using namespace std::chrono_literals;
using mgi::Error;
using mgi::ErrorCode;
using mgi::mover::link::kMillisecond;
using mgi::mover::link::kSecond;
using mgi::mover::link::LinkOptions;
using mgi::mover::link::LinkOwner;
using mgi::mover::link::NicBoard;
using mgi::mover::link::NicWords;
using mgi::mover::link::SharedLink;
using mgi::mover::link::Time;
using mgi::mover::link::Transfer;
using mgi::transport::wire::Address;
using mgi::transport::wire::Route;
using mgi::transport::wire::WireThread;

constexpr std::uint64_t kCredits = 64;
constexpr mgi::transport::wire::Secret kSecret{'b', 'e', 'n', 'c', 'h'};
constexpr Time kWindow = 50 * kMillisecond;  // over which a rate is taken
constexpr Time kTurn = kSecond;              // of the owner
constexpr double kEnough = 0.95;

struct Options {
    std::vector<std::string> ways;
    bool processes = false;
    std::size_t rounds = 20;
    std::size_t bytes = std::size_t(256) << 10;
};

// What both sides of a fork see.
struct Shared {
    NicWords words;
    std::atomic<bool> borrow{false};
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> borrower_bytes{0};
    std::atomic<std::uint64_t> lent{0};  // bytes, of the owner's NIC, now
};

// One device's stream to the other server: `device` is its number and that of its NIC.
class Flow final : public LinkOwner {
public:
    Flow(WireThread& thread, std::vector<Route> routes, std::uint8_t device, NicBoard& board,
         std::size_t bytes)
        : device_(device), memory_(bytes * (routes.empty() ? kCredits : 1)), bytes_(bytes) {
        LinkOptions options;
        options.slots.resize(2);
        options.slots[1].nic = 1;
        link_ = std::make_unique<SharedLink>(
            thread, mgi::transport::wire::LinkName{'l', device}, kSecret,
            mgi::transport::wire::routes_of(std::move(routes)), options, *this, board);
    }
    ~Flow() override { link_.reset(); }

    // Sends as long as `go` says so, then waits until all has arrived. When each segment had.
    template <class Go>
    std::vector<Time> send(Go const& go) {
        std::unique_lock lock(mutex_);
        arrivals_.clear();
        std::uint64_t const first = started_;
        while (go()) {
            if (!changed_.wait_for(lock, 10ms, [&] {
                    return !why_.empty() || started_ - first < arrivals_.size() + kCredits;
                })) {
                continue;
            }
            if (!why_.empty()) throw Error(ErrorCode::Stalled, why_);
            Transfer transfer;
            transfer.key = {device_ + 1U, 0, 1, started_++};
            transfer.pieces = {{memory_.data(), bytes_}};
            transfer.nics = std::uint64_t{1} << device_;
            lock.unlock();
            link_->start(std::move(transfer));
            lock.lock();
        }
        changed_.wait(lock, [&] { return !why_.empty() || started_ - first == arrivals_.size(); });
        return arrivals_;
    }
    std::uint64_t sent_bytes() {
        std::lock_guard const lock(mutex_);
        return total_ * bytes_;
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !why_.empty(); });
    }

    bool target(mgi::mover::link::Key const& key, std::uint64_t, std::uint64_t bytes,
                std::vector<iovec>& pieces) override {
        pieces.push_back({memory_.data() + key.sequence % kCredits * bytes_, bytes});
        return true;
    }
    void arrived(mgi::mover::link::Key const&, std::uint64_t) override {}
    void acknowledged(std::uint64_t) override {
        {
            std::lock_guard const lock(mutex_);
            arrivals_.push_back(WireThread::now());
            ++total_;
        }
        changed_.notify_all();
    }
    void word(mgi::mover::link::Word const&) override {}
    void failed(ErrorCode, std::string const& why) override {
        {
            std::lock_guard const lock(mutex_);
            why_ = why;
        }
        changed_.notify_all();
    }

private:
    std::uint32_t const device_;
    std::vector<char> memory_;
    std::size_t const bytes_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Time> arrivals_;
    std::uint64_t started_ = 0;
    std::uint64_t total_ = 0;
    std::string why_;
    std::unique_ptr<SharedLink> link_;
};

Options options_from(int count, char** arguments) {
    Options options;
    for (int i = 2; i < count; ++i) {
        std::string const word = arguments[i];
        auto const number = [&] { return mgi::bench::number_behind(i, count, arguments); };
        if (word == "--processes") {
            options.processes = true;
        } else if (word == "--rounds") {
            options.rounds = number();
        } else if (word == "--bytes") {
            options.bytes = number();
        } else {
            options.ways.push_back(word);
        }
    }
    if (options.ways.size() != 2) throw Error(ErrorCode::InvalidArgument, "two NICs are needed");
    return options;
}

std::vector<Route> routes_of(Options const& options) {
    std::vector<Route> routes;
    for (std::string const& way : options.ways) routes.push_back(mgi::bench::route_of(way));
    return routes;
}

double quantile(std::vector<double> values, double of) {
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1, std::size_t(of * double(values.size())))];
}

// A turn of the owner's.
struct Turn {
    Time begin = 0;
    std::vector<Time> arrivals;
    double given_back_ms = 0;  // nothing of its NIC was lent any more

    // Bytes a nanosecond in [from, from + time).
    [[nodiscard]] double rate(Time from, Time time, std::size_t bytes) const {
        auto const first = std::lower_bound(arrivals.begin(), arrivals.end(), from);
        auto const last = std::lower_bound(arrivals.begin(), arrivals.end(), from + time);
        return double(std::size_t(last - first) * bytes) / double(time);
    }
    // Milliseconds until it has had so much for a while.
    [[nodiscard]] double until(double enough, std::size_t bytes) const {
        for (Time at = begin; at + kWindow < begin + kTurn; at += kMillisecond / 4) {
            if (rate(at, kWindow, bytes) >= enough)
                return double(at - begin) / double(kMillisecond);
        }
        return double(kTurn) / double(kMillisecond);
    }
};

Turn take_turn(Flow& owner, Shared& shared) {
    Turn turn;
    turn.begin = WireThread::now();
    std::thread watcher([&] {
        while (shared.lent != 0 && WireThread::now() < turn.begin + kTurn) {
            std::this_thread::sleep_for(100us);
        }
        turn.given_back_ms = double(WireThread::now() - turn.begin) / double(kMillisecond);
    });
    turn.arrivals = owner.send([&] { return WireThread::now() < turn.begin + kTurn; });
    watcher.join();
    return turn;
}

nlohmann::json own(Flow& owner, NicBoard& board, Shared& shared, Options const& options) {
    std::vector<double> alone;
    for (int i = 0; i < 3; ++i) {
        board.owner_is_busy(0, WireThread::now() + 2 * kTurn);  // or it would be borrowed
        Turn const turn = take_turn(owner, shared);
        alone.push_back(turn.rate(turn.begin + kTurn / 2, kTurn / 2, options.bytes));
    }
    double const rate = quantile(alone, 0.5);
    shared.borrow = true;
    std::this_thread::sleep_for(2s);
    std::vector<double> until;
    std::vector<double> given_back;
    std::vector<double> kept;
    std::vector<double> borrowed;
    std::vector<double> outstanding;
    for (std::size_t round = 0; round < options.rounds; ++round) {
        std::uint64_t const before = shared.borrower_bytes;
        std::this_thread::sleep_for(300ms);
        borrowed.push_back(double(shared.borrower_bytes - before) / 3e8 - rate);
        outstanding.push_back(double(shared.lent));
        Turn const turn = take_turn(owner, shared);
        until.push_back(turn.until(kEnough * rate, options.bytes));
        given_back.push_back(turn.given_back_ms);
        kept.push_back(turn.rate(turn.begin + kTurn / 5, kTurn * 4 / 5, options.bytes) / rate);
        std::this_thread::sleep_for(100ms);  // lent again, but not yet all of it counted
    }
    double const most = *std::max_element(outstanding.begin(), outstanding.end());
    return {{"processes", options.processes ? 2 : 1},
            {"rounds", options.rounds},
            {"segment_bytes", options.bytes},
            {"owner_alone_gbps", rate},
            {"borrowed_gbps_median", quantile(borrowed, 0.5)},
            {"outstanding_bytes_most", most},
            {"given_back_ms_median", quantile(given_back, 0.5)},
            {"given_back_ms_p95", quantile(given_back, 0.95)},
            {"until_95_percent_ms_median", quantile(until, 0.5)},
            {"until_95_percent_ms_p95", quantile(until, 0.95)},
            {"limit_ms", most / rate / 1e6 + 20},
            {"owner_keeps_median", quantile(kept, 0.5)},
            {"owner_keeps_p5", quantile(kept, 0.05)}};
}

void borrow(Flow& borrower, NicBoard& board, Shared& shared) {
    std::thread watcher([&] {
        while (!shared.over) {
            shared.borrower_bytes = borrower.sent_bytes();
            shared.lent = board.lent_here(1);
            std::this_thread::sleep_for(100us);
        }
    });
    while (!shared.over) {
        std::this_thread::sleep_for(10ms);
        (void)borrower.send([&] { return shared.borrow && !shared.over; });
    }
    watcher.join();
}

int send(Options const& options) {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error(ErrorCode::OutOfMemory, "no memory to share");
    Shared& shared = *new (memory) Shared;
    auto const words = std::shared_ptr<NicWords>(&shared.words, [](NicWords*) {});
    auto const make_board = [&](NicBoard& board) { (void)board.share(words, {1, 2}); };
    auto const as_borrower = [&](WireThread& thread, NicBoard& board) {
        Flow borrower(thread, routes_of(options), 0, board, options.bytes);
        borrow(borrower, board, shared);
    };
    pid_t const child = options.processes ? fork() : -1;
    NicBoard board;
    make_board(board);
    WireThread thread;
    if (child == 0) {
        as_borrower(thread, board);
        return 0;
    }
    nlohmann::json result;
    {
        std::thread beside;
        if (!options.processes) beside = std::thread([&] { as_borrower(thread, board); });
        {
            Flow owner(thread, routes_of(options), 1, board, options.bytes);
            result = own(owner, board, shared, options);
        }
        shared.over = true;
        if (beside.joinable()) beside.join();
    }
    if (child > 0) waitpid(child, nullptr, 0);
    std::printf("%s\n", result.dump().c_str());
    return 0;
}

int receive(Options const& options) {
    std::vector<Address> addresses;
    for (std::string const& way : options.ways) addresses.emplace_back(way);
    NicBoard board;
    WireThread thread;
    thread.listen(addresses);
    Flow borrower(thread, {}, 0, board, options.bytes);
    Flow owner(thread, {}, 1, board, options.bytes);
    borrower.wait();
    owner.wait();
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    return mgi::bench::run_end(
        "bench_lend",
        "usage: bench_lend receive ADDRESS:PORT ADDRESS:PORT [--bytes N]\n"
        "       bench_lend send LOCAL:0=ADDRESS:PORT LOCAL:0=ADDRESS:PORT [--processes] "
        "[--rounds N] [--bytes N]\n",
        count, arguments, options_from, {{"receive", receive}, {"send", send}});
}
