// Places on GPUs.
#include "operators/gpu/place.hpp"

#include <cuda_runtime.h>

#include <mgi/gpu_table.hpp>
#include <mgi/gpu_windows.hpp>

#include "operators/gpu/kept_on_gpu.hpp"
#include "operators/gpu/radix_sort.hpp"

#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>

namespace mgi::operators::on_gpu {

namespace {

// The memory pool that memory is of; null: of none. Only the driver knows.
cudaMemPool_t pool_of(void* at) {
    constexpr int kMemoryPool = 17;  // CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
    using Call = int (*)(void* value, int attribute, unsigned long long address);
    static auto const call = [] {
        void* found = nullptr;
        cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSymbolNotFound;
        cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &found, 12000, cudaEnableDefault,
                                         &how);
        cudaGetLastError();
        return reinterpret_cast<Call>(found);
    }();
    cudaMemPool_t pool = nullptr;
    bool const known = call != nullptr && call(&pool, kMemoryPool, reinterpret_cast<u64>(at)) == 0;
    return known ? pool : nullptr;
}

class GpuPlace final : public Place {
public:
    GpuPlace(int gpu, PlaceOptions const& options)
        : Place(options), gpu_(with_streams(gpu, options)), memory_(kept_of<GpuMemory>(gpu)) {
        GpuOfThread const here(gpu);
        check_cuda(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, gpu),
                   gpu, "count multiprocessors");
        check_cuda(cudaDeviceGetAttribute(&reads_pages_,
                                          cudaDevAttrPageableMemoryAccessUsesHostPageTables, gpu),
                   gpu, "see how it reads the host's memory");
        find_stream(options.stream);
        if (!options.allocator) return;
        CallersMemory::Site site;
        site.name = name();
        site.gpu = gpu;
        site.stream = stream_;
        // Memory that was taken in a stream of the place's own is none of the caller's stream.
        if (!own_stream_) site.callers = options.stream;
        site.wait = [this] { wait(); };
        site.trim = [gpu] { (void)trim_gpu_memory(gpu); };
        callers_ = std::make_shared<CallersMemory>(options.allocator, site);
    }
    ~GpuPlace() override {
        try {
            // Whatever failed, nothing of the call reads its inputs or uses its memory from here on.
            wait();
        } catch (std::exception const&) {
            // The GPU's context is lost.
        }
        *over_ = true;
        if (callers_) callers_->end_call();
    }

    [[nodiscard]] std::string name() const override { return "cuda:" + std::to_string(gpu_); }
    [[nodiscard]] bool is_gpu() const override { return true; }
    [[nodiscard]] int gpu() const override { return gpu_; }
    [[nodiscard]] bool reaches(Place const& other) const override {
        return gpus_reach_each_other(gpu_, other.gpu());
    }
    // What reaches another GPU's memory reaches all but that of pools, which are closed at first.
    [[nodiscard]] bool reaches_memory(Place const& other, void* at) const override {
        if (gpu_ == other.gpu() || !other.has_callers_memory()) return true;
        GpuOfThread const here(gpu_);
        cudaMemPool_t const pool = pool_of(at);
        if (pool == nullptr) return true;
        cudaMemLocation location = {};
        location.type = cudaMemLocationTypeDevice;
        location.id = gpu_;
        cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
        check_cuda(cudaMemPoolGetAccess(&flags, pool, &location), gpu_,
                   "see whose pool it may write into");
        return flags == cudaMemAccessFlagsProtReadWrite;
    }
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
        // Of memory that is not pinned CUDA has taken a copy when this comes back, but where the GPU reads it itself.
        if (reads_pages_) wait();
    }
    void copy(void* to, void const* from, u64 bytes) override {
        if (bytes == 0) return;
        GpuOfThread const here(gpu_);
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), gpu_,
                   "copy within its memory");
    }
    void sort(WordsToSort& all) override {
        GpuOfThread const here(gpu_);
        u64 bytes = 0;
        check_cuda(radix_sort(stream_, all, nullptr, bytes), gpu_, "plan a sort");
        Memory const scratch = allocate(bytes, "scratch of a sort");
        check_cuda(radix_sort(stream_, all, scratch.get(), bytes), gpu_, "sort");
    }
    void copy_out(void* to, void const* from, u64 bytes) override {
        // What the caller had put in before may take long. It is over from the first wait on.
        if (bytes == 0 || behind_caller_) wait();
        if (bytes == 0) return;
        GpuOfThread const here(gpu_);
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), gpu_,
                   "copy from its memory");
        wait();
    }
    // Polls: CUDA's own waits hold locks that movers want.
    void wait() override {
        // Not for what others put into the caller's stream meanwhile.
        if (event_) put_event(event_.get(), stream_);
        for (u32 round = 0;; ++round) {
            cudaError_t const state =
                event_ ? cudaEventQuery(event_.get()) : cudaStreamQuery(stream_);
            if (state != cudaErrorNotReady) {
                check_cuda(state, gpu_, "run a kernel");
                behind_caller_ = false;
                return;
            }
            if (round < 10'000) {
                std::this_thread::yield();
            } else {
                std::this_thread::sleep_for(std::chrono::microseconds(20));
            }
        }
    }

    void follow(Place& other) override {
        auto& before = static_cast<GpuPlace&>(other);
        if (!before.mark_) {
            GpuOfThread const there(before.gpu_);
            before.mark_ = before.new_event();
        }
        before.put_event(before.mark_.get(), before.stream_);
        GpuOfThread const here(gpu_);
        check_cuda(cudaStreamWaitEvent(stream_, before.mark_.get(), 0), gpu_,
                   "wait for another GPU's stream");
    }

    void trim() override { memory_.trim(); }

