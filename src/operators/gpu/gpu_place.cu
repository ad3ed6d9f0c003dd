// Places on GPUs.
#include "operators/gpu/gpu_place.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

namespace mgi::operators::on_gpu {

namespace {

// Whether every call on the GPU fails from now on.
bool loses_context(cudaError_t error) {
    switch (error) {
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchFailure:
        case cudaErrorLaunchTimeout:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorAssert:
        case cudaErrorECCUncorrectable: return true;
        default: return false;
    }
}

// The memory of a GPU that operators take and give back, without waiting for kernels as cudaFree does.
class GpuMemory {
public:
    // Lives to the end of the process, as tables may.
    static GpuMemory& of(int gpu) {
        static std::mutex mutex;
        static auto* const all = new std::map<int, std::unique_ptr<GpuMemory>>;
        std::lock_guard const lock(mutex);
        auto& memory = (*all)[gpu];
        if (!memory) memory.reset(new GpuMemory(gpu));
        return *memory;
    }

    void* take(u64 bytes, cudaStream_t stream) {
        void* at = nullptr;
        cudaError_t error = cudaMallocFromPoolAsync(&at, bytes, pool_, stream);
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            // What is kept may be in pieces that are too small.
            cudaStreamSynchronize(stream);
            cudaStreamSynchronize(giving_back_);
            cudaMemPoolTrimTo(pool_, 0);
            error = cudaMallocFromPoolAsync(&at, bytes, pool_, stream);
        }
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            return nullptr;
        }
        check_cuda(error, gpu_, "allocate memory");
        return at;
    }

    // Behind what was put into the legacy default stream.
    void give_back(void* at) noexcept {
        int before = 0;
        cudaGetDevice(&before);
        cudaSetDevice(gpu_);
        {
            std::lock_guard const lock(mutex_);
            if (cudaEventRecord(last_use_, cudaStreamLegacy) == cudaSuccess) {
                cudaStreamWaitEvent(giving_back_, last_use_, 0);
            }
            cudaFreeAsync(at, giving_back_);
        }
        cudaSetDevice(before);
        cudaGetLastError();
    }

    u64 trim() {
        GpuOfThread const here(gpu_);
        std::lock_guard const lock(mutex_);
        check_cuda(cudaStreamSynchronize(giving_back_), gpu_, "wait for memory");
        u64 before = 0;
        u64 after = 0;
        check_cuda(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &before), gpu_,
                   "look at memory");
        check_cuda(cudaMemPoolTrimTo(pool_, 0), gpu_, "trim memory");
        check_cuda(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &after), gpu_,
                   "look at memory");
        return before - after;
    }

private:
    explicit GpuMemory(int gpu) : gpu_(gpu) {
        GpuOfThread const here(gpu);
        cudaMemPoolProps properties = {};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id = gpu;
        check_cuda(cudaMemPoolCreate(&pool_, &properties), gpu, "make a pool of memory");
        std::size_t free = 0;
        std::size_t total = 0;
        check_cuda(cudaMemGetInfo(&free, &total), gpu, "ask for its memory");
        u64 keep = total / 4;
        check_cuda(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep), gpu,
                   "set up a pool of memory");
        check_cuda(cudaStreamCreateWithFlags(&giving_back_, cudaStreamNonBlocking), gpu,
                   "create a stream");
        check_cuda(cudaEventCreateWithFlags(&last_use_, cudaEventDisableTiming), gpu,
                   "create an event");
    }

    int const gpu_;
    cudaMemPool_t pool_ = nullptr;
    cudaStream_t giving_back_ = nullptr;
    cudaEvent_t last_use_ = nullptr;
    std::mutex mutex_;
};

