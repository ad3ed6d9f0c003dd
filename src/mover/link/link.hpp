// A link: segments and words between two processes, over one or more wires. A state machine without
// I/O and clock: sockets drive it, or a test in virtual time.
//
// A transfer is kept until it is acknowledged. When a wire dies (its stream breaks, it carries nonsense,
// or the other end is not heard on it) each end closes it and then *reports*, over any other wire, how
// many numbered frames of it had arrived; until that report comes, transfers that were begun on it are
// in quarantine, since their bytes may still land in their targets. What had not arrived is sent
// again. Its slot rests and gets another wire. A link without any wire, or one where nothing that is
// awaited comes, is over after a time, for both ends.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mover/choice.hpp"
#include "mover/link/arrivals.hpp"
#include "mover/link/fair_queue.hpp"
#include "mover/link/nic_board.hpp"
#include "mover/link/receiver.hpp"
#include "mover/link/sender.hpp"
#include "mover/link/types.hpp"
#include "mover/link/wire_counts.hpp"
#include "mover/link/word_book.hpp"
#include "transport/wire/wire_client.hpp"

namespace mgi::mover::link {

// Used by one thread. `owner` and `board` outlive it.
class Link final : public transport::wire::WireClient, private FrameSink {
public:
    Link(LinkOptions options, LinkOwner& owner, NicBoard& board, Time now);
    ~Link() override;
    Link(Link const&) = delete;
    Link& operator=(Link const&) = delete;

    // Wires may be dialed from now on, and are awaited no longer than `link_limit`. What was started and
    // said before waits for them.
    void begin(Time now);

    // A channel's share of a link that is full, and of a NIC that other links of this process use, too; 1
    // if nothing is said.
    void set_weight(std::uint64_t channel, double weight) { queue_.set_weight(channel, weight); }
    // Takes a transfer; how many there are at a time is bounded by the channel's credits.
    void start(Transfer transfer);
    void say(Word word);
    // Ends the link, and tells the other end, as far as a wire is there to do so. The owner is not
    // called any more.
    void close(ErrorCode code, std::string const& why);
    // The link is over.
    [[nodiscard]] bool over() const { return over_; }
    // The other end has all that was started and said.
    [[nodiscard]] bool settled() const { return !outstanding(); }
    // There is a wire, or may be one in a moment: the last one ended, or the link began, not long ago.
    [[nodiscard]] bool hopeful(Time now) const;
    // Over, and nothing is left to be written.
    [[nodiscard]] bool finished() const;
    // What it is doing, a line for each slot: for logs and stall reports.
    [[nodiscard]] std::string describe(Time now) const;
    // Why the last wire ended, or could not be made.
    [[nodiscard]] std::string const& last_trouble() const { return last_trouble_; }
    // For any thread, and for as long as it likes.
    [[nodiscard]] std::shared_ptr<LinkCounts const> counts() const { return counts_; }

    bool opened(std::uint32_t slot, std::uint64_t generation, Time now) override;
    void not_made(std::uint32_t slot, std::uint64_t generation, std::uint32_t hop,
                  std::string const& why, Time now) override;
    void closed(std::uint32_t slot, std::uint64_t generation, std::string const& why,
                Time now) override;
    void answered(std::uint32_t slot, std::uint64_t generation, Time when, Time now) override;
    std::size_t gather(std::uint32_t slot, std::span<iovec> pieces, Time now) override;
    void sent(std::uint32_t slot, std::size_t bytes, Time now) override;
    std::size_t scatter(std::uint32_t slot, std::span<iovec> pieces) override;
    void received(std::uint32_t slot, std::size_t bytes, Time now) override;
    Time tick(Time now) override;
    void take_commands(std::vector<Command>& commands) override;

private:
    enum class State : std::uint8_t { Resting, Dialing, Open, Leaving };
    // What is said waits so long for more to say. Of words less: a thread that ends a channel waits for that.
    static constexpr Time kSayAfter = 5 * kMillisecond;
    static constexpr Time kWordsTogether = kMillisecond / 4;
    struct Slot {
        State state = State::Resting;
        std::uint64_t generation = 0;
        std::map<std::uint64_t, std::uint64_t> reported;  // by generation: what had arrived
        WireSender out;
        WireReceiver in;
        double rate = 1.0;
        bool measured = false;
        std::uint64_t window =
            0;  // grows as it is used, so that a slow wire does not get much at first
        Time last_used = 0;
        std::uint64_t lent = 0;  // bytes on their way on a NIC that is another device's
        NicShares::Load load;    // as the board knows it
        Time opened = 0;
        Time missing_since = 0;    // it has had no wire; kNever: it has one
        Time slow_since = kNever;  // it has been far slower than others
        Time came = 0;             // a segment began to arrive
        std::uint64_t looked = 0;  // no way of a generation up to this one is worth a dial
        Time heard = 0;            // something came
        Time progress = 0;         // something was acknowledged, or there was nothing to be
        Time lag = 0;              // since then, as far as other wires were heard
        Time lag_at = 0;
        Time said = 0;  // we acknowledged
        Time say_by = kNever;
        Time together_until = 0;  // words that arrive before are acknowledged then
        std::uint64_t said_bytes = 0;
        Time rest = 0;
        Time rest_until = 0;
    };
    // Transfers begun on a wire that is dead.
    struct Quarantine {
        std::deque<std::pair<std::uint64_t, Flight>> flights;  // with their numbers
        std::uint64_t written = 0;
        Time since = 0;
    };
    using WireName = std::pair<std::uint32_t, std::uint64_t>;  // slot, generation
    // A hop that did not lead on.
    struct DeadEnd {
        Time seen = 0;
        Time rest = 0;  // until it is tried again; twice as long each time
    };

