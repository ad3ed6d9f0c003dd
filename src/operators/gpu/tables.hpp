// Tables in GPU memory as an operator takes them in.
#pragma once

#include <mgi/gpu_table.hpp>

#include "core/key_kind.hpp"
#include "operators/gpu/operation.hpp"
#include "operators/schema_message.hpp"

namespace mgi::operators::on_gpu {

// Whether values are bytes to the operators, and longer than a word mostly.
inline bool is_wide(Type const& type) {
    return type.id == TypeId::Decimal128 || type.id == TypeId::FixedSizeBinary;
}

// Whether some column's values are longer than a word, or texts.
inline bool has_long(Schema const& schema) {
    return std::any_of(schema.fields().begin(), schema.fields().end(), [](Field const& field) {
        return is_wide(field.type) || field.type.is_variable();
    });
}

inline ValueKind kind_of(Type const& type) {
    ValueKind kind;
    kind.width = u8(std::min(type.row_width(), ValueKind::kMostWidth));
    kind.kind = key_kind(type);
    return kind;
}

// Throws Error(InvalidArgument) that names the column, for what a GPU's operator cannot read.
inline void check_column(std::string const& what, Field const& field, GpuColumn const& column,
                         i64 rows) {
    if (rows == 0) return;
    bool const offsets =
        column.encoding == Encoding::Offsets32 || column.encoding == Encoding::Offsets64;
    if (field.type.is_variable() != offsets) {
        refuse(what, "column '" + field.name + "' is " + field.type.to_string() +
                         ", and does not lie by offsets, as it does on GPUs");
    }
    u64 width = std::max(1u, field.type.row_width());
    if (offsets) width = column.encoding == Encoding::Offsets32 ? 4 : 8;
    if (field.type.id == TypeId::FixedSizeBinary) width = 1;  // bytes may lie anywhere
    if (column.values == nullptr || reinterpret_cast<u64>(column.values) % width != 0) {
        refuse(what, "column '" + field.name + "' has its values at " +
                         (column.values == nullptr
                              ? "no address"
                              : "an address that is no multiple of " + std::to_string(width)) +
                         "; copy it to memory of its own");
    }
}

// What an endpoint of another process has: no rows here.
inline GpuTable no_rows(Schema const& schema) {
    GpuTable table;
    table.schema = schema;
    table.columns.resize(schema.size());
    for (std::size_t c = 0; c < schema.size(); ++c) {
        // As the texts of other results lie, so that all are of one Arrow type.
        if (schema[c].type.is_variable()) table.columns[c].encoding = Encoding::Offsets32;
    }
    return table;
}

// A column as kernels read it.
inline ColumnView view_of(GpuColumn const& column) {
    ColumnView view;
    view.values = column.values;
    view.validity = column.validity;
    view.offset = u64(column.offset);
    view.encoding = static_cast<device::InputEncoding>(column.encoding);
    view.bytes = reinterpret_cast<char const*>(column.bytes);
    return view;
}
inline std::vector<ColumnView> views_of(GpuTable const& table) {
    std::vector<ColumnView> views;
    for (GpuColumn const& column : table.columns) views.push_back(view_of(column));
    return views;
}

// The parts of a table, checked: those of this process, and what the others say of theirs. What parts point to must
// outlive it.
class Input : public InputColumns {
public:
    Input(Operation& operation, std::vector<GpuTable> const& parts, std::string const& side = "")
        : InputColumns(operation.what() + side),
          parts_(parts),
          side_(side),
          rows_of_(parts.size()) {
        check_parts(parts.size(), operation.size());
        for (std::size_t p = 0; p < parts.size(); ++p) {
            if (operation.is_own(p)) {
                add_part(operation.place(p), p);
            } else if (parts[p].rows != 0) {
                refuse(what_, "part " + std::to_string(p) + " has " +
                                  std::to_string(parts[p].rows) + " rows, but endpoint " +
                                  std::to_string(operation.endpoint(p).id) +
                                  " is another process'; rows go in where their endpoint is");
            }
        }
        if (!operation.alone()) hear(operation, operation.gather(describe(operation)));
        finish([&](u32 c) { return has_validity(c); });
    }

