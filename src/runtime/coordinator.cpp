#include "runtime/coordinator.hpp"

namespace mgi {

std::vector<std::string> LocalCoordinator::gather(ClusterGather const& said) {
    if (said.size == 1) return {said.data};
    throw Error(ErrorCode::InvalidArgument,
                "'" + said.key + "' is to be gathered from " + std::to_string(said.size) +
                    " processes, of which this is rank " + std::to_string(said.rank) +
                    ", and this runtime is of one process alone: use Runtime::connect()");
}

namespace {

[[noreturn]] void refuse_part(std::uint32_t id) {
    throw Error(ErrorCode::Refused, "channel " + std::to_string(id) +
                                        " is of a process alone, which shares it with nobody");
}

}  // namespace

void LocalCoordinator::put_part(std::uint32_t id, int /*descriptor*/) {
    refuse_part(id);
}

int LocalCoordinator::get_part(std::uint32_t id) {
    refuse_part(id);
}

int LocalCoordinator::share_board(int /*descriptor*/) {
    throw Error(ErrorCode::Refused, "a process alone shares its NICs with nobody");
}

}  // namespace mgi
