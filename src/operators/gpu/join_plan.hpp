// What a join on GPUs compares and gives out. Names and rules are those of joins on CPU devices.
#pragma once

#include "operators/gpu/facts.hpp"
#include "operators/gpu/join_kernels.hpp"

namespace mgi::operators::on_gpu {

// A column of the result.
struct JoinedColumn {
    bool left = true;
    u32 column = 0;  // of that side's input
    Field field;
};

struct JoinPlan {
    std::vector<u32> left_keys;
    std::vector<u32> right_keys;
    std::vector<JoinedColumn> columns;

    JoinPlan(Operation const& operation, Input const& left, Input const& right,
             JoinSpec const& spec) {
        match_keys(operation, left, right, spec);
        choose(left, right, spec);
        for (std::size_t a = 0; a < columns.size(); ++a) {
            for (std::size_t b = 0; b < a; ++b) {
                if (columns[a].field.name != columns[b].field.name) continue;
                refuse(operation.what(),
                       "two columns of the result are named '" + columns[a].field.name + "'");
            }
        }
        if (columns.empty()) refuse(operation.what(), "the result has no columns");
    }

    // Keys and columns of a side, each once; keys come first.
    [[nodiscard]] std::vector<u32> needed(bool left) const {
        std::vector<u32> needed = left ? left_keys : right_keys;
        for (JoinedColumn const& column : columns) {
            bool const there =
                std::find(needed.begin(), needed.end(), column.column) != needed.end();
            if (column.left == left && !there) needed.push_back(column.column);
        }
        return needed;
    }

private:
    static bool is_unsigned(Type const& type) {
        return type.id >= TypeId::UInt8 && type.id <= TypeId::UInt64;
    }
    // Whether values of the types can be compared as they are.
    static bool comparable(Type const& a, Type const& b) {
        if (a.is_integer() && b.is_integer()) return true;
        if (a.is_float() && b.is_float()) return true;
        return a == b;
    }

    void match_keys(Operation const& operation, Input const& left, Input const& right,
                    JoinSpec const& spec) {
        if (spec.left_keys.size() != spec.right_keys.size()) {
            refuse(operation.what(), std::to_string(spec.left_keys.size()) + " left keys and " +
                                         std::to_string(spec.right_keys.size()) + " right keys");
        }
        left_keys = left.columns(spec.left_keys);
        right_keys = right.columns(spec.right_keys);
        check_key_count(operation.what(), left_keys.size());
        check_keys(left, left_keys, operation.options().hash);
        check_keys(right, right_keys, operation.options().hash);
        for (std::size_t k = 0; k < left_keys.size(); ++k) {
            Field const& a = left.schema()[left_keys[k]];
            Field const& b = right.schema()[right_keys[k]];
            if (comparable(a.type, b.type)) continue;
            refuse(operation.what(), "key '" + a.name + "' is " + a.type.to_string() +
                                         " on the left, '" + b.name + "' is " + b.type.to_string() +
                                         " on the right; cast one of them");
        }
    }

    void choose(Input const& left, Input const& right, JoinSpec const& spec) {
        for (u32 const column : chosen(left, spec.left_columns)) {
            columns.push_back({true, column, left.schema()[column]});
        }
        bool const listed = !spec.right_columns.empty();
        for (u32 const column : chosen(right, spec.right_columns)) {
            Field field = right.schema()[column];
            bool same_key = false;
            for (std::size_t k = 0; k < right_keys.size(); ++k) {
                same_key = same_key || (right_keys[k] == column &&
                                        left.schema()[left_keys[k]].name == field.name);
            }
            if (same_key && !listed) continue;
            bool taken = false;
            for (Field const& other : left.schema().fields()) {
                taken = taken || other.name == field.name;
            }
            if (taken) field.name += "_right";
            columns.push_back({false, column, field});
        }
    }
    static std::vector<u32> chosen(Input const& input, std::vector<std::string> const& names) {
        if (!names.empty()) return input.columns(names);
        std::vector<u32> all(input.schema().size());
        for (u32 c = 0; c < all.size(); ++c) all[c] = c;
        return all;
    }
};

// The key codes of both sides: alike, so that equal keys have equal words. Columns are those of `needed`.
struct JoinCodes {
    JoinCodes(JoinPlan const& plan, Input const& left, Input const& right) {
        std::vector<KeyPart> parts;
        std::vector<KeyPart> others;
        for (u32 k = 0; k < plan.left_keys.size(); ++k) {
            Type const& a = left.schema()[plan.left_keys[k]].type;
            Type const& b = right.schema()[plan.right_keys[k]].type;
            // A null matches nothing, and needs no bit.
            KeyPart part = key_part(k, a, false);
            KeyPart other = key_part(k, b, false);
            if (a != b) part.bits = other.bits = 64;
            part.drop_top_bit = other.drop_top_bit =
                a.is_integer() && b.is_integer() &&
                (part.value.kind == KeyKind::Unsigned) != (other.value.kind == KeyKind::Unsigned);
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
