// What a join on GPUs compares and gives out. Names and rules are those of joins on CPU devices.
#pragma once

#include "operators/gpu/facts.hpp"
#include "operators/gpu/join_kernels.hpp"

namespace mgi::operators::on_gpu {

struct JoinPlan {
    JoinKeys keys;
    JoinShape shape;
    JoinRoles roles;
    std::vector<JoinedColumn> columns;

    JoinPlan(Operation const& operation, Input const& left, Input const& right,
             JoinSpec const& spec)
        : keys(operation.what(), left, right, spec, operation.options().hash),
          shape(shape_of(spec.kind)),
          roles(spec.kind, left.rows(), right.rows()),
          columns(joined_columns(operation.what(), left, right, spec, keys)) {}

    // Keys and columns of a side, each once; keys come first.
    [[nodiscard]] std::vector<u32> needed(bool left) const {
        std::vector<u32> needed = keys.of(left);
        for (JoinedColumn const& column : columns) {
            u32 const wanted = source(column, left);
            bool const there = std::find(needed.begin(), needed.end(), wanted) != needed.end();
            if (wanted != JoinedColumn::kNone && !there) needed.push_back(wanted);
        }
        return needed;
    }
    // The column of a side that a result's column comes from; kNone.
    [[nodiscard]] static u32 source(JoinedColumn const& column, bool left) {
        if (column.left == left) return column.column;
        return left ? JoinedColumn::kNone : column.right_key;
    }
};

// The key codes of both sides: alike, so that equal keys have equal words. Columns are those of `needed`.
struct JoinCodes {
    JoinCodes(JoinPlan const& plan, Input const& left, Input const& right) {
        std::vector<KeyPart> parts;
        std::vector<KeyPart> others;
        for (u32 k = 0; k < plan.keys.left.size(); ++k) {
            Field const& a = left.schema()[plan.keys.left[k]];
            Field const& b = right.schema()[plan.keys.right[k]];
            // A null matches nothing, and needs no bit.
            add_key(left.what(), parts, k, a, false);
            add_key(right.what(), others, k, b, false);
            if (a.type.is_integer() || a.type.is_float()) {
                if (a.type != b.type) parts.back().bits = others.back().bits = 64;
                parts.back().drop_top_bit = others.back().drop_top_bit =
                    signs_differ(a.type, b.type);
            }
        }
        probe = code_of(plan.roles.build_left ? others : parts);
        build = code_of(plan.roles.build_left ? parts : others);
        for (u32 k = 0; k < probe.count; ++k)
            probe.parts[k].nullable = build.parts[k].nullable = true;
    }
    KeyCode probe;
    KeyCode build;
};

}  // namespace mgi::operators::on_gpu
