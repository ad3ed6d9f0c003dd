// How a key of a type is hashed.
#pragma once

#include <mgi/device/layout.hpp>
#include <mgi/schema.hpp>

namespace mgi {

inline device::KeyKind key_kind(Type const& type) {
    switch (type.id) {
        case TypeId::Bool: return device::KeyKind::Bool;
        case TypeId::Int8:
        case TypeId::Int16:
        case TypeId::Int32:
        case TypeId::Int64:
        case TypeId::Date32: return device::KeyKind::Signed;
        case TypeId::UInt8:
        case TypeId::UInt16:
        case TypeId::UInt32:
        case TypeId::UInt64: return device::KeyKind::Unsigned;
        case TypeId::Float32:
        case TypeId::Float64: return device::KeyKind::Float;
        case TypeId::Decimal128:
        case TypeId::FixedSizeBinary: return device::KeyKind::Bytes;
        case TypeId::String:
        case TypeId::Binary: return device::KeyKind::Text;
    }
    return device::KeyKind::Bytes;
}

}  // namespace mgi
