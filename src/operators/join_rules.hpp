// What a join compares, gives out and moves: the same on CPU devices and on GPUs.
#pragma once

#include <functional>

#include "operators/key_pairs.hpp"
#include "operators/rules.hpp"

namespace mgi::operators {

// "full"
char const* name_of(JoinKind kind);
// "on"
char const* name_of(Broadcast wanted);

// Rows of a side that a join gives alone, beside pairs or in place of them.
enum class Alone : std::uint8_t { None, Matched, Unmatched };

// What a join gives: pairs of rows that match, and rows alone.
struct JoinShape {
    bool pairs = true;
    Alone left = Alone::None;
    Alone right = Alone::None;

    [[nodiscard]] Alone of(bool of_left) const { return of_left ? left : right; }
    // Whether a side's columns are null in some rows that have none of it.
    [[nodiscard]] bool extends(bool of_left) const { return pairs && of(!of_left) != Alone::None; }
    // Whether rows whose keys are null come out.
    [[nodiscard]] bool keeps_null_keys(bool of_left) const {
        return of(of_left) == Alone::Unmatched;
    }
};
JoinShape shape_of(JoinKind kind);

// How large a side is: its rows, and about the bytes of what a join needs of them.
struct JoinSize {
    u64 rows = 0;
    u64 bytes = 0;
};

// The same by what is done with the sides: one is built into a table, the other's rows probe it.
struct JoinRoles {
    // Throws Error(InvalidArgument) where a broadcast is wanted and cannot be.
    JoinRoles(std::string const& what, JoinSpec const& spec, JoinSize left, JoinSize right,
              std::size_t endpoints);

    bool build_left;
    bool broadcast;  // all built rows go to every endpoint, and the others stay where they are
    bool pairs;
    Alone probe;
    Alone build;

    [[nodiscard]] bool only_pairs() const { return probe == Alone::None && build == Alone::None; }
    [[nodiscard]] char const* built() const { return build_left ? "left" : "right"; }
};

// The input columns of both sides that a join compares, pair by pair.
struct JoinKeys {
    JoinKeys(std::string const& what, InputColumns const& left, InputColumns const& right,
             JoinSpec const& spec, Hash hash);
    [[nodiscard]] std::vector<u32> const& of(bool left_side) const {
        return left_side ? left : right;
    }
    [[nodiscard]] bool has(bool left_side, u32 column) const;
    // By key.
    [[nodiscard]] std::vector<ComparedKey> const& compared(bool left_side) const {
        return left_side ? compared_left_ : compared_right_;
    }

    std::vector<u32> left;
    std::vector<u32> right;

private:
    std::vector<ComparedKey> compared_left_;
    std::vector<ComparedKey> compared_right_;
};

// A column of a join's result.
struct JoinedColumn {
    static constexpr u32 kNone = ~u32{0};

    bool left = true;
    u32 column = 0;         // of that side's input
    Field field;            // as the result has it
    u32 right_key = kNone;  // of the right's input: what stands here in rows without a left one

    // The column of a side that it comes from; kNone.
    [[nodiscard]] u32 source(bool of_left) const {
        if (left == of_left) return column;
        return of_left ? kNone : right_key;
    }
    // Whether it has nulls; `has_nulls(left, column)` says so of the inputs' columns.
    template <class HasNulls>
    [[nodiscard]] bool has_null(JoinShape const& shape, JoinKeys const& keys,
                                HasNulls const& has_nulls) const {
        auto const brings = [&](bool of_left, u32 of) {
            return has_nulls(of_left, of) &&
                   (shape.keeps_null_keys(of_left) || !keys.has(of_left, of));
        };
        bool const otherwise = right_key == kNone ? shape.extends(left) : brings(false, right_key);
        return otherwise || brings(left, column);
    }
};

// All of it. Throws Error(InvalidArgument) naming the column that is missing, mismatched or named twice.
struct JoinRules {
    // How many characters a side's column of texts has that would be broadcast with it, the same in all processes.
    using Characters = std::function<u64(bool left, u32 column)>;

    JoinRules(std::string const& what, InputColumns const& left, InputColumns const& right,
              JoinSpec const& spec, Hash hash, std::size_t endpoints, Characters const& characters);

    // Keys and columns of a side, each once; keys come first. `compared`: where the keys lie as they are
    // compared.
    [[nodiscard]] std::vector<u32> needed(bool left, std::vector<u32> const& compared) const;

    JoinKeys keys;
    JoinShape shape;
    std::vector<JoinedColumn> columns;
    JoinRoles roles;

private:
    [[nodiscard]] JoinSize size_of(InputColumns const& input, bool left,
                                   Characters const& characters) const;
};

}  // namespace mgi::operators
