// Columns, as processes of an operator tell each other of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mgi/schema.hpp>

#include "core/arrow_format.hpp"
#include "operators/message.hpp"

namespace mgi::operators {

// Columns that another process may say it has.
inline constexpr u64 kMostColumns = 1u << 20;

// Nested fields that one may have, and levels of them.
inline constexpr u64 kMostChildren = 1u << 16;
inline constexpr int kMostLevels = 64;

inline void say_arrow(MessageWriter& to, ArrowField const& arrow) {
    to.text(arrow.format).text(arrow.name).text(arrow.metadata).number(u64(arrow.flags));
    to.number(arrow.children.size());
    for (ArrowField const& child : arrow.children) say_arrow(to, child);
    to.number(arrow.categories != nullptr ? arrow.categories->size() + 1 : 0);
    if (arrow.categories != nullptr) {
        for (std::string const& category : *arrow.categories) to.text(category);
    }
    to.number(arrow.dictionary != nullptr ? 1 : 0);
    if (arrow.dictionary != nullptr) say_arrow(to, *arrow.dictionary);
}

inline std::string metadata_in(MessageReader& from) {
    std::string_view const metadata = from.text();
    if (!arrow::is_metadata(metadata)) MessageReader::refuse();
    return std::string(metadata);
}

inline ArrowField hear_arrow(MessageReader& from, int level = 0) {
    if (level > kMostLevels) MessageReader::refuse();
    ArrowField arrow;
    arrow.format = from.text();
    arrow.name = from.text();
    arrow.metadata = metadata_in(from);
    arrow.flags = std::int64_t(from.number());
    for (u64 left = from.number(kMostChildren); left != 0; --left) {
        arrow.children.push_back(hear_arrow(from, level + 1));
    }
    if (u64 const said = from.number(arrow::kMostCategories + 1); said != 0) {
        auto categories = std::make_shared<std::vector<std::string>>(said - 1);
        for (std::string& category : *categories) category = from.text();
        arrow.categories = std::move(categories);
    }
    if (from.number(1) == 1) {
        arrow.dictionary = std::make_shared<ArrowField const>(hear_arrow(from, level + 1));
    }
    return arrow;
}

inline void say_field(MessageWriter& to, Field const& field) {
    to.text(field.name).number(u64(field.type.id)).number(u64(field.type.width));
    to.number(u64(field.type.precision)).number(u64(field.type.scale));
    to.number(field.nullable ? 1 : 0).number(field.type.arrow != nullptr ? 1 : 0);
    if (field.type.arrow != nullptr) say_arrow(to, *field.type.arrow);
}

inline Field hear_field(MessageReader& from) {
    Field field;
    field.name = from.text();
    field.type.id = TypeId(from.number(u64(TypeId::Binary)));
    field.type.width = std::int32_t(from.number(INT32_MAX));
    field.type.precision = std::int32_t(from.number(INT32_MAX));
    field.type.scale = std::int32_t(std::int64_t(from.number()));
    field.nullable = from.number(1) == 1;
    if (from.number(1) == 1) {
        field.type.arrow = std::make_shared<ArrowField const>(hear_arrow(from));
        arrow::check_arrow(field);
    }
    return field;
}

inline void say_schema(MessageWriter& to, Schema const& schema) {
    to.number(schema.size());
    for (Field const& field : schema.fields()) say_field(to, field);
    to.text(schema.metadata());
}

inline Schema hear_schema(MessageReader& from) {
    std::vector<Field> fields(from.number(kMostColumns));
    for (Field& field : fields) field = hear_field(from);
    Schema schema(std::move(fields));
    schema.set_metadata(metadata_in(from));
    return schema;
}

}  // namespace mgi::operators
