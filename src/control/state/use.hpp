/// \file
/// Figures of links and channels, as heartbeats bring them.
#pragma once

#include <memory>

#include "control/state/effects.hpp"

namespace mgi::control {

using LinkFigures = google::protobuf::RepeatedPtrField<LinkUse>;
using ChannelFigures = google::protobuf::RepeatedPtrField<ChannelUse>;
using NicFigures = google::protobuf::RepeatedPtrField<NicUse>;

/// The one that is empty.
template <class T>
std::shared_ptr<T const> const& none() {
    static auto const empty = std::make_shared<T const>();
    return empty;
}

/// Of one server; shared with the snapshots that show them. Applications bring theirs about once a
/// second, which is less often than heartbeats come: rates are those since a sample that is some seconds
/// old, and `middle` will be the next one.
struct Use {
    struct Sample {
        std::shared_ptr<ChannelFigures const> channels = none<ChannelFigures>();
        std::shared_ptr<NicFigures const> nics = none<NicFigures>();
        Millis at = 0;
    };
    std::shared_ptr<LinkFigures const> links = none<LinkFigures>();
    Sample last;
    Sample middle;
    Sample before;
};

}  // namespace mgi::control
