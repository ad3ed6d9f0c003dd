#include "core/arrow_values.hpp"

#include <cstring>

namespace mgi::arrow {
namespace {

std::byte* copy_all(std::vector<std::string_view> const& values, Room& room) {
    std::size_t bytes = 0;
    for (std::string_view const value : values) bytes += value.size();
    auto* const out = room.of<std::byte>(bytes);
    std::size_t at = 0;
    for (std::string_view const value : values) {
        if (!value.empty()) std::memcpy(out + at, value.data(), value.size());
        at += value.size();
    }
    return out;
}

}  // namespace

Column column_of(std::vector<std::string_view> const& values, Type const& type, Room& room) {
    Column column;
    if (type.is_variable()) {
        auto* const offsets = room.of<std::int64_t>(values.size() + 1);
        offsets[0] = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            offsets[i + 1] = offsets[i] + std::int64_t(values[i].size());
        }
        column.encoding = Encoding::Offsets64;
        column.values = offsets;
        column.bytes = copy_all(values, room);
    } else if (type.id == TypeId::Bool) {
        std::uint8_t* const bits = room.bits(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (values[i] == "1") set_bit(bits, i);
        }
        column.values = bits;
    } else {
        column.values = copy_all(values, room);
    }
    return column;
}

}  // namespace mgi::arrow
