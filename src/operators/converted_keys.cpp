#include "operators/converted_keys.hpp"

namespace mgi::operators {

ConvertedKeys::ConvertedKeys(KeyConversion const& how, u32 rows)
    : how_(how), values_(u64{rows} * how.to, false), validity_((rows + 7) / 8, false) {}

ColumnView ConvertedKeys::convert(ColumnView const& from, u32 rows) {
    char const* const values = static_cast<char const*>(from.values) + from.offset * how_.from;
    u8* const bits = validity_.as<u8>();
    std::memset(bits, 0, (rows + 7) / 8);
    for (u32 i = 0; i < rows; ++i) {
        bool const has_equal =
            how_.convert(values + u64{i} * how_.from, values_.data() + u64{i} * how_.to);
        bits[i / 8] |= u8(u32{has_equal && valid_at(from, i)} << (i % 8));
    }
    ColumnView view;
    view.values = values_.data();
    view.validity = bits;
    return view;
}

}  // namespace mgi::operators
