/// \file
/// A transport whose copies complete late and in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "tables.hpp"
#include "transport/transport.hpp"

namespace mgi::relacy {

/// Copies the checked variables of a segment, at the time at which it says that it is done.
class LateCopy final : public transport::Transport {
public:
    explicit LateCopy(Tables& tables) : tables_(tables) {}

    bool submit(transport::Copy const& copy) override {
        if (rl::rand(4) == 0) return false;
        copies_.push_back({copy.token, copy.from, copy.to});
        return true;
    }
    bool poll(std::vector<std::uint64_t>& complete) override {
        bool any = false;
        for (auto at = copies_.begin(); at != copies_.end();) {
            if (rl::rand(2) == 0) {
                ++at;
                continue;
            }
            for (u32 i = 0; i < tables_.options().capacity; ++i) {
                tables_.row(at->to, i).write(tables_.row(at->from, i).read());
            }
            complete.push_back(at->token);
            at = copies_.erase(at);
            any = true;
        }
        return any;
    }

    [[nodiscard]] bool links(char const*, char const*) const override { return true; }

private:
    struct Started {
        std::uint64_t token;
        char const* from;
        char* to;
    };
    Tables& tables_;
    std::vector<Started> copies_;
};

}  // namespace mgi::relacy
