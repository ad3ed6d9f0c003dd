#include "mover/channel_links.hpp"

#include <algorithm>
#include <mutex>

#include "core/keep_largest.hpp"

namespace mgi::mover {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Those of a peer's flows that the link carries.
std::vector<Intake::SourceAndDestination> carried(
    ChannelPeer const& peer, std::vector<Intake::SourceAndDestination> const& flows) {
    return peer.in_place ? std::vector<Intake::SourceAndDestination>() : flows;
}

}  // namespace

// This process' end of a link.
class ChannelLinks::End final : public link::LinkOwner, public link::Carrier {
public:
    End(ChannelLinks& links, std::uint32_t credits, ChannelPeer const& peer)
        : links_(links),
          name_(peer.name),
          server_(peer.server),
          channel_(links.channel_),
          intake_(links.state_, links.channel_, carried(peer, peer.in), peer.placed, peer.direct),
          direct_(peer.direct.flows),
          attendance_(links.state_.destination_count) {
        for (auto const& name : peer.in) own_.insert(name.second);
        for (auto const& name : peer.out) theirs_.insert(name.second);
        for (auto const& name : carried(peer, peer.out)) {
            numbers_.emplace(name, flows_.size());
            flows_.push_back(std::make_unique<FarFlow>(credits));
        }
    }

    FarEnd far_end(Intake::SourceAndDestination const& name) {
        std::size_t const number = numbers_.at(name);
        return {channel_, this, flows_[number].get(), number};
    }
    Intake& intake() { return intake_; }
    Intake const& intake() const { return intake_; }
    [[nodiscard]] std::uint32_t server() const { return server_; }
    // Whether the process at the other end sends to a destination of this one.
    [[nodiscard]] bool serves(std::uint32_t destination) const {
        return own_.contains(destination);
    }
    void release() {
        if (!left_.load(kRelaxed) || releases_.exchange(true, kRelaxed)) return;
        say({channel_, std::uint32_t(ChannelWord::Released), 0, 0, 1, {}});
    }
    [[nodiscard]] bool is_released() const { return released_.load(kRelaxed); }

    void set_carrier(link::Carrier* carrier) {
        std::lock_guard const lock(mutex_);
        carrier_ = carrier;
    }
    // As a carrier. Without a link the channel is over, and nobody waits for it.
    void start(link::Transfer transfer) override {
        std::lock_guard const lock(mutex_);
        if (carrier_ != nullptr) carrier_->start(std::move(transfer));
    }
    void say(link::Word word) override {
        std::lock_guard const lock(mutex_);
        if (carrier_ != nullptr) carrier_->say(std::move(word));
    }

    bool target(link::Key const& key, std::uint64_t tag, std::uint64_t bytes,
                std::vector<iovec>& pieces) override {
        check_channel(key.channel);
        intake_.target(key, tag, bytes, pieces);
        return true;
    }
    [[nodiscard]] bool by_host(link::Key const& key) const override {
        return !direct_.contains({key.source, key.destination});
    }
    void arrived(link::Key const& key, std::uint64_t tag) override { intake_.arrived(key, tag); }
    void acknowledged(std::uint64_t token) override {
        flows_[token >> FarRoute::kSequenceBits]->acknowledge(token & FarRoute::kSequenceMask);
    }
    void word(link::Word const& word) override;
    void failed(ErrorCode code, std::string const& why) override {
        // Who has said farewell needs nothing of us; we need nothing more of it once all is here.
        if (left_.load(kRelaxed) && intake_.done()) return;
        links_.events_.failed(code, "its link to " + name_ + " is over: " + why);
    }

private:
    void check_channel(std::uint64_t channel) const {
        if (channel == channel_) return;
        throw Error(ErrorCode::Internal, "the other end broke the protocol: it spoke of channel " +
                                             std::to_string(channel));
    }

