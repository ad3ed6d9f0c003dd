/// \file
/// What Arrow says of a column beyond the type that its values lie as.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mgi/arrow_abi.hpp>

namespace mgi {

/// A copy of an ArrowSchema that belongs to nobody.
struct ArrowField {
    std::string format;
    std::string name;      ///< of a nested value's field; a column's is its Field's
    std::string metadata;  ///< as the C data interface encodes it
    std::int64_t flags = 0;
    std::vector<ArrowField> children;
    std::shared_ptr<ArrowField const> dictionary;  ///< of the values, where these are indices
    /// The bytes of a dictionary's values, in its order, where they were few: categories stay as they
    /// are, used or not.
    std::shared_ptr<std::vector<std::string> const> categories;
};

namespace arrow {

/// Throws Error(InvalidArgument) for children that are missing, and for more than 64 levels.
ArrowField read_field(ArrowSchema const& schema);

/// What indices or run ends stand for; null where the field's values are its own.
ArrowField const* values_of(ArrowField const& field);

/// Of a dictionary, to be kept as categories: so many values, of so many bytes in all.
inline constexpr std::size_t kMostCategories = std::size_t(1) << 16;
inline constexpr std::size_t kMostCategoryBytes = std::size_t(1) << 20;

/// Metadata with its end, which the interface does not say; empty where there is none. Throws
/// Error(InvalidArgument) where it cannot be metadata.
std::string copy_metadata(char const* from);

/// Whether it is metadata from the first to the last byte; nothing is, too.
bool is_metadata(std::string_view metadata);

/// The value of a key in a field's metadata, such as "ARROW:extension:name"; null: there is none.
std::optional<std::string_view> metadata_value(std::string_view metadata, std::string_view key);

/// The categories of a Polars Enum, as its metadata has them: the only values that its columns may
/// hold. Null: another type.
std::optional<std::string_view> enumeration_of(ArrowField const& field);

/// Whether a column of the first can hold the values of the second, where both have one type: no Enum
/// of other categories stands in its place, nor anything else in an Enum's.
bool enumerations_hold(ArrowField const* holder, ArrowField const* held);

}  // namespace arrow
}  // namespace mgi
