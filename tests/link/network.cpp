#include "link/network.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace mgi::test {

using mover::link::Command;
using mover::link::kMillisecond;
using mover::link::kNever;

void Network::connect(LinkOptions ones, LinkOptions twos, LinkOwner& first, LinkOwner& second) {
    for (std::uint32_t i = 0; i < ones.slots.size(); ++i) {
        rates_[i] = 0.01 * double(1 + random.below(100));
    }
    ones.dials = true;
    ends_[0].link = std::make_unique<Link>(std::move(ones), first, boards_[0], now);
    twos.dials = false;
    ends_[1].link = std::make_unique<Link>(std::move(twos), second, boards_[1], now);
    wake(0, now);
    wake(1, now);
}

void Network::at(Time when, std::function<void()> what) {
    events_.push({std::max(when, now), order_++, std::move(what)});
}

void Network::misfortune(std::uint32_t slot, int end) {
    switch (random.below(6)) {
        case 0: damage(slot, end); break;
        case 1: silence(slot, end); break;
        case 2: slow(slot, 0.001); break;
        case 3: freeze(end, now + random.below(15 * mover::link::kSecond)); break;
        default: reset(slot); break;
    }
}

void Network::run(Time until, std::function<bool()> const& done) {
    while (!events_.empty() && !done()) {
        Event const event = events_.top();
        if (event.when > until) return;
        events_.pop();
        now = event.when;
        ++steps;
        event.what();
    }
}

void Network::wake(int end, Time when) {
    when = std::max({when, now, ends_[end].frozen_until});
    if (when >= ends_[end].wake_at) return;
    ends_[end].wake_at = when;
    at(when, [this, end, when] {
        if (ends_[end].wake_at != when) return;
        ends_[end].wake_at = kNever;
        serve(end);
    });
}

/// A stopped process does later what it should do now.
bool Network::defer(int end, std::function<void()> what) {
    if (ends_[end].frozen_until <= now) return false;
    if (ends_[end].frozen_until != kNever) at(ends_[end].frozen_until, std::move(what));
    return true;
}

void Network::serve(int end) {
    if (defer(end, [this, end] { wake(end, now); })) return;
    Time const next = link(end).tick(now);
    obey(end);
    write(end);
    obey(end);
    if (next != kNever) wake(end, next);
}

void Network::obey(int end) {
    std::vector<Command> commands;
    link(end).take_commands(commands);
    for (Command const& command : commands) {
        if (command.kind == Command::Kind::Dial) {
            std::uint32_t const slot = command.slot;
            std::uint64_t const generation = command.generation;
            at(now + random.below(5 * kMillisecond), [=, this] { make(slot, generation); });
            continue;
        }
        for (WirePointer const& wire : wires_) {
            if (wire->slot != command.slot || wire->generation != command.generation) continue;
            wire->open[end] = false;
            bool const lost = wire->pipe[0].silent || wire->pipe[1].silent;
            link(end).answered(wire->slot, wire->generation, lost ? 0 : now, now);
            wake(end, now);
            hang_up(1 - end, wire, wire->delay + random.below(200 * kMillisecond),
                    "closed by peer");
        }
    }
    std::erase_if(wires_, [](WirePointer const& w) { return !w->open[0] && !w->open[1]; });
}

