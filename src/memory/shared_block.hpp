// Memory that processes of a server share: a file without a name, mapped at the same address in each of
// them, so that pointers inside it mean the same to all. Nothing is left of it when the last process that
// has it is gone, however it went.
#pragma once

#include <cstdint>
#include <memory>

namespace mgi::memory {

// Thread-safe. A forked child does not have the mapping.
class SharedBlock {
public:
    static constexpr std::uint64_t kAlignment = std::uint64_t{2} << 20;
    // The most that one block may have, of the addresses that are kept for all.
    static std::uint64_t most_bytes();

    // A new block of `bytes` bytes, all zero, at an address that is free here; its size is for ever. No page
    // of it is there yet (see `reserve`). Throws Error(OutOfMemory).
    static std::shared_ptr<SharedBlock> create(std::uint64_t bytes);
    // The block that another process has made, by its descriptor, of which a duplicate is kept; null if
    // something else lies at its address in this process. A block that this process has already is
    // shared. Throws Error(InvalidArgument) for a descriptor, an address or a size that is none of a
    // block's, Error(OutOfMemory).
    static std::shared_ptr<SharedBlock> open(int descriptor, std::uint64_t address,
                                             std::uint64_t bytes);

    ~SharedBlock();
    SharedBlock(SharedBlock const&) = delete;
    SharedBlock& operator=(SharedBlock const&) = delete;

    [[nodiscard]] char* data() const { return data_; }
    [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    // Stays this block's.
    [[nodiscard]] int descriptor() const { return descriptor_; }

    // Gets the machine's memory for a range; false when there is none. Whoever writes to a page that was
    // never reserved may be killed for it.
    [[nodiscard]] bool reserve(std::uint64_t offset, std::uint64_t bytes) noexcept;

private:
    SharedBlock(int descriptor, char* data, std::uint64_t bytes)
        : descriptor_(descriptor), data_(data), bytes_(bytes) {}
    static std::shared_ptr<SharedBlock> map(int descriptor, std::uint64_t address,
                                            std::uint64_t bytes);

    int const descriptor_;
    char* const data_;
    std::uint64_t const bytes_;
};

}  // namespace mgi::memory
