/// \file
/// Arrow's PyCapsule interface: C structs that travel between Python libraries in capsules
/// (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include <mgi/arrow_abi.hpp>
#include <mgi/error.hpp>

namespace mgi::python {

namespace nb = nanobind;

/// Calls one of an object's `__arrow_c_...__` methods; throws what it raises.
inline nb::object call_arrow_method(nb::handle object, char const* method) {
    nb::object result = nb::steal(PyObject_CallMethod(object.ptr(), method, nullptr));
    if (!result.is_valid()) throw nb::python_error();
    return result;
}

/// The struct in a capsule of this name. It stays the capsule's until somebody moves it out, which an
/// import does by taking `release`.
template <class Struct>
Struct* struct_in(nb::handle capsule, char const* name) {
    if (PyCapsule_IsValid(capsule.ptr(), name) == 0) {
        throw Error(ErrorCode::InvalidArgument,
                    "an Arrow method returned something else than a capsule named '" +
                        std::string(name) + "'");
    }
    auto* const found = static_cast<Struct*>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (found->release == nullptr) {
        throw Error(ErrorCode::InvalidArgument, "the Arrow capsule '" + std::string(name) +
                                                    "' was used before; each can be used once");
    }
    return found;
}

/// A capsule of this name with a struct that `fill` fills in. Who imports it moves the struct out;
/// else the capsule releases it.
template <class Struct, class Fill>
nb::object export_capsule(char const* name, Fill&& fill) {
    auto made = std::make_unique<Struct>();
    made->release = nullptr;
    fill(made.get());
    auto const destroy = [](PyObject* capsule) {
        auto* const left =
            static_cast<Struct*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
        if (left == nullptr) return;
        if (left->release != nullptr) left->release(left);
        delete left;
    };
    PyObject* const capsule = PyCapsule_New(made.get(), name, destroy);
    if (capsule == nullptr) {
        if (made->release != nullptr) made->release(made.get());
        throw nb::python_error();
    }
    made.release();
    return nb::steal(capsule);
}

}  // namespace mgi::python
