/// \file
/// The struct of Arrow's C device stream interface, laid out as
/// https://arrow.apache.org/docs/format/CDeviceDataInterface.html prescribes, with the prescribed guard.
#pragma once

#include <mgi/arrow_device_abi.hpp>

#ifndef ARROW_C_DEVICE_STREAM_INTERFACE
#define ARROW_C_DEVICE_STREAM_INTERFACE

/// A source of arrays of one schema on one type of device. Callbacks return 0 or an errno code.
struct ArrowDeviceArrayStream {
    ArrowDeviceType device_type;
    int (*get_schema)(ArrowDeviceArrayStream*, ArrowSchema* out);
    int (*get_next)(ArrowDeviceArrayStream*, ArrowDeviceArray* out);  ///< released at the end
    char const* (*get_last_error)(ArrowDeviceArrayStream*);
    void (*release)(ArrowDeviceArrayStream*);  ///< null once released
    void* private_data;
};

#endif  // ARROW_C_DEVICE_STREAM_INTERFACE
