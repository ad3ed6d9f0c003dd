#include "core/arrow_nested.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <mgi/error.hpp>

#include "core/arrow_format.hpp"
#include "core/arrow_stored.hpp"

namespace mgi::arrow {
namespace {

using Kind = Nested::Kind;
using Offsets = Nested::Offsets;

[[noreturn]] void refuse(std::string const& name, std::string const& what) {
    throw Error(ErrorCode::InvalidArgument, "column '" + name + "': " + what);
}

struct Known {
    std::string_view format;
    Kind kind;
    Offsets offsets = Offsets::Narrow;
    std::size_t children = 1;
};

constexpr Known kLists[] = {{"+l", Kind::List, Offsets::Narrow},
                            {"+L", Kind::List, Offsets::Wide},
                            {"+vl", Kind::List, Offsets::Views},
                            {"+vL", Kind::List, Offsets::WideViews},
                            {"+m", Kind::List, Offsets::Narrow}};

constexpr Known kTexts[] = {{"u", Kind::Text, Offsets::Narrow}, {"z", Kind::Text, Offsets::Narrow},
                            {"U", Kind::Text, Offsets::Wide},   {"Z", Kind::Text, Offsets::Wide},
                            {"vu", Kind::Text, Offsets::Views}, {"vz", Kind::Text, Offsets::Views}};

bool begins(std::string const& text, std::string_view prefix) {
    return std::string_view(text).substr(0, prefix.size()) == prefix;
}

/// Of a value that has no parts, in Arrow's bytes.
std::size_t stored_bytes(ArrowField const& field, std::string const& name) {
    ColumnFormat const format = format_of_values(field, name);
    switch (format.stored) {
        case Stored::AsTyped:
        case Stored::Bool8:
        case Stored::Half:
        case Stored::Decimal32:
        case Stored::Decimal64:
        case Stored::Decimal256: break;
        default: refuse(name, "Arrow format '" + field.format + "' has no width");
    }
    return format.stored == Stored::AsTyped ? format.field.type.row_width()
                                            : stored_width(format.stored);
}

class Reading {
public:
    explicit Reading(std::string const& name) : name_(name) {}

    Nested read(ArrowField const& field) const {
        Nested type;
        type.nullable = (field.flags & ARROW_FLAG_NULLABLE) != 0;
        std::string const& format = field.format;
        if (field.dictionary != nullptr) {
            type.kind = Kind::Dictionary;
            type.index = index_type(format, name_);
            type.children.push_back(read(*field.dictionary));
        } else if (format == "+r") {
            need_children(field, 2);
            type.kind = Kind::Runs;
            type.index = index_type(field.children[0].format, name_);
            type.children.push_back(read(field.children[1]));
        } else if (format == "+s") {
            type.kind = Kind::Struct;
            read_children(type, field);
        } else if (begins(format, "+w:")) {
            need_children(field, 1);
            auto const numbers = numbers_in(std::string_view(format).substr(3));
            if (!numbers || numbers->size() != 1 || numbers->front() < 0) refuse_format(field);
            type.kind = Kind::FixedList;
            type.width = std::size_t(numbers->front());
            read_children(type, field);
        } else if (begins(format, "+us:") || begins(format, "+ud:")) {
            read_union(type, field);
        } else if (format == "n") {
            type.kind = Kind::Null;
        } else if (format == "b") {
            type.kind = Kind::Bool;
        } else if (!read_known(type, field)) {
            if (is_nested(field)) refuse_format(field);
            type.kind = Kind::Fixed;
            type.width = stored_bytes(field, name_);
        }
        return type;
    }

private:
    [[noreturn]] void refuse_format(ArrowField const& field) const {
        refuse(name_, "Arrow format '" + field.format + "' of " +
                          std::to_string(field.children.size()) + " children is none");
    }

    void need_children(ArrowField const& field, std::size_t count) const {
        if (field.children.size() != count) refuse_format(field);
    }

    void read_children(Nested& type, ArrowField const& field) const {
        for (ArrowField const& child : field.children) type.children.push_back(read(child));
    }

