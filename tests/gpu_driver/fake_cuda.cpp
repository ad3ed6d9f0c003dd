// The fake driver's devices, contexts and errors.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "gpu_driver/fake_cuda.hpp"

using namespace mgi::fake;
using namespace mgi::gpu;

namespace {

struct ErrorText {
    Result result;
    char const* name;
    char const* words;
};
constexpr ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
};

ErrorText const* text_of(Result result) {
    auto const* const found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                           [&](ErrorText const& e) { return e.result == result; });
    return found == std::end(kErrors) ? nullptr : found;
}

// A call on a device, that needs no context.
Result begin_device(char const* call, Ordinal gpu) {
    if (Result const result = begin(call); result != kSuccess) return result;
    return Machine::one().is_gpu(gpu) ? kSuccess : kInvalidDevice;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuInit(unsigned) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    machine.read_environment();
    machine.used_before = machine.used;
    for (auto& [ordinal, context] : machine.contexts) {
        context.lost = kSuccess;
        context.peers.clear();
    }
    machine.read_failures(setting("FAIL", "").c_str());
    machine.initialized = true;
    if (Result const result = begin("cuInit"); result != kSuccess) return result;
    return machine.gpus.empty() ? kNoDevice : kSuccess;
}

// Needs no cuInit(), as the driver's.
Result cuDriverGetVersion(int* version) {
    char const* const told = std::getenv("MGI_FAKE_CUDA_VERSION");
    *version = told != nullptr ? std::atoi(told) : 13000;
    return kSuccess;
}

Result cuGetErrorName(Result result, char const** name) {
    auto const* const text = text_of(result);
    *name = text != nullptr ? text->name : nullptr;
    return text != nullptr ? kSuccess : kInvalidValue;
}

Result cuGetErrorString(Result result, char const** words) {
    auto const* const text = text_of(result);
    *words = text != nullptr ? text->words : nullptr;
    return text != nullptr ? kSuccess : kInvalidValue;
}

Result cuModuleGetLoadingMode(LoadingMode* mode) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    *mode = machine.lazy ? kLazyLoading : kEagerLoading;
    return begin("cuModuleGetLoadingMode");
}

// A function is a module of its own.
Result cuFuncGetModule(Module* module, Function function) {
    std::lock_guard const lock(Machine::one().mutex);
    *module = reinterpret_cast<Module>(function);
    return begin_here("cuFuncGetModule");
}

Result cuModuleGetFunctionCount(unsigned* count, Module) {
    std::lock_guard const lock(Machine::one().mutex);
    *count = 1;
    return begin_here("cuModuleGetFunctionCount");
}

Result cuModuleEnumerateFunctions(Function* functions, unsigned, Module module) {
    std::lock_guard const lock(Machine::one().mutex);
    *functions = reinterpret_cast<Function>(module);
    return begin_here("cuModuleEnumerateFunctions");
}

Result cuFuncLoad(Function) {
    std::lock_guard const lock(Machine::one().mutex);
    return begin_here("cuFuncLoad");
}

Result cuDeviceGetCount(int* count) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    *count = int(machine.gpus.size());
    return begin("cuDeviceGetCount");
}

Result cuDeviceGet(Ordinal* device, int number) {
    std::lock_guard const lock(Machine::one().mutex);
    *device = number;
    return begin_device("cuDeviceGet", number);
}

Result cuDeviceGetName(char* name, int bytes, Ordinal gpu) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    std::snprintf(name, std::size_t(bytes), "%s", machine.name.c_str());
    return begin_device("cuDeviceGetName", gpu);
}

Result cuDeviceGetUuid_v2(Uuid* uuid, Ordinal gpu) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_device("cuDeviceGetUuid", gpu);
    if (result != kSuccess) return result;
    std::memset(uuid->bytes, 0xa0, sizeof(uuid->bytes));
    uuid->bytes[15] = char(machine.gpus[std::size_t(gpu)]);
    return kSuccess;
}

Result cuDeviceGetAttribute(int* value, Attribute attribute, Ordinal gpu) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    switch (attribute) {
        case kMultiprocessorCount: *value = 132; break;
        case kMemoryClockKhz: *value = 2'619'000; break;
        case kMemoryBusBits: *value = 5120; break;
        case kComputeCapabilityMajor: *value = machine.sm / 10; break;
        case kComputeCapabilityMinor: *value = machine.sm % 10; break;
        case kCooperativeLaunch: *value = 1; break;
        case kSharedBytesOfBlock: *value = 232'448; break;
        case kMapsMemory:
        case kSharesByDescriptor: *value = machine.maps ? 1 : 0; break;
        case kNicsReach: *value = machine.nics == "none" ? 0 : 1; break;
        case kFlushesNicWrites: *value = machine.nics == "flushed" ? kFlushByHost : 0; break;
        case kGivesDmaBuf: *value = machine.nics == "no module" ? 0 : 1; break;
        case kOrdersNicWrites: *value = machine.nics == "ordered" ? kVisibleToOwner : 0; break;
        case kHostNumaId: *value = -1; break;
        default: return kInvalidValue;
    }
    return begin_device("cuDeviceGetAttribute", gpu);
}

