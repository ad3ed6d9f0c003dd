#include "control/rpc/frames.hpp"

#include <fmt/format.h>

#include <cstdint>

#include <mgi/error.hpp>

namespace mgi::control {

namespace {

constexpr std::size_t kKept = std::size_t{1}
                              << 20;  // of a buffer that a large frame has left behind

}  // namespace

void FrameBuffer::add(std::string_view bytes) {
    if (taken_ == bytes_.size()) {
        if (bytes_.capacity() > kKept) {
            bytes_ = {};
        } else {
            bytes_.clear();
        }
        taken_ = 0;
    } else if (taken_ > bytes_.size() / 2) {
        bytes_.erase(0, taken_);
        taken_ = 0;
    }
    bytes_ += bytes;
}

std::optional<std::string_view> FrameBuffer::next() {
    std::string_view const left = std::string_view(bytes_).substr(taken_);
    if (left.size() < kFrameHead) return std::nullopt;
    std::size_t size = 0;
    for (std::size_t i = 0; i < kFrameHead; ++i) {
        size |= std::size_t{static_cast<unsigned char>(left[i])} << (8 * i);
    }
    if (size > most_) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("a frame of {} bytes, where {} are the most", size, most_));
    }
    if (left.size() < kFrameHead + size) return std::nullopt;
    taken_ += kFrameHead + size;
    return left.substr(kFrameHead, size);
}

std::string frame_with(google::protobuf::MessageLite const& message) {
    std::size_t const size = message.ByteSizeLong();
    std::string frame;
    frame.reserve(kFrameHead + size);
    for (std::size_t i = 0; i < kFrameHead; ++i) {
        frame.push_back(static_cast<char>(size >> (8 * i) & 0xff));
    }
    message.AppendToString(&frame);
    return frame;
}

void parse_frame(std::string_view bytes, google::protobuf::MessageLite& message) {
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    throw Error(ErrorCode::InvalidArgument,
                fmt::format("a frame of {} bytes is no message of this protocol", bytes.size()));
}

}  // namespace mgi::control
