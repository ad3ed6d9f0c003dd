// A lane as its mover sees it: by the lane's own words, or by its mail where those are a GPU's.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <mgi/device/state.hpp>

namespace mgi::mover {

template <class A>
class LaneEnd {
public:
    LaneEnd(device::ChannelState<A> const& state, std::uint32_t source, std::uint32_t lane)
        : lane_(state.sources[source].lanes[lane]),
          mail_(lane_.mail),
          mask_(lane_.mask),
          pool_(state.sources[source].pool),
          bit_bytes_(state.layout.bit_bytes) {
        if (mail_ == nullptr) return;
        for (std::uint32_t i = 0; i <= mask_; ++i) offsets_.push_back(lane_.slots[i].offset);
    }

    // Slots below this sequence may be brought away.
    [[nodiscard]] std::uint64_t published() const {
        // acquire: the rows of who filled them.
        return (mail_ != nullptr ? mail_->published : lane_.published).load(device::acquire);
    }
    // relaxed: a count is a fact.
    [[nodiscard]] std::uint64_t closed() const {
        return (mail_ != nullptr ? mail_->closed : lane_.closed).load(device::relaxed);
    }
    // Slots below this sequence are where they are to go, as this mover has said.
    [[nodiscard]] std::uint64_t delivered() const {
        return (mail_ != nullptr ? mail_->moved : lane_.delivered).load(device::relaxed);
    }
    void set_delivered(std::uint64_t sequence) {
        (mail_ != nullptr ? mail_->moved : lane_.delivered).store(sequence, device::release);
    }

    // Of a published slot that was not given back.
    [[nodiscard]] std::uint64_t content(std::uint64_t sequence) const {
        std::uint32_t const slot = std::uint32_t(sequence) & mask_;
        return (mail_ != nullptr ? mail_->contents[slot] : lane_.slots[slot].content)
            .load(device::relaxed);
    }
    [[nodiscard]] char* segment(std::uint64_t sequence) const {
        std::uint32_t const slot = std::uint32_t(sequence) & mask_;
        return pool_ + (mail_ != nullptr ? offsets_[slot] : lane_.slots[slot].offset);
    }
    // One move is done with a slot. With mail the lane's groups give it back, by `set_delivered`.
    void give_back(std::uint64_t sequence) {
        if (mail_ != nullptr) return;
        device::release_reads(lane_.slots[std::uint32_t(sequence) & mask_], 1, mask_ + 1,
                              [&](auto& slot) { std::memset(pool_ + slot.offset, 0, bit_bytes_); });
    }

private:
    device::Lane<A>& lane_;
    device::LaneMail<A>* const mail_;
    std::uint32_t const mask_;
    char* const pool_;
    std::size_t const bit_bytes_;
    std::vector<std::uint64_t> offsets_;  // by slot; with mail they never change
};

}  // namespace mgi::mover
