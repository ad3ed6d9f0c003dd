// Tables in GPU memory as an operator takes them in and gives them out.
#pragma once

#include <mgi/gpu_table.hpp>

#include "operators/gpu/move_kernels.hpp"
#include "operators/gpu/operation.hpp"
#include "operators/schema_message.hpp"

namespace mgi::operators::on_gpu {

// Most rows of a table at an endpoint: kernels count them in 32 bits, and 0 is none.
inline constexpr u64 kMostRows = 0xfffffffeu;

// Whether values are bytes to the operators, and longer than a word mostly.
inline bool is_wide(Type const& type) {
    return type.id == TypeId::Decimal128 || type.id == TypeId::FixedSizeBinary;
}

// Whether GPUs' operators take a type.
inline bool is_supported(Type const& type) {
    return type.is_integer() || type.is_float() || type.id == TypeId::Bool ||
           type.id == TypeId::Date32 || is_wide(type);
}

inline ValueKind kind_of(Type const& type) {
    ValueKind kind;
    kind.width = type.row_width();
    if (is_wide(type)) {
        kind.kind = KeyKind::Bytes;
    } else if (type.id == TypeId::Bool) {
        kind.kind = KeyKind::Bool;
    } else if (type.is_float()) {
        kind.kind = KeyKind::Float;
    } else if (type.id >= TypeId::UInt8 && type.id <= TypeId::UInt64) {
        kind.kind = KeyKind::Unsigned;
    }
    return kind;
}

// Throws Error(InvalidArgument) that names the column, for what a GPU's operator cannot read.
inline void check_column(std::string const& what, Field const& field, GpuColumn const& column,
                         i64 rows) {
    if (!is_supported(field.type)) {
        refuse(what, "column '" + field.name + "' is " + field.type.to_string() +
                         ", which operators on GPUs do not take; cast it to a type of fixed "
                         "width, leave it out, or use endpoints on CPU devices");
    }
    if (rows == 0) return;
    bool const any_address = field.type.id == TypeId::FixedSizeBinary;
    u64 const width = any_address ? 1 : std::max(1u, field.type.row_width());
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
    return table;
}

// The parts of a table, checked: those of this process, and what the others say of theirs. What parts point to must
// outlive it.
class Input : public InputColumns {
public:
    Input(Operation& operation, std::vector<GpuTable> const& parts, std::string const& side = "")
        : InputColumns(operation.what() + side), parts_(parts) {
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
        if (!operation.alone()) hear(operation, operation.gather(describe()));
        finish([&](u32 c) { return has_validity(c); });
    }

    // Of all processes.
    using InputColumns::rows;
    // Of a part of this process.
    [[nodiscard]] u64 rows(std::size_t part) const { return u64(parts_[part].rows); }
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
            layouts[i].storage = kind.width == 0 ? device::Storage::Bits : device::Storage::Fixed;
            layouts[i].key = kind.kind;
            layouts[i].width = kind.width;
        }
        return layouts;
    }
    // Some columns of a part as kernels read them. Without `nulls[column]` its validity is left out.
    [[nodiscard]] std::vector<ColumnView> views(std::size_t part, std::vector<u32> const& columns,
                                                std::vector<bool> const& nulls) const {
        std::vector<ColumnView> views(columns.size());
        for (std::size_t i = 0; i < columns.size() && parts_[part].rows != 0; ++i) {
            GpuColumn const& column = parts_[part].columns[columns[i]];
            views[i].values = column.values;
            views[i].offset = u64(column.offset);
            if (nulls[columns[i]]) views[i].validity = column.validity;
        }
        return views;
    }

