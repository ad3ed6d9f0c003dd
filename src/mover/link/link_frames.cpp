// What a link does with the frames that arrive.
#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "core/format.hpp"
#include "core/log.hpp"
#include "mover/link/link.hpp"

namespace mgi::mover::link {
namespace {

// What has arrived is acknowledged at once when it is a segment, and when it is this much of one, so
// that the other end sees it move; words together, so long behind the acknowledgement before: a process
// with one last word does not wait for others. Reports later: that one has arrived on a wire that breaks again is no progress.
constexpr std::uint64_t kSayAfterBytes = 256U << 10;

Key key_of(Header const& header) {
    return {header.channel, header.source, header.destination, header.sequence};
}

}  // namespace

void Link::received(std::uint32_t slot, std::size_t bytes, Time now) {
    now_ = now;
    Slot& it = slots_[slot];
    if (it.state != State::Open) return;
    it.heard = now;
    count_lag(slot, now);
    current_ = slot;
    // What would pull the wire from under its own bytes waits until they are taken in.
    inside_ = true;
    try {
        take_in(slot, bytes);
    } catch (std::bad_alloc const&) {
        fail(ErrorCode::OutOfMemory, "no memory for what came over a link");
    } catch (std::exception const& error) {
        fail(ErrorCode::Internal, error.what());
    }
    inside_ = false;
    settle();
}

void Link::take_in(std::uint32_t slot, std::size_t bytes) {
    Slot& it = slots_[slot];
    auto const wrong = it.in.received(bytes, *this);
    if (over_) return;
    if (wrong) {
        log::warn("link: wire {} is closed: {}", slot, *wrong);
        down(slot, *wrong, true);
    } else if (it.in.arriving()) {
        bool const much = it.in.bytes() - it.said_bytes >= kSayAfterBytes;
        it.say_by = std::min(it.say_by, much ? now_ : now_ + kSayAfter);
    }
}

std::optional<std::string> Link::begins(Header const& header, std::vector<iovec>& pieces) {
    if (over_) return "the link is over";
    slots_[current_].came = now_;
    Key const key = key_of(header);
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        // Two wires never write one target: the other end sends a segment again only after we have
        // said that the first wire is closed.
        if (i == current_ || slots_[i].state != State::Open) continue;
        if (slots_[i].in.arriving() == key) {
            return formatted("segment {} of channel {} is arriving on wire {} already",
                             key.sequence, key.channel, i);
        }
    }
    if (arrivals_.has(key)) return std::nullopt;  // dropped: it stands there already
    if (arrivals_.is_absurd(key)) {
        return formatted("segment {} of channel {} is far ahead of what has arrived", key.sequence,
                         key.channel);
    }
    std::uint32_t const bytes = segment_bytes(header);
    if (!owner_.target(key, header.tag, bytes, pieces)) {
        pieces.clear();
        return std::nullopt;
    }
    std::uint64_t room = 0;
    for (iovec const& piece : pieces) room += piece.iov_len;
    if (room == bytes) return std::nullopt;
    return formatted("segment {} of channel {} has {} bytes, its target takes {}", key.sequence,
                     key.channel, bytes, room);
}

bool Link::by_host(Header const& header) const {
    return owner_.by_host(key_of(header));
}

std::string Link::spoiled(Header const& header) {
    std::string why = formatted(
        "segment {} of channel {} came undamaged, and its {} bytes are not {} by codec {}",
        header.sequence, header.channel, header.bytes, header.decoded, header.codec);
    fail(ErrorCode::Internal, why);
    return why;
}

