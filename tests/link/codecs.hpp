/// \file
/// Codecs for the tests of links: they make what these send smaller, and each writes what the others
/// take for something else.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "mover/link/codec.hpp"

namespace mgi::test {

/// A byte, the step to the next one, and a bit for each further byte: whether its step is one more. For
/// bytes that grow in step, as those of the traffic do.
class Steps final : public mover::link::Codec {
public:
    /// Codecs of different masks do not understand each other.
    explicit Steps(std::uint8_t mask) : mask_(mask) {}

    bool encode(std::span<iovec const> segment, std::size_t most,
                std::vector<char>& encoded) const override {
        std::vector<std::uint8_t> bytes;
        for (iovec const& piece : segment) {
            auto const* const at = static_cast<std::uint8_t const*>(piece.iov_base);
            bytes.insert(bytes.end(), at, at + piece.iov_len);
        }
        if (bytes.size() < 2 || size_of(bytes.size()) >= most) return false;
        std::uint8_t step = 0xff;
        for (std::size_t i = 1; i < bytes.size(); ++i) {
            step = std::min(step, std::uint8_t(bytes[i] - bytes[i - 1]));
        }
        encoded.assign(size_of(bytes.size()), 0);
        encoded[0] = char(bytes.size() & 7);
        encoded[1] = char(bytes[0] ^ mask_);
        encoded[2] = char(step);
        for (std::size_t i = 1; i < bytes.size(); ++i) {
            std::uint8_t const more = std::uint8_t(bytes[i] - bytes[i - 1] - step);
            if (more > 1) return false;
            encoded[kFront + (i - 1) / 8] =
                char(encoded[kFront + (i - 1) / 8] | more << ((i - 1) % 8));
        }
        ++encoded_;
        return true;
    }

    bool decode(std::span<char const> encoded, std::span<iovec const> segment) const override {
        std::size_t bytes = 0;
        for (iovec const& piece : segment) bytes += piece.iov_len;
        if (bytes < 2 || encoded.size() != size_of(bytes)) return false;
        if (std::uint8_t(encoded[0]) != (bytes & 7)) return false;
        std::uint8_t value = std::uint8_t(encoded[1]) ^ mask_;
        std::size_t i = 0;
        for (iovec const& piece : segment) {
            for (std::size_t at = 0; at < piece.iov_len; ++at, ++i) {
                if (i != 0) {
                    int const more = encoded[kFront + (i - 1) / 8] >> ((i - 1) % 8) & 1;
                    value = std::uint8_t(value + std::uint8_t(encoded[2]) + more);
                }
                static_cast<std::uint8_t*>(piece.iov_base)[at] = value;
            }
        }
        return true;
    }

    /// Segments that were made smaller.
    [[nodiscard]] std::uint64_t encoded() const { return encoded_.load(); }

private:
    static constexpr std::size_t kFront = 3;
    static std::size_t size_of(std::size_t bytes) { return kFront + (bytes - 1 + 7) / 8; }

    std::uint8_t const mask_;
    mutable std::atomic<std::uint64_t> encoded_{0};
};

/// Says of everything that it is one byte, and understands nothing.
class Liar final : public mover::link::Codec {
public:
    bool encode(std::span<iovec const>, std::size_t most,
                std::vector<char>& encoded) const override {
        encoded.push_back('!');
        return most > 1;
    }
    bool decode(std::span<char const>, std::span<iovec const>) const override { return false; }
};

}  // namespace mgi::test
