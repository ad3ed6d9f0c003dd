// How the two columns of a join's key are compared: as they lie, or one of them in the other's form.
#pragma once

#include <optional>
#include <vector>

#include <mgi/schema.hpp>

#include "operators/key_conversion.hpp"

namespace mgi::operators {

// Nothing for types whose values cannot be equal.
struct KeyPair {
    // At most one side's values are converted, to the other side's type.
    std::optional<KeyConversion> left;
    std::optional<KeyConversion> right;

    [[nodiscard]] std::optional<KeyConversion> const& of(bool left_side) const {
        return left_side ? left : right;
    }
};
std::optional<KeyPair> pair_keys(Type const& left, Type const& right);

// A key column of one side, and what is compared of it: its values, or what they are converted to.
struct ComparedKey {
    device::u32 column = 0;
    Type type;
    std::optional<KeyConversion> conversion;
};
// Columns of a schema as they lie.
std::vector<ComparedKey> as_they_lie(Schema const& schema, std::vector<device::u32> const& columns);

}  // namespace mgi::operators
