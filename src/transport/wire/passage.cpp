#include "transport/wire/passage.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <mgi/error.hpp>

namespace mgi::transport::wire {
namespace {

constexpr int kRounds = 8;  // before others have their turn

}  // namespace

Passage::Passage(Descriptor const& one, Descriptor const& other) {
    for (int i = 0; i < 2; ++i) {
        Way& way = ways_[std::size_t(i)];
        way.from = i == 0 ? one.get() : other.get();
        way.to = i == 0 ? other.get() : one.get();
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
            throw Error(ErrorCode::OutOfMemory, with_error("no pipe can be had", errno));
        }
        way.out = Descriptor(ends[0]);
        way.in = Descriptor(ends[1]);
        // Smaller ones cost speed and nothing else.
        (void)fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
    }
}

Passage::State Passage::pump() {
    State const there = pump(ways_[0]);
    State const back = there == State::Over ? there : pump(ways_[1]);
    if (there == State::Over || back == State::Over) return State::Over;
    if (ways_[0].over && ways_[1].over) return State::Over;
    return there == State::Busy || back == State::Busy ? State::Busy : State::Waiting;
}

// Over: a connection broke.
Passage::State Passage::pump(Way& way) {
    for (int round = 0; round < kRounds && !way.over; ++round) {
        if (way.held == 0) {
            ssize_t const got = splice(way.from, nullptr, way.in.get(), nullptr, kPipeBytes,
                                       SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return errno == EAGAIN ? State::Waiting : State::Over;
            if (got == 0) {
                way.over = true;
                return shutdown(way.to, SHUT_WR) == 0 ? State::Waiting : State::Over;
            }
            way.held = std::size_t(got);
        }
        ssize_t const put = splice(way.out.get(), nullptr, way.to, nullptr, way.held,
                                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno == EAGAIN ? State::Waiting : State::Over;
        way.held -= std::size_t(put);
        bytes_ += std::uint64_t(put);
    }
    return way.over ? State::Waiting : State::Busy;
}

}  // namespace mgi::transport::wire