    // What it is of the operator: ": left".
    [[nodiscard]] std::string const& side() const { return side_; }
    // Of this process.
    [[nodiscard]] GpuTable const& part(std::size_t part) const { return parts_[part]; }
    // Of all processes.
    using InputColumns::rows;
    // Of a part of this process.
    [[nodiscard]] u64 rows(std::size_t part) const { return u64(parts_[part].rows); }
    // Of a part of any process.
    [[nodiscard]] u64 rows_of(std::size_t part) const { return rows_of_[part]; }
    // Characters of a column of texts in a part of this process; its place waits for what was put in before.
    [[nodiscard]] u64 characters(Place& place, std::size_t part, u32 column) const {
        if (rows(part) == 0) return 0;
        ColumnView const view = view_of(parts_[part].columns[column]);
        auto const between = [&](auto const* offsets) {
            auto const at = [&](u64 row) { return u64(place.download(offsets + row, 1)[0]); };
            return at(view.offset + rows(part)) - at(view.offset);
        };
        if (view.encoding == device::InputEncoding::Offsets32) {
            return between(static_cast<std::int32_t const*>(view.values));
        }
        return between(static_cast<i64 const*>(view.values));
    }
    // Whether some part of any process has validity for the column, with rows or without.
    [[nodiscard]] bool has_validity(u32 column) const {
        if (!validity_.empty()) return validity_[column];
        return std::any_of(parts_.begin(), parts_.end(), [&](GpuTable const& part) {
            return column < part.columns.size() && part.columns[column].validity != nullptr;
        });
    }
    // Whether some part of this process has rows with validity for the column.
    [[nodiscard]] bool may_be_null(u32 column) const {
        return std::any_of(parts_.begin(), parts_.end(), [&](GpuTable const& part) {
            return part.rows != 0 && part.columns[column].validity != nullptr;
        });
    }
    // How some columns' values are hashed and found.
    [[nodiscard]] std::vector<device::ColumnLayout> layouts(std::vector<u32> const& columns) const {
        std::vector<device::ColumnLayout> layouts(columns.size());
        for (std::size_t i = 0; i < columns.size(); ++i) {
            ValueKind const kind = kind_of(schema()[columns[i]].type);
            layouts[i].storage = kind.width == 0              ? device::Storage::Bits
                                 : kind.kind == KeyKind::Text ? device::Storage::Views
                                                              : device::Storage::Fixed;
            layouts[i].key = kind.kind;
            layouts[i].width = schema()[columns[i]].type.row_width();
        }
        return layouts;
    }
    // Some columns of a part as kernels read them. Without `nulls[column]` its validity is left out.
    [[nodiscard]] std::vector<ColumnView> views(std::size_t part, std::vector<u32> const& columns,
                                                std::vector<bool> const& nulls) const {
        std::vector<ColumnView> views(columns.size());
        for (std::size_t i = 0; i < columns.size() && parts_[part].rows != 0; ++i) {
            GpuColumn const& column = parts_[part].columns[columns[i]];
            views[i] = view_of(column);
            if (!nulls[columns[i]]) views[i].validity = nullptr;
        }
        return views;
    }

private:
    void add_part(Place const& place, std::size_t p) {
        GpuTable const& part = parts_[p];
        std::string const where = "part " + std::to_string(p);
        // A part that says nothing about its columns and has no rows is an empty one.
        if (part.schema.empty() && part.rows == 0) return;
        if (u64(part.rows) > kMostGpuRows) {
            refuse(what_, where + " has " + std::to_string(part.rows) +
                              " rows; an endpoint takes at most " + std::to_string(kMostGpuRows) +
                              ": spread them over more endpoints");
        }
        if (part.rows != 0 && part.gpu != place.gpu()) {
            refuse(what_, where + " lies on cuda:" + std::to_string(part.gpu) +
                              ", its endpoint is on " + place.name() +
                              "; create the endpoint where the rows are");
        }
        if (part.columns.size() != part.schema.size()) {
            refuse(what_, where + " has " + std::to_string(part.columns.size()) +
                              " columns in place of " + std::to_string(part.schema.size()));
        }
        join_in(part.schema, where);
        for (std::size_t c = 0; c < part.columns.size(); ++c) {
            check_column(what_, part.schema[c], part.columns[c], part.rows);
        }
        rows_of_[p] = u64(part.rows);
        rows_ += u64(part.rows);
    }

    // The columns of this process' parts, if they say any, and what the others must know of them.
    [[nodiscard]] std::string describe(Operation const& operation) const {
        MessageWriter words;
        for (std::size_t const p : operation.own()) words.number(rows_of_[p]);
        say_schema(words, schema_);
        for (u32 c = 0; c < schema_.size(); ++c) words.number(has_validity(c) ? 1 : 0);
        return words.take();
    }

    // Takes in what all processes say, this one too, in the same order everywhere.
    void hear(Operation const& operation, std::vector<std::string> const& all) {
        schema_ = Schema();
        rows_ = 0;
        for (std::size_t p = 0; p < all.size(); ++p) {
            MessageReader from(all[p]);
            for (std::size_t e = 0; e < operation.size(); ++e) {
                if (operation.process_of(e) != p) continue;
                rows_of_[e] = from.number();
                rows_ += rows_of_[e];
            }
            Schema const schema = hear_schema(from);
            // Other columns than those before are refused below.
            validity_.resize(std::max(validity_.size(), schema.size()));
            for (std::size_t c = 0; c < schema.size(); ++c) {
                if (from.number(1) == 1) validity_[c] = true;
            }
            if (!schema.empty()) join_in(schema, operation.process_name(p));
        }
    }

    std::vector<GpuTable> const& parts_;
    std::string const side_;
    std::vector<u64> rows_of_;    // by part, of all processes
    std::vector<bool> validity_;  // by column, of all processes; empty where there is one
};

// A part's columns in the memory of its place.
struct UploadedPart {
    UploadedPart(Place& place, std::vector<ColumnView> const& views, u64 rows) {
        to_send.columns = place.upload_one(keep, views);
        to_send.column_count = u32(views.size());
        to_send.rows = rows;
    }
    std::vector<Memory> keep;
    PartToSend to_send;
};

}  // namespace mgi::operators::on_gpu
