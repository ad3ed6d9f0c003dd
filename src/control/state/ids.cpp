#include "control/state/ids.hpp"

namespace mgi::control {

char const* to_string(IdKind kind) noexcept {
    switch (kind) {
        case IdKind::Agent: return "agent";
        case IdKind::Endpoint: return "endpoint";
        case IdKind::Channel: return "channel";
    }
    return "?";
}

Ids::Ids(IdBlocks const& blocks) {
    for (std::size_t i = 0; i < kIdKinds; ++i) {
        pools_[i].first_ever = blocks[i].first;
        pools_[i].block = blocks[i];
    }
}

std::optional<std::uint32_t> Ids::take(IdKind kind, Effects& effects) {
    Pool& p = pool(kind);
    if (p.block.count == 0 && p.spare.count > 0) {
        p.block = p.spare;
        p.spare = {};
    }
    std::optional<std::uint32_t> id;
    if (p.block.count > 0) {
        id = p.block.first++;
        --p.block.count;
    }
    // A block is asked for as soon as there is no other one behind this: that is early enough, and
    // each block is asked for once.
    if (p.spare.count == 0 && !p.asked) {
        p.asked = true;
        effects.emplace_back(Reserve{kind});
    }
    return id;
}

void Ids::add(IdKind kind, IdBlock block) {
    Pool& p = pool(kind);
    p.asked = false;
    p.spare = block;
}

void Ids::failed(IdKind kind) {
    pool(kind).asked = false;
}

bool Ids::earlier(IdKind kind, std::uint32_t id) const {
    return id >= 1 && id < pool(kind).first_ever;
}

bool Ids::given(IdKind kind, std::uint32_t id) const {
    return id >= 1 && id < pool(kind).block.first;
}

}  // namespace mgi::control
