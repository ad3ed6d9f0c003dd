#include "core/arrow_format.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include <mgi/error.hpp>

namespace mgi::arrow {
namespace {

struct Simple {
    std::string_view format;
    TypeId id;
    Encoding encoding;
};

constexpr std::array<Simple, 18> kSimple{{{"b", TypeId::Bool, Encoding::Plain},
                                          {"c", TypeId::Int8, Encoding::Plain},
                                          {"s", TypeId::Int16, Encoding::Plain},
                                          {"i", TypeId::Int32, Encoding::Plain},
                                          {"l", TypeId::Int64, Encoding::Plain},
                                          {"C", TypeId::UInt8, Encoding::Plain},
                                          {"S", TypeId::UInt16, Encoding::Plain},
                                          {"I", TypeId::UInt32, Encoding::Plain},
                                          {"L", TypeId::UInt64, Encoding::Plain},
                                          {"f", TypeId::Float32, Encoding::Plain},
                                          {"g", TypeId::Float64, Encoding::Plain},
                                          {"tdD", TypeId::Date32, Encoding::Plain},
                                          {"u", TypeId::String, Encoding::Offsets32},
                                          {"U", TypeId::String, Encoding::Offsets64},
                                          {"vu", TypeId::String, Encoding::Views},
                                          {"z", TypeId::Binary, Encoding::Offsets32},
                                          {"Z", TypeId::Binary, Encoding::Offsets64},
                                          {"vz", TypeId::Binary, Encoding::Views}}};

struct Refused {
    std::string_view prefix;
    char const* what;
};

/// Longer prefixes first.
constexpr std::array<Refused, 19> kRefused{{{"+vl", "list view"},
                                            {"+vL", "large list view"},
                                            {"+ud", "dense union"},
                                            {"+us", "sparse union"},
                                            {"+l", "list"},
                                            {"+L", "large list"},
                                            {"+w", "fixed-size list"},
                                            {"+s", "struct"},
                                            {"+m", "map"},
                                            {"+r", "run-end encoded"},
                                            {"tdm", "date64"},
                                            {"tt", "time of day"},
                                            {"ts", "timestamp"},
                                            {"tD", "duration"},
                                            {"ti", "interval"},
                                            {"d:", "decimal that is not decimal128"},
                                            {"w:", "fixed-size binary of an impossible width"},
                                            {"e", "float16"},
                                            {"n", "null"}}};

[[noreturn]] void refuse(std::string const& name, std::string_view format, char const* what) {
    throw Error(
        ErrorCode::InvalidArgument,
        "column '" + name + "': Arrow format '" + std::string(format) + "' (" + what +
            ") is not supported; bool, int8 to int64, unsigned, float32/64, date32, "
            "decimal128, fixed-size binary, string and binary are. Cast the column or leave "
            "it out");
}

/// Takes an integer and the separator behind it off the text's front.
std::optional<int> take_number(std::string_view& text) {
    int value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(std::size_t(end - text.data()));
    if (!text.empty()) {
        if (text.front() != ',' || text.size() == 1) return std::nullopt;
        text.remove_prefix(1);
    }
    return value;
}

std::optional<Type> parse_decimal(std::string_view format) {
    std::string_view rest = format.substr(2);
    auto const precision = take_number(rest);
    auto const scale = take_number(rest);
    auto const bits = rest.empty() ? std::optional<int>(128) : take_number(rest);
    bool const known = precision && scale && bits == 128 && rest.empty();
    if (!known || *precision < 1 || *precision > 38) return std::nullopt;
    return decimal128(*precision, *scale);
}

std::optional<Type> parse_fixed_binary(std::string_view format) {
    std::string_view rest = format.substr(2);
    auto const width = take_number(rest);
    if (!width || !rest.empty() || *width < 1 || *width > 65536) return std::nullopt;
    return fixed_size_binary(*width);
}

}  // namespace

std::string format_of(Field const& field, Encoding encoding) {
    Type const& type = field.type;
    if (type.is_variable() == (encoding == Encoding::Plain)) {
        throw Error(ErrorCode::InvalidArgument, "column '" + field.name + "': " + type.to_string() +
                                                    " values cannot be encoded that way");
    }
    if (type.id == TypeId::Decimal128) {
        return "d:" + std::to_string(type.precision) + "," + std::to_string(type.scale);
    }
    if (type.id == TypeId::FixedSizeBinary) return "w:" + std::to_string(type.width);
    for (Simple const& simple : kSimple) {
        if (simple.id == type.id && simple.encoding == encoding) return std::string(simple.format);
    }
    throw Error(ErrorCode::InvalidArgument, "column '" + field.name + "' has an unknown type");
}

ColumnFormat read_format(ArrowSchema const& schema) {
    ColumnFormat column;
    column.field.name = schema.name != nullptr ? schema.name : "";
    column.field.nullable = (schema.flags & ARROW_FLAG_NULLABLE) != 0;
    std::string_view const format = schema.format != nullptr ? schema.format : "";
    if (schema.dictionary != nullptr) refuse(column.field.name, format, "dictionary-encoded");
    for (Simple const& simple : kSimple) {
        if (simple.format != format) continue;
        column.field.type = Type{simple.id};
        column.encoding = simple.encoding;
        return column;
    }
    std::optional<Type> type;
    if (format.substr(0, 2) == "d:") type = parse_decimal(format);
    if (format.substr(0, 2) == "w:") type = parse_fixed_binary(format);
    if (type) {
        column.field.type = *type;
        return column;
    }
    for (Refused const& refused : kRefused) {
        if (format.substr(0, refused.prefix.size()) == refused.prefix) {
            refuse(column.field.name, format, refused.what);
        }
    }
    refuse(column.field.name, format, "unknown");
}

}  // namespace mgi::arrow
