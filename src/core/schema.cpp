#include <algorithm>
#include <utility>

#include <mgi/device/batch_view.hpp>
#include <mgi/error.hpp>
#include <mgi/schema.hpp>

#include "core/arrow_format.hpp"

namespace mgi {
namespace {

constexpr int kMaxPrecision = 38;
constexpr char kTimeUnits[] = {'s', 'm', 'u', 'n'};
constexpr int kMaxFixedWidth = 65536;
// A segment holds at least 64 rows and is addressed with 32 bits.
constexpr std::uint64_t kMaxRowBytes = std::uint64_t(16) << 20;

/// What is wrong with a type; empty if nothing is.
std::string problem_of(Type const& type) {
    if (type.id > TypeId::Binary) {
        return "type number " + std::to_string(int(type.id)) + " does not exist";
    }
    if (type.id == TypeId::Decimal128) {
        if (type.precision < 1 || type.precision > kMaxPrecision) {
            return type.to_string() + ": the precision must be 1 to 38 digits";
        }
    } else if (type.precision != 0 || type.scale != 0) {
        return type.to_string() + " has no precision or scale";
    }
    if (type.id == TypeId::FixedSizeBinary) {
        if (type.width < 1 || type.width > kMaxFixedWidth) {
            return type.to_string() + ": the width must be 1 to 65536 bytes";
        }
    } else if (type.width != 0) {
        return type.to_string() + " has no width of its own; leave `width` at 0";
    }
    return {};
}

Type checked(Type type) {
    if (std::string const problem = problem_of(type); !problem.empty()) {
        throw Error(ErrorCode::InvalidArgument, problem);
    }
    return type;
}

/// Bytes and alignment of a value inside a row struct.
struct Place {
    std::uint32_t size;
    std::uint32_t alignment;
};

Place place_of(Type const& type) {
    switch (type.id) {
        case TypeId::Bool: return {1, 1};
        case TypeId::FixedSizeBinary: return {std::uint32_t(type.width), 1};
        case TypeId::String:
        case TypeId::Binary: return {sizeof(device::RowBytes), alignof(device::RowBytes)};
        default: return {type.row_width(), type.row_width()};
    }
}

/// Calls `at(offset)` for each column of a row struct; returns the struct's size.
template <class At>
std::uint64_t lay_out_row(std::vector<Field> const& fields, At&& at) {
    std::uint64_t end = 0;
    std::uint64_t widest = 1;
    auto const align = [](std::uint64_t from, std::uint64_t to) {
        return (from + to - 1) / to * to;
    };
    for (Field const& field : fields) {
        Place const place = place_of(field.type);
        end = align(end, place.alignment);
        at(end);
        end += place.size;
        widest = std::max<std::uint64_t>(widest, place.alignment);
    }
    return align(end, widest);
}

std::uint64_t row_size(std::vector<Field> const& fields) noexcept {
    return lay_out_row(fields, [](std::uint64_t) {});
}

}  // namespace

std::uint32_t Type::row_width() const noexcept {
    switch (id) {
        case TypeId::Bool: return 0;
        case TypeId::Int8:
        case TypeId::UInt8: return 1;
        case TypeId::Int16:
        case TypeId::UInt16: return 2;
        case TypeId::Int32:
        case TypeId::UInt32:
        case TypeId::Float32:
        case TypeId::Date32: return 4;
        case TypeId::Int64:
        case TypeId::UInt64:
        case TypeId::Float64: return 8;
        case TypeId::Decimal128:
        case TypeId::String:
        case TypeId::Binary: return 16;
        case TypeId::FixedSizeBinary: return std::uint32_t(width);
    }
    return 0;
}

std::string Type::to_string() const {
    if (std::string const own = meaning(); !own.empty()) return own;
    switch (id) {
        case TypeId::Bool: return "bool";
        case TypeId::Int8: return "int8";
        case TypeId::Int16: return "int16";
        case TypeId::Int32: return "int32";
        case TypeId::Int64: return "int64";
        case TypeId::UInt8: return "uint8";
        case TypeId::UInt16: return "uint16";
        case TypeId::UInt32: return "uint32";
        case TypeId::UInt64: return "uint64";
        case TypeId::Float32: return "float";
        case TypeId::Float64: return "double";
        case TypeId::Date32: return "date32[day]";
        case TypeId::Decimal128:
            return "decimal128(" + std::to_string(precision) + ", " + std::to_string(scale) + ")";
        case TypeId::FixedSizeBinary: return "fixed_size_binary[" + std::to_string(width) + "]";
        case TypeId::String: return "string";
        case TypeId::Binary: return "binary";
    }
    return "unknown";
}

Type boolean() {
    return {TypeId::Bool};
}
Type int8() {
    return {TypeId::Int8};
}
Type int16() {
    return {TypeId::Int16};
}
Type int32() {
    return {TypeId::Int32};
}
Type int64() {
    return {TypeId::Int64};
}
Type uint8() {
    return {TypeId::UInt8};
}
Type uint16() {
    return {TypeId::UInt16};
}
Type uint32() {
    return {TypeId::UInt32};
}
Type uint64() {
    return {TypeId::UInt64};
}
Type float32() {
    return {TypeId::Float32};
}
Type float64() {
    return {TypeId::Float64};
}
Type date32() {
    return {TypeId::Date32};
}
Type timestamp(TimeUnit unit, std::string const& zone) {
    return arrow::type_of_format(std::string("ts") + kTimeUnits[std::size_t(unit)] + ':' + zone);
}
Type time_of_day(TimeUnit unit) {
    return arrow::type_of_format(std::string("tt") + kTimeUnits[std::size_t(unit)]);
}
Type duration(TimeUnit unit) {
    return arrow::type_of_format(std::string("tD") + kTimeUnits[std::size_t(unit)]);
}
Type date64() {
    return arrow::type_of_format("tdm");
}
Type decimal128(int precision, int scale) {
    return checked({TypeId::Decimal128, 0, precision, scale});
}
Type fixed_size_binary(int width) {
    return checked({TypeId::FixedSizeBinary, width});
}
Type string() {
    return {TypeId::String};
}
Type binary() {
    return {TypeId::Binary};
}

Schema::Schema(std::vector<Field> fields) : fields_(std::move(fields)) {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        Field const& field = fields_[i];
        if (field.name.find('\0') != std::string::npos) {
            throw Error(ErrorCode::InvalidArgument,
                        "the name of column " + std::to_string(i) + " contains a zero byte");
        }
        if (std::string const problem = problem_of(field.type); !problem.empty()) {
            throw Error(ErrorCode::InvalidArgument, "column '" + field.name + "': " + problem);
        }
    }
    if (std::uint64_t const bytes = row_size(fields_); bytes > kMaxRowBytes) {
        throw Error(ErrorCode::InvalidArgument, "a row of this schema takes " +
                                                    std::to_string(bytes) + " bytes; at most " +
                                                    std::to_string(kMaxRowBytes) + " are possible");
    }
}

