#include "wires/plain.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include <mgi/error.hpp>

namespace mgi::bench {
namespace {

using transport::wire::Address;
using transport::wire::Descriptor;
using transport::wire::Route;

constexpr std::size_t kMessage = 64;
constexpr int kPatience = 5000;    // ms
constexpr std::size_t kPool = 16;  // segments of memory at either end, as the link has

// What a connection is for: so many segments of so many bytes, or round trips (bytes = 0).
struct Order {
    std::uint64_t segments = 0;
    std::uint64_t bytes = 0;
};

void block(Descriptor const& socket) {
    (void)fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
}

bool send_all(Descriptor const& socket, char const* data, std::size_t bytes) {
    while (bytes != 0) {
        ssize_t const put = send(socket.get(), data, bytes, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        data += put;
        bytes -= std::size_t(put);
    }
    return true;
}

bool receive_all(Descriptor const& socket, char* data, std::size_t bytes) {
    while (bytes != 0) {
        ssize_t const got = recv(socket.get(), data, bytes, MSG_WAITALL);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        data += got;
        bytes -= std::size_t(got);
    }
    return true;
}

Descriptor connect_to(Route const& route) {
    Descriptor socket = transport::wire::begin_connecting(route.local, route.remote);
    pollfd polled{socket.get(), POLLOUT, 0};
    int const ready = poll(&polled, 1, kPatience);
    int const error = ready == 1 ? transport::wire::how_it_went(socket) : ETIMEDOUT;
    if (error != 0) {
        throw Error(ErrorCode::NotFound,
                    transport::wire::with_error("no connection to " + route.remote.text(), error));
    }
    block(socket);
    return socket;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void serve(Descriptor const& socket) {
    Order order;
    if (!receive_all(socket, reinterpret_cast<char*>(&order), sizeof(order))) return;
    if (order.bytes == 0) {
        std::array<char, kMessage> message{};
        while (receive_all(socket, message.data(), message.size()) &&
               send_all(socket, message.data(), message.size())) {
        }
        return;
    }
    std::vector<char> memory(order.bytes * kPool);
    for (std::uint64_t i = 0; i < order.segments; ++i) {
        if (!receive_all(socket, memory.data() + i % kPool * order.bytes, order.bytes)) return;
    }
    (void)send_all(socket, "d", 1);
}

}  // namespace

struct PlainReceiver::State {
    std::vector<Descriptor> listeners;
    std::mutex mutex;
    std::vector<std::unique_ptr<Descriptor>> sockets;
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};
    std::thread accepts;

    void loop() {
        while (!stop) {
            std::vector<pollfd> polled;
            for (Descriptor const& listener : listeners) {
                polled.push_back({listener.get(), POLLIN, 0});
            }
            if (poll(polled.data(), polled.size(), 50) <= 0) continue;
            for (Descriptor const& listener : listeners) {
                Address peer;
                int error = 0;
                Descriptor socket = transport::wire::accept_from(listener, peer, error);
                if (!socket) continue;
                block(socket);
                std::lock_guard const lock(mutex);
                sockets.push_back(std::make_unique<Descriptor>(std::move(socket)));
                threads.emplace_back([it = sockets.back().get()] { serve(*it); });
            }
        }
    }
};

PlainReceiver::PlainReceiver(std::vector<Address> const& addresses)
    : state_(std::make_unique<State>()) {
    for (Address const& address : addresses) {
        state_->listeners.push_back(transport::wire::listen_on(address));
    }
    state_->accepts = std::thread([this] { state_->loop(); });
}

PlainReceiver::~PlainReceiver() {
    state_->stop = true;
    state_->accepts.join();
    for (auto const& socket : state_->sockets) (void)shutdown(socket->get(), SHUT_RDWR);
    for (std::thread& thread : state_->threads) thread.join();
}

double plain_send(std::vector<Route> const& routes, std::size_t segments, std::size_t bytes) {
    std::vector<Descriptor> sockets;
    for (Route const& route : routes) sockets.push_back(connect_to(route));
    std::vector<char> const memory(bytes * kPool, 'x');
    std::atomic<bool> broke{false};
    auto const start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (std::size_t s = 0; s < sockets.size(); ++s) {
        threads.emplace_back([&, s] {
            Order order;
            order.segments = segments / sockets.size() + (s < segments % sockets.size() ? 1 : 0);
            order.bytes = bytes;
            bool ok = send_all(sockets[s], reinterpret_cast<char const*>(&order), sizeof(order));
            for (std::uint64_t i = 0; i < order.segments && ok; ++i) {
                ok = send_all(sockets[s], memory.data() + i % kPool * bytes, bytes);
            }
            char done = 0;
            if (!ok || !receive_all(sockets[s], &done, 1)) broke = true;
        });
    }
    for (std::thread& thread : threads) thread.join();
    if (broke) throw Error(ErrorCode::NotFound, "a plain connection broke");
    return seconds_since(start);
}

double plain_round_trips(Route const& route, std::size_t count) {
    Descriptor const socket = connect_to(route);
    Order const order{count, 0};
    if (!send_all(socket, reinterpret_cast<char const*>(&order), sizeof(order))) return 0;
    std::array<char, kMessage> message{};
    auto const start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) {
        if (!send_all(socket, message.data(), message.size()) ||
            !receive_all(socket, message.data(), message.size())) {
            throw Error(ErrorCode::NotFound, "a plain connection broke");
        }
    }
    return seconds_since(start);
}

}  // namespace mgi::bench
