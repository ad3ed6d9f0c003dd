// What nvcc compiles of a launch: the kernel itself, and how it is started through CUDA's runtime.
#include <cuda_runtime.h>

#include <mutex>
#include <string>

#include <mgi/device/group.hpp>
#include <mgi/error.hpp>

namespace mgi {

/// A thread block as a group.
template <class Kernel, class... Args>
__global__ void gpu_kernel(Kernel kernel, std::uint64_t first_number, std::uint32_t shared_bytes,
                           Args... args) {
    extern __shared__ __align__(16) unsigned char mgi_scratch[];
    device::Group const group{
        blockIdx.x, gridDim.x, threadIdx.x, blockDim.x, first_number + blockIdx.x, nullptr};
    device::Shared shared{reinterpret_cast<std::byte*>(mgi_scratch), shared_bytes};
    kernel(group, shared, args...);
}

/// The same for a kernel that says, by constants of its type, of how many threads its groups are at most and how many of them a
/// multiprocessor has room for at least: the compiler gives its threads no more registers than that.
template <class Kernel, class... Args>
__global__ void __launch_bounds__(Kernel::kMostThreads, Kernel::kLeastGroups)
    bounded_gpu_kernel(Kernel kernel, std::uint64_t first_number, std::uint32_t shared_bytes,
                       Args... args) {
    extern __shared__ __align__(16) unsigned char mgi_scratch[];
    device::Group const group{
        blockIdx.x, gridDim.x, threadIdx.x, blockDim.x, first_number + blockIdx.x, nullptr};
    device::Shared shared{reinterpret_cast<std::byte*>(mgi_scratch), shared_bytes};
    kernel(group, shared, args...);
}

template <class Kernel, class... Args>
constexpr auto gpu_kernel_of() {
    if constexpr (requires { Kernel::kLeastGroups; }) {
        return &bounded_gpu_kernel<Kernel, Args...>;
    } else {
        return &gpu_kernel<Kernel, Args...>;
    }
}

inline void check_gpu_launch(cudaError_t error, int gpu, char const* what) {
    if (error == cudaSuccess) return;
    cudaGetLastError();
    throw_gpu_error(error, gpu,
                    std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")",
                    what);
}

namespace {

/// Stands for all kernels of the source that includes this: they are one module.
__global__ void kernel_of_this_source() {}

/// See know_gpu_kernels. As long as the source's library is loaded.
struct KernelsOfThisSource {
    KernelsOfThisSource() { (void)know_gpu_kernels(&function); }
    ~KernelsOfThisSource() { forget_gpu_kernels(&function); }
    KernelsOfThisSource(KernelsOfThisSource const&) = delete;
    KernelsOfThisSource& operator=(KernelsOfThisSource const&) = delete;

    static void* function(int gpu) {
        cudaFunction_t function = nullptr;
        auto const* const code = reinterpret_cast<void const*>(&kernel_of_this_source);
        check_gpu_launch(cudaGetFuncBySymbol(&function, code), gpu, "load kernels");
        return function;
    }
};
[[maybe_unused]] KernelsOfThisSource const kernels_of_this_source;

}  // namespace

/// A kernel has one limit on shared memory: held from where it is set until that is used.
inline std::mutex& gpu_limit_mutex() {
    static std::mutex mutex;
    return mutex;
}

/// How many groups of a kernel have room on a GPU at the same time. With the mutex held until the limit that this
/// sets is used.
template <class Kernel, class... Args>
std::uint32_t fitting_gpu_groups(GpuLaunch const& launch) {
    int const gpu = launch.gpu;  // the calling thread's
    auto* const code = gpu_kernel_of<Kernel, Args...>();
    check_gpu_launch(
        cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(launch.shared_bytes)),
        gpu,
        "a group wants more shared memory than a block can have (smaller tile_rows need less)");
    int each = 0;
    int multiprocessors = 0;
    check_gpu_launch(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                         &each, code, static_cast<int>(launch.threads), launch.shared_bytes),
                     gpu, "see how many groups fit");
    check_gpu_launch(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu),
                     gpu, "count multiprocessors");
    std::uint32_t const all = static_cast<std::uint32_t>(multiprocessors);
    return static_cast<std::uint32_t>(each) * (all - (launch.beside < all ? launch.beside : all));
}

template <class Kernel, class... Args>
void start_gpu_kernel(GpuLaunch const& launch, Kernel const& kernel, Args const&... args) {
    int const gpu = launch.gpu;
    std::lock_guard const lock(gpu_limit_mutex());
    std::uint32_t const most = fitting_gpu_groups<Kernel, Args...>(launch);
    std::uint32_t const groups = launch.groups == 0 ? most : launch.groups;
    if (groups > most) {
        std::string const sorters =
            launch.beside == 0 ? "" : " beside " + std::to_string(launch.beside) + " sorters";
        throw Error(ErrorCode::InvalidArgument,
                    "cuda:" + std::to_string(gpu) + ": of " + std::to_string(groups) +
                        " groups of " + std::to_string(launch.threads) + " threads only " +
                        std::to_string(most) + " are resident at the same time" + sorters +
                        ", and they wait for each other; launch no more, over all kernels that "
                        "run together");
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(groups);
    config.blockDim = dim3(launch.threads);
    config.dynamicSmemBytes = launch.shared_bytes;
    config.stream = static_cast<cudaStream_t>(launch.stream);
    // Its own result: the thread's last error may be an older one, of a call that is none of ours.
    auto* const code = gpu_kernel_of<Kernel, Args...>();
    check_gpu_launch(cudaLaunchKernelEx(&config, code, kernel, launch.first_number,
                                        launch.shared_bytes, args...),
                     gpu, "start a kernel");
}

}  // namespace mgi
