// The fake driver's memory: of GPUs, pinned, registered, of other processes.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "gpu_driver/fake_cuda.hpp"

using namespace mgi::fake;
using namespace mgi::gpu;

namespace {

constexpr std::size_t kAlignment = 512;
constexpr unsigned char kPoison = 0xa5;  // what new memory of a GPU has in it

Result allocate(Address* made, std::size_t bytes, int gpu) {
    Machine& machine = Machine::one();
    if (bytes == 0) return kInvalidValue;
    if (gpu != kHost && bytes > machine.room(gpu)) return kOutOfMemory;
    void* const memory =
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (memory == nullptr) return kOutOfMemory;
    std::memset(memory, kPoison, bytes);
    *made = reinterpret_cast<Address>(memory);
    machine.blocks[*made] = {bytes, gpu, false};
    machine.used[gpu] += bytes;
    return kSuccess;
}

Result free_block(Address address, bool of_gpu) {
    Machine& machine = Machine::one();
    auto const at = machine.blocks.find(address);
    if (at == machine.blocks.end() || at->second.registered ||
        (at->second.gpu != kHost) != of_gpu) {
        return kInvalidValue;
    }
    machine.used[at->second.gpu] -= at->second.bytes;
    machine.blocks.erase(at);
    std::free(reinterpret_cast<void*>(address));
    return kSuccess;
}

struct IpcWords {
    pid_t process;
    Address address;
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuMemAlloc_v2(Address* made, std::size_t bytes) {
    std::lock_guard const lock(Machine::one().mutex);
    Result const result = begin_here("cuMemAlloc");
    return result != kSuccess ? result : allocate(made, bytes, current->gpu);
}

Result cuMemFree_v2(Address address) {
    std::lock_guard const lock(Machine::one().mutex);
    Result const result = begin_here("cuMemFree");
    if (result != kSuccess) return result;
    return address == 0 ? kSuccess : free_block(address, true);
}

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuMemGetInfo");
    if (result != kSuccess) return result;
    *total = machine.memory;
    *free = machine.room(current->gpu);
    return kSuccess;
}

Result cuMemHostAlloc(void** made, std::size_t bytes, unsigned) {
    std::lock_guard const lock(Machine::one().mutex);
    Result result = begin_here("cuMemHostAlloc");
    if (result != kSuccess) return result;
    Address address = 0;
    result = allocate(&address, bytes, kHost);
    if (result == kSuccess) *made = reinterpret_cast<void*>(address);
    return result;
}

Result cuMemFreeHost(void* memory) {
    std::lock_guard const lock(Machine::one().mutex);
    Result const result = begin_here("cuMemFreeHost");
    return result != kSuccess ? result : free_block(reinterpret_cast<Address>(memory), false);
}

Result cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuMemHostRegister");
    if (result != kSuccess) return result;
    if (memory == nullptr || bytes == 0) return kInvalidValue;
    auto const address = reinterpret_cast<Address>(memory);
    if (machine.block_of(address, 1) != nullptr) return kHostMemoryAlreadyRegistered;
    machine.blocks[address] = {bytes, kHost, true};
    return kSuccess;
}

Result cuMemHostUnregister(void* memory) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuMemHostUnregister");
    if (result != kSuccess) return result;
    auto const at = machine.blocks.find(reinterpret_cast<Address>(memory));
    if (at == machine.blocks.end() || !at->second.registered) return kHostMemoryNotRegistered;
    machine.blocks.erase(at);
    return kSuccess;
}

Result cuMemHostGetDevicePointer_v2(Address* made, void* memory, unsigned) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuMemHostGetDevicePointer");
    if (result != kSuccess) return result;
    *made = reinterpret_cast<Address>(memory);
    auto const* const block = machine.block_of(*made, 1);
    return block != nullptr && block->second.gpu == kHost ? kSuccess : kInvalidValue;
}

Result cuPointerGetAttribute(void* value, PointerAttribute attribute, Address address) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuPointerGetAttribute");
    if (result != kSuccess) return result;
    auto const* const block = machine.block_of(address, 1);
    if (block == nullptr) return kInvalidValue;
    int const gpu = block->second.gpu;
    if (attribute == kPointerMemoryType) {
        unsigned const type = gpu == kHost ? kMemoryOfHost : kMemoryOfDevice;
        std::memcpy(value, &type, sizeof(type));
        return kSuccess;
    }
    if (attribute == kPointerIsManaged) {
        unsigned const is_managed = machine.managed && gpu != kHost ? 1 : 0;
        std::memcpy(value, &is_managed, sizeof(is_managed));
        return kSuccess;
    }
    if (attribute != kPointerOrdinal) return kInvalidValue;
    std::memcpy(value, &gpu, sizeof(gpu));
    return kSuccess;
}

Result cuFlushGPUDirectRDMAWrites(int target, int scope) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuFlushGPUDirectRDMAWrites");
    if (result != kSuccess) return result;
    if (target != kFlushCurrentContext || scope < kVisibleToOwner) return kInvalidValue;
    return machine.nics == "flushed" ? kSuccess : kNotSupported;
}

Result cuIpcGetMemHandle(IpcHandle* handle, Address address) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuIpcGetMemHandle");
    if (result != kSuccess) return result;
    auto const* const block = machine.block_of(address, 1);
    if (block == nullptr || block->second.gpu == kHost) return kInvalidValue;
    IpcWords const words{getpid(), block->first};  // of the whole allocation, as the driver
    std::memset(handle, 0, sizeof(*handle));
    std::memcpy(handle->bytes, &words, sizeof(words));
    return kSuccess;
}

Result cuIpcOpenMemHandle_v2(Address* opened, IpcHandle handle, unsigned) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuIpcOpenMemHandle");
    if (result != kSuccess) return result;
    IpcWords words{};
    std::memcpy(&words, handle.bytes, sizeof(words));
    if (words.process != getpid()) return kNotSupported;
    if (machine.blocks.count(words.address) == 0) return kInvalidValue;
    *opened = words.address;
    return kSuccess;
}

Result cuIpcCloseMemHandle(Address address) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuIpcCloseMemHandle");
    if (result != kSuccess) return result;
    return machine.blocks.count(address) != 0 ? kSuccess : kInvalidValue;
}

}  // extern "C"
#pragma GCC visibility pop