/// Each end learns of a new wire at its own time, or never.
void Network::make(std::uint32_t slot, std::uint64_t generation) {
    auto const tell = [=, this](int end, WirePointer const& wire) {
        auto what = [=, this] {
            if (link(end).opened(slot, generation, now)) {
                wire->open[end] = true;
                read(end, wire);
            } else {
                hang_up(1 - end, wire, wire->delay, "refused");
            }
            wake(end, now);
        };
        if (!defer(end, what)) what();
    };
    // Every dial is answered.
    auto const fail = [=, this](Time after, char const* why, std::uint32_t hop = 0) {
        at(now + after, [=, this] {
            auto what = [=, this] {
                link(0).not_made(slot, generation, hop, why, now);
                wake(0, now);
            };
            if (!defer(0, what)) what();
        });
    };
    ++dialed[slot];
    if (auto const hop = stops ? stops(slot, generation) : std::nullopt) {
        // Mostly that is known at once, here or where the relay is; or else it is waited for in vain.
        Time const most = random.one_in(10) ? 600 * kMillisecond : 20 * kMillisecond;
        fail(random.below(most), "it is not reached", *hop);
        return;
    }
    bool const frozen = ends_[0].frozen_until == kNever || ends_[1].frozen_until == kNever;
    if (dials_fail || frozen || random.one_in(20)) {
        fail(10 * kMillisecond, "nobody answers");
        return;
    }
    auto wire = std::make_shared<Wire>();
    wire->slot = slot;
    wire->generation = generation;
    wire->rate = rates_[slot];
    wire->delay = 1000 + random.below(random.one_in(3) ? 20 * kMillisecond : 200'000);
    wire->buffer = 1000 + random.below(64'000);
    wires_.push_back(wire);
    int const first = int(random.below(2));
    tell(first, wire);
    if (!wire->open[first] || random.one_in(20)) {
        // Refused, or its process is stopped; or the other one just does not hear of it.
        if (first == 1) fail(500 * kMillisecond, "no answer in time");
        return;
    }
    at(now + random.below(2 * kMillisecond), [=, this] { tell(1 - first, wire); });
}

Network::WirePointer Network::find(int end, std::uint32_t slot) {
    for (WirePointer const& wire : wires_) {
        if (wire->slot == slot && wire->open[end]) return wire;
    }
    return nullptr;
}

void Network::hang_up(int end, WirePointer const& wire, Time delay, std::string const& why) {
    at(now + delay, [=, this] {
        auto what = [=, this] {
            if (!wire->open[end]) return;
            read(end, wire);  // what came before the end of the stream
            if (!wire->open[end]) return;
            wire->open[end] = false;
            link(end).closed(wire->slot, wire->generation, why, now);
            wake(end, now);
        };
        if (!defer(end, what)) what();
    });
}

void Network::write(int end) {
    auto const wires = wires_;
    for (WirePointer const& wire : wires) {
        while (wire->open[end] && write_some(end, wire)) {
        }
    }
}

bool Network::write_some(int end, WirePointer const& wire) {
    Pipe& pipe = wire->pipe[end];
    std::array<iovec, 8> pieces{};
    std::size_t const count = link(end).gather(wire->slot, pieces, now);
    std::size_t const room = wire->buffer - std::min(wire->buffer, pipe.held);
    if (count == 0 || room == 0) return false;
    std::vector<char> bytes;
    std::size_t const most = std::min<std::size_t>(room, 1 + random.below(20'000));
    for (std::size_t i = 0; i < count && bytes.size() < most; ++i) {
        auto const* const from = static_cast<char const*>(pieces[i].iov_base);
        std::size_t const here = std::min(pieces[i].iov_len, most - bytes.size());
        bytes.insert(bytes.end(), from, from + here);
    }
    link(end).sent(wire->slot, bytes.size(), now);
    pipe.held += bytes.size();
    if (pipe.silent) return true;
    if (pipe.damaged && !bytes.empty()) {
        bytes[random.below(bytes.size())] ^= char(1U << random.below(8));
        pipe.damaged = false;
    }
    pipe.free = std::max(pipe.free, now) + Time(double(bytes.size()) / wire->rate);
    at(pipe.free + wire->delay,
       [this, end, wire, bytes = std::move(bytes)] { arrive(1 - end, wire, bytes); });
    return true;
}

void Network::arrive(int end, WirePointer const& wire, std::vector<char> bytes) {
    Pipe& pipe = wire->pipe[1 - end];
    if (pipe.silent) return;
    pipe.arrived.insert(pipe.arrived.end(), bytes.begin(), bytes.end());
    if (!defer(end, [=, this] { read(end, wire); })) read(end, wire);
}

void Network::read(int end, WirePointer const& wire) {
    Pipe& pipe = wire->pipe[1 - end];
    std::array<iovec, 4> pieces{};
    while (wire->open[end] && !pipe.arrived.empty()) {
        std::size_t const count = link(end).scatter(wire->slot, pieces);
        if (count == 0) break;
        std::size_t most = std::min<std::size_t>(pipe.arrived.size(), 1 + random.below(10'000));
        std::size_t taken = 0;
        for (std::size_t i = 0; i < count && most != 0; ++i) {
            std::size_t const here = std::min(pieces[i].iov_len, most);
            std::copy_n(pipe.arrived.begin(), here, static_cast<char*>(pieces[i].iov_base));
            pipe.arrived.erase(pipe.arrived.begin(), pipe.arrived.begin() + std::ptrdiff_t(here));
            taken += here;
            most -= here;
        }
        pipe.held -= taken;
        link(end).received(wire->slot, taken, now);
        if (link(end).last_trouble().find("is arriving on wire") != std::string::npos) {
            wrong = "a segment is sent again that may still land";
        }
        obey(end);
    }
    wake(end, now);
    wake(1 - end, now);  // there is room again
}

void Network::reset(std::uint32_t slot) {
    for (WirePointer const& wire : wires_) {
        if (wire->slot != slot) continue;
        wire->pipe[0].silent = wire->pipe[1].silent = true;
        hang_up(0, wire, random.below(50 * kMillisecond), "reset");
        hang_up(1, wire, random.below(50 * kMillisecond), "reset");
    }
}

void Network::silence(std::uint32_t slot, int way) {
    for (WirePointer const& wire : wires_) {
        if (wire->slot == slot) wire->pipe[way].silent = true;
    }
}

void Network::sever() {
    for (WirePointer const& wire : wires_) {
        if (stops(wire->slot, wire->generation)) {
            wire->pipe[0].silent = wire->pipe[1].silent = true;
        }
    }
}

void Network::slow(std::uint32_t slot, double rate) {
    rates_[slot] = rate;
    for (WirePointer const& wire : wires_) {
        if (wire->slot == slot) wire->rate = rate;
    }
}

void Network::damage(std::uint32_t slot, int way) {
    if (WirePointer const wire = find(way, slot)) wire->pipe[way].damaged = true;
}

void Network::freeze(int end, Time until) {
    ends_[end].frozen_until = until;
}

}  // namespace mgi::test
