/// \file
/// All kinds of join, and the ways in which one of them may bring rows together.
#pragma once

#include <vector>

#include <mgi/operators.hpp>

namespace mgi::test {

inline constexpr JoinKind kKinds[] = {JoinKind::Inner, JoinKind::Left, JoinKind::Right,
                                      JoinKind::Full,  JoinKind::Semi, JoinKind::Anti};

/// Those that a join of this kind over so many endpoints does not refuse.
inline std::vector<Broadcast> broadcasts_of(JoinKind kind, std::size_t endpoints) {
    if (kind == JoinKind::Full && endpoints > 1) return {Broadcast::Auto, Broadcast::Off};
    return {Broadcast::Auto, Broadcast::Off, Broadcast::On};
}

template <class Random>
Broadcast random_broadcast(JoinKind kind, std::size_t endpoints, Random& random) {
    auto const all = broadcasts_of(kind, endpoints);
    return all[random.below(all.size())];
}

/// The side that is built then: "left" or "right".
inline char const* built_by(JoinSpec const& spec, std::size_t endpoints, std::size_t left_rows,
                            std::size_t right_rows) {
    if (spec.broadcast == Broadcast::On && endpoints > 1) {
        if (spec.kind == JoinKind::Right) return "left";
        if (spec.kind != JoinKind::Inner) return "right";
    }
    return left_rows < right_rows ? "left" : "right";
}

}  // namespace mgi::test
