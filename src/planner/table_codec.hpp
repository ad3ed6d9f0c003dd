/// \file
/// Forwarding tables as bytes: what travels to a server. Little-endian: the magic "MGIT", a version
/// (2 bytes), then numbers of 7 bits a byte, low ones first (LEB128).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "planner/server_table.hpp"

namespace mgi::planner {

inline constexpr char kTableMagic[5] = "MGIT";
inline constexpr std::uint16_t kTableVersion = 2;

/// Writes numbers one behind the other.
class ByteWriter {
public:
    void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
    void header(char const (&magic)[5], std::uint16_t version) {
        bytes_.append(magic, 4);
        bytes_.push_back(char(version & 0xff));
        bytes_.push_back(char(version >> 8));
    }
    void number(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7) bytes_.push_back(char(value | 0x80));
        bytes_.push_back(char(value));
    }
    [[nodiscard]] std::string take() && { return std::move(bytes_); }

private:
    std::string bytes_;
};

/// Reads them again. Throws Error(InvalidArgument) that says at which byte what was expected.
class ByteReader {
public:
    /// `what` is told in errors; both must outlive the reader.
    ByteReader(std::string_view bytes, char const* what) : bytes_(bytes), what_(what) {}

    void header(char const (&magic)[5], std::uint16_t version);
    /// At most `most`; written as shortly as can be.
    std::uint64_t number(std::uint64_t most, char const* of);
    /// How many things follow, each of at least `least_bytes`: no more than the rest can hold.
    std::size_t count(std::size_t least_bytes, char const* of);
    /// Refuses bytes that are left over.
    void end() const;
    [[noreturn]] void refuse(std::string const& expected) const;

private:
    std::string_view bytes_;
    char const* what_;
    std::size_t at_ = 0;
};

std::string encode(ServerTable const& table);
/// Throws Error(InvalidArgument) for what `encode` never writes: every table has one encoding.
ServerTable decode_table(std::string_view bytes);

}  // namespace mgi::planner
