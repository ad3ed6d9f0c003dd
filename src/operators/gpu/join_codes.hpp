// The key codes of a join on GPUs.
#pragma once

#include "operators/gpu/compared_keys.hpp"
#include "operators/gpu/facts.hpp"
#include "operators/gpu/join_kernels.hpp"

namespace mgi::operators::on_gpu {

// The key codes of both sides: alike, so that equal keys have equal words. Columns are those of `JoinRules::needed`.
struct JoinCodes {
    JoinCodes(JoinRules const& rules, ComparedSide const& left_side,
              ComparedSide const& right_side) {
        Input const& left = left_side.input();
        Input const& right = right_side.input();
        std::vector<KeyPart> parts;
        std::vector<KeyPart> others;
        for (u32 k = 0; k < rules.keys.left.size(); ++k) {
            Field const& a = left.schema()[left_side.keys()[k]];
            Field const& b = right.schema()[right_side.keys()[k]];
            // A null matches nothing, and needs no bit.
            add_key(left.what(), parts, k, a, false);
            add_key(right.what(), others, k, b, false);
            if (a.type.is_integer() || a.type.is_float()) {
                if (a.type != b.type) parts.back().bits = others.back().bits = 64;
                parts.back().drop_top_bit = others.back().drop_top_bit =
                    signs_differ(a.type, b.type);
            }
        }
        probe = code_of(rules.roles.build_left ? others : parts);
        build = code_of(rules.roles.build_left ? parts : others);
        for (u32 k = 0; k < probe.count; ++k)
            probe.parts[k].nullable = build.parts[k].nullable = true;
    }
    [[nodiscard]] Keys kind() const {
        bool const one_text = build.texts == 1 && build.count == 2;
        return one_text ? Keys::Text : build.words > 1 ? Keys::Words : Keys::Word;
    }

    KeyCode probe;
    KeyCode build;
};

}  // namespace mgi::operators::on_gpu
