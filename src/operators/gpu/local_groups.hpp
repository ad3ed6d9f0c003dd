// The few groups that most rows belong to, in a group's own scratch: so that thousands of threads do not
// queue up for the same word of the table. Every state is there in several copies, each for some of the
// group's threads. One source for g++ and nvcc.
#pragma once

#include "operators/gpu/fold.hpp"
#include "operators/gpu/hash_table.hpp"
#include "operators/gpu/row_states.hpp"

namespace mgi::operators::on_gpu {

class LocalGroups {
public:
    static constexpr u32 kKeys = 64;
    static constexpr u32 kSlots = kKeys + HashTable::kSpecials;
    static constexpr u32 kProbes = 8;
    // Of scratch: of a kernel that only folds; of one with a channel, which leaves less where two groups are to
    // fit a multiprocessor.
    static constexpr u32 kMostBytes = 24 << 10;
    static constexpr u32 kMostBesideChannel = 8 << 10;

    // Copies of each state so that all fit; none where even one would not.
    static constexpr u32 copies_for(u32 key_words, bool wide, u32 state_words, u32 most_bytes) {
        u32 const directory = kSlots * 8 * (key_words + (wide ? 1 : 0));
        u32 const each = kSlots * 8 * (state_words == 0 ? 1 : state_words);
        for (u32 copies = 32; copies != 0; copies /= 2) {
            if (directory + copies * each + 64 <= most_bytes) return copies;
        }
        return 0;
    }

    // Takes its room from the scratch, which the group's threads do alike, and empties it.
    MGI_HD LocalGroups(device::Group const& group, device::Shared& shared, KeyCode const& code,
                       bool wide, States const& states, u32 copies)
        : states_(states), wide_(wide), copies_(copies) {
        words_ = shared.take<Words>(1);
        if (group.leads()) *words_ = {};
        if (copies == 0) return;
        directory_.stride = 8 * (code.words + (wide ? 1 : 0));
        directory_.value_offset = 0;
        directory_.capacity = kKeys;
        directory_.most_probes = kProbes;
        u32 const words = directory_.stride / 8;
        u64* const directory = shared.take<u64>(kSlots * words);
        at_ = shared.take<u64>(kSlots * states.words * copies);
        directory_.entries = reinterpret_cast<char*>(directory);
        for (u32 i = group.thread; i < kSlots * words; i += group.threads) {
            directory[i] = wide ? HashTable::kEmpty : kNoKey;
        }
        for (u32 s = 0; s < states.count; ++s) {
            for (u32 w = 0; w < words_of(states.all[s].fold); ++w) {
                u64* const of = at_ + u64{states.all[s].place + w} * copies;
                for (u32 i = group.thread; i < kSlots * copies; i += group.threads) {
                    of[u64{i / copies} * states.words * copies + i % copies] =
                        empty_word(states.all[s].fold, w);
                }
            }
        }
        group.sync();
    }
    static u32 scratch_bytes(u32 key_words, bool wide, u32 state_words, u32 copies) {
        u32 const directory = kSlots * 8 * (key_words + (wide ? 1 : 0));
        return 64 + (copies == 0 ? 0 : directory + kSlots * 8 * state_words * copies + 64);
    }

    [[nodiscard]] MGI_HD bool on() const { return copies_ != 0; }
    [[nodiscard]] MGI_HD HashTable const& directory() const { return directory_; }
    // A thread's copy of the states of a slot; their words are `step` apart.
    [[nodiscard]] MGI_HD u64* states(device::Group const& group, u64 slot) const {
        return at_ + slot * states_.words * copies_ + group.thread % copies_;
    }
    [[nodiscard]] MGI_HD u64 step() const { return copies_; }

    // By the whole group now and then, with how many rows its threads had and how many of them found no
    // room here: where most did not, looking costs more than it brings.
    MGI_HD void adapt(device::Group const& group, u32 rows, u32 missed) {
        group.sync();
        if (group.leads()) words_->missed = 0;
        group.sync();
        device::shared_add(&words_->missed, missed);
        group.sync();
        if (words_->missed > rows / 4 * 3) looking_ = false;
    }
    [[nodiscard]] MGI_HD bool looking() const { return looking_ && on(); }

    // Folds all that is here into the table. `part`: the columns of the rows that states name. False if the table is too full.
    template <bool kWide, StateKinds kKinds>
    MGI_HD bool merge(device::Group const& group, HashTable const& table, KeyCode const& code,
                      ColumnView const* part, u32& added) {
        group.sync();
        bool there = true;
        if (!on()) return there;
        for (u32 slot = group.thread; slot < kSlots; slot += group.threads) {
            if (!directory_.is_used(slot, kWide)) continue;
            u64 const* const key = directory_.key_words(slot, kWide);
            u64 index;
            if constexpr (kWide) {
                index = insert_words(table, key, code, added);
            } else {
                Special const special = slot < kKeys ? Special::None : Special(slot - kKeys + 1);
                index = insert_key(table, *key, special, added);
            }
            if (index == kNotThere) {
                there = false;
                continue;
            }
            u64 const* const from = at_ + u64{slot} * states_.words * copies_;
            for (u32 s = 0; s < states_.count; ++s) {
                State const& state = states_.all[s];
                u64* const to = table.values(index) + state.place;
                for (u32 c = 0; c < copies_; ++c) {
                    u64 const* const word = from + u64{state.place} * copies_ + c;
                    if constexpr (kKinds == StateKinds::Rows) {
                        if (names_row(state.fold)) {
                            fold_named_row(state, to, part, *word);
                            continue;
                        }
                    }
                    fold_state<kKinds != StateKinds::Common>(state.fold, to, word, copies_);
                }
            }
        }
        return there;
    }

private:
    struct Words {
        u32 missed;
    };
    States const& states_;
    bool const wide_;
    u32 const copies_;
    bool looking_ = true;
    HashTable directory_;
    u64* at_ = nullptr;
    Words* words_ = nullptr;
};

}  // namespace mgi::operators::on_gpu
