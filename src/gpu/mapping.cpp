#include "gpu/mapping.hpp"

#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include "gpu/memory.hpp"
#include "gpu/peers.hpp"

namespace mgi::gpu {

namespace {

MappedKind kind_on(int gpu) {
    MappedKind kind{};
    kind.type = kMappedPinned;
    kind.handle_types = kByDescriptor;
    kind.location = {kLocationDevice, gpu};
    return kind;
}

std::vector<int> all_that_reach(Driver const& driver, int gpu) {
    std::vector<int> gpus;
    for (int other = 0; other < driver.gpus(); ++other) {
        if (reaches(other, gpu)) gpus.push_back(other);
    }
    return gpus;
}

std::string look_at(Driver const& driver, int gpu) {
    for (Attribute const attribute : {kMapsMemory, kSharesByDescriptor}) {
        int has = 0;
        driver.check(driver.cuDeviceGetAttribute(&has, attribute, gpu), "ask what the GPU can do",
                     gpu);
        if (has == 0) return "the GPU and its driver do not know it";
    }
    // A container may forbid what both of them know.
    try {
        close(Mapping(gpu, 1).descriptor("share mapped memory"));
        return "";
    } catch (Error const& error) {
        if (error.code() == ErrorCode::GroupFailed || error.code() == ErrorCode::OutOfMemory) throw;
        return error.what();
    }
}

}  // namespace

std::string why_not_mapped(int gpu) {
    Driver const& driver = Driver::get();
    // Never destroyed, as the driver.
    static auto& mutex = *new std::mutex;
    static auto& known = *new std::map<std::pair<Driver const*, int>, std::string>;
    std::lock_guard const lock(mutex);
    auto const at = known.find({&driver, gpu});
    if (at != known.end()) return at->second;
    return known[{&driver, gpu}] = look_at(driver, gpu);
}

Mapping::Mapping(int gpu, std::uint64_t bytes, std::string const& use) : gpu_(gpu), bytes_(bytes) {
    std::string const what = "allocate " + std::to_string(bytes) + " bytes for " + use;
    Current const here(driver_, gpu);
    MappedKind const kind = kind_on(gpu);
    std::size_t piece = 0;
    driver_.check(driver_.cuMemGetAllocationGranularity(&piece, &kind, kLeastGranularity), what,
                  gpu);
    bytes_ = (bytes + piece - 1) / piece * piece;
    driver_.check(driver_.cuMemCreate(&memory_, bytes_, &kind, 0), what, gpu);
    has_memory_ = true;
    map(all_that_reach(driver_, gpu), what);
}

Mapping::Mapping(std::vector<int> const& gpus, int descriptor, std::uint64_t bytes,
                 std::string const& what)
    : gpu_(gpus.front()), bytes_(bytes) {
    Current const here(driver_, gpu_);
    // The driver wants the number itself where others have a pointer.
    auto* const number =
        reinterpret_cast<void*>(std::uintptr_t(descriptor));  // NOLINT(performance-no-int-to-ptr)
    driver_.check(driver_.cuMemImportFromShareableHandle(&memory_, number, kByDescriptor), what,
                  gpu_);
    has_memory_ = true;
    map(gpus, what);
}

Mapping::~Mapping() {
    undo();
}

void Mapping::map(std::vector<int> const& gpus, std::string const& what) {
    std::vector<MappedAccess> access;
    for (int const gpu : gpus) access.push_back({{kLocationDevice, gpu}, kReadAndWrite});
    try {
        driver_.check(driver_.cuMemAddressReserve(&at_, bytes_, 0, 0, 0), what, gpu_);
        driver_.check(driver_.cuMemMap(at_, bytes_, 0, memory_, 0), what, gpu_);
        is_mapped_ = true;
        driver_.check(driver_.cuMemSetAccess(at_, bytes_, access.data(), access.size()), what,
                      gpu_);
    } catch (...) {
        undo();
        throw;
    }
}

void Mapping::undo() noexcept {
    try {
        Current const here(driver_, gpu_);
        if (is_mapped_) (void)driver_.cuMemUnmap(at_, bytes_);
        if (at_ != 0) (void)driver_.cuMemAddressFree(at_, bytes_);
        if (has_memory_) (void)driver_.cuMemRelease(memory_);
    } catch (std::exception const&) {
        // The GPU's context is lost, and its memory with it.
    }
}

int Mapping::descriptor(std::string const& what) const {
    Current const here(driver_, gpu_);
    int descriptor = -1;
    driver_.check(driver_.cuMemExportToShareableHandle(&descriptor, memory_, kByDescriptor, 0),
                  what, gpu_);
    return descriptor;
}

}  // namespace mgi::gpu
