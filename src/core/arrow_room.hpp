/// \file
/// Memory that columns are converted into.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace mgi::arrow {

/// What a batch's pointers point into, beside what it was made of.
class Room {
public:
    /// Not initialized, for any type.
    template <class T>
    [[nodiscard]] T* of(std::size_t count) {
        pieces_.emplace_back(new std::byte[count * sizeof(T) + 1]);
        return reinterpret_cast<T*>(pieces_.back().get());
    }

    void keep(std::shared_ptr<void const> other) { others_.push_back(std::move(other)); }

private:
    std::vector<std::unique_ptr<std::byte[]>> pieces_;
    std::vector<std::shared_ptr<void const>> others_;
};

}  // namespace mgi::arrow
