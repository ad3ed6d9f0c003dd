#include "mover/link/receiver.hpp"

#include <algorithm>
#include <cstring>

#include <mgi/device/assert.hpp>

#include "core/format.hpp"
#include "mover/link/checksum.hpp"

namespace mgi::mover::link {

void WireReceiver::restart(std::uint32_t largest_segment, Codecs const* codecs) {
    in_body_ = false;
    ahead_bytes_ = 0;
    pieces_.clear();
    body_left_ = 0;
    frames_ = 0;
    bytes_ = 0;
    largest_ = largest_segment;
    codecs_ = codecs;
    target_.clear();
}

std::size_t WireReceiver::scatter(std::span<iovec> pieces) {
    std::size_t count = 0;
    for (iovec const& piece : pieces_) {
        if (count == pieces.size()) return count;
        pieces[count++] = piece;
    }
    if (count < pieces.size()) {
        pieces[count++] = {ahead_.data() + ahead_bytes_, kAhead - ahead_bytes_};
    }
    return count;
}

std::optional<std::string> WireReceiver::received(std::size_t bytes, FrameSink& sink) {
    bytes_ += bytes;
    if (in_body_) {
        std::size_t const body = std::min(bytes, body_left_);
        fill(body);
        bytes -= body;
    }
    // No more than `scatter` has asked for.
    MGI_ASSERT(ahead_bytes_ + bytes <= kAhead, ahead_bytes_, bytes, body_left_);
    ahead_bytes_ += bytes;
    return parse(sink);
}

// So many bytes of the body stand where they belong.
void WireReceiver::fill(std::size_t bytes) {
    MGI_ASSERT(bytes <= body_left_, bytes, body_left_);
    body_left_ -= bytes;
    while (bytes != 0) {
        MGI_ASSERT(!pieces_.empty(), bytes, body_left_, header_.number);
        iovec& piece = pieces_.front();
        std::size_t const here = std::min(bytes, piece.iov_len);
        if (header_.summed != 0) sum_ = crc32c(sum_, piece.iov_base, here);
        piece.iov_base = static_cast<char*>(piece.iov_base) + here;
        piece.iov_len -= here;
        bytes -= here;
        if (piece.iov_len == 0) pieces_.pop_front();
    }
}

std::optional<std::string> WireReceiver::parse(FrameSink& sink) {
    std::size_t at = 0;
    std::optional<std::string> wrong;
    while (!wrong) {
        if (!in_body_) {
            if (ahead_bytes_ - at < kHeaderBytes) break;
            std::memcpy(&header_, ahead_.data() + at, kHeaderBytes);
            at += kHeaderBytes;
            wrong = begin(sink);
            if (wrong) break;
        }
        if (!by_host_ && body_left_ != 0 && at != ahead_bytes_) {
            return formatted("frame {} is for a GPU's memory, and came by the host",
                             header_.number);
        }
        while (body_left_ != 0 && at != ahead_bytes_) {
            std::size_t const here =
                std::min({body_left_, ahead_bytes_ - at, pieces_.front().iov_len});
            std::memcpy(pieces_.front().iov_base, ahead_.data() + at, here);
            at += here;
            fill(here);
        }
        if (body_left_ != 0) break;
        wrong = end(sink);
    }
    std::memmove(ahead_.data(), ahead_.data() + at, ahead_bytes_ - at);
    ahead_bytes_ -= at;
    return wrong;
}

std::optional<std::string> WireReceiver::begin(FrameSink& sink) {
    if (auto wrong = what_is_wrong(header_, largest_)) return wrong;
    if (is_numbered(header_.kind) && header_.number != frames_ + 1) {
        return formatted("frame {} came after frame {}", header_.number, frames_);
    }
    in_body_ = true;
    body_left_ = header_.bytes;
    sum_ = 0;
    by_host_ = header_.kind != FrameKind::Segment || sink.by_host(header_);
    if (!by_host_ && (header_.summed != 0 || header_.codec != 0)) {
        return formatted("frame {} is for a GPU's memory, and the host would have to read it",
                         header_.number);
    }
    if (header_.kind != FrameKind::Segment) {
        text_.resize(header_.bytes);
        if (header_.bytes != 0) pieces_.push_back({text_.data(), header_.bytes});
        return std::nullopt;
    }
    if (header_.codec != 0 && codec() == nullptr) {
        return formatted(
            "frame {} comes by codec {}, which this end does not know; let both ends run the same "
            "version of MGI",
            header_.number, header_.codec);
    }
    std::vector<iovec> pieces;
    if (auto wrong = sink.begins(header_, pieces)) return wrong;
    if (header_.codec != 0 && !pieces.empty()) {
        // The target is not touched before all of it is there.
        target_ = std::move(pieces);
        encoded_.resize(header_.bytes);
        pieces = {{encoded_.data(), encoded_.size()}};
    }
    for (iovec const& piece : pieces) {
        if (piece.iov_len != 0) pieces_.push_back(piece);
    }
    if (pieces_.empty()) {
        by_host_ = true;
        drop(header_.bytes);
    }
    return std::nullopt;
}

std::optional<std::string> WireReceiver::end(FrameSink& sink) {
    MGI_ASSERT(in_body_ && body_left_ == 0 && pieces_.empty(), in_body_, body_left_, pieces_.size(),
               header_.number);
    in_body_ = false;
    if (header_.summed != 0 && sum_ != header_.body_sum) {
        return formatted("the bytes of frame {} are damaged", header_.number);
    }
    if (!target_.empty()) {
        bool const whole = codec()->decode(encoded_, target_);
        target_.clear();
        if (!whole) return sink.spoiled(header_);
    }
    // Counted first: what `complete` does may look at what has arrived.
    if (is_numbered(header_.kind)) ++frames_;
    std::string_view const text =
        header_.kind == FrameKind::Segment ? std::string_view() : std::string_view(text_);
    return sink.complete(header_, text);
}

void WireReceiver::drop(std::size_t bytes) {
    constexpr std::size_t kPiece = 64U << 10;
    if (bytes != 0) nowhere_.resize(kPiece);
    for (; bytes != 0; bytes -= std::min(bytes, kPiece)) {
        pieces_.push_back({nowhere_.data(), std::min(bytes, kPiece)});
    }
}

std::optional<Key> WireReceiver::arriving() const {
    if (!in_body_ || header_.kind != FrameKind::Segment) return std::nullopt;
    return Key{header_.channel, header_.source, header_.destination, header_.sequence};
}

}  // namespace mgi::mover::link
