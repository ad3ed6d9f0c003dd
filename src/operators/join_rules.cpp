#include "operators/join_rules.hpp"

#include <algorithm>

#include "core/arrow_format.hpp"

namespace mgi::operators {

namespace {

// Tables of all rows cost more to build and to probe than those of a share of them, and rows that stay cost less than those that
// move. Both are about the same where so many times the built rows of all tables stay: 4 to 10 on CPUs, about 4 on GPUs.
constexpr u64 kRowsThatStay = 8;

// Of a key that both sides call the same: the right's where a row has no left partner.
void take_either(std::string const& what, std::vector<JoinedColumn>& columns, Field const& left,
                 u32 left_key, Field const& right, u32 right_key) {
    for (JoinedColumn& column : columns) {
        if (!column.left || column.column != left_key) continue;
        if (!left.type.holds(right.type)) {
            auto const text = [](Type const& type) {
                return type.to_string() + arrow::categories_text(type);
            };
            refuse(what, "key '" + right.name + "' is " + text(left.type) + " on the left and " +
                             text(right.type) +
                             " on the right, and rows without a left partner would hold the "
                             "right's; cast one of them, or name the right's columns");
        }
        column.right_key = right_key;
        column.field.nullable = left.nullable || right.nullable;
    }
}

}  // namespace

char const* name_of(JoinKind kind) {
    switch (kind) {
        case JoinKind::Inner: return "inner";
        case JoinKind::Left: return "left";
        case JoinKind::Right: return "right";
        case JoinKind::Full: return "full";
        case JoinKind::Semi: return "semi";
        default: return "anti";
    }
}

char const* name_of(Broadcast wanted) {
    switch (wanted) {
        case Broadcast::On: return "on";
        case Broadcast::Off: return "off";
        default: return "auto";
    }
}

JoinShape shape_of(JoinKind kind) {
    switch (kind) {
        case JoinKind::Inner: return {};
        case JoinKind::Left: return {true, Alone::Unmatched, Alone::None};
        case JoinKind::Right: return {true, Alone::None, Alone::Unmatched};
        case JoinKind::Full: return {true, Alone::Unmatched, Alone::Unmatched};
        case JoinKind::Semi: return {false, Alone::Matched, Alone::None};
        default: return {false, Alone::Unmatched, Alone::None};
    }
}

// Which side is built: the one with fewer rows. Built rows that come out alone would do so at every endpoint to which they are
// broadcast.
JoinRoles::JoinRoles(std::string const& what, JoinSpec const& spec, JoinSize left, JoinSize right,
                     std::size_t endpoints)
    : build_left(left.rows < right.rows), broadcast(endpoints == 1) {
    JoinShape const shape = shape_of(spec.kind);
    bool const can = endpoints == 1 || shape.of(build_left) == Alone::None;
    JoinSize const& built = build_left ? left : right;
    JoinSize const& probing = build_left ? right : left;
    switch (spec.broadcast) {
        case Broadcast::Off: broadcast = false; break;
        case Broadcast::Auto:
            if (can && built.bytes * endpoints * kRowsThatStay <= probing.bytes) broadcast = true;
            break;
        case Broadcast::On:
            broadcast = true;
            if (can) break;
            build_left = !build_left;
            if (shape.of(build_left) == Alone::None) break;
            refuse(what, std::string("a join of kind ") + name_of(spec.kind) +
                             " cannot be broadcast, since rows of either side may come alone; "
                             "leave it to MGI (auto) or switch it off");
    }
    pairs = shape.pairs;
    probe = shape.of(!build_left);
    build = shape.of(build_left);
}

JoinKeys::JoinKeys(std::string const& what, InputColumns const& left_input,
                   InputColumns const& right_input, JoinSpec const& spec, Hash hash) {
    if (spec.left_keys.size() != spec.right_keys.size()) {
        refuse(what, std::to_string(spec.left_keys.size()) + " left keys and " +
                         std::to_string(spec.right_keys.size()) + " right keys");
    }
    left = left_input.columns(spec.left_keys);
    right = right_input.columns(spec.right_keys);
    check_keys(left_input, left, hash);
    check_keys(right_input, right, hash);
    for (std::size_t k = 0; k < left.size(); ++k) {
        Field const& a = left_input.schema()[left[k]];
        Field const& b = right_input.schema()[right[k]];
        auto const pair = pair_keys(a.type, b.type);
        if (!pair) {
            refuse(what, "key '" + a.name + "' is " + a.type.to_string() + " on the left, '" +
                             b.name + "' is " + b.type.to_string() +
                             " on the right; cast one of them");
        }
        compared_left_.push_back({left[k], pair->left ? b.type : a.type, pair->left});
        compared_right_.push_back({right[k], pair->right ? a.type : b.type, pair->right});
    }
}

bool JoinKeys::has(bool left_side, u32 column) const {
    std::vector<u32> const& keys = of(left_side);
    return std::find(keys.begin(), keys.end(), column) != keys.end();
}

namespace {

// Throws Error(InvalidArgument).
std::vector<JoinedColumn> joined_columns(std::string const& what, InputColumns const& left,
                                         InputColumns const& right, JoinSpec const& spec,
                                         JoinKeys const& keys) {
    JoinShape const shape = shape_of(spec.kind);
    if (!shape.pairs && !spec.right_columns.empty()) {
        refuse(what, std::string("a join of kind ") + name_of(spec.kind) +
                         " gives no column of the right, such as '" + spec.right_columns[0] +
                         "'; leave right_columns empty");
    }
    std::vector<JoinedColumn> columns;
    for (u32 const column : left.columns_or_all(spec.left_columns)) {
        Field field = left.schema()[column];
        field.nullable = field.nullable || shape.extends(true);
        columns.push_back({true, column, std::move(field)});
    }
    std::vector<u32> const of_right =
        shape.pairs ? right.columns_or_all(spec.right_columns) : std::vector<u32>();
    for (u32 const column : of_right) {
        Field field = right.schema()[column];
        std::size_t key = 0;
        while (key < keys.right.size() &&
               (keys.right[key] != column || left.schema()[keys.left[key]].name != field.name)) {
            ++key;
        }
        if (key != keys.right.size() && spec.right_columns.empty()) {
            if (shape.extends(true)) {
                u32 const left_key = keys.left[key];
                take_either(what, columns, left.schema()[left_key], left_key, field, column);
            }
            continue;
        }
        if (has_name(left.schema(), field.name)) field.name += "_right";
        field.nullable = field.nullable || shape.extends(false);
        columns.push_back({false, column, std::move(field)});
    }
    std::vector<Field> fields;
    for (JoinedColumn const& column : columns) fields.push_back(column.field);
    check_result(what, fields);
    if (columns.empty()) refuse(what, "the result has no columns");
    return columns;
}

}  // namespace

JoinRules::JoinRules(std::string const& what, InputColumns const& left, InputColumns const& right,
                     JoinSpec const& spec, Hash hash, std::size_t endpoints,
                     Characters const& characters)
    : keys(what, left, right, spec, hash),
      shape(shape_of(spec.kind)),
      columns(joined_columns(what, left, right, spec, keys)),
      roles(what, spec, size_of(left, true, characters), size_of(right, false, characters),
            endpoints) {}

std::vector<u32> JoinRules::needed(bool left, std::vector<u32> const& compared) const {
    std::vector<u32> needed = compared;
    for (JoinedColumn const& column : columns) {
        u32 const wanted = column.source(left);
        bool const there = std::find(needed.begin(), needed.end(), wanted) != needed.end();
        if (wanted != JoinedColumn::kNone && !there) needed.push_back(wanted);
    }
    return needed;
}

JoinSize JoinRules::size_of(InputColumns const& input, bool left,
                            Characters const& characters) const {
    JoinSize size{input.rows(), 0};
    for (u32 const column : needed(left, keys.of(left))) {
        Type const& type = input.schema()[column].type;
        size.bytes += input.rows() * std::max(type.row_width(), 1u);
        if (type.is_variable()) size.bytes += characters(left, column);
    }
    return size;
}

}  // namespace mgi::operators
