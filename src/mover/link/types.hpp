// What a link is given and gives back, in the words of who owns channels.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/error.hpp>

#include "mover/link/codec.hpp"
#include "mover/link/ways.hpp"
#include "transport/wire/wire_client.hpp"

namespace mgi::mover::link {

using transport::wire::Command;
using transport::wire::kMillisecond;
using transport::wire::kNever;
using transport::wire::kSecond;
using transport::wire::Time;

// Names a transfer for ever: channels' numbers are not used again. The sequences of one (channel,
// source, destination) count from 0 and leave none out.
struct Key {
    std::uint64_t channel = 0;
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    std::uint64_t sequence = 0;
    friend bool operator==(Key const&, Key const&) = default;
};

// A segment to be sent.
struct Transfer {
    Key key;
    std::uint64_t tag = 0;      // travels with it: what the owner wants to know at the other end
    std::vector<iovec> pieces;  // its bytes; untouched by others until it is acknowledged
    std::uint64_t token = 0;    // comes back with the acknowledgement
    std::uint64_t nics = 0;     // bit n: NIC n is the source device's own. 0: any is
    bool by_host = true;        // its bytes are the host's to read: for checksums and codecs
    [[nodiscard]] std::uint64_t bytes() const {
        std::uint64_t sum = 0;
        for (iovec const& piece : pieces) sum += piece.iov_len;
        return sum;
    }
};

// A small fact: a credit, an end, a failure. Needs no credit, since only the latest value of what it
// is about is kept: values of one (channel, kind, source, destination) grow. It may come more than
// once, and an older one after a newer one: take the largest.
struct Word {
    std::uint64_t channel = 0;
    std::uint32_t kind = 0;  // the owner's
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    std::uint64_t value = 0;
    std::string text;  // at most kMostText bytes; the rest is cut off
};

// Whose segments a link carries. Everything is called by the thread that drives the link, must not
// wait, and may call the link's `start` and `say`. What is thrown ends the link.
class LinkOwner {
public:
    virtual ~LinkOwner() = default;
    // Where a segment that is arriving goes: appends pieces of `bytes` in all. False: nobody wants it
    // (its channel is gone); it is then taken off the wire, acknowledged and dropped. May be asked
    // again for a key, when a wire has died under it.
    virtual bool target(Key const& key, std::uint64_t tag, std::uint64_t bytes,
                        std::vector<iovec>& pieces) = 0;
    // Whether the host may touch the bytes of a segment there: else it comes neither summed nor by a codec, and a
    // stream lands it.
    [[nodiscard]] virtual bool by_host(Key const& /*key*/) const { return true; }
    // It stands there, whole. Once for each key.
    virtual void arrived(Key const& key, std::uint64_t tag) = 0;
    // `arrived` has returned at the other end (or the segment was not wanted there): the source's
    // memory is free, and its target is out of quarantine.
    virtual void acknowledged(std::uint64_t token) = 0;
    virtual void word(Word const& word) = 0;
    // The link is over, once and for all; no other call comes after this one. What was not
    // acknowledged may have arrived or not.
    virtual void failed(ErrorCode code, std::string const& why) = 0;
};

// A slot for wires, the same ones in the same order at both ends. A *spare* slot has a wire only where NICs of
// both ends lie idle, since their direct wires are gone or far slower than others (link_spares.cpp).
struct SlotOptions {
    std::uint32_t nic = 0;      // of this end's, below 64
    double rate = 1.0;          // bytes a nanosecond (GB/s), until it has been measured
    std::uint16_t codec = 0;    // of LinkOptions::codecs, for what this end sends on it; 0: none
    std::uint32_t far_nic = 0;  // of the other end's
    Ways ways = {};             // a spare slot's: generation g goes by way g modulo their number

    [[nodiscard]] bool is_spare() const { return ways.size() != 0; }
};

struct LinkOptions {
    std::vector<SlotOptions> slots;
    std::vector<std::string> relays;  // their names
    bool dials = false;               // this end makes the wires; the other one awaits them
    bool begins_later = false;        // no wire is dialed, or missed, before `Link::begin`
    bool by_streams = false;          // as WireThread::add
    bool checksums = false;           // of segments' bytes, too, that this end sends
    Codecs codecs;                    // what may come by, the same at both ends
    std::uint32_t largest_segment = 64U << 20;
    std::uint64_t window = 8U << 20;       // bytes on their way on one wire, at most
    Time window_time = 20 * kMillisecond;  // and no more than the wire carries in this time
    std::uint64_t lent = 512U << 10;       // bytes on their way on a NIC that is another device's
    Time heartbeat = 250 * kMillisecond;   // a wire says so often that it is there
    Time silence_limit = 3 * kSecond;      // a wire that says nothing for so long is dead
    Time lag_limit = kSecond;              // the same where other wires of the link are heard
    Time link_limit = 10 * kSecond;  // without any wire, or without a report: the link is dead
    Time still_limit =
        kNever;  // the other process says nothing for so long while its machine answers
    Time progress_limit = 30 * kSecond;      // nothing was acknowledged for so long, though awaited
    Time shortest_rest = 50 * kMillisecond;  // of a slot whose wire died; twice as long each time
    Time longest_rest = 2 * kSecond;
};

}  // namespace mgi::mover::link
