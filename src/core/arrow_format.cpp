#include "core/arrow_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include <mgi/error.hpp>

#include "core/arrow_nested.hpp"
#include "core/text.hpp"

namespace mgi::arrow {
namespace {

struct Simple {
    std::string_view format;
    TypeId id;
    Encoding encoding = Encoding::Plain;
};

/// What a type is called where its `arrow` does not say otherwise; the last of them for strings.
constexpr std::array<Simple, 18> kSimple{{{"b", TypeId::Bool},
                                          {"c", TypeId::Int8},
                                          {"s", TypeId::Int16},
                                          {"i", TypeId::Int32},
                                          {"l", TypeId::Int64},
                                          {"C", TypeId::UInt8},
                                          {"S", TypeId::UInt16},
                                          {"I", TypeId::UInt32},
                                          {"L", TypeId::UInt64},
                                          {"f", TypeId::Float32},
                                          {"g", TypeId::Float64},
                                          {"tdD", TypeId::Date32},
                                          {"u", TypeId::String, Encoding::Offsets32},
                                          {"U", TypeId::String, Encoding::Offsets64},
                                          {"vu", TypeId::String, Encoding::Views},
                                          {"z", TypeId::Binary, Encoding::Offsets32},
                                          {"Z", TypeId::Binary, Encoding::Offsets64},
                                          {"vz", TypeId::Binary, Encoding::Views}}};

struct Named {
    std::string_view format;  ///< or how it begins
    TypeId id;
    char const* name;
    std::int32_t width = 0;
    Stored stored = Stored::AsTyped;
};

/// What lies as one of the types above and means something else.
constexpr std::array<Named, 18> kNamed{
    {{"tss", TypeId::Int64, "timestamp[s"},
     {"tsm", TypeId::Int64, "timestamp[ms"},
     {"tsu", TypeId::Int64, "timestamp[us"},
     {"tsn", TypeId::Int64, "timestamp[ns"},
     {"tts", TypeId::Int32, "time32[s]"},
     {"ttm", TypeId::Int32, "time32[ms]"},
     {"ttu", TypeId::Int64, "time64[us]"},
     {"ttn", TypeId::Int64, "time64[ns]"},
     {"tDs", TypeId::Int64, "duration[s]"},
     {"tDm", TypeId::Int64, "duration[ms]"},
     {"tDu", TypeId::Int64, "duration[us]"},
     {"tDn", TypeId::Int64, "duration[ns]"},
     {"tdm", TypeId::Int64, "date64[ms]"},
     {"tiM", TypeId::Int32, "month_interval"},
     {"tiD", TypeId::FixedSizeBinary, "day_time_interval", 8},
     {"tin", TypeId::FixedSizeBinary, "month_day_nano_interval", 16},
     {"e", TypeId::Float32, "halffloat", 0, Stored::Half},
     {"n", TypeId::Bool, "null", 0, Stored::Null}}};

[[noreturn]] void refuse(std::string const& name, std::string_view format, char const* what) {
    throw Error(ErrorCode::InvalidArgument, "column '" + name + "': Arrow format '" +
                                                std::string(format) + "' is " + what +
                                                ". Cast the column or leave it out");
}

struct Decimal {
    int precision = 0;
    int scale = 0;
    int bits = 128;
};

std::optional<Decimal> parse_decimal(std::string_view format) {
    if (format.substr(0, 2) != "d:") return std::nullopt;
    auto const numbers = numbers_in(format.substr(2));
    if (!numbers || numbers->size() < 2 || numbers->size() > 3) return std::nullopt;
    Decimal const said{(*numbers)[0], (*numbers)[1], numbers->size() == 3 ? (*numbers)[2] : 128};
    static constexpr std::pair<int, int> kDigits[] = {{32, 9}, {64, 18}, {128, 38}, {256, 76}};
    for (auto const& [width, digits] : kDigits) {
        bool const fits = said.bits == width && said.precision >= 1 && said.precision <= digits;
        if (fits) return said;
    }
    return std::nullopt;
}

std::optional<Type> parse_fixed_binary(std::string_view format) {
    if (format.substr(0, 2) != "w:") return std::nullopt;
    auto const numbers = numbers_in(format.substr(2));
    if (!numbers || numbers->size() != 1) return std::nullopt;
    int const width = numbers->front();
    if (width < 1 || width > 65536) return std::nullopt;
    return fixed_size_binary(width);
}

Named const* named(std::string_view format) {
    for (Named const& one : kNamed) {
        // A timestamp's zone stands behind a colon, which is there also without one.
        bool const zoned = one.format.substr(0, 2) == "ts";
        bool const has_colon = format.size() > 3 && format[3] == ':';
        if (zoned ? has_colon && format.substr(0, 3) == one.format : format == one.format) {
            return &one;
        }
    }
    return nullptr;
}

/// Sets type, encoding and how values are stored, of a field that is no dictionary.
bool read_values(ArrowField const& arrow, ColumnFormat& column) {
    Type& type = column.field.type;
    for (Simple const& simple : kSimple) {
        if (simple.format != arrow.format) continue;
        type.id = simple.id;
        column.encoding = simple.encoding;
        if (metadata_value(arrow.metadata, "ARROW:extension:name") == "arrow.bool8" &&
            simple.id == TypeId::Int8) {
            type.id = TypeId::Bool;
            column.stored = Stored::Bool8;
        }
        return true;
    }
    if (Named const* const found = named(arrow.format)) {
        type = {found->id, found->width};
        if (found->stored == Stored::Null) column.field.nullable = true;
        column.stored = found->stored;
        return true;
    }
    if (auto const decimal = parse_decimal(arrow.format)) {
        bool const fits = decimal->precision <= 38;
        type = fits ? decimal128(decimal->precision, decimal->scale) : fixed_size_binary(32);
        if (decimal->bits == 32) column.stored = Stored::Decimal32;
        if (decimal->bits == 64) column.stored = Stored::Decimal64;
        if (decimal->bits == 256 && fits) column.stored = Stored::Decimal256;
        return true;
    }
    if (auto const fixed = parse_fixed_binary(arrow.format)) {
        type = *fixed;
        return true;
    }
    return false;
}

/// Whether a type says all of this by itself.
bool is_plain(ArrowField const& arrow, ColumnFormat const& column) {
    if (!arrow.metadata.empty() || column.stored != Stored::AsTyped) return false;
    // On a GPU text lies behind offsets, and comes out as it came in all the same.
    if (column.encoding != Encoding::Plain) return false;
    return column.field.type.meaning().empty() && named(arrow.format) == nullptr &&
           column.field.type.id != TypeId::FixedSizeBinary;
}

/// What values mean when they are compared.
std::string comparison_of(std::string const& meaning) {
    if (meaning == "halffloat") return {};
    // However many digits, they are as wide.
    if (meaning.substr(0, 11) == "decimal256(") return meaning.substr(meaning.find(','));
    // With a zone they are instants, shown in it.
    std::size_t const zone = meaning.find(", tz=");
    return zone == std::string::npos ? meaning : meaning.substr(0, zone) + ", tz]";
}

ColumnFormat with_arrow(ArrowField arrow, ColumnFormat column) {
    arrow.name.clear();
    arrow.flags &= ~std::int64_t(ARROW_FLAG_NULLABLE);
    bool const fixed = arrow.format.substr(0, 2) == "w:" && arrow.metadata.empty();
    if (fixed || is_plain(arrow, column)) return column;
    column.field.type.arrow = std::make_shared<ArrowField const>(std::move(arrow));
    return column;
}

}  // namespace

std::optional<std::vector<int>> numbers_in(std::string_view text) {
    std::vector<int> numbers;
    while (!text.empty()) {
        int number = 0;
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc{}) return std::nullopt;
        numbers.push_back(number);
        text.remove_prefix(std::size_t(end - text.data()));
        if (text.empty()) break;
        if (text.front() != ',' || text.size() == 1) return std::nullopt;
        text.remove_prefix(1);
    }
    return numbers;
}

