// The receiving half of one wire: makes frames of bytes, and lets a segment's bytes be read straight
// into its target.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mover/link/codec.hpp"
#include "mover/link/frame.hpp"
#include "mover/link/types.hpp"

namespace mgi::mover::link {

// Who takes the frames.
class FrameSink {
public:
    virtual ~FrameSink() = default;
    // A segment begins: appends where its bytes go, `segment_bytes(header)` in all, or nothing to drop
    // them. Says what is wrong with it, if anything is.
    virtual std::optional<std::string> begins(Header const& header, std::vector<iovec>& pieces) = 0;
    // As LinkOwner's, of a segment.
    [[nodiscard]] virtual bool by_host(Header const& /*header*/) const { return true; }
    // A frame is complete; `text` is the body of one that is no segment.
    virtual std::optional<std::string> complete(Header const& header, std::string_view text) = 0;
    // A segment came undamaged, and its codec makes something else of it than its sender said: the other
    // end cannot be trusted, by whatever wire. Says why.
    virtual std::string spoiled(Header const& header) = 0;
};

class WireReceiver {
public:
    // Of a new wire. `codecs`, those that may come, outlive it; null: none.
    void restart(std::uint32_t largest_segment, Codecs const* codecs = nullptr);

    std::size_t scatter(std::span<iovec> pieces);
    // Takes in so many bytes of what was scattered. What is wrong with them ends the wire.
    std::optional<std::string> received(std::size_t bytes, FrameSink& sink);

    // The segment whose bytes are arriving.
    [[nodiscard]] std::optional<Key> arriving() const;

    [[nodiscard]] std::uint64_t frames() const { return frames_; }  // numbered, complete
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

private:
    // Read behind a segment's bytes in the same call: headers and small frames. What of it belongs to
    // the next segment is copied, so it is small.
    static constexpr std::size_t kAhead = 512;
    std::optional<std::string> parse(FrameSink& sink);
    std::optional<std::string> begin(FrameSink& sink);
    std::optional<std::string> end(FrameSink& sink);
    [[nodiscard]] Codec const* codec() const {
        return codecs_ == nullptr ? nullptr : codec_of(*codecs_, header_.codec);
    }
    void fill(std::size_t bytes);
    void drop(std::size_t bytes);

    std::uint32_t largest_ = 0;
    Codecs const* codecs_ = nullptr;
    std::array<char, kAhead> ahead_{};
    std::size_t ahead_bytes_ = 0;
    bool in_body_ = false;
    bool by_host_ = true;  // the host may touch where the body goes
    Header header_;
    std::deque<iovec> pieces_;  // what of the body is still to come
    std::size_t body_left_ = 0;
    std::uint32_t sum_ = 0;
    std::string text_;
    std::vector<char> encoded_;  // a segment by a codec, until all of it is there
    std::vector<iovec> target_;  // where that goes; empty: nowhere
    std::vector<char> nowhere_;
    std::uint64_t frames_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace mgi::mover::link
