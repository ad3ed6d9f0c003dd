#include "planner/channel_plan.hpp"

#include <unordered_set>

namespace mgi::planner {
namespace {

std::size_t bytes_of(Role const& role) {
    return sizeof(role) - 2 * sizeof(VertexSet) + role.sources.bytes() + role.destinations.bytes();
}

}  // namespace

std::uint64_t ChannelPlan::distinct_bytes() const {
    std::unordered_set<EncodedTable const*> seen;
    std::uint64_t sum = directory == nullptr ? 0 : directory->size();
    for (ServerPlan const& server : servers) {
        if (seen.insert(server.table.get()).second) sum += server.table->bytes.size();
    }
    return sum;
}

std::size_t ChannelPlan::kept_bytes() const {
    std::size_t sum = sizeof(*this) + servers.capacity() * sizeof(ServerPlan);
    if (directory != nullptr) sum += sizeof(std::string) + directory->capacity();
    std::unordered_set<void const*> seen;
    for (ServerPlan const& server : servers) {
        if (seen.insert(server.table.get()).second) {
            sum += sizeof(EncodedTable) + server.table->bytes.capacity();
        }
        if (seen.insert(server.role.get()).second) sum += bytes_of(*server.role);
    }
    return sum;
}

std::uint64_t ChannelPlan::sent_bytes() const {
    std::uint64_t sum = 0;
    for (ServerPlan const& server : servers) sum += server.table->bytes.size() + directory->size();
    return sum;
}

}  // namespace mgi::planner
