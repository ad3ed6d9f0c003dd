// Columns, as processes of an operator tell each other of them.
#pragma once

#include <utility>
#include <vector>

#include <mgi/schema.hpp>

#include "operators/message.hpp"

namespace mgi::operators {

// Columns that another process may say it has.
inline constexpr u64 kMostColumns = 1u << 20;

inline void say_field(MessageWriter& to, Field const& field) {
    to.text(field.name).number(u64(field.type.id)).number(u64(field.type.width));
    to.number(u64(field.type.precision)).number(u64(field.type.scale));
    to.number(field.nullable ? 1 : 0);
}

inline Field hear_field(MessageReader& from) {
    Field field;
    field.name = from.text();
    field.type.id = TypeId(from.number(u64(TypeId::Binary)));
    field.type.width = std::int32_t(from.number(INT32_MAX));
    field.type.precision = std::int32_t(from.number(INT32_MAX));
    field.type.scale = std::int32_t(std::int64_t(from.number()));
    field.nullable = from.number(1) == 1;
    return field;
}

inline void say_schema(MessageWriter& to, Schema const& schema) {
    to.number(schema.size());
    for (Field const& field : schema.fields()) say_field(to, field);
}

inline Schema hear_schema(MessageReader& from) {
    std::vector<Field> fields(from.number(kMostColumns));
    for (Field& field : fields) field = hear_field(from);
    return Schema(std::move(fields));
}

}  // namespace mgi::operators
