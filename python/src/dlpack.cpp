#include "dlpack.hpp"

#include <memory>

#include <mgi/error.hpp>

#include "bindings.hpp"
#include "interpreter.hpp"

namespace mgi::python {
namespace {

constexpr char const* kName = "dltensor";
constexpr char const* kUsed = "used_dltensor";
constexpr char const* kVersionedName = "dltensor_versioned";
constexpr char const* kUsedVersioned = "used_dltensor_versioned";

/// An exported array, with all that its struct points to.
template <class Struct>
struct Exported {
    Struct managed{};
    std::int64_t length = 0;
    std::int64_t stride = 1;
    std::shared_ptr<void const> owner;
};

template <class Struct>
nb::object capsule_of(char const* name, DlArray const& array, nb::object owner) {
    auto made = std::make_unique<Exported<Struct>>();
    made->length = array.length;
    made->owner = hold_object(std::move(owner));
    made->managed.context = made.get();
    // May be called by any thread, with the GIL or without.
    made->managed.deleter = [](Struct* self) {
        delete static_cast<Exported<Struct>*>(self->context);
    };
    dlpack::Tensor& tensor = made->managed.tensor;
    tensor.data = reinterpret_cast<void*>(array.address);
    tensor.device = {dlpack::kCuda, array.gpu};
    tensor.dimensions = 1;
    tensor.type = array.type;
    tensor.shape = &made->length;
    tensor.strides = &made->stride;
    // Who takes the array renames the capsule.
    auto const destroy = [](PyObject* capsule) {
        for (char const* const unused : {kName, kVersionedName}) {
            if (PyCapsule_IsValid(capsule, unused) == 0) continue;
            auto* const left = static_cast<Struct*>(PyCapsule_GetPointer(capsule, unused));
            left->deleter(left);
        }
    };
    PyObject* const capsule = PyCapsule_New(&made->managed, name, destroy);
    if (capsule == nullptr) throw nb::python_error();
    made.release();
    return nb::steal(capsule);
}

template <class Struct>
Struct* taken(nb::handle capsule, char const* name, char const* used) {
    if (PyCapsule_IsValid(capsule.ptr(), name) == 0) return nullptr;
    auto* const found = static_cast<Struct*>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (PyCapsule_SetName(capsule.ptr(), used) != 0) throw nb::python_error();
    return found;
}

std::vector<std::int64_t> shape_of(DlTensor const& array) {
    dlpack::Tensor const& tensor = array.tensor();
    return {tensor.shape, tensor.shape + tensor.dimensions};
}

std::optional<std::vector<std::int64_t>> strides_of(DlTensor const& array) {
    dlpack::Tensor const& tensor = array.tensor();
    if (tensor.strides == nullptr) return std::nullopt;
    return std::vector(tensor.strides, tensor.strides + tensor.dimensions);
}

nb::object export_array(std::uint64_t address, int gpu, std::uint8_t code, std::uint8_t bits,
                        std::int64_t length, nb::object owner, bool versioned) {
    return dlpack_capsule({address, gpu, {code, bits, 1}, length}, std::move(owner), versioned);
}

}  // namespace

DlTensor* DlTensor::take(nb::handle capsule) {
    std::unique_ptr<DlTensor> made(new DlTensor);
    made->versioned_ = taken<dlpack::ManagedVersioned>(capsule, kVersionedName, kUsedVersioned);
    if (made->versioned_ != nullptr) {
        if (auto const major = made->versioned_->version.major; major != 1) {
            throw Error(ErrorCode::InvalidArgument,
                        "an array comes by DLPack " + std::to_string(major) +
                            ", and MGI knows version 1 and what was before");
        }
        return made.release();
    }
    made->managed_ = taken<dlpack::Managed>(capsule, kName, kUsed);
    if (made->managed_ != nullptr) return made.release();
    throw Error(ErrorCode::InvalidArgument,
                "__dlpack__ returned something else than an unused DLPack capsule");
}

DlTensor::~DlTensor() {
    if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
    if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
}

nb::object dlpack_capsule(DlArray const& array, nb::object owner, bool versioned) {
    if (!versioned) return capsule_of<dlpack::Managed>(kName, array, std::move(owner));
    nb::object capsule =
        capsule_of<dlpack::ManagedVersioned>(kVersionedName, array, std::move(owner));
    auto* const made =
        static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedName));
    made->version = {1, 0};
    return capsule;
}

void bind_dlpack(nb::module_& module) {
    nb::class_<DlTensor>(module, "DlTensor")
        .def_static("take", &DlTensor::take, nb::arg("capsule"))
        .def_prop_ro("address",
                     [](DlTensor const& array) {
                         dlpack::Tensor const& tensor = array.tensor();
                         return reinterpret_cast<std::uint64_t>(tensor.data) + tensor.byte_offset;
                     })
        .def_prop_ro("device",
                     [](DlTensor const& array) {
                         return std::pair(array.tensor().device.type, array.tensor().device.id);
                     })
        .def_prop_ro("code", [](DlTensor const& array) { return array.tensor().type.code; })
        .def_prop_ro("bits", [](DlTensor const& array) { return array.tensor().type.bits; })
        .def_prop_ro("lanes", [](DlTensor const& array) { return array.tensor().type.lanes; })
        .def_prop_ro("shape", shape_of)
        .def_prop_ro("strides", strides_of);
    module.def("dlpack_capsule", export_array, nb::arg("address"), nb::arg("gpu"), nb::arg("code"),
               nb::arg("bits"), nb::arg("length"), nb::arg("owner"), nb::arg("versioned"));
}

}  // namespace mgi::python