Type index_type(std::string const& format, std::string const& name) {
    for (Simple const& simple : kSimple) {
        Type const type{simple.id};
        if (simple.format == format && type.is_integer()) return type;
    }
    refuse(name, format, "not the format of an index");
}

ColumnFormat format_of_values(ArrowField const& arrow, std::string const& name) {
    ColumnFormat column;
    column.field.name = name;
    column.field.nullable = (arrow.flags & ARROW_FLAG_NULLABLE) != 0;
    if (ArrowField const* const values = values_of(arrow)) {
        bool const runs = arrow.dictionary == nullptr;
        column.values = std::make_shared<ColumnFormat const>(format_of_values(*values, name));
        column.stored = runs ? Stored::Runs : Stored::Dictionary;
        column.index = index_type(runs ? arrow.children[0].format : arrow.format, name);
        column.field.type = column.values->field.type;
        // Runs themselves are never null.
        if (runs) column.field.nullable = column.field.nullable || column.values->field.nullable;
        return column;
    }
    if (is_nested(arrow)) {
        column.nested = std::make_shared<Nested const>(nested_of(arrow, name));
        column.stored = Stored::Nested;
        column.encoding = Encoding::Views;
        column.field.type = binary();
        return column;
    }
    if (read_values(arrow, column)) return column;
    bool const decimal = arrow.format.substr(0, 2) == "d:";
    bool const fixed = arrow.format.substr(0, 2) == "w:";
    refuse(name, arrow.format,
           decimal ? "a decimal of an impossible precision or width"
           : fixed ? "fixed-size binary of an impossible width; 1 to 65536 bytes are possible"
                   : "none that Arrow's C data interface has");
}

