#include "errors.hpp"

#include "bindings.hpp"

namespace mgi::python {
namespace {

/// The exception classes of mgi/errors.py by the name of their code. Lives as long as the module.
PyObject* classes = nullptr;

/// Raises the Python exception of a code; RuntimeError while mgi/errors.py was not loaded.
void raise(ErrorCode code, char const* message, std::int64_t const* rows_accepted) {
    nb::object type = nb::borrow(PyExc_RuntimeError);
    if (classes != nullptr) {
        PyObject* const found = PyDict_GetItemString(classes, to_string(code));
        if (found != nullptr) type = nb::borrow(found);
    }
    nb::object const text = nb::steal(PyUnicode_DecodeUTF8(
        message, Py_ssize_t(std::char_traits<char>::length(message)), "replace"));
    if (!text.is_valid()) return;
    nb::object const error = nb::steal(PyObject_CallOneArg(type.ptr(), text.ptr()));
    if (!error.is_valid()) return;
    if (rows_accepted != nullptr) {
        nb::object const rows = nb::steal(PyLong_FromLongLong(*rows_accepted));
        if (!rows.is_valid() ||
            PyObject_SetAttrString(error.ptr(), "rows_accepted", rows.ptr()) != 0) {
            return;
        }
    }
    PyErr_SetObject(type.ptr(), error.ptr());
}

void translate(std::exception_ptr const& pending, void*) {
    try {
        std::rethrow_exception(pending);
    } catch (SendError const& error) {
        raise(error.code(), error.what(), &error.rows_accepted);
    } catch (Error const& error) {
        raise(error.code(), error.what(), nullptr);
    }
}

}  // namespace

ErrorCode code_named(std::string const& name) {
    for (auto code = std::uint32_t{1}; code <= static_cast<std::uint32_t>(ErrorCode::Internal);
         ++code) {
        if (name == to_string(static_cast<ErrorCode>(code))) return static_cast<ErrorCode>(code);
    }
    return ErrorCode::Internal;
}

void bind_errors(nb::module_& module) {
    module.def(
        "set_error_classes",
        [](nb::dict by_code) {
            Py_XDECREF(classes);
            classes = by_code.release().ptr();
        },
        nb::arg("by_code"));
    nb::register_exception_translator(translate);
}

}  // namespace mgi::python
