// What a join on GPUs compares and gives out. Names and rules are those of joins on CPU devices.
#pragma once

#include "operators/gpu/facts.hpp"
#include "operators/gpu/join_kernels.hpp"

namespace mgi::operators::on_gpu {

struct JoinPlan {
    JoinKeys keys;
    std::vector<JoinedColumn> columns;

    JoinPlan(Operation const& operation, Input const& left, Input const& right,
             JoinSpec const& spec)
        : keys(operation.what(), left, right, spec, operation.options().hash),
          columns(joined_columns(operation.what(), left, right, spec, keys)) {
        check_key_count(operation.what(), keys.left.size());
    }

    // Keys and columns of a side, each once; keys come first.
    [[nodiscard]] std::vector<u32> needed(bool left) const {
        std::vector<u32> needed = left ? keys.left : keys.right;
        for (JoinedColumn const& column : columns) {
            bool const there =
                std::find(needed.begin(), needed.end(), column.column) != needed.end();
            if (column.left == left && !there) needed.push_back(column.column);
        }
        return needed;
    }
};

// The key codes of both sides: alike, so that equal keys have equal words. Columns are those of `needed`.
struct JoinCodes {
    JoinCodes(JoinPlan const& plan, Input const& left, Input const& right) {
        std::vector<KeyPart> parts;
        std::vector<KeyPart> others;
        for (u32 k = 0; k < plan.keys.left.size(); ++k) {
            Type const& a = left.schema()[plan.keys.left[k]].type;
            Type const& b = right.schema()[plan.keys.right[k]].type;
            // A null matches nothing, and needs no bit.
            KeyPart part = key_part(k, a, false);
            KeyPart other = key_part(k, b, false);
            if (a != b) part.bits = other.bits = 64;
            part.drop_top_bit = other.drop_top_bit = signs_differ(a, b);
            parts.push_back(part);
            others.push_back(other);
        }
        probe = code_of(parts);
        build = code_of(others);
        for (u32 k = 0; k < probe.count; ++k)
            probe.parts[k].nullable = build.parts[k].nullable = true;
    }
    KeyCode probe;
    KeyCode build;
};

}  // namespace mgi::operators::on_gpu
