// Transfers that wait for a wire: channels share a link by their weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <mgi/device/assert.hpp>

#include "mover/link/types.hpp"

namespace mgi::mover::link {

// Start-time fair queueing: a channel's clock goes on by bytes / weight with each transfer, and the
// one whose clock is behind is next. One that has been idle starts where the others are.
class FairQueue {
public:
    void set_weight(std::uint64_t channel, double weight) {
        MGI_ASSERT(weight > 0, weight, channel);
        channels_[channel].weight = weight;
    }
    [[nodiscard]] double weight(std::uint64_t channel) const {
        auto const at = channels_.find(channel);
        return at == channels_.end() ? 1.0 : at->second.weight;
    }

    void push(Transfer transfer) {
        Waiting& waiting = channels_[transfer.key.channel];
        if (waiting.transfers.empty()) waiting.clock = std::max(waiting.clock, clock_);
        waiting.transfers.push_back(std::move(transfer));
        ++size_;
    }
    // One that was on its way already: comes next in its channel.
    void push_again(Transfer transfer) {
        Waiting& waiting = channels_[transfer.key.channel];
        if (waiting.transfers.empty()) waiting.clock = std::max(waiting.clock, clock_);
        waiting.transfers.push_front(std::move(transfer));
        ++size_;
    }

    // Offers each channel's first transfer, the channel that is most behind first, until `take` says
    // true; it then has moved the transfer away. Returns whether one was taken.
    template <class Take>
    bool offer(Take&& take) {
        order_.clear();
        for (auto& [id, waiting] : channels_) {
            if (!waiting.transfers.empty()) order_.push_back(&waiting);
        }
        std::sort(order_.begin(), order_.end(),
                  [](Waiting const* a, Waiting const* b) { return a->clock < b->clock; });
        for (Waiting* const waiting : order_) {
            std::uint64_t const bytes = waiting->transfers.front().bytes();
            if (!take(waiting->transfers.front())) continue;
            MGI_ASSERT(size_ != 0 && !waiting->transfers.empty(), size_, waiting->transfers.size());
            waiting->transfers.pop_front();
            --size_;
            clock_ = std::max(clock_, waiting->clock);
            waiting->clock += double(bytes + kEach) / waiting->weight;
            return true;
        }
        return false;
    }

    void clear() {
        channels_.clear();
        size_ = 0;
    }
    [[nodiscard]] std::size_t size() const { return size_; }

private:
    static constexpr std::uint64_t kEach = 256;  // what a transfer costs beside its bytes
    struct Waiting {
        std::deque<Transfer> transfers;
        double weight = 1.0;
        double clock = 0;
    };
    std::map<std::uint64_t, Waiting> channels_;
    std::vector<Waiting*> order_;
    double clock_ = 0;
    std::size_t size_ = 0;
};

}  // namespace mgi::mover::link
