/// \file
/// Memory that columns are converted into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <mgi/batch.hpp>

#include "core/buffer.hpp"

namespace mgi::arrow {

/// What a batch's pointers point into, beside what it was made of.
class Room {
public:
    /// Not initialized, for any type; never null. Throws Error(OutOfMemory).
    template <class T>
    [[nodiscard]] T* of(std::size_t count) {
        pieces_.emplace_back(count * sizeof(T) + 1, false);
        return pieces_.back().as<T>();
    }
    /// So many bits, all of them 0.
    [[nodiscard]] std::uint8_t* bits(std::size_t count) {
        std::size_t const bytes = (count + 7) / 8;
        auto* const out = of<std::uint8_t>(bytes);
        std::memset(out, 0, bytes);
        return out;
    }

    void keep(std::shared_ptr<void const> other) { others_.push_back(std::move(other)); }
    void keep(Buffer piece) { pieces_.push_back(std::move(piece)); }

private:
    std::vector<Buffer> pieces_;
    std::vector<std::shared_ptr<void const>> others_;
};

/// Room for more of what a batch's columns point into, which the batch keeps from now on.
inline std::shared_ptr<Room> room_in(RecordBatch& batch) {
    auto room = std::make_shared<Room>();
    room->keep(std::move(batch.owner));
    batch.owner = room;
    return room;
}

inline void set_bit(std::uint8_t* bits, std::size_t at) {
    bits[at / 8] = std::uint8_t(bits[at / 8] | 1u << (at % 8));
}

}  // namespace mgi::arrow
