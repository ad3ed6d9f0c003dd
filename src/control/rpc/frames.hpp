/// \file
/// Frames on the wire: a length of 32 bits, little-endian, and a protobuf message of so many bytes.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mgi::control {

/// Bytes of a frame before its message.
inline constexpr std::size_t kFrameHead = 4;

/// Puts frames together from pieces. Takes memory for what has come, whatever a length claims. Not
/// thread-safe.
class FrameBuffer {
public:
    /// Frames have at most so many bytes.
    explicit FrameBuffer(std::size_t most) : most_(most) {}

    void add(std::string_view bytes);
    /// The next whole frame's message, valid until the next call of anything here. Throws
    /// Error(InvalidArgument) for a frame that is too long, as soon as its length has come; nothing follows
    /// it.
    std::optional<std::string_view> next();
    /// Frames from the next one on.
    void limit(std::size_t most) { most_ = most; }
    /// A frame has begun and is not complete.
    [[nodiscard]] bool has_part() const { return taken_ < bytes_.size(); }

private:
    std::size_t most_;
    std::string bytes_;
    std::size_t taken_ = 0;
};

/// A message as its frame.
std::string frame_with(google::protobuf::MessageLite const& message);

/// Reads a frame's message. Throws Error(InvalidArgument) for what is none.
void parse_frame(std::string_view bytes, google::protobuf::MessageLite& message);

}  // namespace mgi::control
