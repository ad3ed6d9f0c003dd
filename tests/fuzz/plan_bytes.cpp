#include <string>

#include <mgi/error.hpp>

#include "fuzz/targets.hpp"
#include "planner/directory.hpp"
#include "planner/table_codec.hpp"

namespace mgi::fuzz {
namespace {

/// Everything is refused, or comes back byte by byte.
template <class Decode>
void check(std::string const& bytes, Decode decode) {
    try {
        require(planner::encode(decode(bytes)) == bytes, "what is accepted has one encoding");
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "bytes are refused as an argument");
        require(std::string(error.what()).find(", byte ") != std::string::npos,
                "an error says where", error.what());
    }
}

}  // namespace

void plan_bytes(Input input) {
    std::uint32_t const kind = input.below(4);
    std::string bytes;
    // With the header in front most choices get past it.
    if (kind >= 2) bytes = kind == 2 ? std::string("MGIT\1\0", 6) : std::string("MGID\1\0", 6);
    bytes += input.all();
    if (kind % 2 == 0) {
        check(bytes, planner::decode_table);
    } else {
        check(bytes, planner::decode_directory);
    }
}

}  // namespace mgi::fuzz
