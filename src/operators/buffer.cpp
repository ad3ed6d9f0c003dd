#include "operators/buffer.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include <mgi/error.hpp>

namespace mgi::operators {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::align_val_t kLine{64};

[[noreturn]] void no_memory(std::size_t bytes) {
    throw Error(ErrorCode::OutOfMemory,
                "the machine has no " + std::to_string(bytes) + " bytes more for an operator");
}

}  // namespace

Buffer::Buffer(std::size_t bytes, bool zeroed) : bytes_(bytes) {
    if (bytes == 0) return;
    if (bytes < kHugePage) {
        data_ = static_cast<char*>(::operator new(bytes, kLine, std::nothrow));
        if (data_ == nullptr) no_memory(bytes);
        if (zeroed) std::memset(data_, 0, bytes);
        return;
    }
    // One page more, so that the block starts where a huge page can.
    mapped_ = (bytes + 2 * kHugePage - 1) / kHugePage * kHugePage;
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) {
        mapping_ = nullptr;
        no_memory(bytes);
    }
    auto const at = reinterpret_cast<std::uintptr_t>(mapping_);
    data_ = reinterpret_cast<char*>((at + kHugePage - 1) / kHugePage * kHugePage);
    // Without huge pages it is merely slower.
    madvise(mapping_, mapped_, MADV_HUGEPAGE);
}

void Buffer::free() noexcept {
    if (mapping_ != nullptr) {
        munmap(mapping_, mapped_);
    } else if (data_ != nullptr) {
        ::operator delete(data_, kLine);
    }
}

}  // namespace mgi::operators
