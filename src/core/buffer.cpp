#include "core/buffer.hpp"

#include <cstring>
#include <new>
#include <string>

#include <mgi/error.hpp>

#include "core/block_cache.hpp"

namespace mgi {

namespace {

// Blocks below this come from the heap.
constexpr std::size_t kLeastMapped = BlockCache::kHugePage / 2;
constexpr std::align_val_t kLine{64};

[[noreturn]] void no_memory(std::size_t bytes) {
    throw Error(ErrorCode::OutOfMemory,
                "the machine has no " + std::to_string(bytes) + " bytes more");
}

}  // namespace

Buffer::Buffer(std::size_t bytes, bool zeroed) : bytes_(bytes) {
    if (bytes == 0) return;
    bool fresh = false;
    if (bytes < kLeastMapped) {
        data_ = static_cast<char*>(::operator new(bytes, kLine, std::nothrow));
    } else {
        BlockCache::Block const block = BlockCache::shared().take(bytes);
        data_ = block.data;
        mapped_ = block.bytes;
        fresh = block.zero;
    }
    if (data_ == nullptr) no_memory(bytes);
    if (zeroed && !fresh) std::memset(data_, 0, bytes);
}

void Buffer::free() noexcept {
    if (mapped_ != 0) {
        BlockCache::shared().give({data_, mapped_, mapped_, false});
    } else if (data_ != nullptr) {
        ::operator delete(data_, kLine);
    }
}

}  // namespace mgi
