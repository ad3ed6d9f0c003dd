#include "mover/way_copy.hpp"

#include <algorithm>

#include <mgi/device/assert.hpp>

#include "core/log.hpp"
#include "gpu/peers.hpp"

namespace mgi::mover {
namespace {

// Smaller copies say how long one takes to begin, not how fast a way is.
constexpr std::uint64_t kLeastMeasured = 64 << 10;
constexpr double kNewest = 0.25;  // of a measured rate, what the last look is worth

void take_load(Load& load, std::uint64_t bytes) {
    std::uint64_t const before = load.fetch_sub(bytes, std::memory_order_relaxed);
    MGI_ASSERT(before >= bytes, before, bytes);
}

}  // namespace

WayCopy::WayCopy(std::unique_ptr<transport::Engines> engines,
                 std::shared_ptr<transport::GpuMemories const> memories, Ways const& ways,
                 Clock clock, std::string who)
    : engines_(std::move(engines)),
      memories_(std::move(memories)),
      clock_(std::move(clock)),
      who_(std::move(who)) {
    for (auto const& [gpus, some] : ways) {
        Pair& pair = pairs_[gpus];
        pair.from = gpus.first;
        pair.to = gpus.second;
        for (Way const& way : some) {
            OpenWay& open = pair.ways.emplace_back();
            open.way = way;
            open.rate = way.rate;
        }
    }
}

WayCopy::Pair* WayCopy::pair_of(transport::Copy const& copy) {
    if (pairs_.empty()) return nullptr;
    auto const from = memories_->find(copy.from);
    auto const to = memories_->find(copy.to);
    if (!from || !to || from->imported || to->imported) return nullptr;
    auto const at = pairs_.find({from->on, to->on});
    return at == pairs_.end() ? nullptr : &at->second;
}

std::uint32_t WayCopy::take_flight(transport::Copy const& copy) {
    if (unused_.empty()) {
        unused_.push_back(std::uint32_t(flights_.size()));
        flights_.emplace_back();
    }
    std::uint32_t const number = unused_.back();
    Flight& flight = flights_[number];
    flight.token = copy.token;
    flight.from = copy.from;
    flight.to = copy.to;
    flight.ranges.assign(copy.ranges.begin(), copy.ranges.end());
    flight.bytes = 0;
    for (memory::Range const& range : copy.ranges) flight.bytes += range.bytes;
    flight.pair = copy.straight ? nullptr : pair_of(copy);
    flight.hop = 0;
    unused_.pop_back();
    return number;
}

bool WayCopy::submit(transport::Copy const& copy) {
    std::uint32_t const number = take_flight(copy);
    bool const begun = flights_[number].pair == nullptr ? start_hop(number) : depart(number);
    if (!begun) unused_.push_back(number);
    return begun;
}

// Sends it on its way, if there is room on the best one.
bool WayCopy::depart(std::uint32_t number) {
    Flight& flight = flights_[number];
    Pair& pair = *flight.pair;
    auto const by = choose_way(pair, flight.bytes);
    if (!by) return false;
    flight.by = by;
    flight.hop = 0;
    if (!start_hop(number)) {
        flight.by.reset();
        return false;
    }
    OpenWay& open = pair.ways[*by];
    pair.last = *by;
    open.last_used = clock_();
    if (open.way.counts->in_flight.value() == 0) {
        open.busy_since = open.last_used;
        open.measured = 0;
    }
    open.way.counts->in_flight.add(1);
    for (Load* const load : open.way.loads)
        load->fetch_add(flight.bytes, std::memory_order_relaxed);
    return true;
}

std::optional<std::uint32_t> WayCopy::choose_way(Pair const& pair, std::uint64_t bytes) {
    candidates_.clear();
    for (std::uint32_t i = 0; i < pair.ways.size(); ++i) {
        OpenWay const& open = pair.ways[i];
        if (open.failure) continue;
        Candidate& candidate = candidates_.emplace_back();
        candidate.slot = i;
        for (Load const* const load : open.way.loads) {
            // relaxed: a guess is enough.
            candidate.in_flight =
                std::max(candidate.in_flight, load->load(std::memory_order_relaxed));
        }
        candidate.window = UINT64_MAX;
        candidate.full = !open.way.relays.empty() && open.way.relays.front()->empty();
        candidate.rate = open.rate;
        candidate.relays = std::uint32_t(open.way.relays.size());
        candidate.last_used = open.last_used;
    }
    auto const choice = choose(candidates_, bytes, pair.last, clock_());
    if (!choice) return std::nullopt;
    return choice->slot;
}

// Brings it from where it is to the next relay, if that has a slot, or to its end.
bool WayCopy::start_hop(std::uint32_t number) {
    Flight& flight = flights_[number];
    FreeSlots* slots = nullptr;
    if (flight.by) {
        auto const& relays = flight.pair->ways[*flight.by].way.relays;
        if (flight.hop < relays.size()) slots = relays[flight.hop];
    }
    MGI_ASSERT(flight.next == nullptr, flight.next, flight.hop, number);
    if (slots != nullptr && slots->empty()) return false;
    char const* const from = flight.held != nullptr ? flight.held : flight.from;
    char* const to = slots != nullptr ? slots->back() : flight.to;
    if (!engines_->submit({number, from, to, flight.ranges})) return false;
    if (slots == nullptr) return true;
    flight.next = to;
    slots->pop_back();
    return true;
}

bool WayCopy::poll(std::vector<std::uint64_t>& complete) {
    over_.clear();
    failed_.clear();
    engines_->poll(over_, failed_);
    for (std::uint64_t const number : over_) arrived(std::uint32_t(number), complete);
    for (transport::FailedCopy const& copy : failed_) failed(copy);
    go_on();
    return !over_.empty() || !failed_.empty();
}

// A hop is behind it.
void WayCopy::arrived(std::uint32_t number, std::vector<std::uint64_t>& complete) {
    Flight& flight = flights_[number];
    if (flight.by) {
        OpenWay& open = flight.pair->ways[*flight.by];
        MGI_ASSERT(
            flight.hop < open.way.loads.size() && (flight.held != nullptr) == (flight.hop != 0),
            flight.hop, open.way.loads.size(), flight.held, number);
        take_load(*open.way.loads[flight.hop], flight.bytes);
        if (flight.held != nullptr) open.way.relays[flight.hop - 1]->push_back(flight.held);
        flight.held = std::exchange(flight.next, nullptr);
        ++flight.hop;
        if (flight.hop != open.way.loads.size()) {
            waiting_.push_back(number);
            return;
        }
        MGI_ASSERT(flight.held == nullptr, flight.held, flight.hop, number);
        open.way.counts->in_flight.take(1);
        open.way.counts->segments.add(1);
        open.way.counts->bytes.add(flight.bytes);
        open.measured += flight.bytes;
        measure(open, clock_());
        flight.by.reset();
    }
    complete.push_back(flight.token);
    unused_.push_back(number);
}

bool WayCopy::links(char const* from, char const* to) const {
    auto const here = memories_->find(from);
    auto const there = memories_->find(to);
    return here && there && !here->imported && !there->imported && here->on != there->on &&
           gpu::connect_peers(here->on, there->on);
}

void WayCopy::measure(OpenWay& way, std::uint64_t now) {
    if (way.measured < kLeastMeasured || now <= way.busy_since) return;
    double const rate = double(way.measured) / double(now - way.busy_since);
    way.rate += kNewest * (rate - way.rate);
    way.busy_since = now;
    way.measured = 0;
}

// The way is used no more; what was on it goes by another one, from its source.
void WayCopy::failed(transport::FailedCopy const& copy) {
    auto const number = std::uint32_t(copy.token);
    Flight& flight = flights_[number];
    if (!flight.by) throw Error(copy.error);
    Pair& pair = *flight.pair;
    OpenWay& open = pair.ways[*flight.by];
    bool const is_new = !open.failure;
    if (is_new) open.failure = copy.error;
    leave(flight);
    bool const over = std::all_of(pair.ways.begin(), pair.ways.end(),
                                  [](OpenWay const& one) { return one.failure.has_value(); });
    if (over) throw no_way(pair);
    if (is_new) {
        log::warn(
            "{}: no segment goes from cuda:{} to cuda:{} {} any more, the other ways carry on: {}",
            who_, pair.from, pair.to, open.way.name, copy.error.what());
    }
    waiting_.push_back(number);
}

// Gives back what it has of its way. No copy of it is under way.
void WayCopy::leave(Flight& flight) {
    OpenWay& open = flight.pair->ways[*flight.by];
    for (std::size_t hop = flight.hop; hop < open.way.loads.size(); ++hop) {
        take_load(*open.way.loads[hop], flight.bytes);
    }
    if (flight.held != nullptr) open.way.relays[flight.hop - 1]->push_back(flight.held);
    if (flight.next != nullptr) open.way.relays[flight.hop]->push_back(flight.next);
    flight.held = nullptr;
    flight.next = nullptr;
    open.way.counts->in_flight.take(1);
    flight.by.reset();
}

// Who waits for a slot of the next relay, or for another way than the one that has failed.
void WayCopy::go_on() {
    for (std::size_t left = waiting_.size(); left != 0; --left) {
        std::uint32_t const number = waiting_.front();
        waiting_.pop_front();
        Flight& flight = flights_[number];
        if (flight.by && flight.pair->ways[*flight.by].failure) leave(flight);
        bool const goes = flight.by ? start_hop(number) : depart(number);
        if (!goes) waiting_.push_back(number);
    }
}

Error WayCopy::no_way(Pair const& pair) {
    std::string text = "no way is left for segments from cuda:" + std::to_string(pair.from) +
                       " to cuda:" + std::to_string(pair.to) + " (";
    for (OpenWay const& open : pair.ways) {
        if (&open != &pair.ways.front()) text += "; ";
        text += open.way.name + ": " + open.failure->what();
    }
    text +=
        "); restart the process, without the GPU that fails (CUDA_VISIBLE_DEVICES) if it does so "
        "again";
    return {pair.ways.front().failure->code(), text};
}

}  // namespace mgi::mover
