/// \file
/// A transport whose copies are done late, in any order, and which is full now and then.
#pragma once

#include <cstring>
#include <vector>

#include "support/random.hpp"
#include "transport/transport.hpp"

namespace mgi::hostile {

class LateTransport : public transport::Transport {
public:
    explicit LateTransport(std::uint64_t seed) : random_(seed) {}

    bool submit(transport::Copy const& copy) override {
        if (random_.one_in(4)) return false;
        pending_.push_back({copy, {copy.ranges.begin(), copy.ranges.end()}});
        return true;
    }

    bool poll(std::vector<std::uint64_t>& complete) override {
        bool any = false;
        for (std::uint64_t tries = random_.below(4); tries != 0 && !pending_.empty(); --tries) {
            std::size_t const at = random_.below(pending_.size());
            for (memory::Range const& range : pending_[at].ranges) {
                std::memcpy(pending_[at].copy.to + range.offset,
                            pending_[at].copy.from + range.offset, range.bytes);
            }
            complete.push_back(pending_[at].copy.token);
            pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(at));
            any = true;
        }
        return any;
    }

    [[nodiscard]] bool links(char const*, char const*) const override { return true; }

private:
    struct Pending {
        transport::Copy copy;
        std::vector<memory::Range> ranges;
    };
    test::Random random_;
    std::vector<Pending> pending_;
};

}  // namespace mgi::hostile
