#include "core/arrow_take.hpp"

#include <cstring>

#include <mgi/device/batch_view.hpp>

namespace mgi::arrow {
namespace {

using device::StringView16;

void set_bit(std::uint8_t* bits, std::size_t at) {
    bits[at / 8] = std::uint8_t(bits[at / 8] | 1u << (at % 8));
}

std::uint8_t* no_bits(std::size_t count, Room& room) {
    std::size_t const bytes = (count + 7) / 8;
    auto* const bits = room.of<std::uint8_t>(bytes);
    std::memset(bits, 0, bytes);
    return bits;
}

class Taking {
public:
    Taking(Column const& from, std::vector<std::int64_t> const& rows, Room& room)
        : from_(from), rows_(rows), room_(room) {}

    /// Null where no row has none.
    [[nodiscard]] std::uint8_t const* validity() const {
        std::uint8_t* const bits = no_bits(rows_.size(), room_);
        std::size_t valid = 0;
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (!has(i)) continue;
            set_bit(bits, i);
            ++valid;
        }
        return valid == rows_.size() ? nullptr : bits;
    }

    [[nodiscard]] void const* bits() const {
        std::uint8_t* const out = no_bits(rows_.size(), room_);
        auto const* const values = static_cast<std::uint8_t const*>(from_.values);
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (has(i) && device::bit_at(values, at(i))) set_bit(out, i);
        }
        return out;
    }

    [[nodiscard]] void const* values(std::size_t width) const {
        switch (width) {
            case 1: return fixed<1>();
            case 2: return fixed<2>();
            case 4: return fixed<4>();
            case 8: return fixed<8>();
            case 16: return fixed<16>();
            default: break;
        }
        auto* const out = room_.of<std::byte>(rows_.size() * width);
        auto const* const values = static_cast<std::byte const*>(from_.values);
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (has(i)) {
                std::memcpy(out + i * width, values + at(i) * width, width);
            } else {
                std::memset(out + i * width, 0, width);
            }
        }
        return out;
    }

private:
    [[nodiscard]] std::uint64_t at(std::size_t i) const {
        return std::uint64_t(from_.offset + rows_[i]);
    }
    [[nodiscard]] bool has(std::size_t i) const {
        if (rows_[i] == kNoRow) return false;
        return from_.validity == nullptr || device::bit_at(from_.validity, at(i));
    }
    template <std::size_t Width>
    [[nodiscard]] void const* fixed() const {
        auto* const out = room_.of<std::byte>(rows_.size() * Width);
        auto const* const values = static_cast<std::byte const*>(from_.values);
        std::byte const none[Width] = {};
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            std::memcpy(out + i * Width, has(i) ? values + at(i) * Width : none, Width);
        }
        return out;
    }

    Column const& from_;
    std::vector<std::int64_t> const& rows_;
    Room& room_;
};

}  // namespace

Column take(Column const& from, Type const& type, std::vector<std::int64_t> const& rows,
            Room& room) {
    Taking const taking(from, rows, room);
    Column to;
    to.encoding = from.encoding;
    to.validity = taking.validity();
    to.buffers = from.buffers;
    to.buffer_sizes = from.buffer_sizes;
    std::size_t const width = type.is_variable() ? sizeof(StringView16) : type.row_width();
    to.values = width == 0 ? taking.bits() : taking.values(width);
    return to;
}

}  // namespace mgi::arrow
