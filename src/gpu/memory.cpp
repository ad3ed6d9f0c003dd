#include "gpu/memory.hpp"

#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <mgi/error.hpp>

namespace mgi::gpu {

namespace {

// Retained once and for good: CUDA's runtime has it for as long as the process lives, too.
Context primary_context(Driver const& driver, int gpu) {
    driver.check_gpu(gpu);
    // Never destroyed: threads that watch kernels may come here until the process has ended.
    static auto& mutex = *new std::mutex;
    static auto& known = *new std::vector<std::pair<Driver const*, std::vector<Context>>>;
    std::lock_guard const lock(mutex);
    if (known.empty() || known.back().first != &driver) {
        known.emplace_back(&driver, std::vector<Context>(std::size_t(driver.gpus()), nullptr));
    }
    Context& context = known.back().second[std::size_t(gpu)];
    if (context == nullptr) {
        driver.check(driver.cuDevicePrimaryCtxRetain(&context, gpu), "use the GPU", gpu);
    }
    return context;
}

constexpr char const* kShare =
    "share a channel's pool with other processes (set MGI_GPU_IPC=off where that cannot be)";
constexpr char const* kImport =
    "use another process' pool of a channel (set MGI_GPU_IPC=off where that cannot be)";

}  // namespace

Current::Current(Driver const& driver, int gpu) : driver_(driver) {
    Context const context = primary_context(driver, gpu);
    driver.check(driver.cuCtxGetCurrent(&before_), "find the thread's context", gpu);
    driver.check(driver.cuCtxSetCurrent(context), "use the GPU in this thread", gpu);
}

Current::~Current() {
    (void)driver_.cuCtxSetCurrent(before_);
}

OwnStream::OwnStream(int gpu) : gpu_(gpu) {
    Current const here(driver_, gpu);
    driver_.check(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "create a stream", gpu);
}

OwnStream::~OwnStream() {
    try {
        Current const here(driver_, gpu_);
        (void)driver_.cuStreamDestroy(stream_);
    } catch (std::exception const&) {
        // The GPU's context is lost, and its streams with it.
    }
}

bool OwnStream::is_done() const {
    Result const result = driver_.cuStreamQuery(stream_);
    if (result == kNotReady) return false;
    driver_.check(result, "run a kernel", gpu_);
    return true;
}

OwnEvent::OwnEvent(int gpu, Stream stream) : gpu_(gpu) {
    Current const here(driver_, gpu);
    driver_.check(driver_.cuEventCreate(&event_, kEventDisableTiming), "create an event", gpu);
    Result const result = driver_.cuEventRecord(event_, stream);
    if (result == kSuccess) return;
    (void)driver_.cuEventDestroy(event_);
    if (result == kInvalidHandle || result == kInvalidContext || result == kInvalidValue) {
        throw Error(ErrorCode::InvalidArgument, "cuda:" + std::to_string(gpu) + ": " +
                                                    driver_.text_of(result) +
                                                    ": that is no stream of this GPU's");
    }
    driver_.check(result, "mark a place in a stream", gpu);
}

OwnEvent::~OwnEvent() {
    try {
        Current const here(driver_, gpu_);
        (void)driver_.cuEventDestroy(event_);
    } catch (std::exception const&) {
        // The GPU's context is lost, and its events with it.
    }
}

bool OwnEvent::is_done() const {
    Result const result = driver_.cuEventQuery(event_);
    if (result == kNotReady) return false;
    driver_.check(result, "run a kernel", gpu_);
    return true;
}

DeviceMemory::DeviceMemory(int gpu, std::uint64_t bytes) : gpu_(gpu), bytes_(bytes) {
    if (bytes_ == 0) return;
    OwnStream const stream(gpu);
    Current const here(driver_, gpu);
    driver_.check(driver_.cuMemAlloc(&at_, bytes),
                  "allocate " + std::to_string(bytes) + " bytes for a channel's pool", gpu);
    Result result = driver_.cuMemsetD8Async(at_, 0, bytes, stream.get());
    if (result == kSuccess) result = driver_.cuStreamSynchronize(stream.get());
    if (result != kSuccess) {
        (void)driver_.cuMemFree(at_);
        driver_.check(result, "zero a channel's pool", gpu);
    }
}

DeviceMemory::~DeviceMemory() {
    try {
        Current const here(driver_, gpu_);
        (void)driver_.cuMemFree(at_);
    } catch (std::exception const&) {
        // As above.
    }
}

IpcHandle DeviceMemory::handle() const {
    Current const here(driver_, gpu_);
    IpcHandle handle{};
    driver_.check(driver_.cuIpcGetMemHandle(&handle, at_), kShare, gpu_);
    return handle;
}

ImportedMemory::ImportedMemory(int gpu, IpcHandle const& handle) : gpu_(gpu) {
    Current const here(driver_, gpu);
    driver_.check(driver_.cuIpcOpenMemHandle(&at_, handle, kIpcLazyPeerAccess), kImport, gpu);
}

ImportedMemory::~ImportedMemory() {
    try {
        Current const here(driver_, gpu_);
        (void)driver_.cuIpcCloseMemHandle(at_);
    } catch (std::exception const&) {
        // The GPU's context is lost, and its memory with it.
    }
}

int ImportedMemory::on() const {
    Current const here(driver_, gpu_);
    int gpu = 0;
    driver_.check(driver_.cuPointerGetAttribute(&gpu, kPointerOrdinal, at_), kImport, gpu_);
    return gpu;
}

void free_later(std::unique_ptr<DeviceMemory> memory) {
    using Clock = std::chrono::steady_clock;
    // A link whose other end is gone is over after 14 s.
    constexpr std::chrono::seconds kLongestUse{15};
    // Never destroyed, as above.
    static auto& mutex = *new std::mutex;
    static auto& kept =
        *new std::deque<std::pair<Clock::time_point, std::unique_ptr<DeviceMemory>>>;
    std::vector<std::unique_ptr<DeviceMemory>> over;  // die behind the lock
    std::lock_guard const lock(mutex);
    while (!kept.empty() && kept.front().first <= Clock::now()) {
        over.push_back(std::move(kept.front().second));
        kept.pop_front();
    }
    kept.emplace_back(Clock::now() + kLongestUse, std::move(memory));
}

ManagedMemory::ManagedMemory(int gpu, std::uint64_t bytes) : gpu_(gpu), bytes_(bytes) {
    Current const here(driver_, gpu);
    int concurrent = 0;
    driver_.check(driver_.cuDeviceGetAttribute(&concurrent, kConcurrentManagedAccess, gpu),
                  "ask what the GPU can do", gpu);
    if (concurrent == 0) {
        throw Error(ErrorCode::InvalidArgument,
                    "cuda:" + std::to_string(gpu) +
                        " has no managed memory that host and kernels may use at the same time, "
                        "which a channel's tables need (a virtual GPU? WSL?); use CPU devices");
    }
    driver_.check(driver_.cuMemAllocManaged(&at_, bytes, kAttachGlobal),
                  "allocate " + std::to_string(bytes) + " bytes for a channel's tables", gpu);
}

ManagedMemory::~ManagedMemory() {
    try {
        Current const here(driver_, gpu_);
        (void)driver_.cuMemFree(at_);
    } catch (std::exception const&) {
        // As above.
    }
}

PinnedMemory::PinnedMemory(int gpu, std::uint64_t bytes) : gpu_(gpu), bytes_(bytes) {
    if (bytes_ == 0) return;
    Current const here(driver_, gpu);
    driver_.check(driver_.cuMemHostAlloc(&at_, bytes_, kHostPortable | kHostMapped),
                  "pin " + std::to_string(bytes_) + " bytes of the host's for a channel", gpu);
    std::memset(at_, 0, bytes_);
}

PinnedMemory::~PinnedMemory() {
    if (at_ == nullptr) return;
    try {
        Current const here(driver_, gpu_);
        (void)driver_.cuMemFreeHost(at_);
    } catch (std::exception const&) {
        // As above.
    }
}

PinnedRange::PinnedRange(int gpu, char* data, std::uint64_t bytes) : gpu_(gpu), data_(data) {
    Current const here(driver_, gpu);
    driver_.check(driver_.cuMemHostRegister(data, bytes, kHostPortable),
                  "pin " + std::to_string(bytes) + " bytes of a channel's pool", gpu);
}

PinnedRange::~PinnedRange() {
    try {
        Current const here(driver_, gpu_);
        (void)driver_.cuMemHostUnregister(data_);
    } catch (std::exception const&) {
        // As above.
    }
}

bool reaches(int from, int to) {
    if (from == to) return true;
    Driver const& driver = Driver::get();
    int can = 0;
    driver.check(driver.cuDeviceCanAccessPeer(&can, from, to), "ask for a peer", from);
    return can != 0;
}

bool connect_peers(int one, int other) {
    Driver const& driver = Driver::get();
    auto const connect = [&](int from, int to) {
        if (!reaches(from, to)) return false;
        Current const here(driver, from);
        Result const result = driver.cuCtxEnablePeerAccess(primary_context(driver, to), 0);
        return result == kSuccess || result == kPeerAccessAlreadyEnabled;
    };
    bool const there = connect(one, other);
    return connect(other, one) && there;
}

void ManagedMemory::settle() {
    OwnStream const stream(gpu_);
    Current const here(driver_, gpu_);
    MemoryLocation const home{kLocationDevice, gpu_};
    driver_.check(driver_.cuMemAdvise(at_, bytes_, kAdvisePreferredLocation, home),
                  "keep a channel's tables on the GPU", gpu_);
    driver_.check(driver_.cuMemPrefetchAsync(at_, bytes_, home, 0, stream.get()),
                  "bring a channel's tables to the GPU", gpu_);
    driver_.check(driver_.cuStreamSynchronize(stream.get()), "bring a channel's tables to the GPU",
                  gpu_);
}

}  // namespace mgi::gpu
