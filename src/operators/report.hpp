// What operators' reports come to.
#pragma once

#include <algorithm>

#include <mgi/operators.hpp>

namespace mgi::operators {

// More bytes of a link, which is there once.
inline void add_link(OperatorReport& report, OperatorLink const& link) {
    auto const before = [](OperatorLink const& one, OperatorLink const& other) {
        return one.from != other.from ? one.from < other.from : one.to < other.to;
    };
    auto const at = std::lower_bound(report.links.begin(), report.links.end(), link, before);
    if (at != report.links.end() && !before(link, *at)) {
        at->bytes += link.bytes;
    } else {
        report.links.insert(at, link);
    }
}

}  // namespace mgi::operators
