#include "control/state/shares.hpp"

#include <fmt/format.h>

#include <mgi/device/assert.hpp>

namespace mgi::control {

std::string Shares::refusal(std::string const& owner, std::size_t more) const {
    constexpr std::size_t kTimesWhatIsLeft = 3;
    std::size_t const mine = of(owner);
    bool const room = all_ <= most_ && more <= most_ - all_;
    // Rounded down, so that one or two are for everybody while there is room.
    if (room && (mine + more) / kTimesWhatIsLeft <= most_ - all_ - more) return {};
    // What others have is nobody's business.
    return fmt::format(
        "{}: the limit is {} for all; this one has {} and asks for {} more, and may have {} "
        "times what is left for others; {}",
        what_, most_, mine, more, kTimesWhatIsLeft, advice_);
}

void Shares::add(std::string const& owner, std::size_t amount) {
    if (amount == 0) return;
    by_owner_[owner] += amount;
    all_ += amount;
}

void Shares::remove(std::string const& owner, std::size_t amount) {
    if (amount == 0) return;
    auto const found = by_owner_.find(owner);
    MGI_ASSERT(found != by_owner_.end() && found->second >= amount && all_ >= amount, all_, amount);
    found->second -= amount;
    all_ -= amount;
    if (found->second == 0) by_owner_.erase(found);
}

std::size_t Shares::of(std::string const& owner) const {
    auto const found = by_owner_.find(owner);
    return found == by_owner_.end() ? 0 : found->second;
}

}  // namespace mgi::control
