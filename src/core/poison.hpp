// What AddressSanitizer is told about memory that we keep to be used again: a read or write of it
// while nobody has it is a use after free. Without AddressSanitizer nothing is done.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define MGI_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MGI_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(MGI_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace mgi {

#if defined(MGI_ADDRESS_SANITIZER)
inline constexpr bool kSeesUseAfterFree = true;
inline void poison(void const* data, std::size_t bytes) noexcept {
    __asan_poison_memory_region(data, bytes);
}
inline void unpoison(void const* data, std::size_t bytes) noexcept {
    __asan_unpoison_memory_region(data, bytes);
}
#else
inline constexpr bool kSeesUseAfterFree = false;
inline void poison(void const*, std::size_t) noexcept {}
inline void unpoison(void const*, std::size_t) noexcept {}
#endif

}  // namespace mgi
