// A runtime as small as there is.
#pragma once

#include <mgi/runtime.hpp>

namespace mgi::test {

inline RuntimeOptions one_device() {
    RuntimeOptions options;
    options.cpu_devices = 1;
    options.pin = false;
    return options;
}

}  // namespace mgi::test
