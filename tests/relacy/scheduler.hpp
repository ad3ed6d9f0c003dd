/// \file
/// A random scheduler for Relacy that lets threads sleep. Relacy's own one gives every thread the next
/// step with equal chance, so that a thread hardly ever misses what others do in a hundred steps; yet
/// a claim that sleeps for a lap of the ring is what the protocols must stand.
#pragma once

#include "relacy.hpp"

namespace mgi::relacy {

/// The iteration's number is its seed.
template <rl::thread_id_t threads>
class SleepyScheduler
    : public rl::scheduler<SleepyScheduler<threads>, rl::scheduler_thread_info, threads> {
    using Base = rl::scheduler<SleepyScheduler<threads>, rl::scheduler_thread_info, threads>;

public:
    struct task_t {};

    SleepyScheduler(rl::test_params& params, typename Base::shared_context_t& context,
                    rl::thread_id_t dynamic_threads)
        : Base(params, context, dynamic_threads) {}

    rl::thread_id_t iteration_begin_impl() {
        state_ = this->iter_ * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
        sleeper_ = -1;
        rarity_ = 4u << random(4);
        return pick();
    }
    bool iteration_end_impl() { return this->iter_ == this->params_.iteration_count; }

    rl::thread_id_t schedule_impl(rl::unpark_reason& reason, unsigned /*yield*/) {
        reason = rl::unpark_reason_normal;
        if (sleeper_ >= 0 && --sleep_ == 0) sleeper_ = -1;
        if (sleeper_ < 0 && random(rarity_) == 0) {
            sleeper_ = pick();
            sleep_ = 1u << random(9);
        }
        return pick();
    }

    unsigned rand_impl(unsigned limit, rl::sched_type /*type*/) { return random(limit); }
    rl::iteration_t iteration_count_impl() { return this->params_.iteration_count; }
    void get_state_impl(std::ostream& /*stream*/) {}
    void set_state_impl(std::istream& /*stream*/) {}
    void on_thread_block(rl::thread_id_t /*thread*/, bool /*yield*/) {}

private:
    /// A thread that can run; the sleeper only when all others have ended.
    rl::thread_id_t pick() {
        unsigned const count = static_cast<unsigned>(this->running_threads_count);
        unsigned const first = random(count);
        for (unsigned i = 0; i < count; ++i) {
            rl::thread_id_t const thread = this->running_threads[(first + i) % count];
            if (thread != sleeper_) return thread;
        }
        return this->running_threads[first];
    }
    /// splitmix64.
    unsigned random(unsigned limit) {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return static_cast<unsigned>((z ^ (z >> 31)) >> 32) % limit;
    }

    std::uint64_t state_ = 0;
    rl::thread_id_t sleeper_ = -1;  ///< who gets no step, or -1
    unsigned sleep_ = 0;            ///< for how many more
    unsigned rarity_ = 1;           ///< one step in so many puts a thread to sleep
};

}  // namespace mgi::relacy
