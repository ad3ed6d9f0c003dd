/// \file
/// Strings that lie behind offsets, as Arrow views of the same characters.
#pragma once

#include <vector>

#include <mgi/batch.hpp>

namespace mgi::arrow {

/// The batch with the named String and Binary columns as views. Characters are not copied; 16 bytes a
/// row are new. Throws Error(InvalidArgument) for a single value of 2 GiB or more.
RecordBatch with_views(RecordBatch const& batch, std::vector<std::size_t> const& columns);

}  // namespace mgi::arrow
