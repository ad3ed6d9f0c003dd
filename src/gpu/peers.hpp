/// \file
/// GPUs that reach each other's memory: by the driver's word, and tried.
#pragma once

#include <cstdint>
#include <vector>

namespace mgi::gpu {

/// Whether a GPU's copies go straight into another one's memory, as the driver says; into its own they do.
bool reaches(int from, int to);

/// Lets two GPUs reach each other's memory, for the life of the process. False where they cannot: then copies
/// between them go through the host's memory. The first call for a pair tries it with some bytes, each way. Where they
/// arrive changed, as behind an IOMMU that was not made for it, a warning says so, and the two do not reach each
/// other. Thread-safe.
bool connect_peers(int one, int other);

/// What a GPU's copies into another one's memory, and out of it, came to.
struct PeerCheck {
    int from = 0;  ///< whose copies
    int to = 0;
    bool reaches = false;  ///< as the driver says; where it does not, nothing was tried
    bool right = false;    ///< the bytes that arrived, both ways
    double write_gbps = 0;
    double read_gbps = 0;
};
/// Tries each GPU with each other one, with so many bytes. Throws Error as Driver::check does.
std::vector<PeerCheck> check_peers(std::uint64_t bytes);

}  // namespace mgi::gpu
