// Big pieces of memory of tables and results.
#pragma once

#include <cstddef>
#include <utility>

namespace mgi {

// Bytes, aligned to a cache line; big ones lie in huge pages where the kernel has them, since tables
// are read at random. Zero only when asked for. Not thread-safe.
class Buffer {
public:
    Buffer() = default;
    // Throws Error(OutOfMemory).
    Buffer(std::size_t bytes, bool zeroed);
    ~Buffer() { free(); }
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)),
          mapped_(std::exchange(other.mapped_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        if (this != &other) {
            free();
            data_ = std::exchange(other.data_, nullptr);
            bytes_ = std::exchange(other.bytes_, 0);
            mapped_ = std::exchange(other.mapped_, 0);
        }
        return *this;
    }

    [[nodiscard]] char* data() const { return data_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    template <class T>
    [[nodiscard]] T* as() const {
        return reinterpret_cast<T*>(data_);
    }

private:
    void free() noexcept;

    char* data_ = nullptr;
    std::size_t bytes_ = 0;
    std::size_t mapped_ = 0;  // of a block from the cache
};

}  // namespace mgi
