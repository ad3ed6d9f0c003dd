#include "gpu/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

namespace mgi::gpu {

namespace {

constexpr char const* kShare = "share a channel's pool with other processes";
constexpr char const* kZero = "zero a channel's pool";
constexpr char const* kImport = "use another process' pool of a channel";

}  // namespace

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
    Current const here(driver_, gpu_);
    Result const result = driver_.cuStreamQuery(stream_);
    if (result == kNotReady) return false;
    driver_.check(result, "run a kernel", gpu_);
    return true;
}

void OwnStream::wait(std::string const& what) const {
    Current const here(driver_, gpu_);
    driver_.check(driver_.cuStreamSynchronize(stream_), what, gpu_);
}

OwnEvent::OwnEvent(int gpu, Stream stream) : gpu_(gpu) {
    Current const here(driver_, gpu);
    driver_.check(driver_.cuEventCreate(&event_, kEventDisableTiming), "create an event", gpu);
    Result const result = driver_.cuEventRecord(event_, stream);
    if (result == kSuccess) return;
    (void)driver_.cuEventDestroy(event_);
    check_stream(result, "mark a place in a stream");
}

void OwnEvent::hold_up(Stream stream) const {
    Current const here(driver_, gpu_);
    check_stream(driver_.cuStreamWaitEvent(stream, event_, 0), "have a stream wait");
}

void OwnEvent::check_stream(Result result, std::string const& what) const {
    if (result == kInvalidHandle || result == kInvalidContext || result == kInvalidValue) {
        throw Error(ErrorCode::InvalidArgument, "cuda:" + std::to_string(gpu_) + ": " +
                                                    driver_.text_of(result) +
                                                    ": that is no stream of this GPU's");
    }
    driver_.check(result, what, gpu_);
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

// Processes begin at random, and count from there.
std::uint64_t new_number() {
    static std::atomic<std::uint64_t> next = [] {
        std::random_device random;
        return std::uint64_t(random()) << 32 | random();
    }();
    return next.fetch_add(1, std::memory_order_relaxed);
}

DeviceMemory::DeviceMemory(int gpu, std::uint64_t bytes, Shared shared)
    : gpu_(gpu), bytes_(bytes), shared_(shared), all_(bytes), number_(new_number()) {
    if (bytes_ == 0) return;
    if (shared == Shared::Mapped) {
        mapping_.emplace(gpu, bytes);
        at_ = mapping_->at();
        all_ = mapping_->bytes();
        zero();
        return;
    }
    // A handle is of whole allocations of the driver's, where small ones lie with others.
    constexpr std::uint64_t kWhole = std::uint64_t(2) << 20;
    if (shared == Shared::Plainly) all_ = (bytes + kWhole - 1) / kWhole * kWhole;
    Current const here(driver_, gpu);
    driver_.check(driver_.cuMemAlloc(&at_, all_),
                  "allocate " + std::to_string(all_) + " bytes for a channel's pool", gpu);
    try {
        zero();
    } catch (...) {
        (void)driver_.cuMemFree(at_);
        throw;
    }
}

DeviceMemory::DeviceMemory(std::shared_ptr<GpuAllocator const> from, std::uint64_t bytes,
                           OwnStream const& zeroes)
    : gpu_(zeroes.gpu()), bytes_(bytes), shared_(Shared::Not), all_(bytes), number_(new_number()) {
    if (bytes_ == 0) return;
    at_ = provided_.emplace(std::move(from), gpu_, bytes).at();
    zero(zeroes);
    zeroes.wait(kZero);
}

void DeviceMemory::zero() const {
    OwnStream const stream(gpu_);
    zero(stream);
    stream.wait(kZero);
}

void DeviceMemory::zero(OwnStream const& stream) const {
    Current const here(driver_, gpu_);
    driver_.check(driver_.cuMemsetD8Async(at_, 0, bytes_, stream.get()), kZero, gpu_);
}

DeviceMemory::~DeviceMemory() {
    if (descriptor_ >= 0) close(descriptor_);
    if (mapping_) return;
    if (provided_) {
        if (abandoned_) provided_->wait_for_kernels();
        return;
    }
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

int DeviceMemory::descriptor() const {
    std::lock_guard const lock(mutex_);
    if (descriptor_ < 0) descriptor_ = mapping_.value().descriptor(kShare);
    return descriptor_;
}

ImportedMemory::ImportedMemory(int gpu, IpcHandle const& handle) : gpu_(gpu) {
    Current const here(driver_, gpu);
    driver_.check(driver_.cuIpcOpenMemHandle(&at_, handle, kIpcLazyPeerAccess), kImport, gpu);
}

ImportedMemory::ImportedMemory(std::vector<int> const& gpus, int descriptor, std::uint64_t bytes)
    : gpu_(gpus.front()) {
    at_ = mapping_.emplace(gpus, descriptor, bytes, kImport).at();
}

ImportedMemory::~ImportedMemory() {
    if (mapping_) return;
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

namespace {

struct Kept {
    std::shared_ptr<DeviceMemory> memory;
    std::function<bool()> let_go;
};

// Never destroyed, as above.
struct AllKept {
    std::mutex mutex;
    std::vector<Kept> kept;

    static AllKept& one() {
        static auto& made = *new AllKept;
        return made;
    }
};

}  // namespace

void free_later(std::shared_ptr<DeviceMemory> memory, std::function<bool()> let_go) {
    {
        AllKept& all = AllKept::one();
        std::lock_guard const lock(all.mutex);
        all.kept.push_back({std::move(memory), std::move(let_go)});
    }
    free_let_go();
}

void free_let_go() {
    std::vector<Kept> over;  // die behind the lock
    AllKept& all = AllKept::one();
    std::lock_guard const lock(all.mutex);
    auto const end = std::partition(all.kept.begin(), all.kept.end(),
                                    [](Kept const& one) { return !one.let_go(); });
    over.assign(std::make_move_iterator(end), std::make_move_iterator(all.kept.end()));
    all.kept.erase(end, all.kept.end());
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

}  // namespace mgi::gpu
