// How far a channel is: what has flushed, ended and moved.
#include <algorithm>

#include "runtime/channel_impl.hpp"
#include "runtime/crossing.hpp"
#include "runtime/queued.hpp"

namespace mgi {

using device::relaxed;

bool ChannelImpl::source_flushed(std::uint32_t source) const {
    auto const& from = state_.sources[source];
    std::uint32_t const expected = from.words->groups_expected.load(relaxed);
    return expected != 0 && from.words->groups_flushed.load(relaxed) == expected;
}

bool ChannelImpl::source_ended(std::uint32_t source) const {
    for (std::uint32_t const d : here_.destinations) {
        if (state_.destinations[d].counts[source].load(relaxed) == 0) return false;
    }
    return crossing_ == nullptr || has_delivered(source);
}

// Of a source on this server: its movers have done all there is to do.
bool ChannelImpl::has_delivered(std::uint32_t source) const {
    auto const* const lanes = state_.sources[source].lanes;
    for (std::uint32_t l = 0; lanes != nullptr && l < plan_.lanes; ++l) {
        auto const* const mail = lanes[l].mail;
        std::uint64_t const closed =
            (mail != nullptr ? mail->closed : lanes[l].closed).load(relaxed);
        if (closed != 0 && lanes[l].moves == 0) continue;
        if (closed == 0 || delivered_of(lanes[l]) != closed - 1) return false;
    }
    return true;
}

bool ChannelImpl::ended(std::uint32_t destination) const {
    return all_taken(state_, destination);
}

bool ChannelImpl::complete() const {
    auto const has_ended = [this](std::uint32_t d) { return ended(d); };
    auto const is_through = [this](std::uint32_t s) { return source_ended(s); };
    return std::all_of(here_.destinations.begin(), here_.destinations.end(), has_ended) &&
           (crossing_ == nullptr ||
            std::all_of(here_.sources.begin(), here_.sources.end(), is_through));
}

std::uint64_t ChannelImpl::progress() const {
    return own_progress() + (crossing_ == nullptr ? 0 : part_->far_progress());
}

std::uint64_t ChannelImpl::own_progress() const {
    std::uint64_t sum = 0;
    for (std::uint32_t const s : here_.sources) {
        auto const& source = state_.sources[s];
        sum += source.words->groups_flushed.load(relaxed);
        for (std::uint32_t l = 0; l < plan_.lanes; ++l) {
            sum += source.lanes[l].rows_published.load(relaxed) + delivered_of(source.lanes[l]);
        }
        for (std::uint32_t g = 0; g < state_.max_groups; ++g) {
            sum += source.groups[g].rows_accepted.load(relaxed);
        }
    }
    for (std::uint32_t const d : here_.destinations) {
        sum += state_.destinations[d].words->rows_received.load(relaxed);
    }
    return sum;
}

ChannelStats ChannelImpl::stats() const {
    (void)refresh();
    ChannelStats stats;
    stats.name = spec_.options.name;
    stats.memory_bytes = plan_.pool_bytes;
    stats.detached_bytes = pool_ == nullptr ? 0 : pool_->taken_bytes();
    std::uint64_t row_bits = 0;
    for (Field const& field : schema_.fields()) {
        row_bits += field.type.id == TypeId::Bool ? 1 : 8 * field.type.row_width();
        row_bits += field.nullable ? 1 : 0;
    }
    bool const one_to_one = plan_.lanes == state_.destination_count;
    for (std::uint32_t const s : here_.sources) {
        for (std::uint32_t l = 0; l < plan_.lanes; ++l) {
            auto const& lane = state_.sources[s].lanes[l];
            LaneStats one;
            one.source = spec_.sources[s].id;
            one.destination = spec_.destinations[one_to_one ? l : 0].id;
            one.rows = lane.rows_published.load(relaxed);
            one.bytes = (one.rows * row_bits + 7) / 8 +
                        (lane.units_published.load(relaxed) << state_.layout.unit_shift);
            one.segments = published_of(lane);
            one.waits = lane.waits.load(relaxed);
            stats.rows += one.rows;
            stats.bytes += one.bytes;
            stats.segments += one.segments;
            stats.lanes.push_back(one);
        }
    }
    for (std::uint32_t const d : here_.destinations) {
        auto const& destination = state_.destinations[d];
        std::uint64_t const taken = taken_at(state_, d);
        stats.queues.push_back({spec_.destinations[d].id, come_to(state_, d), taken,
                                destination.words->rows_received.load(relaxed)});
    }
    return stats;
}

}  // namespace mgi
