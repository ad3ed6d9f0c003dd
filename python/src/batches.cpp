#include <mgi/batch.hpp>

#include <algorithm>
#include <optional>
#include <string>

#include <nanobind/stl/tuple.h>

#include <mgi/arrow_abi.hpp>
#include <mgi/error.hpp>

#include "arrow_capsule.hpp"
#include "bindings.hpp"
#include "buffers.hpp"
#include "interpreter.hpp"

namespace mgi::python {
namespace {

RecordBatch batch_from_arrow(nb::handle object) {
    release_queued();
    nb::object const pair = call_arrow_method(object, "__arrow_c_array__");
    if (!nb::isinstance<nb::tuple>(pair) || nb::len(pair) != 2) {
        throw Error(ErrorCode::InvalidArgument, "__arrow_c_array__ did not return two capsules");
    }
    auto* const schema = struct_in<ArrowSchema>(nb::object(pair[0]), "arrow_schema");
    auto* const array = struct_in<ArrowArray>(nb::object(pair[1]), "arrow_array");
    // An array that Python owns is released on the way if it is refused.
    Unlocked const unlocked;
    return import_batch(array, schema);
}

Table table_from_arrow(nb::handle object) {
    release_queued();
    nb::object const capsule = call_arrow_method(object, "__arrow_c_stream__");
    auto* const stream = struct_in<ArrowArrayStream>(capsule, "arrow_array_stream");
    // The stream may run a query, in threads that need the GIL.
    Unlocked const unlocked;
    return import_stream(stream);
}

/// A column of `make_batch`: values, and a validity bitmap or None.
using ColumnTuple = std::pair<nb::object, nb::object>;

/// A batch over buffers, one for each column: little-endian values, or bits for bool.
RecordBatch make_batch(Schema const& schema, std::int64_t rows,
                       std::vector<ColumnTuple> const& columns) {
    auto const owner = std::make_shared<std::vector<std::shared_ptr<void const>>>();
    auto const hold = [&](nb::handle object, Field const& field, std::size_t bytes) {
        InputBuffer const held = hold_buffer(object);
        if (held.size < bytes) {
            throw Error(ErrorCode::InvalidArgument,
                        "column '" + field.name + "': " + std::to_string(held.size) +
                            " bytes, less than the " + std::to_string(bytes) + " that " +
                            std::to_string(rows) + " rows take");
        }
        owner->push_back(held.owner);
        return held.data;
    };
    if (rows < 0 || columns.size() != schema.size()) {
        throw Error(ErrorCode::InvalidArgument, std::to_string(columns.size()) + " buffers for " +
                                                    std::to_string(schema.size()) + " columns");
    }
    RecordBatch batch;
    batch.schema = schema;
    batch.rows = rows;
    std::size_t const bit_bytes = (std::size_t(rows) + 7) / 8;
    for (std::size_t c = 0; c < schema.size(); ++c) {
        Field const& field = schema[c];
        if (field.type.is_variable()) {
            throw Error(ErrorCode::InvalidArgument,
                        "column '" + field.name + "' is " + field.type.to_string() +
                            ", which no NumPy array holds: give it as an Arrow array");
        }
        Column column;
        std::size_t const width = field.type.row_width();
        column.values =
            hold(columns[c].first, field, width == 0 ? bit_bytes : std::size_t(rows) * width);
        if (!columns[c].second.is_none()) {
            column.validity =
                reinterpret_cast<std::uint8_t const*>(hold(columns[c].second, field, bit_bytes));
        }
        batch.columns.push_back(std::move(column));
    }
    batch.owner = owner;
    return batch;
}

/// Values of a fixed-width column (or bits), and the position of row 0 in bits.
std::pair<OutputBuffer, std::int64_t> values_of(RecordBatch const& batch, std::size_t index) {
    Column const& column = batch.columns.at(index);
    std::size_t const width = batch.schema[index].type.row_width();
    auto const* const data = static_cast<std::byte const*>(column.values);
    if (width != 0) {
        return {{batch.owner, data + column.offset * std::int64_t(width),
                 std::size_t(batch.rows) * width},
                0};
    }
    std::int64_t const shift = column.offset % 8;
    return {{batch.owner, data + column.offset / 8, std::size_t(shift + batch.rows + 7) / 8},
            shift};
}

/// Validity bits and the position of row 0 in them; nothing where every row is valid.
std::optional<std::pair<OutputBuffer, std::int64_t>> validity_of(RecordBatch const& batch,
                                                                 std::size_t index) {
    Column const& column = batch.columns.at(index);
    if (column.validity == nullptr) return std::nullopt;
    std::int64_t const shift = column.offset % 8;
    return std::pair{OutputBuffer{batch.owner, column.validity + column.offset / 8,
                                  std::size_t(shift + batch.rows + 7) / 8},
                     shift};
}

/// Values of a String (str) or Binary (bytes) column; None for a null.
nb::list strings_of(RecordBatch const& batch, std::size_t index) {
    Field const& field = batch.schema[index];
    if (!field.type.is_variable()) {
        throw Error(
            ErrorCode::InvalidArgument,
            "column '" + field.name + "' is " + field.type.to_string() + ", not string or binary");
    }
    nb::list values;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
        if (!batch.is_valid(index, row)) {
            values.append(nb::none());
            continue;
        }
        std::string_view const text = batch.string_at(index, row);
        if (field.type.id == TypeId::String) {
            nb::object const value =
                nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), nullptr));
            if (!value.is_valid()) throw nb::python_error();
            values.append(value);
        } else {
            values.append(nb::bytes(text.data(), text.size()));
        }
    }
    return values;
}