    // link.cpp
    [[nodiscard]] bool outstanding() const;
    void assign(Time now);
    void assign_words(Time now);
    void list_candidates(Transfer const& transfer, Time now);
    void leave_to_others(Transfer const& transfer, Time now);
    [[nodiscard]] NicShares::Wish wish_of(Transfer const& transfer, std::uint32_t slot) const;
    void give(std::uint32_t slot, Flight flight, Time now);
    void note_owner(std::uint32_t slot, Time now);
    void note_load(std::uint32_t slot);
    void let_go(std::uint32_t slot);
    void use(std::uint32_t slot, Time now);
    void give_back(std::uint32_t slot, Flight const& flight);
    void finish(std::uint32_t slot, Flight const& flight);
    void fail(ErrorCode code, std::string const& why);
    void settle();

    // link_wires.cpp
    void down(std::uint32_t slot, std::string const& why, bool still_open);
    void count_lag(std::uint32_t heard, Time now);
    void note_progress(Slot& slot) const;
    void watch(std::uint32_t slot, Time now);
    void dial(std::uint32_t slot, Time now);
    [[nodiscard]] Time next_time(std::uint32_t slot) const;
    void leave(std::uint64_t code, std::string const& why);

    // link_spares.cpp
    [[nodiscard]] bool is_spare(std::uint32_t slot) const {
        return options_.slots[slot].is_spare();
    }
    [[nodiscard]] Way way_of(std::uint32_t slot, std::uint64_t generation) const;
    [[nodiscard]] Way way_of(std::uint32_t slot) const {
        return way_of(slot, slots_[slot].generation);
    }
    [[nodiscard]] std::string name_of(std::uint32_t slot) const;
    [[nodiscard]] Time idle_since(Way const& way) const;
    [[nodiscard]] bool usable(std::uint32_t slot) const;
    [[nodiscard]] bool is_dead_end(Hop const& hop, Time now) const;
    void note_dead_end(Hop const& hop, Time now);
    [[nodiscard]] std::uint64_t next_generation(std::uint32_t slot, Time now);
    void compare_rates(Time now);
    void look_at_spares(Time now);

    // link_frames.cpp
    void take_in(std::uint32_t slot, std::size_t bytes);
    std::optional<std::string> begins(Header const& header, std::vector<iovec>& pieces) override;
    [[nodiscard]] bool by_host(Header const& header) const override;
    std::optional<std::string> complete(Header const& header, std::string_view text) override;
    std::string spoiled(Header const& header) override;
    std::optional<std::string> take_report(Header const& header);
    std::optional<std::string> take_ack(Header const& header);
    void measure(Slot& slot, WireSender::Done const& done) const;
    void report(std::uint32_t slot, std::uint64_t generation, std::uint64_t frames);

    LinkOptions options_;
    LinkOwner& owner_;
    NicBoard& board_;
    std::vector<Slot> slots_;
    std::shared_ptr<LinkCounts> const counts_;
    FairQueue queue_;
    WordBook book_;
    Arrivals arrivals_;
    std::map<WireName, Quarantine> quarantine_;
    std::map<Hop, DeadEnd> dead_ends_;
    std::vector<Command> commands_;
    std::vector<Candidate> candidates_;
    std::vector<WireSender::Done> done_;
    std::array<char, 4096> nowhere_;
    Time now_;
    Time no_wire_since_;
    Time still_since_ =
        kNever;      // the other end's process has said nothing, though its machine answers
    Time progress_;  // something was acknowledged, or nothing was outstanding
    std::string last_trouble_;
    std::uint32_t current_ = 0;  // the slot whose bytes are being taken in
    std::uint32_t last_choice_ = 0;
    bool held_ = false;      // a wire had room, but it was another channel's turn on its NIC
    Time look_at_ = kNever;  // at spare slots; when awake anyway
    Time wanted_at_ = 0;     // segments waited for wires, as seen then
    bool degraded_ = true;   // then in any case: direct wires are gone or slow, or spare ones there
    bool begun_ = false;
    bool inside_ = false;  // the owner may be being called
    bool over_ = false;
    bool told_ = true;  // the owner knows that it is over, or need not
    ErrorCode code_ = ErrorCode::Ok;
    std::string why_;
};

}  // namespace mgi::mover::link
