#include "gpu/driver.hpp"

#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

namespace mgi::gpu {
namespace {

std::string library_name() {
    char const* const told = std::getenv("MGI_CUDA_LIBRARY");
    return told != nullptr && *told != '\0' ? told : "libcuda.so.1";
}

ErrorCode code_of(Result result) {
    switch (result) {
        case kOutOfMemory: return ErrorCode::OutOfMemory;
        case kStubLibrary:
        case kDeviceUnavailable:
        case kNoDevice:
        case kInvalidDevice:
        case kSystemNotReady:
        case kSystemDriverMismatch:
        case kCompatNotSupportedOnDevice: return ErrorCode::NotFound;
        default: break;
    }
    return Driver::loses_context(result) ? ErrorCode::GroupFailed : ErrorCode::Internal;
}

/// What to do about it; empty where only the driver's own words can tell.
std::string_view remedy(Result result) {
    switch (result) {
        case kOutOfMemory:
            return "make fewer or smaller channels and pools, or free memory that others of this "
                   "machine hold (nvidia-smi shows who does)";
        case kDeinitialized: return "the process is ending; nothing is left to do";
        case kStubLibrary:
            return "this libcuda is the toolkit's stub, which is there to link with; take it out "
                   "of "
                   "LD_LIBRARY_PATH";
        case kDeviceUnavailable:
            return "another process has it alone, or its compute mode forbids it (nvidia-smi -q -d "
                   "COMPUTE)";
        case kNoDevice:
        case kInvalidDevice:
            return "see which GPUs there are (nvidia-smi -L) and which this process may see "
                   "(CUDA_VISIBLE_DEVICES)";
        case kSystemNotReady:
            return "on a machine with NVSwitches the fabric manager must run (systemctl status "
                   "nvidia-fabricmanager)";
        case kSystemDriverMismatch:
        case kCompatNotSupportedOnDevice:
            return "the kernel's driver and libcuda are of two versions: reboot, or reinstall the "
                   "driver";
        default: break;
    }
    if (Driver::loses_context(result)) {
        return "the GPU's context is lost: its endpoints are gone for this process, CPU endpoints "
               "go "
               "on; restart the process to use the GPU again (compute-sanitizer finds the kernel)";
    }
    return "";
}

}  // namespace

/// The one driver, and why there is none.
class Finder {
public:
    static Finder& one() {
        static auto* const made = new Finder;  // as long as the process: the driver is, too
        return *made;
    }

    Driver const* find(std::string* absence) {
        std::lock_guard const lock(mutex_);
        if (!looked_) {
            absence_.clear();
            // One that is of no use stays open, too: it may have begun threads.
            all_.push_back(Driver::open(library_name(), absence_));
            found_ = absence_.empty() ? all_.back().get() : nullptr;
            looked_ = true;
        }
        if (absence != nullptr) *absence = absence_;
        return found_;
    }

    void look_again() {
        std::lock_guard const lock(mutex_);
        looked_ = false;
    }

private:
    std::mutex mutex_;
    bool looked_ = false;
    Driver const* found_ = nullptr;
    std::string absence_;
    std::vector<std::unique_ptr<Driver>> all_;
};

Driver const* Driver::find() {
    return Finder::one().find(nullptr);
}

std::string Driver::absence() {
    std::string text;
    Finder::one().find(&text);
    return text;
}

Driver const& Driver::get() {
    std::string text;
    if (auto const* const driver = Finder::one().find(&text)) return *driver;
    throw Error(ErrorCode::NotFound, "GPUs: " + text + "; CPU devices are there all the same");
}

void Driver::look_again() {
    Finder::one().look_again();
}

std::unique_ptr<Driver> Driver::open(std::string const& name, std::string& problem) {
    std::unique_ptr<Driver> driver(new Driver);
    driver->library_ = std::make_unique<SharedLibrary const>(name);
    if (!driver->library_->open()) {
        problem = "no NVIDIA driver (" + driver->library_->problem() + ")";
        return driver;
    }
    std::string missing;
    for (AnyCall* const call : driver->all_) {
        call->address = driver->library_->address(call->symbol);
        if (call->address == nullptr && missing.empty()) missing = call->symbol;
    }
    // The version goes first, since an old driver lacks functions; it needs no cuInit().
    if (driver->cuDriverGetVersion.there() &&
        driver->cuDriverGetVersion(&driver->version_) == kSuccess &&
        driver->version_ < kOldestDriver) {
        problem = "driver too old: " + version_text(driver->version_) + ", MGI needs " +
                  version_text(kOldestDriver) + "; update NVIDIA's driver";
        return driver;
    }
    if (!missing.empty()) {
        problem = name + " has no " + missing + ": it is no NVIDIA driver of version " +
                  version_text(kOldestDriver) + " or later";
        return driver;
    }
    Result result = driver->cuInit(0);
    if (result == kSuccess) result = driver->cuDeviceGetCount(&driver->gpus_);
    if (result == kSuccess && driver->gpus_ == 0) result = kNoDevice;
    if (result != kSuccess) {
        problem = result == kNoDevice ? "no GPU (" : "the driver does not start (";
        problem += driver->text_of(result) + ")";
        if (auto const todo = remedy(result); !todo.empty()) problem += ": " + std::string(todo);
        return driver;
    }
    return driver;
}

void Driver::check_gpu(std::int64_t gpu) const {
    if (gpu >= 0 && gpu < gpus_) return;
    throw Error(ErrorCode::InvalidArgument, "there is no cuda:" + std::to_string(gpu) +
                                                "; this process sees " + std::to_string(gpus_) +
                                                " GPUs, which CUDA_VISIBLE_DEVICES chooses");
}

bool Driver::loses_context(Result result) noexcept {
    switch (result) {
        case kEccUncorrectable:
        case kNvlinkUncorrectable:
        case kContained:
        case kIllegalAddress:
        case kLaunchTimeout:
        case kContextIsDestroyed:
        case kAssert:
        case kHardwareStackError:
        case kIllegalInstruction:
        case kMisalignedAddress:
        case kInvalidAddressSpace:
        case kInvalidPc:
        case kLaunchFailed:
        case kTensorMemoryLeak:
        case kExternalDevice: return true;
        default: return false;
    }
}

std::string Driver::text_of(Result result) const {
    char const* name = nullptr;
    char const* words = nullptr;
    if (cuGetErrorName(result, &name) != kSuccess || name == nullptr) {
        return "the driver's error " + std::to_string(result);
    }
    std::string text = name;
    if (cuGetErrorString(result, &words) == kSuccess && words != nullptr) {
        text += " (" + std::string(words) + ")";
    }
    return text;
}

void Driver::fail(Result result, std::string_view what, int gpu) const {
    throw error_of(result, text_of(result), what, gpu);
}

Error error_of(Result result, std::string_view name, std::string_view what, int gpu) {
    std::string text;
    if (gpu != kNoGpu) text = "cuda:" + std::to_string(gpu) + ": ";
    text += std::string(what) + ": " + std::string(name);
    if (auto const todo = remedy(result); !todo.empty()) text += ": " + std::string(todo);
    return Error(code_of(result), text);
}

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace mgi::gpu
