/// \file
/// The struct of Arrow's C device data interface, laid out as
/// https://arrow.apache.org/docs/format/CDeviceDataInterface.html prescribes, with the prescribed guard.
#pragma once

#include <cstdint>

#include <mgi/arrow_abi.hpp>

#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#define ARROW_C_DEVICE_DATA_INTERFACE

/// Whose memory the buffers are in; the numbers are DLPack's.
typedef std::int32_t ArrowDeviceType;

#define ARROW_DEVICE_CPU 1
#define ARROW_DEVICE_CUDA 2
#define ARROW_DEVICE_CUDA_HOST 3
#define ARROW_DEVICE_CUDA_MANAGED 13

/// Buffers of an array and its children's in a device's memory.
struct ArrowDeviceArray {
    ArrowArray array;
    std::int64_t device_id;
    ArrowDeviceType device_type;
    /// Of CUDA a cudaEvent_t*: the buffers may be read behind it. Null: at once.
    void* sync_event;
    std::int64_t reserved[3];
};

#endif  // ARROW_C_DEVICE_DATA_INTERFACE
