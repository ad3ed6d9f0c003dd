// gpu/types.hpp and gpu/functions.hpp against NVIDIA's header, as it is compiled. cuda.h goes first: it
// defines names like cuMemAlloc as those of their present version, in our declarations too.
#include <cuda.h>

#include <string_view>
#include <type_traits>

#include "gpu/functions.hpp"

namespace {

namespace gpu = mgi::gpu;

/// Whether one stands for the other in a call: the driver's enums are numbers of ours, its structs have
/// other names.
template <class Ours, class Theirs>
constexpr bool alike() {
    if constexpr (std::is_same_v<Ours, Theirs>) {
        return true;
    } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
        return alike<std::remove_pointer_t<Ours>, std::remove_pointer_t<Theirs>>();
    } else if constexpr (std::is_enum_v<Theirs>) {
        return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
    } else if constexpr (std::is_integral_v<Theirs>) {
        return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs) &&
               std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
    } else if constexpr (std::is_class_v<Ours> && std::is_class_v<Theirs>) {
        return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
    } else {
        return false;
    }
}

template <class Ours, class Theirs>
struct SameCall : std::false_type {};

template <class... Ours, class... Theirs>
    requires(sizeof...(Ours) == sizeof...(Theirs))
struct SameCall<gpu::Result(Ours...), CUresult(Theirs...)>
    : std::bool_constant<(alike<Ours, Theirs>() && ...)> {};

#define MGI_TEXT_OF(name) #name
#define MGI_TEXT(name) MGI_TEXT_OF(name)
#define MGI_DRIVER_FUNCTION(member, symbol)                                                        \
    static_assert(                                                                                 \
        SameCall<decltype(gpu::Functions::member)::Signature, decltype(::member)>::value,          \
        #symbol ": its parameters are others");                                                    \
    static_assert(decltype(gpu::Functions::member)::kSymbol == std::string_view(MGI_TEXT(member)), \
                  #symbol ": the library has another version of it");
#include "gpu_driver/functions.inc"

static_assert(sizeof(gpu::Result) == sizeof(CUresult));
static_assert(std::is_same_v<gpu::Stream, CUstream> && std::is_same_v<gpu::Event, CUevent> &&
              std::is_same_v<gpu::Context, CUcontext> &&
              std::is_same_v<gpu::Function, CUfunction> && std::is_same_v<gpu::Module, CUmodule>);
static_assert(std::is_same_v<gpu::Address, CUdeviceptr> && std::is_same_v<gpu::Ordinal, CUdevice>);

static_assert(gpu::kSuccess == CUDA_SUCCESS);
static_assert(gpu::kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(gpu::kInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(gpu::kInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(gpu::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(gpu::kDeinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(gpu::kStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(gpu::kDeviceUnavailable == CUDA_ERROR_DEVICE_UNAVAILABLE);
static_assert(gpu::kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(gpu::kInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(gpu::kEccUncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(gpu::kNvlinkUncorrectable == CUDA_ERROR_NVLINK_UNCORRECTABLE);
static_assert(gpu::kContained == CUDA_ERROR_CONTAINED);
static_assert(gpu::kNotReady == CUDA_ERROR_NOT_READY);
static_assert(gpu::kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(gpu::kLaunchTimeout == CUDA_ERROR_LAUNCH_TIMEOUT);
static_assert(gpu::kPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(gpu::kContextIsDestroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED);
static_assert(gpu::kAssert == CUDA_ERROR_ASSERT);
static_assert(gpu::kHostMemoryAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(gpu::kHardwareStackError == CUDA_ERROR_HARDWARE_STACK_ERROR);
static_assert(gpu::kIllegalInstruction == CUDA_ERROR_ILLEGAL_INSTRUCTION);
static_assert(gpu::kMisalignedAddress == CUDA_ERROR_MISALIGNED_ADDRESS);
static_assert(gpu::kInvalidAddressSpace == CUDA_ERROR_INVALID_ADDRESS_SPACE);
static_assert(gpu::kInvalidPc == CUDA_ERROR_INVALID_PC);
static_assert(gpu::kLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(gpu::kTensorMemoryLeak == CUDA_ERROR_TENSOR_MEMORY_LEAK);
static_assert(gpu::kSystemNotReady == CUDA_ERROR_SYSTEM_NOT_READY);
static_assert(gpu::kSystemDriverMismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
static_assert(gpu::kCompatNotSupportedOnDevice == CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
static_assert(gpu::kExternalDevice == CUDA_ERROR_EXTERNAL_DEVICE);

static_assert(gpu::kMultiprocessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(gpu::kMemoryClockKhz == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(gpu::kMemoryBusBits == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
static_assert(gpu::kComputeCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(gpu::kComputeCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(gpu::kCooperativeLaunch == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
static_assert(gpu::kSharedBytesOfBlock == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(gpu::kMapsMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(gpu::kSharesByDescriptor ==
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(gpu::kNicsReach == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
static_assert(gpu::kFlushesNicWrites == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
static_assert(gpu::kGivesDmaBuf == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
static_assert(gpu::kOrdersNicWrites == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(gpu::kFlushByHost == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
static_assert(gpu::kFlushCurrentContext == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(gpu::kVisibleToOwner == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
static_assert(gpu::kHostNumaId == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
static_assert(gpu::kPeerRank == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK);
static_assert(gpu::kPeerAtomics == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
static_assert(gpu::kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(gpu::kPointerIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(gpu::kPointerOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(gpu::kMemoryOfHost == CU_MEMORYTYPE_HOST);
static_assert(gpu::kMemoryOfDevice == CU_MEMORYTYPE_DEVICE);
static_assert(gpu::kMappedPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(gpu::kByDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(gpu::kReadAndWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(gpu::kLeastGranularity == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(gpu::kEagerLoading == CU_MODULE_EAGER_LOADING);
static_assert(gpu::kLazyLoading == CU_MODULE_LAZY_LOADING);
static_assert(gpu::kHostPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(gpu::kHostMapped == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(gpu::kHostWriteCombined == CU_MEMHOSTALLOC_WRITECOMBINED);
static_assert(gpu::kHostPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(gpu::kHostMapped == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(gpu::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(gpu::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(gpu::kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

}  // namespace