std::string compared_as(std::string const& format) {
    Type const type = type_of_format(format);
    std::string const meaning = type.meaning();
    // Nested values have the bytes that Arrow stores.
    return meaning == "halffloat" || meaning.empty() ? type.to_string() : comparison_of(meaning);
}

std::uint64_t largest(Type const& integer) {
    bool const has_sign = integer.id < TypeId::UInt8;
    return ~std::uint64_t{0} >> (64 - 8 * integer.row_width() + (has_sign ? 1 : 0));
}

ColumnFormat read_format(ArrowSchema const& schema) {
    ArrowField arrow = read_field(schema);
    ColumnFormat column = format_of_values(arrow, arrow.name);
    return with_arrow(std::move(arrow), std::move(column));
}

ColumnFormat format_of(Field const& field) {
    if (field.type.arrow != nullptr) {
        ColumnFormat column = format_of_values(*field.type.arrow, field.name);
        column.field = field;
        return column;
    }
    ColumnFormat column;
    column.field = field;
    if (field.type.is_variable()) column.encoding = Encoding::Views;
    return column;
}

Type type_of_format(std::string const& format) {
    ArrowField arrow;
    arrow.format = format;
    ColumnFormat column = format_of_values(arrow, "");
    return with_arrow(std::move(arrow), std::move(column)).field.type;
}

void check_arrow(Field const& field) {
    if (field.type.arrow == nullptr) return;
    Type const& said = format_of_values(*field.type.arrow, field.name).field.type;
    Type const& type = field.type;
    if (said.id == type.id && said.width == type.width && said.precision == type.precision &&
        said.scale == type.scale) {
        return;
    }
    refuse(field.name, field.type.arrow->format, "not how its values lie");
}

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

std::string categories_text(Type const& type) {
    auto const categories = type.arrow == nullptr ? std::nullopt : enumeration_of(*type.arrow);
    if (!categories) return {};
    constexpr std::size_t kShown = 40;
    std::string_view left = *categories;
    std::string text = " of [";
    // Each stands behind its length: "3;one3;two".
    while (!left.empty() && text.size() < 2 * kShown) {
        std::string const length(take_word(left, ';'));
        std::string_view const one = left.substr(0, std::strtoul(length.c_str(), nullptr, 10));
        std::size_t shown = std::min(one.size(), kShown);
        // No character is cut.
        while (shown < one.size() && shown != 0 && (one[shown] & 0xc0) == 0x80) --shown;
        if (text.back() != '[') text += ", ";
        text += std::string(one.substr(0, shown)) + (shown < one.size() ? "..." : "");
        left.remove_prefix(one.size());
    }
    return text + (left.empty() ? "]" : ", ...]");
}

}  // namespace mgi::arrow

namespace mgi {

namespace {

/// What the values are; null where a type's id says all.
ArrowField const* said_of(Type const& type) {
    ArrowField const* said = type.arrow.get();
    while (said != nullptr && arrow::values_of(*said) != nullptr) said = arrow::values_of(*said);
    return said;
}

std::string compared(Type const& type) {
    ArrowField const* const said = said_of(type);
    bool const nested = said != nullptr && arrow::is_nested(*said);
    return nested ? arrow::nested_text(*said, true) : arrow::comparison_of(type.meaning());
}

}  // namespace

std::string Type::meaning() const {
    ArrowField const* const said = said_of(*this);
    if (said == nullptr) return {};
    if (arrow::is_nested(*said)) return arrow::nested_text(*said);
    std::string const& format = said->format;
    if (auto const decimal = arrow::parse_decimal(format)) {
        if (decimal->bits == 128 || decimal->precision <= 38) return {};
        return "decimal256(" + std::to_string(decimal->precision) + ", " +
               std::to_string(decimal->scale) + ")";
    }
    arrow::Named const* const found = arrow::named(format);
    if (found == nullptr) return {};
    std::string text = found->name;
    if (format.substr(0, 2) != "ts") return text;
    if (format.size() > 4) text += ", tz=" + format.substr(4);
    return text + "]";
}

bool Type::holds(Type const& other) const {
    return *this == other && arrow::enumerations_hold(arrow.get(), other.arrow.get());
}

bool Type::is_number() const {
    bool const lies_so = is_integer() || is_float() || id == TypeId::Decimal128;
    return lies_so && (arrow == nullptr || arrow::comparison_of(meaning()).empty());
}

bool Type::has_order() const {
    bool const lies_so = id == TypeId::FixedSizeBinary || is_variable();
    return !lies_so || meaning().empty();
}

bool Type::is_key() const {
    ArrowField const* const said = said_of(*this);
    return said == nullptr || !arrow::is_nested(*said) || arrow::nested_is_key(*said);
}

bool Type::means_as(Type const& other) const {
    return arrow == other.arrow || compared(*this) == compared(other);
}

}  // namespace mgi
