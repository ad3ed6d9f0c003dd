#include "mover/link/sender.hpp"

#include <algorithm>
#include <new>

#include <mgi/device/assert.hpp>

#include "mover/link/checksum.hpp"
#include "transport/wire/medium.hpp"

namespace mgi::mover::link {

// Headers and texts do not stay behind `sent` (WireClient::gather).
static_assert(kHeaderBytes <= transport::wire::Stream::kCopied &&
              kMostText <= transport::wire::Stream::kCopied);

void WireSender::restart(bool checksums, std::uint16_t number, Codec const* codec) {
    std::vector<std::vector<char>> left = std::move(left_);
    *this = WireSender();
    left_ = std::move(left);
    checksums_ = checksums;
    number_ = number;
    codec_ = codec;
}

void WireSender::add(Flight flight) {
    in_flight_ += kHeaderBytes + flight.transfer.bytes();
    waiting_.push_back(std::move(flight));
}

void WireSender::add(WordName const& name, Word word) {
    in_flight_ += kHeaderBytes + word.text.size();
    words_.emplace_back(name, std::move(word));
}

bool WireSender::end_with(std::uint64_t code, std::string text) {
    if (offset_ != 0 && stream_.front().flight) return false;
    keep_encoded();
    stream_.resize(offset_ != 0 ? 1 : 0);
    stream_bytes_ = stream_.empty() ? 0 : stream_.front().size();
    words_.clear();
    waiting_.clear();
    unacknowledged_.clear();
    ack_.reset();
    text.resize(std::min<std::size_t>(text.size(), kMostText));
    bye_.emplace(code, std::move(text));
    return true;
}

// `gather` has shown it, and a stream may still read it (Stream::write).
void WireSender::keep_encoded() {
    for (std::deque<Frame>* const frames : {&unacknowledged_, &stream_}) {
        for (Frame& frame : *frames) {
            if (!frame.encoded.empty()) left_.push_back(std::move(frame.encoded));
        }
    }
}

void WireSender::acknowledge(std::uint64_t frames, std::uint64_t bytes) {
    ack_.emplace(frames, bytes);
}

// Small frames go before segments: an acknowledgement or a credit lets the other end go on.
void WireSender::begin_next(Time now) {
    Frame frame;
    Header& header = frame.header;
    frame.started = now;
    frame.acknowledged_at_start = acknowledged_bytes_;
    frame.busy_at_start = !unacknowledged_.empty();
    if (ack_) {
        header.kind = FrameKind::Ack;
        header.number = ack_->first;
        header.channel = ack_->second;
        ack_.reset();
    } else if (!words_.empty()) {
        begin_word(frame);
    } else if (!waiting_.empty()) {
        frame.flight = std::move(waiting_.front());
        waiting_.pop_front();
        begin_flight(frame);
    } else {
        header.kind = FrameKind::Bye;
        header.tag = bye_->first;
        frame.text = std::move(bye_->second);
        bye_.reset();
    }
    if (!frame.text.empty()) {
        header.bytes = std::uint32_t(frame.text.size());
        header.summed = 1;
        header.body_sum = crc32c(0, frame.text.data(), frame.text.size());
    }
    if (is_numbered(header.kind)) header.number = ++last_number_;
    seal(header);
    stream_bytes_ += frame.size();
    stream_.push_back(std::move(frame));
}

void WireSender::begin_word(Frame& frame) {
    auto& [name, word] = words_.front();
    Header& header = frame.header;
    header.kind = name.frame;
    header.channel = word.channel;
    header.source = word.source;
    header.destination = word.destination;
    header.sequence = word.value;
    header.tag = word.kind;
    frame.name = name;
    frame.text = std::move(word.text);
    words_.pop_front();
}

// By this wire's codec, if it makes the segment smaller. What it takes less on the wire is on its way no
// more.
void WireSender::encode(Frame& frame) {
    Transfer const& transfer = frame.flight->transfer;
    Header& header = frame.header;
    if (codec_ == nullptr || header.bytes == 0 || !transfer.by_host) return;
    try {
        bool const smaller = codec_->encode(transfer.pieces, header.bytes, frame.encoded);
        if (!smaller || frame.encoded.size() >= header.bytes) frame.encoded.clear();
    } catch (std::bad_alloc const&) {
        frame.encoded.clear();  // as it lies it needs no memory
    }
    if (frame.encoded.empty()) return;
    header.codec = number_;
    header.decoded = header.bytes;
    header.bytes = std::uint32_t(frame.encoded.size());
    in_flight_ -= header.decoded - header.bytes;
}

void WireSender::begin_flight(Frame& frame) {
    Transfer const& transfer = frame.flight->transfer;
    Header& header = frame.header;
    header.kind = FrameKind::Segment;
    header.bytes = std::uint32_t(transfer.bytes());
    header.channel = transfer.key.channel;
    header.source = transfer.key.source;
    header.destination = transfer.key.destination;
    header.sequence = transfer.key.sequence;
    header.tag = transfer.tag;
    encode(frame);
    if (header.codec != 0) {
        header.summed = 1;
        header.body_sum = crc32c(0, frame.encoded.data(), frame.encoded.size());
        return;
    }
    if (!checksums_ || !transfer.by_host) return;
    header.summed = 1;
    for (iovec const& piece : transfer.pieces) {
        header.body_sum = crc32c(header.body_sum, piece.iov_base, piece.iov_len);
    }
}

std::size_t WireSender::pieces_of(Frame const& frame, std::size_t skip,
                                  std::span<iovec> pieces) const {
    std::size_t count = 0;
    auto const add = [&](void const* base, std::size_t bytes) {
        if (skip >= bytes) {
            skip -= bytes;
        } else if (count < pieces.size()) {
            // iovec is also what reads fill, hence not const; what is gathered is only read.
            char* const at = const_cast<char*>(static_cast<char const*>(base));
            pieces[count++] = {at + skip, bytes - skip};
            skip = 0;
        }
    };
    add(&frame.header, kHeaderBytes);
    add(frame.text.data(), frame.text.size());
    if (frame.header.codec != 0) {
        add(frame.encoded.data(), frame.encoded.size());
    } else if (frame.flight) {
        for (iovec const& piece : frame.flight->transfer.pieces) add(piece.iov_base, piece.iov_len);
    }
    return count;
}

std::size_t WireSender::gather(std::span<iovec> pieces, Time now) {
    while (has_next() && (stream_.empty() || stream_bytes_ < kAtOnce)) begin_next(now);
    std::size_t count = 0;
    std::size_t skip = offset_;
    for (Frame const& frame : stream_) {
        if (count == pieces.size()) break;
        count += pieces_of(frame, skip, pieces.subspan(count));
        skip = 0;
    }
    return count;
}

void WireSender::sent(std::size_t bytes) {
    written_bytes_ += bytes;
    offset_ += bytes;
    while (!stream_.empty() && offset_ >= stream_.front().size()) {
        Frame& frame = stream_.front();
        MGI_ASSERT(stream_bytes_ >= frame.size(), stream_bytes_, frame.size());
        offset_ -= frame.size();
        stream_bytes_ -= frame.size();
        if (is_numbered(frame.header.kind)) {
            MGI_ASSERT(frame.header.number == written_number_ + 1, frame.header.number,
                       written_number_);
            written_number_ = frame.header.number;
            unacknowledged_.push_back(std::move(frame));
        }
        stream_.pop_front();
    }
    // No more than `gather` has shown.
    MGI_ASSERT(offset_ == 0 || !stream_.empty(), offset_, bytes, written_bytes_);
}

bool WireSender::acknowledged(std::uint64_t frames, std::uint64_t bytes, std::vector<Done>& done) {
    if (frames > written_number_ || frames < acknowledged_number_) return false;
    if (bytes > written_bytes_ || bytes < acknowledged_bytes_) return false;
    acknowledged_number_ = frames;
    acknowledged_bytes_ = bytes;
    while (!unacknowledged_.empty() && unacknowledged_.front().header.number <= frames) {
        Frame& frame = unacknowledged_.front();
        MGI_ASSERT(in_flight_ >= frame.size(), in_flight_, frame.size(), frames);
        in_flight_ -= frame.size();
        done.push_back({std::move(frame.flight), frame.name, frame.header.sequence, frame.size(),
                        frame.started, frame.acknowledged_at_start, frame.busy_at_start});
        unacknowledged_.pop_front();
    }
    return true;
}

WireSender::Remains WireSender::take_remains() {
    Remains remains;
    remains.written = written_number_;
    auto const take = [&](Frame& frame, bool begun) {
        MGI_ASSERT(!is_numbered(frame.header.kind) || frame.header.number > acknowledged_number_,
                   frame.header.number, acknowledged_number_, written_number_);
        if (frame.flight && begun) {
            remains.begun.emplace_back(frame.header.number, std::move(*frame.flight));
        } else if (frame.flight) {
            remains.waiting.push_back(std::move(*frame.flight));
        } else if (is_numbered(frame.header.kind)) {
            remains.words.push_back(frame.name);
        }
    };
    for (Frame& frame : unacknowledged_) take(frame, true);
    for (std::size_t i = 0; i < stream_.size(); ++i) take(stream_[i], i == 0 && offset_ != 0);
    for (Flight& flight : waiting_) remains.waiting.push_back(std::move(flight));
    for (auto const& [name, word] : words_) remains.words.push_back(name);
    left_.clear();
    keep_encoded();
    restart(checksums_, number_, codec_);
    return remains;
}

}  // namespace mgi::mover::link
