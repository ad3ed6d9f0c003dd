#include "mover/link/nic_board.hpp"

#include <random>
#include <utility>

#include <mgi/device/assert.hpp>

namespace mgi::mover::link {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Not 0.
std::uint64_t random_name() {
    std::random_device random;
    return std::uint64_t(random()) << 32 | random() | 1;
}

// The place of a NIC, taken if it has none yet; kNics: there is none left.
std::uint32_t place_of(NicWords& words, std::uint64_t name) {
    for (std::uint32_t place = 0; place < NicWords::kNics; ++place) {
        std::uint64_t known = 0;
        if (words.nics[place].compare_exchange_strong(known, name, kRelaxed) || known == name) {
            return place;
        }
    }
    return NicWords::kNics;
}

}  // namespace

NicBoard::NicBoard() : words_(std::make_shared<NicWords>()), name_(random_name()) {
    for (std::uint32_t nic = 0; nic < kNics; ++nic) places_[nic] = nic;
}

bool NicBoard::share(std::shared_ptr<NicWords> words, std::vector<std::uint64_t> const& names) {
    std::uint64_t layout = 0;
    if (!words->layout.compare_exchange_strong(layout, NicWords::kLayout, kRelaxed) &&
        layout != NicWords::kLayout) {
        return false;
    }
    auto places = places_;
    for (std::size_t nic = 0; nic < names.size(); ++nic) {
        places[nic] = place_of(*words, names[nic]);
        if (places[nic] == kNics) return false;
    }
    std::lock_guard const lock(mutex_);
    words_ = std::move(words);
    places_ = places;
    row_ = nullptr;
    return true;
}

void NicBoard::owner_is_busy(std::uint32_t nic, Time until) {
    auto& word = words_->busy_until[places_[nic]];
    Time known = word.load(kRelaxed);
    while (known < until && !word.compare_exchange_weak(known, until, kRelaxed)) {
    }
}

bool NicBoard::idle(std::uint32_t nic, Time now) const {
    Time const until = words_->busy_until[places_[nic]].load(kRelaxed);
    return until == 0 || now >= until + kIdleAfter;
}

// Null: there are more processes than rows. What this one borrows is then not known to others.
NicWords::Process* NicBoard::own_row(Time now) {
    // One that stood still for long finds its row taken.
    if (row_ != nullptr && row_->name.load(kRelaxed) == name_) return row_;
    row_ = nullptr;
    for (NicWords::Process& row : words_->processes) {
        std::uint64_t known = row.name.load(kRelaxed);
        if (known != 0 && row.heard.load(kRelaxed) + kGone > now) continue;
        if (!row.name.compare_exchange_strong(known, name_, kRelaxed)) continue;
        row.heard.store(now, kRelaxed);
        for (std::uint32_t place = 0; place < kNics; ++place) {
            row.lent[place].store(lent_at(place), kRelaxed);
        }
        row_ = &row;
        break;
    }
    return row_;
}

// The caller holds the mutex.
void NicBoard::say(std::uint32_t nic, Time now) {
    NicWords::Process* const row = own_row(now);
    if (row == nullptr) return;
    row->heard.store(now, kRelaxed);
    row->lent[places_[nic]].store(lent_at(places_[nic]), kRelaxed);
}

// By this process; the caller holds the mutex. A NIC may have been named twice.
std::uint64_t NicBoard::lent_at(std::uint32_t place) const {
    std::uint64_t sum = 0;
    for (std::uint32_t nic = 0; nic < kNics; ++nic) {
        if (places_[nic] == place) sum += lent_[nic];
    }
    return sum;
}

void NicBoard::lend(std::uint32_t nic, std::uint64_t bytes, Time now) {
    std::lock_guard const lock(mutex_);
    lent_[nic] += bytes;
    say(nic, now);
}

void NicBoard::give_back(std::uint32_t nic, std::uint64_t bytes, Time now) {
    std::lock_guard const lock(mutex_);
    MGI_ASSERT(lent_[nic] >= bytes, nic, lent_[nic], bytes);
    lent_[nic] -= bytes;
    say(nic, now);
}

std::uint64_t NicBoard::lent(std::uint32_t nic, Time now) const {
    std::lock_guard const lock(mutex_);
    std::uint64_t sum = lent_at(places_[nic]);
    for (NicWords::Process const& row : words_->processes) {
        std::uint64_t const name = row.name.load(kRelaxed);
        if (name == 0) break;  // rows are taken in order
        if (name == name_ || row.heard.load(kRelaxed) + kSilent <= now) continue;
        sum += row.lent[places_[nic]].load(kRelaxed);
    }
    return sum;
}

std::uint64_t NicBoard::lent_here(std::uint32_t nic) const {
    std::lock_guard const lock(mutex_);
    return lent_[nic];
}

}  // namespace mgi::mover::link
