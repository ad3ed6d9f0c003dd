#include "core/block_cache.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "core/poison.hpp"

namespace mgi {

namespace {

// Of the machine's memory, what free blocks may hold.
constexpr std::size_t kShare = 8;
constexpr std::size_t kMost = std::size_t{2} << 30;

std::size_t cache_limit() {
    long const pages = sysconf(_SC_PHYS_PAGES);
    long const page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return 0;
    return std::min(kMost, std::size_t(pages) * std::size_t(page) / kShare);
}

BlockCache::Block map_block(std::size_t bytes) {
    // One huge page more, so that the block can start where one does; the rest is returned.
    std::size_t const mapped = bytes + BlockCache::kHugePage;
    void* const mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return {};
    auto* const at = static_cast<char*>(mapping);
    std::size_t const past = reinterpret_cast<std::uintptr_t>(at) % BlockCache::kHugePage;
    std::size_t const head = past == 0 ? 0 : BlockCache::kHugePage - past;
    char* const data = at + head;
    if (head != 0) munmap(at, head);
    std::size_t const tail = mapped - head - bytes;
    if (tail != 0) munmap(data + bytes, tail);
    // Without huge pages it is merely slower.
    madvise(data, bytes, MADV_HUGEPAGE);
    return {data, bytes, 0, true};
}

void unmap(BlockCache::Block const& block) {
    // Whatever lies there next is not ours.
    unpoison(block.data, block.used);
    munmap(block.data, block.bytes);
}

bool smaller(BlockCache::Block const& block, std::size_t bytes) {
    return block.bytes < bytes;
}

}  // namespace

BlockCache::BlockCache() : limit_(cache_limit()) {}

BlockCache& BlockCache::shared() {
    static auto* const cache = new BlockCache;
    return *cache;
}

BlockCache::Block BlockCache::take(std::size_t bytes) {
    if (bytes > SIZE_MAX / 2) {
        errno = ENOMEM;
        return {};
    }
    std::size_t const needed = (bytes + kStep - 1) / kStep * kStep;
    {
        std::lock_guard const lock(mutex_);
        auto const at = std::lower_bound(blocks_.begin(), blocks_.end(), needed, smaller);
        // One that is far too large is left for who needs it.
        if (at != blocks_.end() && at->bytes <= needed + needed / 4 + kHugePage) {
            Block const block = *at;
            blocks_.erase(at);
            kept_ -= block.used;
            unpoison(block.data, block.used);
            return block;
        }
    }
    Block const block = map_block(needed);
    if (block.data != nullptr) return block;
    // What is kept may be what is missing.
    {
        std::lock_guard const lock(mutex_);
        while (!blocks_.empty()) unmap_oldest();
    }
    return map_block(needed);
}

void BlockCache::give(Block block) noexcept {
    block.zero = false;
#if defined(MADV_FREE)
    madvise(block.data, block.used, MADV_FREE);
#endif
    if (block.used > limit_) return unmap(block);
    std::lock_guard const lock(mutex_);
    while (kept_ + block.used > limit_) unmap_oldest();
    block.given = ++gifts_;
    try {
        blocks_.insert(std::lower_bound(blocks_.begin(), blocks_.end(), block.bytes, smaller),
                       block);
    } catch (...) {
        // No memory to remember it.
        return unmap(block);
    }
    kept_ += block.used;
    poison(block.data, block.used);
}

std::size_t BlockCache::mapped() {
    std::lock_guard const lock(mutex_);
    std::size_t bytes = 0;
    for (Block const& block : blocks_) bytes += block.bytes;
    return bytes;
}

void BlockCache::unmap_oldest() noexcept {
    auto const at =
        std::min_element(blocks_.begin(), blocks_.end(),
                         [](Block const& a, Block const& b) { return a.given < b.given; });
    kept_ -= at->used;
    unmap(*at);
    blocks_.erase(at);
}

}  // namespace mgi
