// Big blocks of memory, used again: a fresh page costs more to get than a pass over it.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace mgi {

// Blocks in huge pages where the kernel has them. Those given back are kept, up to a limit, but marked
// so that the kernel may take their pages when the machine runs short of memory. Thread-safe.
class BlockCache {
public:
    static constexpr std::size_t kHugePage = std::size_t{2} << 20;
    static constexpr std::size_t kStep = std::size_t{64} << 10;

    struct Block {
        char* data = nullptr;   // at the start of a huge page; null: no memory
        std::size_t bytes = 0;  // a multiple of kStep
        bool zero = false;      // never used before
    };

    // The one of this process. Never destroyed, since batches may outlive everything.
    static BlockCache& shared();

    // A block of at least `bytes` bytes.
    Block take(std::size_t bytes);
    void give(Block block) noexcept;

private:
    BlockCache();

    std::size_t const limit_;
    std::mutex mutex_;
    std::size_t kept_ = 0;
    std::vector<Block> blocks_;  // by size
};

}  // namespace mgi
