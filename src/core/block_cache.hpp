// Big blocks of memory, used again: a fresh page costs more to get than a pass over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace mgi {

// Blocks in huge pages where the kernel has them. The last ones given back are kept, up to a limit, but
// marked so that the kernel may take their pages when the machine runs short of memory. A block may be
// much larger than what is used of it: only what is used counts. Thread-safe.
class BlockCache {
public:
    static constexpr std::size_t kHugePage = std::size_t{2} << 20;
    static constexpr std::size_t kStep = std::size_t{64} << 10;

    struct Block {
        char* data = nullptr;   // at the start of a huge page; null: no memory
        std::size_t bytes = 0;  // a multiple of kStep
        std::size_t used =
            0;              // as many from its start may have pages; whoever gives it back says so
        bool zero = false;  // never used before
        std::uint64_t given = 0;  // when, among all that were
    };

    // The one of this process. Never destroyed, since batches may outlive everything.
    static BlockCache& shared();

    // A block of at least `bytes` bytes.
    Block take(std::size_t bytes);
    void give(Block block) noexcept;
    // Bytes of addresses of the blocks that wait to be used again.
    std::size_t mapped();

private:
    BlockCache();

    void unmap_oldest() noexcept;

    std::size_t const limit_;
    std::mutex mutex_;
    std::size_t kept_ = 0;
    std::uint64_t gifts_ = 0;
    std::vector<Block> blocks_;  // by size
};

}  // namespace mgi