protected:
    Memory take(u64 bytes, std::string const& what) override {
        if (callers_) return callers_->take(bytes, what);
        GpuOfThread const here(gpu_);
        void* at = memory_.take(bytes, stream_);
        // Windows that are kept may be what is missing.
        if (at == nullptr && trim_gpu_windows(gpu_) != 0) at = memory_.take(bytes, stream_);
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
        return {at, [&memory = memory_, over = over_, stream = stream_](void* of) {
                    memory.give_back(of, *over ? cudaStreamLegacy : stream);
                }};
    }
    void run_groups(u32, Body const&) override {}
    [[nodiscard]] void* stream() const override { return stream_; }

private:
    struct DestroyEvent {
        void operator()(cudaEvent_t event) const {
            cudaEventDestroy(event);
            cudaGetLastError();
        }
    };
    using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

    // The caller's stream; one of the place's own where there is none, or only each thread's: other threads work here, too.
    void find_stream(std::optional<void*> const& wanted) {
        auto const callers = static_cast<cudaStream_t>(wanted.value_or(nullptr));
        behind_caller_ = wanted.has_value();
        if (wanted && callers != cudaStreamPerThread) {
            stream_ = callers;
            event_ = new_event();
            return;
        }
        own_stream_ = kept_of<GpuStreams>(gpu_).take();
        stream_ = own_stream_.get();
        if (!wanted) return;
        Event const event = new_event();
        put_event(event.get(), callers);
        check_cuda(cudaStreamWaitEvent(stream_, event.get(), 0), gpu_,
                   "wait for the caller's stream");
    }
    // The GPU, once the streams of all of them are known to be what a call can work behind. Nothing else is done before: it might
    // break the capture of a stream that is captured into a graph.
    static int with_streams(int gpu, PlaceOptions const& options) {
        for (auto const& [of, stream] : options.streams) {
            GpuOfThread const here(of);
            check_stream(of, static_cast<cudaStream_t>(stream));
        }
        return gpu;
    }
    static void check_stream(int gpu, cudaStream_t stream) {
        std::string wrong;
        int of = gpu;
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        cudaError_t error = cudaStreamIsCapturing(stream, &capture);
        // The legacy default stream would wait for one that is captured.
        if (error == cudaErrorStreamCaptureImplicit) {
            error = cudaSuccess;
            capture = cudaStreamCaptureStatusActive;
        }
        if (error == cudaSuccess && capture == cudaStreamCaptureStatusNone) {
            error = cudaStreamGetDevice(stream, &of);
        }
        if (loses_context(error)) check_cuda(error, gpu, "look at the caller's stream");
        cudaGetLastError();
        if (error != cudaSuccess) {
            wrong = std::string("no stream to work in: ") + cudaGetErrorName(error) + " (" +
                    cudaGetErrorString(error) + ")";
        } else if (of != gpu) {
            wrong = "a stream of cuda:" + std::to_string(of) + "; give one of each GPU its own";
        } else if (capture != cudaStreamCaptureStatusNone) {
            wrong = "being captured into a graph, which an operator cannot be; call it outside";
        }
        if (wrong.empty()) return;
        throw Error(ErrorCode::InvalidArgument,
                    "gpu_streams has for cuda:" + std::to_string(gpu) + " what is " + wrong);
    }
    [[nodiscard]] Event new_event() const {
        cudaEvent_t event = nullptr;
        check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), gpu_,
                   "create an event");
        return Event(event);
    }
    void put_event(cudaEvent_t event, cudaStream_t stream) const {
        GpuOfThread const here(gpu_);
        check_cuda(cudaEventRecord(event, stream), gpu_, "put an event into a stream");
    }

    int const gpu_;
    GpuMemory& memory_;
    int multiprocessors_ = 1;
    int reads_pages_ = 0;  // of the host's memory, as on Grace
    cudaStream_t stream_ = nullptr;
    KeptStream own_stream_;
    Event event_;  // in the caller's stream; null where the stream is the place's
    Event mark_;   // what other places follow; null until one does
    std::atomic<bool> behind_caller_ = false;  // what the caller had put in before may still run
    std::shared_ptr<CallersMemory> callers_;
    // Whether the call has ended, for memory that lives on.
    std::shared_ptr<std::atomic<bool>> const over_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

std::unique_ptr<Place> gpu_place(int gpu, PlaceOptions const& options) {
    return std::make_unique<GpuPlace>(gpu, options);
}

GpuMemorySize memory_of_gpu(int gpu) {
    return kept_of<GpuMemory>(gpu).size();
}

}  // namespace mgi::operators::on_gpu

namespace mgi {

std::uint64_t trim_gpu_memory(int gpu) {
    using namespace operators::on_gpu;
    return kept_of<GpuMemory>(gpu).trim() + trim_gpu_windows(gpu);
}

}  // namespace mgi