class GpuPlace final : public Place {
public:
    GpuPlace(int gpu, u64 limit) : Place(limit), gpu_(gpu), memory_(GpuMemory::of(gpu)) {
        GpuOfThread const here(gpu);
        check_cuda(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, gpu),
                   gpu, "count multiprocessors");
        check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), gpu,
                   "create a stream");
    }
    ~GpuPlace() override {
        // Memory that goes after the place may be in use until here.
        cudaStreamSynchronize(stream_);
        cudaStreamDestroy(stream_);
        cudaGetLastError();
    }

    [[nodiscard]] std::string name() const override { return "cuda:" + std::to_string(gpu_); }
    [[nodiscard]] bool is_gpu() const override { return true; }
    [[nodiscard]] int gpu() const override { return gpu_; }
    [[nodiscard]] u32 threads() const override { return 256; }
    [[nodiscard]] u32 most_groups() const override { return 2 * u32(multiprocessors_); }

    void fill(void* at, int byte, u64 bytes) override {
        if (bytes == 0) return;
        GpuOfThread const here(gpu_);
        check_cuda(cudaMemsetAsync(at, byte, bytes, stream_), gpu_, "fill memory");
    }
    void copy_in(void* to, void const* from, u64 bytes) override {
        if (bytes == 0) return;
        GpuOfThread const here(gpu_);
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), gpu_,
                   "copy to its memory");
        wait();
    }
    void copy_out(void* to, void const* from, u64 bytes) override {
        if (bytes == 0) return wait();
        GpuOfThread const here(gpu_);
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), gpu_,
                   "copy from its memory");
        wait();
    }
    // Polls: CUDA's own waits hold locks that movers want.
    void wait() override {
        for (u32 round = 0;; ++round) {
            cudaError_t const state = cudaStreamQuery(stream_);
            if (state != cudaErrorNotReady) return check_cuda(state, gpu_, "run a kernel");
            if (round < 10'000) {
                std::this_thread::yield();
            } else {
                std::this_thread::sleep_for(std::chrono::microseconds(20));
            }
        }
    }

protected:
    Memory take(u64 bytes, std::string const& what, bool given_out) override {
        GpuOfThread const here(gpu_);
        void* const at = memory_.take(std::max<u64>(bytes, 256), stream_);
        if (at == nullptr) {
            std::size_t free = 0;
            std::size_t total = 0;
            cudaMemGetInfo(&free, &total);
            cudaGetLastError();
            throw Error(ErrorCode::OutOfMemory,
                        name() + ": " + what + " takes " + std::to_string(bytes) + " bytes, and " +
                            std::to_string(free) + " of " + std::to_string(total) +
                            " are free; drop tables that are not needed, spread the rows over more "
                            "GPUs, or do a part of them at a time");
        }
        if (given_out) {
            return {at, [&memory = memory_](void* of) { memory.give_back(of); }};
        }
        return {at, [this](void* of) {
                    cudaFreeAsync(of, stream_);
                    cudaGetLastError();
                }};
    }
    void run_groups(Grid, Body const&) override {}
    [[nodiscard]] void* stream() const override { return stream_; }

private:
    int const gpu_;
    GpuMemory& memory_;
    int multiprocessors_ = 1;
    cudaStream_t stream_ = nullptr;
};

}  // namespace

void check_cuda(cudaError_t error, int gpu, char const* what) {
    if (error == cudaSuccess) return;
    cudaGetLastError();
    ErrorCode code = ErrorCode::Internal;
    std::string advice;
    if (error == cudaErrorMemoryAllocation) code = ErrorCode::OutOfMemory;
    if (error == cudaErrorInvalidDevice || error == cudaErrorNoDevice) code = ErrorCode::NotFound;
    if (loses_context(error)) {
        code = ErrorCode::GroupFailed;
        advice = "; a kernel failed, and this process must be started again to use the GPU";
    }
    throw Error(code, "cuda:" + std::to_string(gpu) + ": " + what + ": " + cudaGetErrorName(error) +
                          " (" + cudaGetErrorString(error) + ")" + advice);
}

std::unique_ptr<Place> gpu_place(int gpu, u64 limit) {
    return std::make_unique<GpuPlace>(gpu, limit);
}

}  // namespace mgi::operators::on_gpu

namespace mgi {

std::uint64_t trim_gpu_memory(int gpu) {
    return operators::on_gpu::GpuMemory::of(gpu).trim();
}

}  // namespace mgi
