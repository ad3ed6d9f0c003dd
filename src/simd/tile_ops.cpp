#include "simd/tile_ops.hpp"

#include <cstdlib>
#include <string_view>

namespace mgi::simd {

device::TileOps const& tile_ops_for(char const* asked) {
    std::string_view const word = asked == nullptr ? "" : asked;
    if (word == "portable") return portable_tile_ops();
    device::TileOps const* wide = word == "avx2" ? nullptr : avx512_tile_ops();
    if (wide == nullptr) wide = avx2_tile_ops();
    return wide != nullptr ? *wide : portable_tile_ops();
}

device::TileOps const& tile_ops() {
    static device::TileOps const& chosen = tile_ops_for(std::getenv("MGI_SIMD"));
    return chosen;
}

}  // namespace mgi::simd