std::size_t Schema::index_of(std::string_view name) const {
    std::size_t found = fields_.size();
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        if (fields_[i].name != name) continue;
        if (found != fields_.size()) {
            throw Error(ErrorCode::InvalidArgument,
                        "columns " + std::to_string(found) + " and " + std::to_string(i) +
                            " are both named '" + std::string(name) + "'; rename one of them");
        }
        found = i;
    }
    if (found != fields_.size()) return found;
    std::string names;
    for (Field const& field : fields_) names += (names.empty() ? "" : ", ") + field.name;
    throw Error(ErrorCode::InvalidArgument, "no column '" + std::string(name) + "'; there " +
                                                (fields_.empty() ? "are none" : "are: " + names));
}

bool Schema::holds(Schema const& other) const noexcept {
    return std::equal(
        fields_.begin(), fields_.end(), other.fields_.begin(), other.fields_.end(),
        [](Field const& a, Field const& b) { return a.name == b.name && a.type.holds(b.type); });
}

std::string Schema::to_string() const {
    std::string text;
    for (Field const& field : fields_) {
        if (!text.empty()) text += ", ";
        text += field.name + ": " + field.type.to_string() + arrow::categories_text(field.type);
        if (field.nullable) text += '?';
    }
    return text;
}

std::uint32_t Schema::row_bytes() const noexcept {
    return std::uint32_t(row_size(fields_));
}

std::vector<std::uint32_t> Schema::row_offsets() const {
    std::vector<std::uint32_t> offsets;
    offsets.reserve(fields_.size());
    lay_out_row(fields_, [&](std::uint64_t at) { offsets.push_back(std::uint32_t(at)); });
    return offsets;
}

}  // namespace mgi