    ChannelLinks& links_;
    std::string const name_;
    std::uint32_t const server_;
    std::uint32_t const channel_;
    // Destinations: of this process, to which the other end sends, and the other way round.
    std::set<std::uint32_t> own_;
    std::set<std::uint32_t> theirs_;
    std::map<Intake::SourceAndDestination, std::size_t> numbers_;
    std::vector<std::unique_ptr<FarFlow>> flows_;
    Intake intake_;
    std::set<Intake::SourceAndDestination> const direct_;
    std::vector<std::uint64_t> attendance_;  // by destination: the latest; the link's thread alone
    std::atomic<bool> left_{false};          // the other end has said farewell
    std::atomic<bool> releases_{false};      // and was answered
    std::atomic<bool> released_{false};      // the other end has answered ours
    std::mutex mutex_;
    link::Carrier* carrier_ = nullptr;
};

void ChannelLinks::End::word(link::Word const& word) {
    check_channel(word.channel);
    Intake::SourceAndDestination const flow{word.source, word.destination};
    switch (ChannelWord(word.kind)) {
        case ChannelWord::Credit: {
            auto const at = numbers_.find(flow);
            if (at == numbers_.end()) break;
            return flows_[at->second]->allow(word.value);
        }
        case ChannelWord::End: return intake_.end(flow, word.value);
        case ChannelWord::Failure: {
            bool const known = word.value != 0 && word.value <= std::uint64_t(ErrorCode::Internal);
            return links_.events_.failed(known ? ErrorCode(word.value) : ErrorCode::Internal,
                                         word.text);
        }
        case ChannelWord::Attendance:
            if (!theirs_.contains(word.destination)) break;
            if (word.value <= attendance_[word.destination]) return;
            attendance_[word.destination] = word.value;
            return links_.events_.attended(word.destination, word.value % 2 != 0);
        case ChannelWord::Progress:
            if (word.source >= links_.progress_.size()) break;
            return links_.heard_progress(word.source, word.value);
        case ChannelWord::Farewell: left_.store(true, kRelaxed); return links_.events_.left();
        case ChannelWord::Released: released_.store(true, kRelaxed); return;
    }
    throw Error(ErrorCode::Internal, "the other end broke the protocol: word " +
                                         std::to_string(word.kind) + " about source number " +
                                         std::to_string(word.source) + " and destination number " +
                                         std::to_string(word.destination));
}

ChannelLinks::ChannelLinks(std::uint32_t channel, State& state, std::uint32_t credits,
                           std::vector<ChannelPeer> const& peers, std::uint32_t servers,
                           std::uint32_t here, ChannelEvents& events)
    : channel_(channel),
      state_(state),
      here_(here),
      events_(events),
      attendance_(state.destination_count),
      progress_(servers),
      said_progress_(servers) {
    for (ChannelPeer const& peer : peers) {
        ends_.push_back(std::make_unique<End>(*this, credits, peer));
        for (auto const& flow : carried(peer, peer.out)) {
            FarEnd& end = far_ends_.emplace(flow, ends_.back()->far_end(flow)).first->second;
            if (peer.placed.contains(flow)) end.ring = &rings_[flow];
            end.by_host = !peer.direct.flows.contains(flow);
        }
    }
}

ChannelLinks::~ChannelLinks() = default;

link::LinkOwner& ChannelLinks::owner(std::size_t peer) {
    return *ends_[peer];
}

void ChannelLinks::set_carrier(std::size_t peer, link::Carrier* carrier) {
    ends_[peer]->set_carrier(carrier);
}

std::unique_ptr<Route<device::LibcuAtomics>> ChannelLinks::route(
    std::uint32_t source, std::uint32_t lane, std::uint32_t destination, std::uint64_t nics,
    transport::Transport& transport, std::uint64_t index) {
    auto const at = far_ends_.find({source, destination});
    if (at == far_ends_.end()) return nullptr;
    FarEnd end = at->second;
    end.nics = nics;
    if (end.ring == nullptr) {
        return std::make_unique<FarRoute>(state_, source, lane, destination, end);
    }
    return std::make_unique<PlacedRoute>(state_, source, lane, destination, end, transport, index);
}

