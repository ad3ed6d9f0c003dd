/// \file
/// Whether the memory model fixes the order in which a word's writes come.
///
/// Relacy lets loads return stale values, but a word's writes come in the order in which it runs them,
/// and no load sees a write that is still to come: it delays neither stores nor loads. Machines do,
/// unless happens-before forbids it. So every write of every word is checked to leave them no choice;
/// then nothing was lost by not trying.
///
/// - A store of another value follows the store before it, or an exchange or addition that built on
///   that one: else it may take effect before that one, which then overwrites it. Of words whose loads count, a
///   load that returned it will do as well (coherence).
/// - An exchange or addition follows the newest store: else it may build on what was there before
///   that store, and be overwritten by it. A store that released it may acquire as it reads it.
/// - A store follows each load that somebody relied on (`rely_on_last_load`): else that load may be
///   late, and return what is stored here.
#pragma once

#include <array>

#include "relacy.hpp"

namespace mgi::relacy {

class WriteOrder {
public:
    static constexpr rl::thread_id_t kMostThreads = 8;
    /// By thread, how much of what it did comes before this thread's next step; 0 is nothing.
    using Clock = std::array<rl::timestamp_t, kMostThreads>;

    /// This thread makes the word.
    WriteOrder() { note(written_); }

    static Clock clock() {
        Clock now{};
        rl::context const& context = rl::ctx();
        for (rl::thread_id_t i = 0; i < context.get_thread_count(); ++i) {
            now[std::size_t(i)] = context.threadx_->acq_rel_order_[i];
        }
        return now;
    }

    /// This thread has just stored, `anew` when that changed the value. A store changes nothing of what
    /// comes before it.
    void stored(bool anew, bool released, rl::debug_info const& at) {
        Clock const now = clock();
        bool const follows = follows_any(now, written_) || follows_any(now, seen_);
        check(!anew || follows, "store before an earlier write", at);
        check(follows_all(now, relied_on_), "store seen by an earlier load", at);
        written_ = {};
        seen_ = {};
        relied_on_ = {};
        released_ = released;
        note(written_);
    }
    /// This thread, whose clock was `before`, has just replaced the newest value by another.
    void replaced(Clock const& before, rl::debug_info const& at) {
        check(follows_any(before, written_) || (released_ && follows_any(clock(), written_)),
              "update before an earlier store", at);
        note(written_);
    }
    /// From here on loads count: the thread that relies on one goes by its value alone.
    void count_loads() { loads_count_ = true; }
    /// This thread has just loaded, what was stored last or something older.
    void loaded(bool newest) {
        last_load()[me()] = {this, mine()};
        if (newest && loads_count_) note(seen_);
    }

    /// What this thread loaded last was of use to it.
    static void rely_on_last_load() {
        Load const& load = last_load()[me()];
        load.word->relied_on_[me()] = load.when;
    }

private:
    struct Load {
        WriteOrder* word = nullptr;
        rl::timestamp_t when = 0;
    };
    static std::array<Load, kMostThreads>& last_load() {
        static std::array<Load, kMostThreads> loads;
        return loads;
    }

    static std::size_t me() { return std::size_t(rl::ctx().threadx_->index_); }
    static rl::timestamp_t mine() { return rl::ctx().threadx_->own_acq_rel_order_; }
    static void check(bool ordered, char const* what, rl::debug_info const& at) {
        if (!ordered) rl::ctx().fail_test(what, rl::test_result_data_race, at);
    }

    /// A thread's first write counts: who follows that one follows the store it built on.
    static void note(Clock& first) {
        if (first[me()] == 0) first[me()] = mine();
    }
    static bool follows_any(Clock const& now, Clock const& events) {
        for (std::size_t i = 0; i < now.size(); ++i) {
            if (events[i] != 0 && events[i] <= now[i]) return true;
        }
        return false;
    }
    static bool follows_all(Clock const& now, Clock const& events) {
        for (std::size_t i = 0; i < now.size(); ++i) {
            if (events[i] > now[i]) return false;
        }
        return true;
    }

    Clock written_{};    ///< by thread, its first write since the newest store, that one included
    Clock seen_{};       ///< by thread, its first load that returned one of them
    Clock relied_on_{};  ///< by thread, its newest such load since then
    bool released_ = false;  ///< the newest store did
    bool loads_count_ = false;
};

/// What this thread loaded last was of use to it: that load must not be late.
inline void rely_on_last_load() {
    WriteOrder::rely_on_last_load();
}

}  // namespace mgi::relacy