nb::tuple batch_capsules(RecordBatch const& batch) {
    nb::object const schema = export_capsule<ArrowSchema>(
        "arrow_schema", [&](ArrowSchema* out) { export_schema(batch, out); });
    nb::object const array = export_capsule<ArrowArray>(
        "arrow_array", [&](ArrowArray* out) { export_batch(batch, out); });
    return nb::make_tuple(schema, array);
}

nb::object stream_capsule(Table const& table) {
    return export_capsule<ArrowArrayStream>(
        "arrow_array_stream", [&](ArrowArrayStream* out) { export_stream(table, out); });
}

/// Deals a table's rows out evenly: `parts` tables of consecutive rows, without a copy.
std::vector<Table> deal(Table const& table, std::int64_t parts) {
    std::int64_t const rows = table.rows();
    std::vector<Table> dealt;
    std::size_t batch = 0;
    std::int64_t used = 0;  // rows of the batch that earlier parts took
    for (std::int64_t part = 0; part < parts; ++part) {
        Table mine{table.schema, {}};
        std::int64_t missing = rows * (part + 1) / parts - rows * part / parts;
        while (missing > 0) {
            RecordBatch const& from = table.batches[batch];
            std::int64_t const count = std::min(missing, from.rows - used);
            if (count > 0) mine.batches.push_back(from.slice(used, count));
            missing -= count;
            used += count;
            if (used == from.rows) {
                ++batch;
                used = 0;
            }
        }
        dealt.push_back(std::move(mine));
    }
    return dealt;
}

}  // namespace

void bind_batches(nb::module_& module) {
    nb::class_<RecordBatch>(module, "Batch")
        .def_static("from_arrow", batch_from_arrow, nb::arg("object"))
        .def_static("make", make_batch, nb::arg("schema"), nb::arg("rows"), nb::arg("columns"))
        .def_ro("rows", &RecordBatch::rows)
        .def_ro("schema", &RecordBatch::schema, nb::rv_policy::copy)
        .def("nbytes", &RecordBatch::bytes, nb::call_guard<Unlocked>())
        .def("values", values_of, nb::arg("column"))
        .def("validity", validity_of, nb::arg("column"))
        .def("strings", strings_of, nb::arg("column"))
        .def("capsules", batch_capsules);
    nb::class_<Table>(module, "Table")
        .def_static("from_arrow", table_from_arrow, nb::arg("object"))
        .def_static(
            "of_batch", [](RecordBatch const& batch) { return Table{batch.schema, {batch}}; },
            nb::arg("batch"))
        .def_static("empty", [] { return Table{}; })
        .def_ro("schema", &Table::schema, nb::rv_policy::copy)
        .def("rows", &Table::rows)
        .def("nbytes", &Table::bytes, nb::call_guard<Unlocked>())
        .def("batches", [](Table const& table) { return table.batches; })
        .def("deal", deal, nb::arg("parts"))
        .def("capsule", stream_capsule);
}

}  // namespace mgi::python
