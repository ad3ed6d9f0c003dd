/// \file
/// The second GPU, for benchmarks of copies between two.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "memory.hpp"

namespace mgi::bench {

/// Whether device 0 can read and write device 1's memory; opens the way in both directions.
inline bool open_peer() {
    int count = 0;
    check(cudaGetDeviceCount(&count), "count GPUs");
    if (count < 2) return false;
    for (int device = 0; device < 2; ++device) {
        int possible = 0;
        check(cudaDeviceCanAccessPeer(&possible, device, 1 - device), "ask for peer access");
        if (possible == 0) return false;
    }
    for (int const device : {1, 0}) {  // the last one stays current
        check(cudaSetDevice(device), "choose a GPU");
        cudaError_t const opened = cudaDeviceEnablePeerAccess(1 - device, 0);
        if (opened == cudaErrorPeerAccessAlreadyEnabled) {
            cudaGetLastError();
        } else {
            check(opened, "open peer access");
        }
    }
    return true;
}

/// Memory of device 1; device 0 is current afterwards. Needs open_peer() for use by device 0.
template <class T>
DeviceArray<T> peer_array(std::uint64_t count) {
    check(cudaSetDevice(1), "choose a GPU");
    DeviceArray<T> memory(count);
    check(cudaSetDevice(0), "choose a GPU");
    return memory;
}

}  // namespace mgi::bench
