/// \file
/// Which groups send on a source: it counts them, so that the last one to flush knows that it is.
#pragma once

#include <mgi/device/group.hpp>
#include <mgi/device/state.hpp>

namespace mgi::device {

/// Registers a group at its source, at its first call; the source then knows how many groups will
/// flush. Any thread of the group may be the first. `closing` calls are allowed after a flush.
template <class A>
MGI_HD MGI_COLD ErrorCode admit_group(ChannelState<A>& state, Source<A>& source, Group group,
                                      bool closing) {
    if (group.blocks > state.max_groups || group.block >= group.blocks) {
        return ErrorCode::InvalidArgument;
    }
    GroupState<A>& mine = source.groups[group.block];
    u64 const me = group.launch + 1;
    // All at once: each is a trip to far memory.
    ErrorCode const failed = state.error();
    u64 known = mine.launch.load(relaxed);
    bool const flushed = mine.flushed.load(relaxed) != 0;
    if (failed != ErrorCode::Ok) return failed;
    if (known == 0) {
        // relaxed, both: how many groups there are, and whose place this is, are facts once set.
        u32 expected = 0;
        if (!source.words->groups_expected.compare_exchange_strong(expected, group.blocks, relaxed,
                                                                   relaxed) &&
            expected != group.blocks) {
            return ErrorCode::Closed;
        }
        if (mine.launch.compare_exchange_strong(known, me, relaxed, relaxed)) return ErrorCode::Ok;
    }
    if (known != me) return ErrorCode::Closed;
    return closing || !flushed ? ErrorCode::Ok : ErrorCode::Closed;
}

}  // namespace mgi::device
