/// \file
/// DLPack: arrays in the memory of any device, passed between Python libraries in capsules
/// (https://dmlc.github.io/dlpack/latest/python_spec.html). The structs are laid out as its header's.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mgi::python {

namespace nb = nanobind;

namespace dlpack {

inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCuda = 2;

struct Device {
    std::int32_t type;
    std::int32_t id;
};

struct DataType {
    std::uint8_t code;  ///< 0 signed, 1 unsigned, 2 float, 5 complex, 6 bool, ...
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    std::int32_t dimensions;
    DataType type;
    std::int64_t* shape;
    std::int64_t* strides;  ///< in elements; null: rows behind each other
    std::uint64_t byte_offset;
};

/// What a capsule "dltensor" has.
struct Managed {
    Tensor tensor;
    void* context;
    void (*deleter)(Managed*);
};

struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};

/// What a capsule "dltensor_versioned" has, since version 1.
struct ManagedVersioned {
    Version version;
    void* context;
    void (*deleter)(ManagedVersioned*);
    std::uint64_t flags;
    Tensor tensor;
};

}  // namespace dlpack

/// An array that was taken out of a capsule. Dropped with the GIL.
class DlTensor {
public:
    /// Throws Error(InvalidArgument) for what is no such capsule, or was taken before.
    static DlTensor* take(nb::handle capsule);
    DlTensor(DlTensor const&) = delete;
    DlTensor& operator=(DlTensor const&) = delete;
    ~DlTensor();

    [[nodiscard]] dlpack::Tensor const& tensor() const {
        return versioned_ != nullptr ? versioned_->tensor : managed_->tensor;
    }

private:
    DlTensor() = default;
    dlpack::Managed* managed_ = nullptr;
    dlpack::ManagedVersioned* versioned_ = nullptr;
};

/// One dimension of elements on a GPU.
struct DlArray {
    std::uint64_t address = 0;
    int gpu = 0;
    dlpack::DataType type{};
    std::int64_t length = 0;
};

/// A capsule of such an array, which keeps `owner`.
nb::object dlpack_capsule(DlArray const& array, nb::object owner, bool versioned);

}  // namespace mgi::python
