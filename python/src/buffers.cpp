#include "buffers.hpp"

#include <string>

#include <mgi/error.hpp>

#include "bindings.hpp"
#include "interpreter.hpp"

namespace mgi::python {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    auto* const buffer = nb::inst_ptr<OutputBuffer>(self);
    // Arrow has no memory that may be written to by its readers: the view is read-only.
    return PyBuffer_FillInfo(view, self, const_cast<void*>(buffer->data), Py_ssize_t(buffer->size),
                             1, flags);
}

PyType_Slot const kBufferSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                                    {0, nullptr}};

RowStructs make_rows(nb::handle object, std::uint32_t row_bytes, std::int64_t rows) {
    RowStructs structs{hold_buffer(object), row_bytes, rows};
    if (rows < 0 || structs.buffer.size != std::size_t(rows) * row_bytes) {
        throw Error(ErrorCode::InvalidArgument,
                    std::to_string(rows) + " rows of " + std::to_string(row_bytes) +
                        " bytes do not make " + std::to_string(structs.buffer.size) + " bytes");
    }
    return structs;
}

}  // namespace

InputBuffer hold_buffer(nb::handle object) {
    release_queued();
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_SIMPLE) != 0) throw nb::python_error();
    InputBuffer held;
    held.data = static_cast<std::byte const*>(view->buf);
    held.size = std::size_t(view->len);
    held.owner = std::shared_ptr<void const>(view.release(), [](void const* buffer) {
        release_buffer(static_cast<Py_buffer*>(const_cast<void*>(buffer)));
    });
    return held;
}

void bind_buffers(nb::module_& module) {
    nb::class_<OutputBuffer>(module, "Buffer", nb::type_slots(kBufferSlots))
        .def("__len__", [](OutputBuffer const& buffer) { return buffer.size; });
    nb::class_<RowStructs>(module, "RowStructs")
        .def_static("make", make_rows, nb::arg("object"), nb::arg("row_bytes"), nb::arg("rows"))
        .def_ro("rows", &RowStructs::rows);
    module.def("interpreter_ends", interpreter_ends);
    nb::module_::import_("atexit").attr("register")(module.attr("interpreter_ends"));
}

}  // namespace mgi::python