PlacedRing& ChannelLinks::ring(std::uint32_t source, std::uint32_t destination) {
    return rings_.at({source, destination});
}

bool ChannelLinks::say_credits() {
    if (state_.failed.load(device::relaxed) != 0) return false;
    bool moved = false;
    for (auto& end : ends_) moved |= end->intake().say_credits(*end);
    return moved;
}

bool ChannelLinks::all_is_here() const {
    return state_.failed.load(device::relaxed) != 0 ||
           std::all_of(ends_.begin(), ends_.end(),
                       [](auto const& end) { return end->intake().done(); });
}

void ChannelLinks::say(ChannelWord kind, std::uint64_t value, std::string_view text) {
    for (auto& end : ends_) {
        end->say({channel_, std::uint32_t(kind), 0, 0, value, std::string(text)});
    }
}

void ChannelLinks::say_failure(ErrorCode code, std::string const& why) {
    say(ChannelWord::Failure, std::uint64_t(code), why);
}

void ChannelLinks::say_farewell() {
    farewell_.store(true, kRelaxed);
    say(ChannelWord::Farewell, 1);
}

void ChannelLinks::release() {
    for (auto& end : ends_) end->release();
}

bool ChannelLinks::is_released(std::size_t peer) const {
    return ends_[peer]->is_released();
}

void ChannelLinks::say_attendance(std::uint32_t destination, bool is_attended) {
    if (farewell_.load(kRelaxed)) return;
    auto& known = attendance_[destination];
    std::uint64_t const last = known.load(kRelaxed);
    if (last != 0 && (last % 2 != 0) == is_attended) return;
    std::uint64_t const next = (last / 2 + 1) * 2 + (is_attended ? 1 : 0);
    known.store(next, kRelaxed);
    for (auto& end : ends_) {
        if (!end->serves(destination)) continue;
        end->say({channel_, std::uint32_t(ChannelWord::Attendance), 0, destination, next, {}});
    }
}

void ChannelLinks::say_progress(std::uint64_t value) {
    (void)keep_largest(progress_[here_], value);
    if (farewell_.load(kRelaxed)) return;
    for (std::uint32_t of = 0; of < progress_.size(); ++of) {
        std::uint64_t const known = progress_[of].load(kRelaxed);
        if (!keep_largest(said_progress_[of], known)) continue;
        for (auto& end : ends_) {
            if (end->server() == of) continue;
            end->say({channel_, std::uint32_t(ChannelWord::Progress), of, 0, known, {}});
        }
    }
}

void ChannelLinks::heard_progress(std::uint32_t server, std::uint64_t value) {
    if (server == here_ || !keep_largest(progress_[server], value)) return;
    std::uint64_t sum = 0;
    for (std::uint32_t of = 0; of < progress_.size(); ++of) {
        if (of != here_) sum += progress_[of].load(kRelaxed);
    }
    events_.progressed(sum);
}

bool ChannelLinks::has_said_end(std::uint32_t source) const {
    return std::all_of(far_ends_.begin(), far_ends_.end(), [&](auto const& entry) {
        return entry.first.first != source || entry.second.flow->ended();
    });
}

std::optional<bool> ChannelLinks::holds_segments(std::uint32_t source,
                                                 std::uint32_t destination) const {
    auto const flow = progress(source, destination);
    if (!flow) return std::nullopt;
    return flow->in_flight != 0 || !flow->has_credit;
}

std::optional<FarProgress> ChannelLinks::progress(std::uint32_t source,
                                                  std::uint32_t destination) const {
    auto const at = far_ends_.find({source, destination});
    if (at == far_ends_.end()) return std::nullopt;
    return at->second.flow->progress();
}

}  // namespace mgi::mover
