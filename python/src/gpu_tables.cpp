// Tables in GPU memory, and what of the driver their Python side asks for.
#include <mgi/arrow_device_abi.hpp>
#include <mgi/gpu_table.hpp>

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <variant>

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>

#include "arrow_capsule.hpp"
#include "arrow_device_stream.hpp"
#include "bindings.hpp"
#include "gpu/driver.hpp"
#include "gpu/memory.hpp"
#include "gpu/peers.hpp"
#include "interpreter.hpp"

namespace mgi::python {
namespace {

int count_gpus() {
    Unlocked const unlocked;
    gpu::Driver const* const driver = gpu::Driver::find();
    return driver == nullptr ? 0 : driver->gpus();
}

/// N of "cuda:N" whose memory, or managed memory, this is; nothing where it is the host's.
std::optional<int> gpu_of_address(std::uint64_t address) {
    gpu::Driver const& driver = gpu::Driver::get();
    unsigned memory = gpu::kMemoryOfHost;
    // The driver knows nothing of memory that is none of its own.
    if (driver.cuPointerGetAttribute(&memory, gpu::kPointerMemoryType, address) != gpu::kSuccess ||
        memory != gpu::kMemoryOfDevice) {
        return std::nullopt;
    }
    int ordinal = 0;
    driver.check(driver.cuPointerGetAttribute(&ordinal, gpu::kPointerOrdinal, address),
                 "find whose memory an array is in");
    return ordinal;
}

/// Waits for what is in a stream now; 1 is the legacy default stream, 2 the thread's own.
void wait_stream(int gpu, std::uintptr_t stream) {
    gpu::Driver const& driver = gpu::Driver::get();
    auto const query = [&] {
        gpu::Current const here(driver, gpu);
        gpu::Result const result = driver.cuStreamQuery(reinterpret_cast<gpu::Stream>(stream));
        if (result == gpu::kNotReady) return Attempt::Nothing;
        driver.check(result, "wait for the stream that an array is made in", gpu);
        return Attempt::Done;
    };
    wait_for(query, Deadline(std::nullopt), [] {});
}

/// What is put into a stream from here on comes behind what is in another one now.
void wait_in_stream(int gpu, std::uintptr_t stream, std::uintptr_t other) {
    Unlocked const unlocked;
    gpu::OwnEvent const event(gpu, reinterpret_cast<gpu::Stream>(other));
    event.hold_up(reinterpret_cast<gpu::Stream>(stream));
}

/// A stream of each GPU for who hands arrays over: the same for the life of the process, since making one
/// would wait for kernels that run.
std::uintptr_t stream_of_gpu(int gpu) {
    static std::mutex mutex;
    static auto* const streams = new std::map<int, gpu::OwnStream>;
    Unlocked const unlocked;
    std::lock_guard const lock(mutex);
    auto const at = streams->try_emplace(gpu, gpu).first;
    return reinterpret_cast<std::uintptr_t>(at->second.get());
}

/// Columns of a table: address of the values, and who keeps them.
using GpuColumnTuple = std::tuple<std::uint64_t, nb::object>;

GpuTable make_gpu_table(Schema const& schema, int gpu, std::int64_t rows,
                        std::vector<GpuColumnTuple> const& columns) {
    release_queued();
    auto const owner = std::make_shared<std::vector<std::shared_ptr<void const>>>();
    std::vector<GpuColumnSource> sources;
    for (std::size_t c = 0; c < schema.size(); ++c) {
        auto const& [address, object] = columns.at(c);
        owner->push_back(hold_object(object));
        sources.push_back({schema[c].name, schema[c].type,
                           reinterpret_cast<void const*>(std::uintptr_t(address)), nullptr, 0});
    }
    return gpu_table(gpu, rows, sources, owner);
}

/// A table of other tables' columns under new names, on this GPU; nothing is copied.
GpuTable gpu_table_of_columns(
    int gpu, std::vector<std::tuple<std::string, GpuTable, std::size_t>> const& columns) {
    release_queued();
    auto const owner = std::make_shared<std::vector<std::shared_ptr<void const>>>();
    std::vector<GpuColumnSource> sources;
    std::int64_t const rows = std::get<1>(columns.at(0)).rows;
    for (auto const& [name, table, index] : columns) {
        auto const refuse = [&name = name](std::string const& has, std::string const& others) {
            throw Error(ErrorCode::InvalidArgument,
                        "column '" + name + "' " + has + ", and others " + others +
                            ": all columns of a table are of one length and on one GPU");
        };
        if (table.rows != rows) {
            refuse("has " + std::to_string(table.rows) + " rows", "have " + std::to_string(rows));
        }
        // Arrays without elements may not say where they are.
        if (table.gpu != gpu && rows != 0) {
            refuse("is on cuda:" + std::to_string(table.gpu), "are on cuda:" + std::to_string(gpu));
        }
        GpuColumn const& column = table.columns.at(index);
        owner->push_back(table.owner);
        sources.push_back({name, table.schema[index].type, column.values, column.validity,
                           column.offset, column.encoding, column.bytes});
    }
    return gpu_table(gpu, rows, sources, owner);
}

/// Calls it while the thread's GPU is this one, as CUDA's libraries have it.
nb::object call_on_gpu(int gpu, nb::callable const& work) {
    gpu::Current const here(gpu::Driver::get(), gpu);
    return work();
}

/// Nothing where the object's memory is the host's.
std::optional<GpuTable> gpu_table_from_arrow(nb::handle object) {
    release_queued();
    nb::object const pair = call_arrow_method(object, "__arrow_c_device_array__");
    if (!nb::isinstance<nb::tuple>(pair) || nb::len(pair) != 2) {
        throw Error(ErrorCode::InvalidArgument,
                    "__arrow_c_device_array__ did not return two capsules");
    }
    auto* const schema = struct_in<ArrowSchema>(nb::object(pair[0]), "arrow_schema");
    nb::object const capsule = pair[1];
    if (PyCapsule_IsValid(capsule.ptr(), "arrow_device_array") == 0) {
        throw Error(ErrorCode::InvalidArgument,
                    "__arrow_c_device_array__ returned no capsule named 'arrow_device_array'");
    }
    auto* const array =
        static_cast<ArrowDeviceArray*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_device_array"));
    if (array->device_type == ARROW_DEVICE_CPU) return std::nullopt;
    // An array that Python owns is released on the way if it is refused.
    Unlocked const unlocked;
    return import_gpu_table(array, schema);
}

/// Runs a callback of a stream's.
void check_device_stream(ArrowDeviceArrayStream& stream, int result) {
    if (result == 0) return;
    char const* const text = stream.get_last_error(&stream);
    throw Error(result == ENOMEM ? ErrorCode::OutOfMemory : ErrorCode::InvalidArgument,
                "the Arrow device stream failed: " +
                    (text != nullptr ? std::string(text) : "errno " + std::to_string(result)));
}

/// A struct that is released at the end, unless somebody took it over.
template <class Struct>
struct Released : Struct {
    Released() : Struct{} {}
    ~Released() {
        if (this->release != nullptr) this->release(this);
    }
    Released(Released const&) = delete;
    Released& operator=(Released const&) = delete;
};

struct ReleasedDeviceArray : ArrowDeviceArray {
    ReleasedDeviceArray() : ArrowDeviceArray{} {}
    ~ReleasedDeviceArray() {
        if (array.release != nullptr) array.release(&array);
    }
    ReleasedDeviceArray(ReleasedDeviceArray const&) = delete;
    ReleasedDeviceArray& operator=(ReleasedDeviceArray const&) = delete;
};

/// The stream's tables on GPUs; a table of the host's where its memory is.
std::variant<Table, std::vector<GpuTable>> gpu_tables_from_stream(nb::handle object) {
    release_queued();
    nb::object const capsule = call_arrow_method(object, "__arrow_c_device_stream__");
    auto* const stream = struct_in<ArrowDeviceArrayStream>(capsule, "arrow_device_array_stream");
    // The stream may run a query, in threads that need the GIL.
    Unlocked const unlocked;
    bool const on_host = stream->device_type == ARROW_DEVICE_CPU;
    Table host;
    std::vector<GpuTable> tables;
    {
        Released<ArrowSchema> schema;
        check_device_stream(*stream, stream->get_schema(stream, &schema));
        host.schema = import_schema(&schema);
    }
    for (;;) {
        ReleasedDeviceArray array;
        check_device_stream(*stream, stream->get_next(stream, &array));
        if (array.array.release == nullptr) break;
        Released<ArrowSchema> schema;
        check_device_stream(*stream, stream->get_schema(stream, &schema));
        if (on_host) {
            host.batches.push_back(import_batch(&array.array, &schema));
        } else {
            tables.push_back(import_gpu_table(&array, &schema));
        }
    }
    if (on_host) return host;
    return tables;
}

nb::object device_capsule(GpuTable const& table) {
    auto made = std::make_unique<ArrowDeviceArray>();
    made->array.release = nullptr;
    export_gpu_table(table, made.get());
    auto const destroy = [](PyObject* capsule) {
        auto* const left =
            static_cast<ArrowDeviceArray*>(PyCapsule_GetPointer(capsule, "arrow_device_array"));
        if (left == nullptr) return;
        if (left->array.release != nullptr) left->array.release(&left->array);
        delete left;
    };
    PyObject* const capsule = PyCapsule_New(made.get(), "arrow_device_array", destroy);
    if (capsule == nullptr) {
        made->array.release(&made->array);
        throw nb::python_error();
    }
    made.release();
    return nb::steal(capsule);
}

/// A column's values, its validity bits (0: every row is valid), and the first row in both.
std::tuple<std::uint64_t, std::uint64_t, std::int64_t> gpu_column_of(GpuTable const& table,
                                                                     std::size_t index) {
    GpuColumn const& column = table.columns.at(index);
    return {reinterpret_cast<std::uint64_t>(column.values),
            reinterpret_cast<std::uint64_t>(column.validity), column.offset};
}

/// A text column's characters, and the bytes of each of its offsets.
std::tuple<std::uint64_t, int> characters_of(GpuTable const& table, std::size_t index) {
    GpuColumn const& column = table.columns.at(index);
    return {reinterpret_cast<std::uint64_t>(column.bytes),
            column.encoding == Encoding::Offsets64 ? 8 : 4};
}

/// Deals a table's rows out evenly: `parts` tables of consecutive rows, without a copy.
std::vector<GpuTable> deal_gpu_rows(GpuTable const& table, std::int64_t parts) {
    std::vector<GpuTable> dealt;
    for (std::int64_t part = 0; part < parts; ++part) {
        std::int64_t const first = table.rows * part / parts;
        dealt.push_back(table.slice(first, table.rows * (part + 1) / parts - first));
    }
    return dealt;
}

}  // namespace

void bind_gpu_tables(nb::module_& module) {
    nb::class_<GpuTable>(module, "GpuTable")
        .def_static("make", make_gpu_table, nb::arg("schema"), nb::arg("gpu"), nb::arg("rows"),
                    nb::arg("columns"))
        .def_static("of_columns", gpu_table_of_columns, nb::arg("gpu"), nb::arg("columns"))
        .def_static("empty", [] { return GpuTable{}; })
        .def_static("from_arrow", gpu_table_from_arrow, nb::arg("object"))
        .def_static("copy_of", nb::overload_cast<Table const&, int>(copy_to_gpu), nb::arg("table"),
                    nb::arg("gpu"), nb::call_guard<Unlocked>())
        .def_ro("gpu", &GpuTable::gpu)
        .def_ro("rows", &GpuTable::rows)
        .def_ro("schema", &GpuTable::schema, nb::rv_policy::copy)
        .def("nbytes", &GpuTable::bytes)
        .def("column", gpu_column_of, nb::arg("index"))
        .def("characters", characters_of, nb::arg("index"))
        .def("deal", deal_gpu_rows, nb::arg("parts"))
        .def("to_host", copy_to_host, nb::call_guard<Unlocked>())
        .def("schema_capsule",
             [](GpuTable const& table) {
                 return export_capsule<ArrowSchema>(
                     "arrow_schema", [&](ArrowSchema* out) { export_schema(table, out); });
             })
        .def("capsule", device_capsule);
    module.def("tables_from_device_stream", gpu_tables_from_stream, nb::arg("object"));
    module.def("call_on_gpu", call_on_gpu, nb::arg("gpu"), nb::arg("work"));
    module.def("gpus", count_gpus);
    module.def("gpu_absence", [] {
        Unlocked const unlocked;
        return gpu::Driver::absence();
    });
    module.def(
        "check_peers",
        [](std::uint64_t bytes) {
            std::vector<gpu::PeerCheck> checks;
            {
                Unlocked const unlocked;
                checks = gpu::check_peers(bytes);
            }
            nb::list found;
            for (gpu::PeerCheck const& check : checks) {
                nb::dict one;
                one["from"] = check.from;
                one["to"] = check.to;
                one["reaches"] = check.reaches;
                one["right"] = check.right;
                one["write_gbps"] = check.write_gbps;
                one["read_gbps"] = check.read_gbps;
                found.append(one);
            }
            return found;
        },
        nb::arg("bytes"));
    module.def("gpu_of_address", gpu_of_address, nb::arg("address"));
    module.def("wait_stream", wait_stream, nb::arg("gpu"), nb::arg("stream"));
    module.def("wait_in_stream", wait_in_stream, nb::arg("gpu"), nb::arg("stream"),
               nb::arg("other"));
    module.def("stream_of_gpu", stream_of_gpu, nb::arg("gpu"));
}

}  // namespace mgi::python
