/// \file
/// What nested values are written with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/buffer.hpp"

namespace mgi::arrow {

/// Bytes in one piece, which grows.
class Bytes {
public:
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::byte const* data() const { return room_.as<std::byte>(); }
    [[nodiscard]] std::byte* add(std::size_t bytes) {
        if (bytes > room_.bytes() - size_) grow(bytes);
        std::byte* const at = room_.as<std::byte>() + size_;
        size_ += bytes;
        return at;
    }
    void reserve(std::size_t bytes) {
        if (bytes > room_.bytes()) grow(bytes);
    }
    void add(void const* from, std::size_t bytes) {
        if (bytes != 0) std::memcpy(add(bytes), from, bytes);
    }
    void add_byte(std::uint8_t byte) { *add(1) = std::byte(byte); }
    void add_length(std::uint32_t length) { add(&length, sizeof length); }
    [[nodiscard]] Buffer take() && { return std::move(room_); }

private:
    void grow(std::size_t bytes) {
        Buffer larger(std::max<std::size_t>(2 * room_.bytes(), size_ + bytes + 4096), false);
        if (size_ != 0) std::memcpy(larger.data(), room_.data(), size_);
        room_ = std::move(larger);
    }

    Buffer room_;
    std::size_t size_ = 0;
};

/// Values [first, first + count) of an array, counted from its own first.
struct Span {
    std::int64_t first;
    std::int64_t count;
};

class Spans {
public:
    void clear() { all_.clear(); }
    void add(std::int64_t first, std::int64_t count) {
        if (count == 0) return;
        if (!all_.empty() && all_.back().first + all_.back().count == first) {
            all_.back().count += count;
        } else {
            all_.push_back({first, count});
        }
    }
    [[nodiscard]] std::vector<Span> const& all() const { return all_; }
    [[nodiscard]] std::int64_t count() const {
        std::int64_t sum = 0;
        for (Span const& span : all_) sum += span.count;
        return sum;
    }
    template <class Each>
    void each(Each const& each) const {
        for (Span const& span : all_) {
            for (std::int64_t i = span.first; i < span.first + span.count; ++i) each(i);
        }
    }

private:
    std::vector<Span> all_;
};

}  // namespace mgi::arrow
