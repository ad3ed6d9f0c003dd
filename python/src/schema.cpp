#include <mgi/schema.hpp>

#include <charconv>
#include <optional>
#include <string_view>
#include <tuple>

#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <mgi/arrow_abi.hpp>
#include <mgi/batch.hpp>
#include <mgi/error.hpp>

#include "arrow_capsule.hpp"
#include "bindings.hpp"

namespace mgi::python {
namespace {

constexpr char const* kKnownTypes =
    "bool, int8 to int64, uint8 to uint64, float32, float64, date32, date64, timestamp[unit] and "
    "timestamp[unit, tz=zone], time32[unit], time64[unit], duration[unit] with the unit s, ms, us "
    "or ns, decimal128(precision, scale), fixed_size_binary(width), string, binary";

/// The one or two integers in "name(1, 2)" or "name[1]"; false if there is something else.
bool read_numbers(std::string_view text, int* numbers, int count) {
    for (int i = 0; i < count; ++i) {
        while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
        auto const [end, problem] =
            std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
        if (problem != std::errc{}) return false;
        text.remove_prefix(std::size_t(end - text.data()));
        if (i + 1 == count) break;
        if (text.empty() || text.front() != ',') return false;
        text.remove_prefix(1);
    }
    return text == ")" || text == "]";
}

std::optional<TimeUnit> unit_named(std::string_view name) {
    if (name == "s") return TimeUnit::Second;
    if (name == "ms") return TimeUnit::Milli;
    if (name == "us") return TimeUnit::Micro;
    if (name == "ns") return TimeUnit::Nano;
    return std::nullopt;
}

/// "timestamp[us, tz=UTC]", "duration[ms]", "time32[s]", "date64[ms]".
std::optional<Type> time_type_named(std::string_view name) {
    if (name == "date64" || name == "date64[ms]") return date64();
    std::size_t const open = name.find('[');
    if (open == std::string_view::npos || name.back() != ']') return std::nullopt;
    std::string_view const head = name.substr(0, open);
    std::string_view const inner = name.substr(open + 1, name.size() - open - 2);
    std::size_t const comma = inner.find(", tz=");
    auto const unit = unit_named(inner.substr(0, comma));
    if (!unit) return std::nullopt;
    if (head == "timestamp") {
        bool const zoned = comma != std::string_view::npos;
        return timestamp(*unit, zoned ? std::string(inner.substr(comma + 5)) : std::string());
    }
    if (comma != std::string_view::npos) return std::nullopt;
    if (head == "duration") return duration(*unit);
    bool const narrow = *unit == TimeUnit::Second || *unit == TimeUnit::Milli;
    if (head == (narrow ? "time32" : "time64")) return time_of_day(*unit);
    return std::nullopt;
}

/// A type by its name, as Arrow prints it or as NumPy and SQL users write it.
Type type_named(std::string_view name) {
    static constexpr std::pair<std::string_view, TypeId> plain[] = {
        {"bool", TypeId::Bool},          {"int8", TypeId::Int8},     {"int16", TypeId::Int16},
        {"int32", TypeId::Int32},        {"int64", TypeId::Int64},   {"uint8", TypeId::UInt8},
        {"uint16", TypeId::UInt16},      {"uint32", TypeId::UInt32}, {"uint64", TypeId::UInt64},
        {"float32", TypeId::Float32},    {"float", TypeId::Float32}, {"float64", TypeId::Float64},
        {"double", TypeId::Float64},     {"date32", TypeId::Date32}, {"string", TypeId::String},
        {"date32[day]", TypeId::Date32}, {"binary", TypeId::Binary},
    };
    for (auto const& [known, id] : plain) {
        if (name == known) return {id};
    }
    if (std::optional<Type> time = time_type_named(name)) return *time;
    std::string_view const head = name.substr(0, name.find_first_of("(["));
    std::string_view const tail = name.substr(std::min(name.size(), head.size() + 1));
    int numbers[2] = {0, 0};
    if (head == "decimal128" && read_numbers(tail, numbers, 2)) {
        return decimal128(numbers[0], numbers[1]);
    }
    if (head == "fixed_size_binary" && read_numbers(tail, numbers, 1)) {
        return fixed_size_binary(numbers[0]);
    }
    throw Error(ErrorCode::InvalidArgument,
                "there is no type '" + std::string(name) + "'; there are: " + kKnownTypes +
                    "; others come from an Arrow schema, of pyarrow, say");
}

using FieldTuple = std::tuple<std::string, std::string, bool>;

Schema make_schema(std::vector<FieldTuple> const& fields) {
    std::vector<Field> made;
    made.reserve(fields.size());
    for (auto const& [name, type, nullable] : fields) {
        try {
            made.push_back({name, type_named(type), nullable});
        } catch (Error const& error) {
            throw Error(error.code(), "column '" + name + "': " + error.what());
        }
    }
    return Schema(std::move(made));
}

std::vector<FieldTuple> fields_of(Schema const& schema) {
    std::vector<FieldTuple> fields;
    for (Field const& field : schema.fields()) {
        fields.emplace_back(field.name, field.type.to_string(), field.nullable);
    }
    return fields;
}

Schema schema_from_arrow(nb::handle object) {
    nb::object const capsule = call_arrow_method(object, "__arrow_c_schema__");
    return import_schema(struct_in<ArrowSchema>(capsule, "arrow_schema"));
}

nb::object schema_capsule(Schema const& schema) {
    return export_capsule<ArrowSchema>("arrow_schema",
                                       [&](ArrowSchema* out) { export_schema(schema, out); });
}

}  // namespace

void bind_schema(nb::module_& module) {
    nb::class_<Schema>(module, "Schema")
        .def_static("make", make_schema, nb::arg("fields"))
        .def_static("from_arrow", schema_from_arrow, nb::arg("object"))
        .def("fields", fields_of)
        .def("text", &Schema::to_string)
        .def("index_of", &Schema::index_of, nb::arg("name"))
        .def("row_bytes", &Schema::row_bytes)
        .def("row_offsets", &Schema::row_offsets)
        .def("widths",
             [](Schema const& schema) {
                 std::vector<std::uint32_t> widths;
                 for (Field const& field : schema.fields())
                     widths.push_back(field.type.row_width());
                 return widths;
             })
        .def("capsule", schema_capsule);
}

}  // namespace mgi::python
