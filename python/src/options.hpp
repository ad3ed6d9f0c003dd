/// \file
/// What the Python files pass by name, as the library's own types.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mgi/channel.hpp>
#include <mgi/operators.hpp>

namespace mgi::python {

namespace nb = nanobind;

/// Reads `options[name]` into `value` where it is given and not None.
template <class T>
void read_option(nb::dict const& options, char const* name, T& value) {
    if (!options.contains(name)) return;
    nb::object const given = options[name];
    if (given.is_none()) return;
    try {
        value = nb::cast<T>(given);
    } catch (nb::cast_error const&) {
        throw Error(ErrorCode::InvalidArgument,
                    std::string(name) + " is " + nb::repr(given).c_str() +
                        ", which is not of the right type or too large (or negative)");
    }
}

/// "murmur3" or "modulo".
Hash hash_named(std::string const& name);
/// "partition", "broadcast", "direct" or "balance".
Routing routing_named(std::string const& name, std::vector<std::string> const& keys,
                      std::string const& hash);
/// A key of an order as (column, descending, nulls first).
using SortKeyTuple = std::tuple<std::string, bool, bool>;
std::vector<SortKey> sort_keys_of(std::vector<SortKeyTuple> const& keys);
/// The names are those of ChannelOptions; times in milliseconds, layout by name.
ChannelOptions channel_options(nb::dict const& options);

}  // namespace mgi::python
