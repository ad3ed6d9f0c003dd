/// \file
/// Objects that gRPC hands from the thread that made them to those that call them back. It does so in
/// order, through queues of its own that ThreadSanitizer does not see: they are told to it here.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace mgi::control {

/// Last thing before gRPC gets an object (a call is started, a read or write begun).
inline void hand_over([[maybe_unused]] void const* object) noexcept {
#if defined(__SANITIZE_THREAD__)
    __tsan_release(const_cast<void*>(object));
#endif
}

/// First thing in a callback.
inline void take_over([[maybe_unused]] void const* object) noexcept {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(const_cast<void*>(object));
#endif
}

}  // namespace mgi::control
