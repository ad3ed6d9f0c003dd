// Who uses this server's NICs. A device's own NIC is its own first; others borrow it while it is idle,
// and with few bytes at a time, so that an owner that begins to send waits for little (FuseLink).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "mover/link/nic_shares.hpp"
#include "mover/link/nic_words.hpp"
#include "mover/link/types.hpp"

namespace mgi::mover::link {

// Shared by all links of a process; thread-safe, but for `share`. NICs are numbered as this process does.
class NicBoard {
public:
    static constexpr std::uint32_t kNics = NicWords::kNics;
    // A NIC is idle when its owners have had nothing on their way for so long.
    static constexpr Time kIdleAfter = 2 * kMillisecond;
    // What a process has borrowed counts no more when it has not lent or given back for so long: it is
    // dead, or its wire is.
    static constexpr Time kSilent = kSecond;
    // And its row is another's.
    static constexpr Time kGone = 10 * kSecond;

    NicBoard();

    // From now on words are said in `words`, which other processes read and write, too; NIC n of this
    // process is what all of them call `names[n]`, not 0. Before there is a link. False: those words are
    // of another layout, or about as many NICs as they can be, and the board stays as it was.
    bool share(std::shared_ptr<NicWords> words, std::vector<std::uint64_t> const& names);

    // An owner uses it, and has enough on its way until then.
    void owner_is_busy(std::uint32_t nic, Time until);
    [[nodiscard]] bool idle(std::uint32_t nic, Time now) const;
    void lend(std::uint32_t nic, std::uint64_t bytes, Time now);
    void give_back(std::uint32_t nic, std::uint64_t bytes, Time now);
    // By all processes.
    [[nodiscard]] std::uint64_t lent(std::uint32_t nic, Time now) const;
    // By this one.
    [[nodiscard]] std::uint64_t lent_here(std::uint32_t nic) const;

    // How the channels of this process share each NIC.
    [[nodiscard]] NicShares& shares() { return shares_; }

private:
    void say(std::uint32_t nic, Time now);
    NicWords::Process* own_row(Time now);
    [[nodiscard]] std::uint64_t lent_at(std::uint32_t place) const;

    std::shared_ptr<NicWords> words_;
    std::array<std::uint32_t, kNics>
        places_{};              // by NIC of this process: where it stands in the words
    std::uint64_t const name_;  // of this process
    mutable std::mutex mutex_;
    NicWords::Process* row_ = nullptr;  // in which it says what it has borrowed
    std::array<std::uint64_t, kNics> lent_{};
    NicShares shares_;
};

}  // namespace mgi::mover::link
