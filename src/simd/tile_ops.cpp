#include "simd/tile_ops.hpp"

#include <cstdlib>
#include <string_view>

namespace mgi::simd {
namespace {

device::TileOps const& choose() {
    char const* const asked = std::getenv("MGI_SIMD");
    if (asked != nullptr && std::string_view(asked) == "portable") return portable_tile_ops();
    device::TileOps const* const wide = avx512_tile_ops();
    return wide != nullptr ? *wide : portable_tile_ops();
}

}  // namespace

device::TileOps const& tile_ops() {
    static device::TileOps const& chosen = choose();
    return chosen;
}

}  // namespace mgi::simd
