// Between a link (src/mover/link), which knows what bytes mean, and whoever moves them over wires:
// sockets (wire_thread.hpp), or a test in virtual time. A wire is a stream of bytes each way between
// two processes. A link has a fixed number of *slots* for wires; the wires that one slot has one after
// the other are its generations.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mgi::transport::wire {

// Of a steady clock, in nanoseconds.
using Time = std::uint64_t;
inline constexpr Time kNever = UINT64_MAX;
inline constexpr Time kMillisecond = 1'000'000;
inline constexpr Time kSecond = 1'000'000'000;

// What a link wants of who moves its bytes.
struct Command {
    enum class Kind : std::uint8_t {
        Dial,    // make a wire of this generation; answered by `opened` or `not_made`
        Close,   // end it; not answered. Nothing that arrives on it may land from now on
        Finish,  // the same, but what was written still goes to the other end
    };
    Kind kind = Kind::Close;
    std::uint32_t slot = 0;
    std::uint64_t generation = 0;
};

// Called by one thread, which never waits inside. After any of these calls there may be commands, which
// are obeyed before the next call for the same slot; a wire that is no longer wanted has nothing to
// gather and no room to scatter into.
class WireClient {
public:
    virtual ~WireClient() = default;

    // A wire is there. False: it is not wanted (stale, or no such slot) and must be closed.
    virtual bool opened(std::uint32_t slot, std::uint64_t generation, Time now) = 0;
    // A wire could not be made: this hop of its way did not lead on, of which 0 is the one from here.
    virtual void not_made(std::uint32_t slot, std::uint64_t generation, std::uint32_t hop,
                          std::string const& why, Time now) = 0;
    // A wire is gone.
    virtual void closed(std::uint32_t slot, std::uint64_t generation, std::string const& why,
                        Time now) = 0;

    // Of a wire that the link closes: when the other end's machine has last taken something of it in, or
    // said that its process leaves no room for it. Told where the wire ends at that machine and whoever
    // moves the bytes knows it.
    virtual void answered(std::uint32_t /*slot*/, std::uint64_t /*generation*/, Time /*when*/,
                          Time /*now*/) {}

    // The next bytes to write, as pieces in order; returns how many pieces (0: nothing to write). They
    // stay where they are until the next call of `sent`; those of more than Stream::kCopied bytes until the
    // other end has said that it has them, or the wire is gone.
    virtual std::size_t gather(std::uint32_t slot, std::span<iovec> pieces, Time now) = 0;
    // So many bytes of the pieces gathered were taken.
    virtual void sent(std::uint32_t slot, std::size_t bytes, Time now) = 0;

    // Room for the next bytes to read, as pieces in order; returns how many.
    virtual std::size_t scatter(std::uint32_t slot, std::span<iovec> pieces) = 0;
    // So many bytes were read into the pieces scattered.
    virtual void received(std::uint32_t slot, std::size_t bytes, Time now) = 0;

    // Lets time pass; returns when it wants to be called next, at the latest.
    virtual Time tick(Time now) = 0;
    // Appends what the link wants.
    virtual void take_commands(std::vector<Command>& commands) = 0;
};

}  // namespace mgi::transport::wire
