#include "link/traffic.hpp"

#include <algorithm>

namespace mgi::test {

using mover::link::Key;
using mover::link::Transfer;
using mover::link::Word;

Traffic::Traffic(Network& network, int end, TrafficOptions const& options)
    : network_(network), end_(end), options_(options) {
    sending_.resize(options.flows);
    receiving_.resize(options.flows);
    for (Sending& flow : sending_) {
        flow.memory.resize(options.pool);
        flow.flying.resize(options.pool);
        flow.credits = options.pool;
    }
    for (Receiving& flow : receiving_) {
        flow.targets.resize(options.pool);
        for (std::uint64_t i = 0; i < options.pool; ++i) {
            flow.targets[i].memory.resize(options.most_bytes);
            flow.targets[i].sequence = i;
        }
    }
}

std::uint32_t Traffic::size_of(int from, std::uint32_t flow, std::uint64_t sequence) const {
    Random random(sequence * 1000 + flow * 10 + std::uint64_t(from));
    if (random.one_in(10)) return 0;
    return std::uint32_t(random.below(options_.most_bytes));
}

char Traffic::byte_of(int from, std::uint32_t flow, std::uint64_t sequence, std::size_t at) {
    std::uint64_t const mixed =
        (sequence * 0x9e3779b97f4a7c15ULL + flow * 77 + std::uint64_t(from) + at) *
        0xbf58476d1ce4e5b9ULL;
    return char(mixed >> 56);
}

void Traffic::complain(std::string const& what) {
    if (wrong_.empty()) wrong_ = "end " + std::to_string(end_) + ": " + what;
}

void Traffic::push() {
    if (failures_ != 0) return;
    for (std::uint32_t f = 0; f < options_.flows; ++f) {
        Sending& flow = sending_[f];
        while (flow.next != options_.segments && flow.next < flow.credits &&
               !flow.flying[flow.next % options_.pool]) {
            std::uint64_t const sequence = flow.next++;
            std::size_t const slot = sequence % options_.pool;
            flow.flying[slot] = true;
            auto& memory = flow.memory[slot];
            memory.resize(size_of(end_, f, sequence));
            for (std::size_t i = 0; i < memory.size(); ++i) {
                memory[i] = byte_of(end_, f, sequence, i);
            }
            Transfer transfer;
            transfer.key = {f / 2, f, f + 100, sequence};
            transfer.tag = sequence * 3;
            transfer.token = std::uint64_t(f) << 32 | sequence;
            transfer.nics = options_.nics;
            for (std::size_t at = 0; at < memory.size();) {
                std::size_t const piece =
                    std::min(memory.size() - at, 1 + network_.random.below(memory.size()));
                transfer.pieces.push_back({memory.data() + at, piece});
                at += piece;
            }
            network_.link(end_).start(std::move(transfer));
        }
        if (flow.next == options_.segments && !flow.ended) {
            flow.ended = true;
            network_.link(end_).say({f / 2, End, f, f + 100, options_.segments + 1, {}});
        }
    }
    network_.poke(end_);
}

bool Traffic::target(Key const& key, std::uint64_t tag, std::uint64_t bytes,
                     std::vector<iovec>& pieces) {
    Target& target = receiving_.at(key.source).targets[key.sequence % options_.pool];
    if (tag != key.sequence * 3) complain("a tag is another one's");
    if (bytes != size_of(1 - end_, key.source, key.sequence)) complain("a size is another one's");
    if (target.sequence != key.sequence || target.arrived) {
        complain("segment " + std::to_string(key.sequence) + " wants a target that holds " +
                 std::to_string(target.sequence));
        return false;
    }
    for (std::size_t at = 0; at < bytes;) {
        std::size_t const piece =
            std::min<std::size_t>(bytes - at, 1 + network_.random.below(bytes));
        pieces.push_back({target.memory.data() + at, piece});
        at += piece;
    }
    return true;
}

void Traffic::check(std::uint32_t flow, std::uint64_t sequence, char const* when) {
    auto const& memory = receiving_[flow].targets[sequence % options_.pool].memory;
    std::uint32_t const bytes = size_of(1 - end_, flow, sequence);
    for (std::size_t i = 0; i < bytes; ++i) {
        if (memory[i] != byte_of(1 - end_, flow, sequence, i)) {
            complain("byte " + std::to_string(i) + " of " + std::to_string(bytes) + " of segment " +
                     std::to_string(sequence) + " of flow " + std::to_string(flow) +
                     " is wrong when " + when);
            return;
        }
    }
}

void Traffic::arrived(Key const& key, std::uint64_t) {
    Target& target = receiving_[key.source].targets[key.sequence % options_.pool];
    if (target.sequence != key.sequence || target.arrived) {
        complain("segment " + std::to_string(key.sequence) + " arrived where " +
                 std::to_string(target.sequence) + " was awaited");
        return;
    }
    target.arrived = true;
    check(key.source, key.sequence, "it arrives");
    consume(key.source);
}

/// In sequence, one at a time, each for a while.
void Traffic::consume(std::uint32_t flow) {
    Receiving& receiving = receiving_[flow];
    Target& target = receiving.targets[receiving.taken % options_.pool];
    if (receiving.looking || !target.arrived || target.sequence != receiving.taken) return;
    receiving.looking = true;
    network_.at(network_.now + network_.random.below(options_.most_hold), [this, flow] {
        Receiving& it = receiving_[flow];
        Target& done = it.targets[it.taken % options_.pool];
        check(flow, it.taken, "its consumer has looked at it");
        std::fill(done.memory.begin(), done.memory.end(), char(0xee));
        done.arrived = false;
        done.sequence += options_.pool;
        ++it.taken;
        it.looking = false;
        if (failures_ == 0) {
            network_.link(end_).say(
                {flow / 2, Credit, flow, flow + 100, it.taken + options_.pool, {}});
        }
        network_.poke(end_);
        consume(flow);
    });
}

void Traffic::acknowledged(std::uint64_t token) {
    Sending& flow = sending_.at(token >> 32);
    std::size_t const slot = (token & 0xffffffff) % options_.pool;
    if (!flow.flying[slot]) complain("a segment is acknowledged twice");
    flow.flying[slot] = false;
    std::fill(flow.memory[slot].begin(), flow.memory[slot].end(), char(0xdd));
    ++flow.acknowledged;
    push();
}

void Traffic::word(Word const& word) {
    if (word.kind == Credit) {
        std::uint64_t& credits = sending_.at(word.source).credits;
        credits = std::max(credits, word.value);
        push();
    } else {
        receiving_.at(word.source).end = word.value;
    }
}

void Traffic::failed(ErrorCode, std::string const& why) {
    if (++failures_ != 1) complain("it fails twice");
    why_ = why;
}

bool Traffic::complete() const {
    return std::all_of(sending_.begin(), sending_.end(),
                       [&](Sending const& flow) {
                           return flow.ended && flow.acknowledged == options_.segments;
                       }) &&
           std::all_of(receiving_.begin(), receiving_.end(), [&](Receiving const& flow) {
               return flow.taken == options_.segments && flow.end == options_.segments + 1;
           });
}

}  // namespace mgi::test
