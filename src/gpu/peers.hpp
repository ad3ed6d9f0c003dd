/// \file
/// GPUs that reach each other's memory: by the driver's word, and tried.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/memory.hpp"

namespace mgi::gpu {

/// Whether a GPU's copies go straight into another one's memory, as the driver says; into its own they do.
bool reaches(int from, int to);

/// Lets two GPUs reach each other's memory, for the life of the process. False where they cannot: then copies
/// between them go through the host's memory. The first call for a pair tries it with some bytes, each way. Where they
/// arrive changed, as behind an IOMMU that was not made for it, a warning says so, and the two do not reach each
/// other. Thread-safe.
bool connect_peers(int one, int other);

/// The GPUs whose kernels may use this one's memory: it, and all that connect_peers has connected it with. Thread-safe.
std::vector<int> connected_with(int gpu);

/// Bytes of memory that is shared by which others prove that they reach it, and nothing else.
inline constexpr std::uint64_t kProofBytes = 4096;
/// Makes all bytes of a proof this one, which the others look for.
void mark(DeviceMemory const& memory, std::uint64_t at, unsigned char byte);
/// Where proofs lie in another process' memory.
struct Proof {
    std::uint64_t marked = 0;  ///< by the owner
    unsigned char byte = 0;
    std::uint64_t ours = 0;  ///< where this process may write
};
/// Whether a GPU finds the owner's mark there, and what it writes comes back as it was. The first call for a GPU and the
/// owner's tries it, as that of connect_peers does. Thread-safe.
bool proves(int gpu, ImportedMemory const& memory, Proof const& proof);

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
