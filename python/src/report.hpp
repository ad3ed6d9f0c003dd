/// \file
/// Statistics, plans and graphs as Python dictionaries.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include <mgi/channel.hpp>
#include <mgi/graph.hpp>
#include <mgi/plan.hpp>

namespace mgi::python {

namespace nb = nanobind;

nb::dict as_dict(ChannelStats const& stats);
nb::dict as_dict(Plan const& plan);
nb::dict as_dict(Graph const& graph);
nb::dict as_dict(Device const& device);

/// A list of the above.
template <class T>
nb::list as_list(std::vector<T> const& items) {
    nb::list list;
    for (T const& item : items) list.append(as_dict(item));
    return list;
}

}  // namespace mgi::python
