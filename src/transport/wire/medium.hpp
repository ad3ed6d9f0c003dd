// A way for the bytes of wires beside their TCP connections, which then only prove who is there and say
// that both ends still are. One medium for each NIC; used by one thread at a time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "transport/wire/socket.hpp"

namespace mgi::transport::wire {

// One end of a stream of bytes each way. Nothing waits but `finish` and the end, for little more than a second.
class Stream {
public:
    // Returns when nothing is read from the pieces written and nothing lands in the room given any more.
    virtual ~Stream() = default;

    // What the other end must know to join this one, some hundred bytes; no secret to who sees it.
    [[nodiscard]] virtual std::string card() const = 0;
    // Behind the handshake that carried the cards. Throws Error(Refused) where the card is of no use.
    virtual void join(std::string_view far_card) = 0;

    // Takes pieces, in order; returns how many bytes (0: no room for now). A piece of more than kCopied bytes
    // stays where it is until the other end has said that it has it, or the stream is gone.
    virtual std::size_t write(std::span<iovec const> pieces) = 0;
    static constexpr std::size_t kCopied = 1024;
    // Fills room from its beginning; returns how many bytes stand there (0: none for now). Until they are
    // returned the room stays where it is, and is given again.
    virtual std::size_t read(std::span<iovec const> room) = 0;
    // Whether a call of `write` may take something, of `read` may give something.
    [[nodiscard]] virtual bool writable() const = 0;
    [[nodiscard]] virtual bool readable() const = 0;
    // Why it is broken; nothing while it is not.
    [[nodiscard]] virtual std::string const& broken() const = 0;
    // Gives what was written and what lands a moment to end. False: memory that was given is still in use.
    virtual bool finish() = 0;
};

// Of a GPU.
struct GpuMemory {
    int gpu = 0;  // N of "cuda:N"
    char const* data = nullptr;
    std::uint64_t bytes = 0;
};

class Medium {
public:
    virtual ~Medium() = default;
    // Why its NIC cannot read and write memory of GPUs itself; empty: it can.
    [[nodiscard]] virtual std::string why_not_gpus() const = 0;
    // Until it is removed streams take pieces of this memory, and land there what came of such pieces: whole, and
    // nothing else. Throws Error(Refused).
    virtual void add_memory(GpuMemory const& memory) = 0;
    // No stream uses it any more.
    virtual void remove_memory(GpuMemory const& memory) noexcept = 0;
    // Outlived by the medium. Throws Error(OutOfMemory).
    virtual std::unique_ptr<Stream> make_stream() = 0;
    // Lets streams move.
    virtual void progress() = 0;
    // Before a sleep: false where there is something to do at once; else `descriptor` becomes readable when
    // there is.
    virtual bool arm() = 0;
    // May become another one between two steps.
    [[nodiscard]] virtual int descriptor() const = 0;
};

// Makes the medium of the NIC that has this address. Throws Error(NotFound) that says what is missing.
using OpenMedium = std::function<std::unique_ptr<Medium>(Address const&)>;

}  // namespace mgi::transport::wire
