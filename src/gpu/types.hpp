/// \file
/// The types of NVIDIA's driver, declared here since its header comes with CUDA and MGI is built
/// without. Handles are the driver's own (a `cudaStream_t` is a gpu::Stream); enums are plain numbers
/// with the values of CUDA 13. tests/cuda/driver_abi.cu compares all of it with the header.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUfunc_st;
struct CUmod_st;

namespace mgi::gpu {

using Ordinal = int;  ///< CUdevice, which cuDeviceGet() makes of N of "cuda:N"
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Function = CUfunc_st*;
using Module = CUmod_st*;
using Address = unsigned long long;  ///< CUdeviceptr
using HostFunction = void (*)(void*);

struct Uuid {
    char bytes[16];
};

struct IpcHandle {  // CUipcMemHandle
    char bytes[64];
};

/// What each call of the driver returns (CUresult). Of its values those that MGI tells apart.
using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kStubLibrary = 34;
inline constexpr Result kDeviceUnavailable = 46;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kEccUncorrectable = 214;
inline constexpr Result kNvlinkUncorrectable = 220;
inline constexpr Result kContained = 226;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kNotReady = 600;  ///< of a query: not an error
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchTimeout = 702;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;
inline constexpr Result kContextIsDestroyed = 709;
inline constexpr Result kAssert = 710;
inline constexpr Result kHostMemoryAlreadyRegistered = 712;
inline constexpr Result kHardwareStackError = 714;
inline constexpr Result kIllegalInstruction = 715;
inline constexpr Result kMisalignedAddress = 716;
inline constexpr Result kInvalidAddressSpace = 717;
inline constexpr Result kInvalidPc = 718;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kTensorMemoryLeak = 721;
inline constexpr Result kSystemNotReady = 802;
inline constexpr Result kSystemDriverMismatch = 803;
inline constexpr Result kCompatNotSupportedOnDevice = 804;
inline constexpr Result kExternalDevice = 911;

/// CUdevice_attribute.
using Attribute = int;
inline constexpr Attribute kMultiprocessorCount = 16;
inline constexpr Attribute kMemoryClockKhz = 36;
inline constexpr Attribute kMemoryBusBits = 37;
inline constexpr Attribute kComputeCapabilityMajor = 75;
inline constexpr Attribute kComputeCapabilityMinor = 76;
inline constexpr Attribute kCooperativeLaunch = 95;
inline constexpr Attribute kSharedBytesOfBlock = 97;   ///< the most that a block may opt in to
inline constexpr Attribute kMapsMemory = 102;          ///< cuMemCreate and what belongs to it
inline constexpr Attribute kSharesByDescriptor = 103;  ///< and its memory as file descriptors
inline constexpr Attribute kNicsReach = 116;           ///< GPUDirect RDMA
inline constexpr Attribute kFlushesNicWrites = 117;    ///< bits of how
inline constexpr Attribute kOrdersNicWrites = 118;     ///< for whom without a flush: a scope, or 0
inline constexpr Attribute kGivesDmaBuf = 124;         ///< NICs reach its memory without a module
inline constexpr Attribute kHostNumaId = 134;          ///< -1: not known

/// CUflushGPUDirectRDMAWritesOptions, ...Target and ...Scope; of their values those that MGI uses.
inline constexpr int kFlushByHost = 1;
inline constexpr int kFlushCurrentContext = 0;
inline constexpr int kVisibleToOwner = 100;

/// CUdevice_P2PAttribute.
using PeerAttribute = int;
inline constexpr PeerAttribute kPeerRank = 1;  ///< the smaller the faster
inline constexpr PeerAttribute kPeerAtomics = 3;

/// CUpointer_attribute, and what kPointerMemoryType gives (an unsigned).
using PointerAttribute = int;
inline constexpr PointerAttribute kPointerMemoryType = 2;
inline constexpr PointerAttribute kPointerIsManaged = 8;  ///< an unsigned
inline constexpr PointerAttribute kPointerOrdinal = 9;
inline constexpr unsigned kMemoryOfHost = 1;
inline constexpr unsigned kMemoryOfDevice = 2;

/// CUmemLocation.
struct MemoryLocation {
    int type;
    int id;
};
inline constexpr int kLocationDevice = 1;

/// CUmemGenericAllocationHandle, CUmemAllocationProp, CUmemAccessDesc; of their values those that MGI uses.
using MappedMemory = unsigned long long;
struct MappedKind {
    int type;          // kMappedPinned
    int handle_types;  // kByDescriptor
    MemoryLocation location;
    void* of_windows;
    struct {
        unsigned char compression;
        unsigned char for_nics;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};
struct MappedAccess {
    MemoryLocation location;
    int flags;  // kReadAndWrite
};
inline constexpr int kMappedPinned = 1;
inline constexpr int kByDescriptor = 1;
inline constexpr int kReadAndWrite = 3;
inline constexpr int kLeastGranularity = 0;

/// CUmoduleLoadingMode.
using LoadingMode = int;
inline constexpr LoadingMode kEagerLoading = 1;
inline constexpr LoadingMode kLazyLoading = 2;

// Flags of cuMemHostAlloc, cuMemHostRegister, cuStreamCreate, cuEventCreate, cuIpcOpenMemHandle.
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostMapped = 2;
inline constexpr unsigned kHostWriteCombined = 4;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kIpcLazyPeerAccess = 1;

}  // namespace mgi::gpu
