/// \file
/// Ids that are never given twice, whatever happens to the controller: they come in blocks that were
/// reserved where they last before the first of them is given.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "control/state/effects.hpp"

namespace mgi::control {

/// Ids [first, first + count) of one kind, this controller's alone.
struct IdBlock {
    std::uint32_t first = 1;
    std::uint32_t count = 0;
};
using IdBlocks = std::array<IdBlock, kIdKinds>;

class Ids {
public:
    explicit Ids(IdBlocks const& blocks);

    /// Nothing when the next block is late. The next one is asked for when this one is begun.
    std::optional<std::uint32_t> take(IdKind kind, Effects& effects);
    void add(IdKind kind, IdBlock block);
    /// The block was not to be had: the next `take` asks again.
    void failed(IdKind kind);

    /// Whether an earlier controller can have given this id.
    [[nodiscard]] bool earlier(IdKind kind, std::uint32_t id) const;
    /// Whether it can have been given by now.
    [[nodiscard]] bool given(IdKind kind, std::uint32_t id) const;

private:
    struct Pool {
        std::uint32_t first_ever = 1;
        IdBlock block;
        IdBlock spare;
        bool asked = false;
    };
    Pool& pool(IdKind kind) { return pools_[static_cast<std::size_t>(kind)]; }
    [[nodiscard]] Pool const& pool(IdKind kind) const {
        return pools_[static_cast<std::size_t>(kind)];
    }

    std::array<Pool, kIdKinds> pools_;
};

}  // namespace mgi::control
