/// \file
/// GPUs that reach each other's memory.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "memory.hpp"

namespace mgi::bench {

/// Makes a GPU the current one, until its end.
class On {
public:
    explicit On(int gpu) {
        check(cudaGetDevice(&before_), "ask for the current GPU");
        check(cudaSetDevice(gpu), "choose a GPU");
    }
    ~On() { cudaSetDevice(before_); }
    On(On const&) = delete;
    On& operator=(On const&) = delete;

private:
    int before_ = 0;
};

inline bool can_reach(int from, int to) {
    int possible = 0;
    check(cudaDeviceCanAccessPeer(&possible, from, to), "ask for peer access");
    return possible != 0;
}

/// How many GPUs, counted from the first, all reach each other's memory, at most so many; opens the ways.
inline int connected_gpus(int most) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "count GPUs");
    int gpus = 1;
    for (; gpus < std::min(count, most); ++gpus) {
        bool all = true;
        for (int other = 0; other < gpus; ++other) {
            all = all && can_reach(gpus, other) && can_reach(other, gpus);
        }
        if (!all) break;
    }
    for (int from = 0; from < gpus; ++from) {
        On const on(from);
        for (int to = 0; to < gpus; ++to) {
            if (from == to) continue;
            cudaError_t const opened = cudaDeviceEnablePeerAccess(to, 0);
            if (opened == cudaErrorPeerAccessAlreadyEnabled) {
                cudaGetLastError();
            } else {
                check(opened, "open peer access");
            }
        }
    }
    return gpus;
}

/// Memory of device 1. For use by device 0 both must be connected.
template <class T>
DeviceArray<T> peer_array(std::uint64_t count) {
    On const on(1);
    return DeviceArray<T>(count);
}

}  // namespace mgi::bench
