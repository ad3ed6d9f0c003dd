/// \file
/// What NICs write into a GPU's memory, past its driver (GPUDirect RDMA).
#pragma once

#include <string>

namespace mgi::gpu {

/// Why NICs cannot write what a GPU's kernels then see, as its driver says; empty: they can.
std::string why_no_nic(int gpu);

/// Makes visible to a GPU's kernels what NICs have written. Thread-safe; waits for no kernel.
class NicWrites {
public:
    explicit NicWrites(int gpu);
    /// All writes that are known to be done. What fails throws Error as Driver::check does.
    void settle() const;

private:
    int gpu_;
    bool needs_flush_;
};

}  // namespace mgi::gpu