private:
    void add_part(Place const& place, std::size_t p) {
        GpuTable const& part = parts_[p];
        std::string const where = "part " + std::to_string(p);
        // A part that says nothing about its columns and has no rows is an empty one.
        if (part.schema.empty() && part.rows == 0) return;
        if (u64(part.rows) > kMostRows) {
            refuse(what_, where + " has " + std::to_string(part.rows) +
                              " rows; an endpoint takes at most " + std::to_string(kMostRows) +
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
        rows_ += u64(part.rows);
    }

    // Whether some part has validity for the column, with rows or without.
    [[nodiscard]] bool has_validity(u32 column) const {
        if (!validity_.empty()) return validity_[column];
        return std::any_of(parts_.begin(), parts_.end(), [&](GpuTable const& part) {
            return column < part.columns.size() && part.columns[column].validity != nullptr;
        });
    }

    // The columns of this process' parts, if they say any, and what the others must know of them.
    [[nodiscard]] std::string describe() const {
        MessageWriter words;
        words.number(rows_).number(schema_.size());
        for (u32 c = 0; c < schema_.size(); ++c) {
            say_field(words, schema_[c]);
            words.number(has_validity(c) ? 1 : 0);
        }
        return words.take();
    }

    // Takes in what all processes say, this one too, in the same order everywhere.
    void hear(Operation const& operation, std::vector<std::string> const& all) {
        schema_ = Schema();
        rows_ = 0;
        for (std::size_t p = 0; p < all.size(); ++p) {
            MessageReader from(all[p]);
            rows_ += from.number();
            std::vector<Field> fields(from.number(kMostColumns));
            // Other columns than those before are refused below.
            validity_.resize(std::max(validity_.size(), fields.size()));
            for (std::size_t c = 0; c < fields.size(); ++c) {
                fields[c] = hear_field(from);
                if (from.number(1) == 1) validity_[c] = true;
            }
            if (!fields.empty()) join_in(Schema(std::move(fields)), operation.process_name(p));
        }
    }

    std::vector<GpuTable> const& parts_;
    std::vector<bool> validity_;  // by column, of all processes; empty where there is one
};

// The columns of an operator's own table as kernels read them.
inline std::vector<ColumnView> views_of(GpuTable const& table) {
    std::vector<ColumnView> views;
    for (GpuColumn const& column : table.columns) {
        ColumnView view;
        view.values = column.values;
        view.validity = column.validity;
        views.push_back(view);
    }
    return views;
}

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

// Where the columns of a table lie that kernels fill: in its memory, and Bools and validity first as bytes elsewhere, since
// groups write rows that share a word.
class OutputLayout {
public:
    // `nulls` says which columns can have any.
    OutputLayout(Schema const& schema, std::vector<bool> const& nulls, u64 rows) : rows_(rows) {
        for (std::size_t c = 0; c < schema.size(); ++c) {
            Column column;
            column.bits = schema[c].type.id == TypeId::Bool;
            column.wide = is_wide(schema[c].type);
            column.width = column.bits ? 1 : schema[c].type.row_width();
            column.values =
                next(bytes_, column.bits ? bit_bytes() : rows * schema[c].type.row_width());
            if (column.bits) column.value_bytes = next(unpacked_bytes_, rows + kAhead);
            if (nulls[c]) {
                column.valid = next(bytes_, bit_bytes());
                column.valid_bytes = next(unpacked_bytes_, rows + kAhead);
            }
            columns_.push_back(column);
        }
    }

    [[nodiscard]] u64 rows() const { return rows_; }
    // Of the table, and of what is packed into bits of it at the end.
    [[nodiscard]] u64 bytes() const { return bytes_; }
    [[nodiscard]] u64 unpacked_bytes() const { return unpacked_bytes_; }

    // As kernels write them, and as the table has them in the end.
    [[nodiscard]] std::vector<OutputColumn> columns(char* memory, char* unpacked) const {
        std::vector<OutputColumn> all;
        for (Column const& column : columns_) {
            OutputColumn to;
            to.bits = column.bits;
            to.wide = column.wide;
            to.width = column.width;
            to.values = column.bits ? unpacked + column.value_bytes : memory + column.values;
            if (column.valid != kNone) {
                to.valid = reinterpret_cast<u8*>(unpacked + column.valid_bytes);
            }
            all.push_back(to);
        }
        return all;
    }
    [[nodiscard]] std::vector<GpuColumn> results(char* memory) const {
        std::vector<GpuColumn> all;
        for (Column const& column : columns_) {
            GpuColumn result;
            result.values = memory + column.values;
            if (column.valid != kNone) {
                result.validity = reinterpret_cast<u8 const*>(memory + column.valid);
            }
            all.push_back(result);
        }
        return all;
    }
    // Calls `pack(bytes, bits)` for each column of bytes.
    template <class Pack>
    void each_packed(char* memory, char* unpacked, Pack const& pack) const {
        for (Column const& column : columns_) {
            if (column.bits) pack(unpacked + column.value_bytes, memory + column.values);
            if (column.valid != kNone) {
                pack(unpacked + column.valid_bytes, memory + column.valid);
            }
        }
    }

private:
    static constexpr u64 kNone = ~u64{0};
    static constexpr u64 kAhead = 32;  // that packing may read behind the last row
    struct Column {
        bool bits = false;
        bool wide = false;
        u32 width = 8;
        u64 values = 0;
        u64 value_bytes = kNone;
        u64 valid = kNone;
        u64 valid_bytes = kNone;
    };
    static u64 next(u64& all, u64 bytes) {
        u64 const at = all;
        all += (bytes + 255) / 256 * 256;
        return at;
    }
    [[nodiscard]] u64 bit_bytes() const { return (rows_ + 31) / 32 * 4; }

    u64 rows_;
    u64 bytes_ = 0;
    u64 unpacked_bytes_ = 0;
    std::vector<Column> columns_;
};

// A table that kernels of a place fill, or, with `windows`, also those of other processes.
class OutputTable {
public:
    OutputTable(Place& place, Schema const& schema, std::vector<bool> const& nulls, u64 rows,
                std::string const& what, GpuWindows* windows = nullptr)
        : place_(&place), schema_(schema), layout_(schema, nulls, rows) {
        auto const take = [&](u64 bytes, std::string const& of, bool given_out) {
            if (windows == nullptr) return place.allocate(bytes, of, given_out);
            return place.count(bytes, of, [&] { return window(place, *windows, bytes); });
        };
        memory_ = take(layout_.bytes(), what, true);
        if (layout_.unpacked_bytes() != 0) {
            unpacked_ = take(layout_.unpacked_bytes(), "bits of " + what, false);
        }
    }

    // In the host's memory, and in the place's.
    [[nodiscard]] std::vector<OutputColumn> columns() const {
        return layout_.columns(at(memory_), at(unpacked_));
    }
    [[nodiscard]] OutputColumn const* uploaded() {
        if (uploaded_ == nullptr) uploaded_ = place_->upload_one(keep_, columns());
        return uploaded_;
    }
    // What kernels write into.
    [[nodiscard]] std::vector<void*> memories() const {
        std::vector<void*> all{memory_.get()};
        if (unpacked_ != nullptr) all.push_back(unpacked_.get());
        return all;
    }

    // The table, once all rows were written.
    GpuTable finish() {
        layout_.each_packed(at(memory_), at(unpacked_), [&](char const* bytes, char* bits) {
            if (layout_.rows() == 0) return;
            place_->run(0, PackBits{}, reinterpret_cast<u8 const*>(bytes), layout_.rows(),
                        reinterpret_cast<u32*>(bits));
        });
        place_->wait();
        GpuTable table;
        table.schema = schema_;
        table.rows = i64(layout_.rows());
        table.columns = layout_.results(at(memory_));
        table.gpu = place_->gpu();
        table.owner = memory_;
        unpacked_.reset();
        return table;
    }

private:
    static Memory window(Place& place, GpuWindows& windows, u64 bytes) {
        try {
            return windows.make(place.gpu(), bytes);
        } catch (Error const& error) {
            if (error.code() != ErrorCode::OutOfMemory) throw;
        }
        place.trim();  // what is kept for others may be what is missing
        return windows.make(place.gpu(), bytes);
    }

    static char* at(Memory const& memory) { return static_cast<char*>(memory.get()); }

    Place* place_;
    Schema schema_;
    OutputLayout layout_;
    Memory memory_;
    Memory unpacked_;
    std::vector<Memory> keep_;
    OutputColumn const* uploaded_ = nullptr;
};

}  // namespace mgi::operators::on_gpu
