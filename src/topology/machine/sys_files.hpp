/// \file
/// Folders and one-line files of sysfs. What is missing or cannot be read (as of an interface that is
/// down) is no error: it is empty, or no number.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "topology/readers/numbers.hpp"

namespace mgi::topology {

/// The names in a folder, sorted; none where there is no such folder.
std::vector<std::string> names_in(std::filesystem::path const& folder);

/// The first line of a file.
std::string line_of(std::filesystem::path const& file);

/// The number that a file begins with.
template <class T>
std::optional<T> number_in(std::filesystem::path const& file) {
    T value{};
    if (!read_leading(line_of(file), value)) return std::nullopt;
    return value;
}

}  // namespace mgi::topology
