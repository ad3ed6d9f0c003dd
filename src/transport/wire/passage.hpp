// Two connections joined by a process between their ends. What comes on one goes out on the other, from
// socket to socket through pipes of the kernel's: no byte of it is ever in this process' memory.
#pragma once

#include <array>
#include <cstdint>

#include "transport/wire/socket.hpp"

namespace mgi::transport::wire {

class Passage {
public:
    // The sockets never wait, and outlive it. Throws Error(OutOfMemory) where there are no pipes to be had.
    Passage(Descriptor const& one, Descriptor const& other);

    enum class State : std::uint8_t {
        Waiting,  // for either socket
        Busy,     // there is more to do at once
        Over,     // both ends have ended, or a connection broke
    };
    // Moves what there is, up to some megabytes. Whoever writes into a connection that is gone raises SIGPIPE,
    // which the caller's thread must have blocked.
    State pump();
    // One end has ended, and the other one knows.
    [[nodiscard]] bool ending() const { return ways_[0].over || ways_[1].over; }
    // Bytes passed on, both ways.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

    // What each way may hold, beside the sockets' own buffers.
    static constexpr int kPipeBytes = 256 << 10;

private:
    struct Way {
        int from = -1;
        int to = -1;
        Descriptor in;  // of the pipe
        Descriptor out;
        std::size_t held = 0;  // bytes in the pipe; more is taken only when it is empty
        bool over = false;
    };
    State pump(Way& way);

    std::array<Way, 2> ways_;
    std::uint64_t bytes_ = 0;
};

}  // namespace mgi::transport::wire
