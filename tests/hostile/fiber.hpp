/// \file
/// Threads of control that only run when told to, on stacks of their own, all on one OS thread.
/// Sanitizers see each as a thread; switching makes no happens-before edge, so that ThreadSanitizer
/// finds what the schedule at hand merely hides.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>

namespace mgi::hostile {

/// Can be used again when its body has ended; making one is dear. Resumed by the OS thread that made it.
class Fiber {
public:
    Fiber();
    ~Fiber();
    Fiber(Fiber const&) = delete;
    Fiber& operator=(Fiber const&) = delete;

    /// Gives it something to do. What the caller did before comes before the body.
    void start(std::function<void()> body);
    /// Runs it until it calls `leave` or its body ends. Only from outside of any fiber.
    void resume();
    /// The body has ended; what it did comes before what the caller does now.
    [[nodiscard]] bool ended() const { return ended_.load(std::memory_order_relaxed); }
    /// What the body threw, if it did.
    [[nodiscard]] std::exception_ptr const& exception() const { return exception_; }

    /// Goes back to whoever resumed this fiber. Only inside of it.
    void leave() { switch_out(false); }
    /// The fiber that runs; null outside of any.
    static Fiber* running();

private:
    static void entry();
    void run();
    void switch_out(bool synchronize);

    ucontext_t context_{};
    ucontext_t resumer_{};
    char* stack_ = nullptr;
    void* thread_ = nullptr;      ///< ThreadSanitizer's view of it
    void* const resumer_thread_;  ///< and of whoever resumes it
    void* fake_stack_ = nullptr;  ///< AddressSanitizer's
    void* resumer_fake_stack_ = nullptr;
    void const* resumer_stack_ = nullptr;
    std::size_t resumer_stack_size_ = 0;
    std::function<void()> body_;
    std::exception_ptr exception_;
    bool fresh_ = false;             ///< started, not yet resumed
    std::atomic<bool> ended_{true};  ///< relaxed: looked at after each turn, which orders nothing
};

}  // namespace mgi::hostile
