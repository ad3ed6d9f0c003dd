/// \file
/// The atomics policy of hostile schedules: production's own words, at each of whose operations
/// another fiber may run.
#pragma once

#include <mgi/device/atomics.hpp>

#include "hostile/scheduler.hpp"

namespace mgi::hostile {

/// Is told of stores by the fiber that makes one, in the same step as the store and just before it:
/// what the observer reads comes before what the store releases.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void storing(void const* word, std::uint64_t value) = 0;
    /// The one that is told; null for none. Changed only while no fiber runs.
    static inline Observer* installed = nullptr;
};

/// An atomic word with a yield point before each operation, and behind each one that writes: other
/// fibers run both between what is plain memory and the word, and the other way round.
template <class Word>
class HostileWord {
public:
    using T = typename Word::value_type;
    using Order = cuda::std::memory_order;

    HostileWord() = default;
    HostileWord(T value) : word_(value) {}  // NOLINT(google-explicit-constructor): as cuda::atomic

    T load(Order order = device::seq_cst) const {
        yield("load");
        return word_.load(order);
    }
    void store(T value, Order order = device::seq_cst) {
        yield("store");
        if (Fiber::running() != nullptr && Observer::installed != nullptr) {
            Observer::installed->storing(this, std::uint64_t(value));
        }
        word_.store(value, order);
        yield("behind store");
    }
    T exchange(T value, Order order = device::seq_cst) {
        return written("exchange", [&] { return word_.exchange(value, order); });
    }
    T fetch_add(T value, Order order = device::seq_cst) {
        return written("fetch_add", [&] { return word_.fetch_add(value, order); });
    }
    T fetch_sub(T value, Order order = device::seq_cst) {
        return written("fetch_sub", [&] { return word_.fetch_sub(value, order); });
    }
    T fetch_max(T value, Order order = device::seq_cst) {
        return written("fetch_max", [&] { return word_.fetch_max(value, order); });
    }
    bool compare_exchange_strong(T& expected, T value, Order success, Order failure) {
        return written("compare_exchange", [&] {
            return word_.compare_exchange_strong(expected, value, success, failure);
        });
    }
    /// Fails for nothing now and then, as it may.
    bool compare_exchange_weak(T& expected, T value, Order success, Order failure) {
        if (Scheduler::one_in(8)) {
            expected = load(failure);
            return false;
        }
        return compare_exchange_strong(expected, value, success, failure);
    }

    /// Without a yield point: for who only looks on.
    [[nodiscard]] T peek() const { return word_.load(device::relaxed); }

private:
    void yield(char const* operation) const { Scheduler::yield_point(operation, this); }
    template <class Operation>
    auto written(char const* name, Operation&& operation) {
        yield(name);
        auto const result = operation();
        yield(name);
        return result;
    }

    Word word_{};
};

struct HostileAtomics {
    template <class T>
    using Device = HostileWord<device::LibcuAtomics::Device<T>>;
    template <class T>
    using System = HostileWord<device::LibcuAtomics::System<T>>;
    static void backoff(device::u32) { Scheduler::pause(); }
};

}  // namespace mgi::hostile
