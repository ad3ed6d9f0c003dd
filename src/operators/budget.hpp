// What an operator's tables and results may take together, of the memory that they lie in.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "operators/text.hpp"

namespace mgi::operators {

// Thread-safe.
class Budget {
public:
    // `what` says in messages what takes the memory, `option` which of OperatorOptions is the limit.
    Budget(std::string what, u64 limit, char const* option = "receive_limit")
        : what_(std::move(what)), limit_(limit), option_(option) {}
    // Counts bytes in; throws Error(OutOfMemory), and counts nothing, when they are too many.
    void take(u64 bytes) {
        if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit_) return;
        give(bytes);
        refuse(bytes);
    }
    void give(u64 bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
    [[nodiscard]] u64 used() const { return used_.load(std::memory_order_relaxed); }

private:
    [[noreturn]] void refuse(u64 bytes) const;

    std::string what_;
    u64 limit_;
    char const* option_;
    std::atomic<u64> used_{0};
};

// What a table counts against a budget while it lives. Not thread-safe.
class Charge {
public:
    explicit Charge(Budget& budget) : budget_(budget) {}
    ~Charge() { budget_.give(held_); }
    Charge(Charge const&) = delete;
    Charge& operator=(Charge const&) = delete;

    // Sees to it that `bytes` are counted, or a little more: tables grow a vector at a time. Throws
    // Error(OutOfMemory).
    void hold(u64 bytes) {
        if (bytes <= held_) return;
        u64 const more = (bytes - held_ + kStep - 1) / kStep * kStep;
        budget_.take(more);
        held_ += more;
    }

private:
    static constexpr u64 kStep = u64{16} << 10;

    Budget& budget_;
    u64 held_ = 0;
};

}  // namespace mgi::operators