std::optional<std::string> Link::complete(Header const& header, std::string_view text) {
    if (over_) return "the link is over";
    if (is_numbered(header.kind)) {
        Slot& slot = slots_[current_];
        Time const when = header.kind == FrameKind::Segment ? now_
                          : header.kind == FrameKind::Word  ? std::max(now_, slot.together_until)
                                                            : now_ + kSayAfter;
        slot.say_by = std::min(slot.say_by, when);
    }
    switch (header.kind) {
        case FrameKind::Segment: {
            Key const key = key_of(header);
            if (arrivals_.has(key)) break;
            arrivals_.add(key);
            owner_.arrived(key, header.tag);
            break;
        }
        case FrameKind::Word: {
            Word word;
            word.channel = header.channel;
            word.kind = std::uint32_t(header.tag);
            word.source = header.source;
            word.destination = header.destination;
            word.value = header.sequence;
            word.text = text;
            owner_.word(word);
            break;
        }
        case FrameKind::Report: return take_report(header);
        case FrameKind::Ack: return take_ack(header);
        case FrameKind::Bye: {
            auto const code = header.tag <= std::uint64_t(ErrorCode::Internal)
                                  ? ErrorCode(header.tag)
                                  : ErrorCode::Internal;
            fail(code == ErrorCode::Ok ? ErrorCode::Closed : code,
                 formatted("the other end of the link has left: {}", text));
            return "the other end has left";
        }
    }
    return std::nullopt;
}

std::optional<std::string> Link::take_ack(Header const& header) {
    Slot& slot = slots_[current_];
    done_.clear();
    std::uint64_t const before = slot.out.acknowledged_bytes();
    if (!slot.out.acknowledged(header.number, header.channel, done_)) {
        return formatted("what it acknowledges ({} frames, {} bytes) cannot be", header.number,
                         header.channel);
    }
    if (header.channel != before) note_progress(slot);
    slot.window = std::min(options_.window, slot.window + (header.channel - before));
    for (WireSender::Done const& done : done_) {
        progress_ = now_;
        if (!done.flight) {
            book_.acknowledged(done.word, done.value);
            continue;
        }
        measure(slot, done);
        give_back(current_, *done.flight);
        if (done.flight->own) note_owner(current_, now_);
        finish(current_, *done.flight);
    }
    note_load(current_);
    return std::nullopt;
}

// A wire that had nothing else to do tells only that it is at least so fast.
void Link::measure(Slot& slot, WireSender::Done const& done) const {
    if (now_ <= done.started) return;
    double const rate = double(slot.out.acknowledged_bytes() - done.acknowledged_at_start) /
                        double(now_ - done.started);
    constexpr std::uint64_t kTelling = 64U << 10;
    if (!done.busy_at_start && done.bytes < kTelling) return;
    if (!slot.measured) {
        slot.rate = rate;
        slot.measured = true;
    } else if (rate > slot.rate) {
        slot.rate += (rate - slot.rate) / 4;
    } else if (done.busy_at_start) {
        slot.rate += (rate - slot.rate) / 8;
    }
}

std::optional<std::string> Link::take_report(Header const& header) {
    std::uint32_t const slot = header.source;
    std::uint64_t const generation = header.channel;
    if (slot >= slots_.size()) return formatted("there is no wire {} to report of", slot);
    Slot& it = slots_[slot];
    if (options_.dials && generation > it.generation) {
        return formatted("wire {} never had a generation {}", slot, generation);
    }
    if (it.state == State::Open && generation >= it.generation) {
        if (slot == current_) return "the other end reports of this very wire that it is closed";
        down(slot, "the other end has closed it", true);
    }
    // If it was never there for us, it will not be.
    report(slot, generation, 0);
    it.generation = std::max(it.generation, generation);
    auto const at = quarantine_.find({slot, generation});
    if (at == quarantine_.end()) return std::nullopt;
    if (header.sequence > at->second.written) {
        return formatted("{} frames are said to have arrived on wire {}, {} were sent",
                         header.sequence, slot, at->second.written);
    }
    auto flights = std::move(at->second.flights);
    quarantine_.erase(at);
    for (auto entry = flights.rbegin(); entry != flights.rend(); ++entry) {
        if (entry->first <= header.sequence) continue;
        (*counts_)[slot].resends.add(1);
        queue_.push_again(std::move(entry->second.transfer));
    }
    for (auto const& [number, flight] : flights) {
        if (number <= header.sequence) finish(slot, flight);
    }
    return std::nullopt;
}

}  // namespace mgi::mover::link
