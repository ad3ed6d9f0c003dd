#include "wire/cutter.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace mgi::test {

using transport::wire::Address;
using transport::wire::Descriptor;

Cutter::Cutter(Address const& target)
    : target_(target),
      listener_(transport::wire::listen_on(Address("127.0.0.1:0"))),
      address_(transport::wire::address_of(listener_)),
      thread_([this] { loop(); }) {}

Cutter::~Cutter() {
    stop_ = true;
    thread_.join();
}

std::string Cutter::heard() {
    std::lock_guard const lock(mutex_);
    return heard_;
}

void Cutter::look_at(Pair& pair, int from, char* data, std::size_t bytes) {
    if (listens_) {
        std::lock_guard const lock(mutex_);
        heard_.append(data, bytes);
    }
    pair.passed[from] += bytes;
    std::size_t behind = change_;
    if (behind != 0 && pair.passed[from] >= behind + bytes && change_.exchange(0) != 0) {
        data[bytes / 2] = char(data[bytes / 2] ^ 4);
    }
}

/// False: one end is gone.
bool Cutter::pass(Pair& pair, int from) {
    auto& waiting = pair.waiting[from];
    if (waiting.size() < 100'000) {
        std::array<char, 30'000> buffer{};
        ssize_t const got = recv(pair.ends[from].get(), buffer.data(), buffer.size(), 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) {
            look_at(pair, from, buffer.data(), std::size_t(got));
            waiting.insert(waiting.end(), buffer.begin(), buffer.begin() + got);
        }
    }
    if (waiting.empty()) return true;
    ssize_t const put =
        send(pair.ends[1 - from].get(), waiting.data(), waiting.size(), MSG_NOSIGNAL);
    if (put < 0) return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    waiting.erase(waiting.begin(), waiting.begin() + put);
    return true;
}

void Cutter::loop() {
    while (!stop_) {
        std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
        for (auto const& pair : pairs_) {
            for (int e = 0; e < 2; ++e) {
                short const out = pair->waiting[1 - e].empty() ? short(0) : short(POLLOUT);
                polled.push_back({pair->ends[e].get(), short(POLLIN | out), 0});
            }
        }
        (void)poll(polled.data(), hold_ ? 1 : polled.size(), 5);
        if (cut_.exchange(false)) {
            for (auto const& pair : pairs_) {
                for (Descriptor const& end : pair->ends) {
                    linger const reset{1, 0};
                    (void)setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
                }
            }
            pairs_.clear();
        }
        if (hold_) continue;
        std::erase_if(pairs_,
                      [this](auto const& pair) { return !pass(*pair, 0) || !pass(*pair, 1); });
        Address peer;
        int error = 0;
        if (Descriptor accepted = transport::wire::accept_from(listener_, peer, error)) {
            auto pair = std::make_unique<Pair>();
            pair->ends[0] = std::move(accepted);
            pair->ends[1] = transport::wire::begin_connecting({}, target_);
            pairs_.push_back(std::move(pair));
            ++connections_;
        }
    }
}

}  // namespace mgi::test
