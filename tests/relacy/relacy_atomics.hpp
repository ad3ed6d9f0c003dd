/// \file
/// The atomics policy of the protocols under Relacy: words whose every access is a point where another
/// thread may run, and whose loads may return any value that the C++ memory model allows.
#pragma once

#include <cstring>
#include <source_location>

#include "relacy.hpp"
#include "write_order.hpp"

namespace mgi::relacy {

using cuda::std::memory_order;

/// How sequentially consistent accesses are carried out. Relacy's own way puts them into the order in
/// which it runs them, which hides what happens when one of two such accesses is weakened: it never
/// delays a store. The other two are what compilers make of them on machines with weak memory, a full
/// fence before or behind each access; one of them exposes each missing half. Chosen anew in each
/// iteration, for all words alike; all three are what the standard allows.
enum class SeqCst { Native, FenceBefore, FenceBehind };
inline SeqCst seq_cst_by = SeqCst::Native;

/// Where an access stands in the code, for histories: the function's name without its type, and its
/// path from the repository's root.
inline rl::debug_info info_of(std::source_location const& at) {
    char const* function = at.function_name();
    char const* const arguments = std::strchr(function, '(');
    for (char const* c = function; c != arguments && *c != 0; ++c) {
        if (*c == ' ') function = c + 1;
    }
    char const* file = at.file_name();
    for (char const* folder : {"include/mgi/", "src/mover/", "tests/relacy/"}) {
        if (char const* const from = std::strstr(file, folder)) file = from;
    }
    return {function, file, at.line()};
}

template <class T>
class Word {
public:
    using Location = std::source_location;

    Word(T value = T())  // NOLINT: words are made from values, as libcu++'s are
        : word_(value), newest_(value) {}
    Word(Word const&) = delete;
    Word& operator=(Word const&) = delete;

    T load(memory_order order, Location const& at = Location::current()) const {
        return access<rl::mo_acquire>(order, at, [&](rl::memory_order mo) {
            T const value = word_.load(mo, info_of(at));
            writes_.loaded(value == newest_);
            return value;
        });
    }
    void store(T value, memory_order order, Location const& at = Location::current()) {
        access<rl::mo_release>(order, at, [&](rl::memory_order mo) {
            word_.store(value, mo, info_of(at));
            writes_.stored(value != newest_, mo != rl::mo_relaxed, info_of(at));
            newest_ = value;
        });
    }
    T exchange(T value, memory_order order, Location const& at = Location::current()) {
        return replace(order, at,
                       [&](rl::memory_order mo) { return word_.exchange(value, mo, info_of(at)); });
    }
    T fetch_add(T value, memory_order order, Location const& at = Location::current()) {
        return replace(order, at, [&](rl::memory_order mo) {
            return word_.fetch_add(value, mo, info_of(at));
        });
    }
    T fetch_sub(T value, memory_order order, Location const& at = Location::current()) {
        return replace(order, at, [&](rl::memory_order mo) {
            return word_.fetch_sub(value, mo, info_of(at));
        });
    }
    T fetch_or(T value, memory_order order, Location const& at = Location::current()) {
        return replace(order, at,
                       [&](rl::memory_order mo) { return word_.fetch_or(value, mo, info_of(at)); });
    }
    T fetch_max(T value, memory_order order, Location const& at = Location::current()) {
        T was = load(memory_order::relaxed, at);
        while (was < value &&
               !compare_exchange_strong(was, value, order, memory_order::relaxed, at)) {
        }
        return was;
    }
    bool compare_exchange_strong(T& expected, T desired, memory_order success, memory_order failure,
                                 Location const& at = Location::current()) {
        return compare_exchange<false>(expected, desired, success, failure, at);
    }
    bool compare_exchange_weak(T& expected, T desired, memory_order success, memory_order failure,
                               Location const& at = Location::current()) {
        return compare_exchange<true>(expected, desired, success, failure, at);
    }

    /// See WriteOrder.
    void count_loads() { writes_.count_loads(); }
    /// The newest value, for checks that must not disturb the execution.
    [[nodiscard]] T newest() const { return newest_; }

private:
    static rl::memory_order order_of(memory_order order) {
        switch (order) {
            case memory_order::acquire: return rl::mo_acquire;
            case memory_order::release: return rl::mo_release;
            case memory_order::acq_rel: return rl::mo_acq_rel;
            case memory_order::seq_cst: return rl::mo_seq_cst;
            default: return rl::mo_relaxed;
        }
    }

    /// `act`, in the way sequentially consistent accesses are done; `weaker` is what is left of such an
    /// access when a fence sees to the rest.
    template <rl::memory_order weaker, class Act>
    static auto access(memory_order order, Location const& at, Act&& act) {
        bool const fenced = order == memory_order::seq_cst && seq_cst_by != SeqCst::Native;
        if (!fenced) return act(order_of(order));
        struct Behind {
            Location const& at;
            ~Behind() {
                if (seq_cst_by == SeqCst::FenceBehind) fence(at);
            }
        } const behind{at};
        if (seq_cst_by == SeqCst::FenceBefore) fence(at);
        return act(weaker);
    }
    static void fence(Location const& at) { rl::atomic_thread_fence(rl::mo_seq_cst, info_of(at)); }

    template <bool weak>
    bool compare_exchange(T& expected, T desired, memory_order success, memory_order failure,
                          Location const& at) {
        rl::memory_order const on_failure = order_of(failure);
        return access<rl::mo_acq_rel>(success, at, [&](rl::memory_order mo) {
            WriteOrder::Clock const before = WriteOrder::clock();
            bool const done = word_.compare_exchange(rl::bool_t<weak>(), expected, desired, mo,
                                                     on_failure, info_of(at));
            if (done) replaced(before, at);
            return done;
        });
    }
    template <class Act>
    T replace(memory_order order, Location const& at, Act&& act) {
        return access<rl::mo_acq_rel>(order, at, [&](rl::memory_order mo) {
            WriteOrder::Clock const before = WriteOrder::clock();
            T const was = act(mo);
            replaced(before, at);
            return was;
        });
    }
    void replaced(WriteOrder::Clock const& before, Location const& at) {
        writes_.replaced(before, info_of(at));
        newest_ = word_.debug_value();
    }

    rl::atomic<T> word_;
    T newest_;
    mutable WriteOrder writes_;  // a load is noted, too
};

struct RelacyAtomics {
    template <class T>
    using Device = Word<T>;
    template <class T>
    using System = Word<T>;
    /// Waiting: other threads run, and what they have written will be seen.
    static void backoff(std::uint32_t /*round*/) { rl::yield(1, RL_INFO); }
};

/// What no atomic guards: a read or write that another thread's write is not ordered with fails the
/// test.
template <class T>
class Plain {
public:
    using Location = std::source_location;

    void write(T value, Location const& at = Location::current()) {
        value_(info_of(at)).store(value);
    }
    [[nodiscard]] T read(Location const& at = Location::current()) const {
        return value_(info_of(at)).load();
    }

private:
    rl::var<T> value_{T()};
};

}  // namespace mgi::relacy