    bool read_known(Nested& type, ArrowField const& field) const {
        for (Known const& known : kTexts) {
            if (known.format != field.format) continue;
            type.kind = known.kind;
            type.offsets = known.offsets;
            return true;
        }
        for (Known const& known : kLists) {
            if (known.format != field.format) continue;
            need_children(field, 1);
            type.kind = known.kind;
            type.offsets = known.offsets;
            read_children(type, field);
            return true;
        }
        return false;
    }

    void read_union(Nested& type, ArrowField const& field) const {
        auto const codes = numbers_in(std::string_view(field.format).substr(4));
        if (!codes || codes->size() != field.children.size()) refuse_format(field);
        for (int const code : *codes) {
            auto const found = std::find(type.codes.begin(), type.codes.end(), code);
            if (code < 0 || code > 127 || found != type.codes.end()) refuse_format(field);
            type.codes.push_back(std::int8_t(code));
        }
        type.kind = begins(field.format, "+us:") ? Kind::SparseUnion : Kind::DenseUnion;
        read_children(type, field);
    }

    std::string const& name_;
};

/// A field's name, so that what is around it cannot be part of it.
std::string quoted(std::string const& name) {
    if (!name.empty() && name.find_first_of(",:<>\"\\ ") == std::string::npos) return name;
    std::string text = "\"";
    for (char const letter : name) {
        if (letter == '"' || letter == '\\') text += '\\';
        text += letter;
    }
    return text + "\"";
}

/// How wide decimals are stored is part of what the bytes mean.
std::string decimal_text(ArrowField const& field) {
    auto const numbers = numbers_in(std::string_view(field.format).substr(2));
    if (!numbers || numbers->size() < 2) return field.format;
    int const bits = numbers->size() > 2 ? (*numbers)[2] : 128;
    return "decimal" + std::to_string(bits) + "(" + std::to_string((*numbers)[0]) + ", " +
           std::to_string((*numbers)[1]) + ")";
}

/// A map's key and value.
std::string entry_text(ArrowField const& entry, bool compared) {
    if (entry.children.size() != 2) return nested_text(entry, compared);
    bool const never_null = !compared && (entry.children[1].flags & ARROW_FLAG_NULLABLE) == 0;
    return nested_text(entry.children[0], compared) + ", " +
           nested_text(entry.children[1], compared) + (never_null ? " not null" : "");
}

}  // namespace

bool is_nested(ArrowField const& field) {
    if (field.dictionary != nullptr || field.format == "+r") return false;
    return begins(field.format, "+");
}

Nested nested_of(ArrowField const& field, std::string const& name) {
    Nested type = Reading(name).read(field);
    type.text = nested_text(field);
    return type;
}

std::string nested_text(ArrowField const& field, bool compared) {
    if (ArrowField const* const values = values_of(field)) return nested_text(*values, compared);
    std::string const& format = field.format;
    auto const child = [&](std::size_t i) {
        ArrowField const& part = field.children.at(i);
        bool const never_null = !compared && (part.flags & ARROW_FLAG_NULLABLE) == 0;
        return nested_text(part, compared) + (never_null ? " not null" : "");
    };
    if (format == "+s" || begins(format, "+u")) {
        std::string text;
        for (std::size_t i = 0; i < field.children.size(); ++i) {
            text += (i == 0 ? "" : ", ") + quoted(field.children[i].name) + ": " + child(i);
        }
        return (format == "+s" ? "struct<" : "union<") + text + ">";
    }
    if (format == "+m") return "map<" + entry_text(field.children.at(0), compared) + ">";
    if (begins(format, "+w:") && !compared) {
        return "fixed_size_list<" + child(0) + ">[" + format.substr(3) + "]";
    }
    if (begins(format, "+")) return "list<" + child(0) + ">";
    if (begins(format, "d:")) return decimal_text(field);
    // As it is stored, whatever an extension type means by it.
    return compared ? compared_as(format) : type_of_format(format).to_string();
}

bool nested_is_key(ArrowField const& field) {
    if (ArrowField const* const values = values_of(field)) return nested_is_key(*values);
    std::string const& format = field.format;
    if (format == "e" || format == "f" || format == "g") return false;
    if (format == "+m" || begins(format, "+u")) return false;
    return std::all_of(field.children.begin(), field.children.end(), nested_is_key);
}

}  // namespace mgi::arrow
