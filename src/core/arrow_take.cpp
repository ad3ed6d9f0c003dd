#include "core/arrow_take.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <mgi/device/batch_view.hpp>

#include "core/parallel.hpp"

namespace mgi::arrow {
namespace {

using device::StringView16;

/// So many rows are one thread's at a time; whole words of bits.
constexpr std::int64_t kRowsOfBlock = 1 << 16;

template <class Number>
std::int64_t first_beyond_of(RowNumbers const& numbers, std::int64_t rows) {
    if (numbers.count == 0) return -1;
    auto const* const all = static_cast<Number const*>(numbers.values) + numbers.offset;
    if (numbers.validity == nullptr) {
        Number most = 0;
        for (std::int64_t i = 0; i < numbers.count; ++i) most = std::max(most, all[i]);
        if (std::uint64_t(most) < std::uint64_t(rows)) return -1;
    }
    for (std::int64_t i = 0; i < numbers.count; ++i) {
        bool const valid = numbers.validity == nullptr ||
                           device::bit_at(numbers.validity, std::uint64_t(numbers.offset + i));
        if (valid && std::uint64_t(all[i]) >= std::uint64_t(rows)) return i;
    }
    return -1;
}

template <std::size_t Width>
struct Bytes {
    std::byte bytes[Width];
};

/// Numbers are read without a sign: each of them is a row's.
template <class Number>
class Taking {
public:
    Taking(Column const& from, RowNumbers const& numbers, Room& room)
        : from_(from),
          numbers_(numbers),
          rows_(static_cast<Number const*>(numbers.values) +
                (numbers.count == 0 ? 0 : numbers.offset)),
          room_(room) {}

    Column take(Type const& type) const {
        Column to;
        to.encoding = from_.encoding;
        to.buffers = from_.buffers;
        to.buffer_sizes = from_.buffer_sizes;
        to.validity = validity();
        std::size_t const width = type.is_variable() ? sizeof(StringView16) : type.row_width();
        to.values = width == 0 ? bits(to.validity) : values(width, to.validity);
        return to;
    }

private:
    template <class Work>
    void for_blocks(Work const& work) const {
        std::int64_t const count = numbers_.count;
        auto const blocks = std::size_t((count + kRowsOfBlock - 1) / kRowsOfBlock);
        in_parallel(blocks, all_threads(), [&](std::size_t block, std::size_t) {
            std::int64_t const first = std::int64_t(block) * kRowsOfBlock;
            work(first, std::min(count, first + kRowsOfBlock));
        });
    }

    [[nodiscard]] std::uint64_t row(std::int64_t i) const {
        return std::uint64_t(from_.offset) + std::uint64_t(rows_[i]);
    }
    [[nodiscard]] bool has(std::int64_t i) const {
        if (numbers_.validity != nullptr &&
            !device::bit_at(numbers_.validity, std::uint64_t(numbers_.offset + i))) {
            return false;
        }
        return from_.validity == nullptr || device::bit_at(from_.validity, row(i));
    }

    /// Null where no row has none.
    [[nodiscard]] std::uint8_t const* validity() const {
        if (numbers_.validity == nullptr && from_.validity == nullptr) return nullptr;
        std::uint8_t* const bits = room_.bits(std::size_t(numbers_.count));
        std::atomic<bool> none{false};
        for_blocks([&](std::int64_t i, std::int64_t end) {
            bool null = false;
            for (; i < end; ++i) {
                if (has(i)) {
                    set_bit(bits, std::size_t(i));
                } else {
                    null = true;
                }
            }
            if (null) none.store(true, std::memory_order_relaxed);
        });
        return none.load(std::memory_order_relaxed) ? bits : nullptr;
    }

    [[nodiscard]] void const* bits(std::uint8_t const* validity) const {
        std::uint8_t* const out = room_.bits(std::size_t(numbers_.count));
        auto const* const values = static_cast<std::uint8_t const*>(from_.values);
        for_blocks([&](std::int64_t i, std::int64_t end) {
            for (; i < end; ++i) {
                if (validity != nullptr && !device::bit_at(validity, std::uint64_t(i))) continue;
                if (device::bit_at(values, row(i))) set_bit(out, std::size_t(i));
            }
        });
        return out;
    }

    template <class Value>
    void const* fixed(std::uint8_t const* validity) const {
        auto* const out = room_.of<Value>(std::size_t(numbers_.count));
        auto const* const values = static_cast<Value const*>(from_.values);
        for_blocks([&](std::int64_t i, std::int64_t end) {
            if (validity == nullptr) {
                for (; i < end; ++i) out[i] = values[row(i)];
                return;
            }
            for (; i < end; ++i) {
                out[i] = device::bit_at(validity, std::uint64_t(i)) ? values[row(i)] : Value{};
            }
        });
        return out;
    }

    [[nodiscard]] void const* values(std::size_t width, std::uint8_t const* validity) const {
        switch (width) {
            case 1: return fixed<Bytes<1>>(validity);
            case 2: return fixed<Bytes<2>>(validity);
            case 4: return fixed<Bytes<4>>(validity);
            case 8: return fixed<Bytes<8>>(validity);
            case 16: return fixed<Bytes<16>>(validity);
            default: break;
        }
        auto* const out = room_.of<std::byte>(std::size_t(numbers_.count) * width);
        auto const* const values = static_cast<std::byte const*>(from_.values);
        for_blocks([&](std::int64_t i, std::int64_t end) {
            for (; i < end; ++i) {
                std::byte* const to = out + std::size_t(i) * width;
                if (validity == nullptr || device::bit_at(validity, std::uint64_t(i))) {
                    std::memcpy(to, values + row(i) * width, width);
                } else {
                    std::memset(to, 0, width);
                }
            }
        });
        return out;
    }

    Column const& from_;
    RowNumbers const& numbers_;
    Number const* const rows_;
    Room& room_;
};

}  // namespace

std::int64_t first_beyond(RowNumbers const& numbers, std::int64_t rows) {
    switch (numbers.width) {
        case 1: return first_beyond_of<std::uint8_t>(numbers, rows);
        case 2: return first_beyond_of<std::uint16_t>(numbers, rows);
        case 4: return first_beyond_of<std::uint32_t>(numbers, rows);
        default: return first_beyond_of<std::uint64_t>(numbers, rows);
    }
}

Column take(Column const& from, Type const& type, RowNumbers const& numbers, Room& room) {
    switch (numbers.width) {
        case 1: return Taking<std::uint8_t>(from, numbers, room).take(type);
        case 2: return Taking<std::uint16_t>(from, numbers, room).take(type);
        case 4: return Taking<std::uint32_t>(from, numbers, room).take(type);
        default: return Taking<std::uint64_t>(from, numbers, room).take(type);
    }
}

}  // namespace mgi::arrow
