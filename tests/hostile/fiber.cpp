#include "hostile/fiber.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#elif defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace mgi::hostile {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStack = 256 * 1024;

// Relaxed: read in every fiber, and reading it must order nothing.
std::atomic<Fiber*> current{nullptr};

// What the sanitizers must be told around a switch of stacks; nothing without them.

void* make_thread() {
#if defined(__SANITIZE_THREAD__)
    return __tsan_create_fiber(0);
#else
    return nullptr;
#endif
}

void forget_thread([[maybe_unused]] void* thread) {
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(thread);
#endif
}

void* this_thread() {
#if defined(__SANITIZE_THREAD__)
    return __tsan_get_current_fiber();
#else
    return nullptr;
#endif
}

void switch_thread([[maybe_unused]] void* thread, [[maybe_unused]] bool synchronize) {
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(thread, synchronize ? 0 : __tsan_switch_to_fiber_no_sync);
#endif
}

void leave_stack([[maybe_unused]] void** fake_stack, [[maybe_unused]] void const* next,
                 [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake_stack, next, size);
#endif
}

void enter_stack([[maybe_unused]] void* fake_stack, [[maybe_unused]] void const** last,
                 [[maybe_unused]] std::size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, last, size);
#endif
}

}  // namespace

Fiber* Fiber::running() {
    return current.load(std::memory_order_relaxed);
}

Fiber::Fiber() : resumer_thread_(this_thread()) {
    // The lowest page stays out of reach: an overflow faults.
    void* const at = mmap(nullptr, kPage + kStack, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    mprotect(at, kPage, PROT_NONE);
    stack_ = static_cast<char*>(at) + kPage;
    thread_ = make_thread();
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = kStack;
    context_.uc_link = nullptr;
    makecontext(&context_, &Fiber::entry, 0);
}

Fiber::~Fiber() {
    forget_thread(thread_);
    munmap(stack_ - kPage, kPage + kStack);
}

void Fiber::start(std::function<void()> body) {
    body_ = std::move(body);
    exception_ = nullptr;
    ended_.store(false, std::memory_order_relaxed);
    fresh_ = true;
}

void Fiber::resume() {
    bool const synchronize = std::exchange(fresh_, false);
    current.store(this, std::memory_order_relaxed);
    leave_stack(&resumer_fake_stack_, stack_, kStack);
    switch_thread(thread_, synchronize);
    swapcontext(&resumer_, &context_);
    enter_stack(resumer_fake_stack_, nullptr, nullptr);
    current.store(nullptr, std::memory_order_relaxed);
}

void Fiber::switch_out(bool synchronize) {
    leave_stack(&fake_stack_, resumer_stack_, resumer_stack_size_);
    switch_thread(resumer_thread_, synchronize);
    swapcontext(&context_, &resumer_);
    enter_stack(fake_stack_, &resumer_stack_, &resumer_stack_size_);
}

void Fiber::entry() {
    Fiber& self = *running();
    enter_stack(nullptr, &self.resumer_stack_, &self.resumer_stack_size_);
    for (;;) self.run();
}

void Fiber::run() {
    try {
        body_();
    } catch (...) {
        exception_ = std::current_exception();
    }
    body_ = nullptr;
    ended_.store(true, std::memory_order_relaxed);
    switch_out(true);
}

}  // namespace mgi::hostile