Result cuDeviceTotalMem_v2(std::size_t* bytes, Ordinal gpu) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    *bytes = machine.memory;
    return begin_device("cuDeviceTotalMem", gpu);
}

Result cuDeviceGetPCIBusId(char* text, int bytes, Ordinal gpu) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_device("cuDeviceGetPCIBusId", gpu);
    if (result != kSuccess) return result;
    std::string const& bus = machine.bus[std::size_t(machine.gpus[std::size_t(gpu)])];
    std::snprintf(text, std::size_t(bytes), "%s", bus.c_str());
    return kSuccess;
}

Result cuDeviceCanAccessPeer(int* can, Ordinal from, Ordinal to) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_device("cuDeviceCanAccessPeer", from);
    if (result != kSuccess) return result;
    if (!machine.is_gpu(to)) return kInvalidDevice;
    *can = reaches(machine, from, to) ? 1 : 0;
    return kSuccess;
}

Result cuDeviceGetP2PAttribute(int* value, PeerAttribute attribute, Ordinal from, Ordinal to) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_device("cuDeviceGetP2PAttribute", from);
    if (result != kSuccess) return result;
    if (!machine.is_gpu(to) || from == to) return kInvalidDevice;
    *value = attribute == kPeerAtomics && reaches(machine, from, to) ? 1 : 0;
    return kSuccess;
}

Result cuDevicePrimaryCtxRetain(Context* context, Ordinal gpu) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_device("cuDevicePrimaryCtxRetain", gpu);
    if (result != kSuccess) return result;
    CUctx_st& made = machine.contexts[gpu];
    made.gpu = gpu;
    if (made.lost != kSuccess) return made.lost;
    ++made.retained;
    *context = &made;
    return kSuccess;
}

Result cuDevicePrimaryCtxRelease_v2(Ordinal gpu) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_device("cuDevicePrimaryCtxRelease", gpu);
    if (result != kSuccess) return result;
    auto const at = machine.contexts.find(gpu);
    if (at == machine.contexts.end() || at->second.retained == 0) return kInvalidContext;
    --at->second.retained;
    return kSuccess;
}

Result cuCtxSetCurrent(Context context) {
    std::lock_guard const lock(Machine::one().mutex);
    Result const result = begin("cuCtxSetCurrent", context);
    if (result != kSuccess) return result;
    current = context;
    return kSuccess;
}

Result cuCtxGetCurrent(Context* context) {
    std::lock_guard const lock(Machine::one().mutex);
    *context = current;
    return begin("cuCtxGetCurrent");
}

Result cuCtxEnablePeerAccess(Context peer, unsigned flags) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuCtxEnablePeerAccess");
    if (result != kSuccess) return result;
    if (flags != 0 || peer == nullptr) return kInvalidValue;
    if (!reaches(machine, current->gpu, peer->gpu)) return kPeerAccessUnsupported;
    return current->peers.insert(peer).second ? kSuccess : kPeerAccessAlreadyEnabled;
}

Result cuCtxDisablePeerAccess(Context peer) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuCtxDisablePeerAccess");
    if (result != kSuccess) return result;
    return current->peers.erase(peer) != 0 ? kSuccess : kInvalidValue;
}

// For tests: other failures than the environment's, counted from now on.
void mgi_fake_cuda_fail(char const* failures) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    machine.read_failures(failures);
}

// For tests: how often it was called since then.
std::uint64_t mgi_fake_cuda_calls(char const* call) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    return machine.calls[call];
}

// For tests: how many there are of "contexts" (retained), "memory" (of GPUs), "mapped" (what was created for that),
// "pinned", "registered", "streams", "events".
std::size_t mgi_fake_cuda_alive(char const* what) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    std::string const kind = what;
    auto const count = [](auto const& all, auto const& is) {
        return std::size_t(std::count_if(all.begin(), all.end(), is));
    };
    if (kind == "mapped") return machine.physical.size();
    if (kind == "streams") return machine.streams.size();
    if (kind == "events") return machine.events.size();
    if (kind == "contexts") {
        return count(machine.contexts, [](auto const& one) { return one.second.retained > 0; });
    }
    return count(machine.blocks, [&](auto const& one) {
        Block const& block = one.second;
        if (kind == "memory") return block.gpu != kHost;
        return block.gpu == kHost && block.registered == (kind == "registered");
    });
}

}  // extern "C"
#pragma GCC visibility pop
