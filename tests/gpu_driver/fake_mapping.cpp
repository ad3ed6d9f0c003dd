// The fake driver's memory that is mapped: files in memory, which other processes map by their descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "gpu_driver/fake_cuda.hpp"

using namespace mgi::fake;
using namespace mgi::gpu;

namespace {

constexpr std::size_t kPiece = std::size_t(64) << 10;

void drop_if_unused(MappedMemory memory) {
    Machine& machine = Machine::one();
    auto const at = machine.physical.find(memory);
    if (!at->second.released || at->second.maps != 0) return;
    if (at->second.is_own) machine.used[at->second.gpu] -= at->second.bytes;
    close(at->second.file);
    machine.physical.erase(at);
}

bool is_kind(Machine const& machine, MappedKind const& kind) {
    return kind.type == kMappedPinned && kind.handle_types == kByDescriptor &&
           kind.location.type == kLocationDevice && machine.is_gpu(kind.location.id);
}

// The GPU that a file is of: its name has the physical number.
int gpu_of(Machine const& machine, int file) {
    std::array<char, 64> name{};
    std::string const link = "/proc/self/fd/" + std::to_string(file);
    if (readlink(link.c_str(), name.data(), name.size() - 1) <= 0) return kHost;
    int number = 0;
    if (std::sscanf(name.data(), "/memfd:gpu%d", &number) != 1) return kHost;
    for (std::size_t ordinal = 0; ordinal < machine.gpus.size(); ++ordinal) {
        if (machine.gpus[ordinal] == number) return int(ordinal);
    }
    return kHost;
}

void* pages(Address address) {
    return reinterpret_cast<void*>(address);
}

// Fills it with what no new memory should be taken for.
bool poison(int file, std::size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return false;
    std::memset(at, 0xa5, bytes);
    return munmap(at, bytes) == 0;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuMemGetAllocationGranularity(std::size_t* piece, MappedKind const* kind, int) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    *piece = kPiece;
    return is_kind(machine, *kind) ? begin("cuMemGetAllocationGranularity") : kInvalidValue;
}

Result cuMemCreate(MappedMemory* made, std::size_t bytes, MappedKind const* kind,
                   unsigned long long) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemCreate");
    if (result != kSuccess) return result;
    if (!machine.maps) return kNotSupported;
    if (!is_kind(machine, *kind) || bytes == 0 || bytes % kPiece != 0) return kInvalidValue;
    int const gpu = kind->location.id;
    if (bytes > machine.room(gpu)) return kOutOfMemory;
    std::string const name = "gpu" + std::to_string(machine.gpus[std::size_t(gpu)]);
    int const file = memfd_create(name.c_str(), MFD_CLOEXEC);
    if (file < 0) return kOutOfMemory;
    if (ftruncate(file, off_t(bytes)) != 0 || !poison(file, bytes)) {
        close(file);
        return kOutOfMemory;
    }
    *made = machine.next_physical++;
    machine.physical[*made] = {file, bytes, gpu};
    machine.used[gpu] += bytes;
    return kSuccess;
}

Result cuMemRelease(MappedMemory memory) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemRelease");
    if (result != kSuccess) return result;
    auto const at = machine.physical.find(memory);
    if (at == machine.physical.end() || at->second.released) return kInvalidValue;
    at->second.released = true;
    drop_if_unused(memory);
    return kSuccess;
}

Result cuMemAddressReserve(Address* made, std::size_t bytes, std::size_t, Address,
                           unsigned long long) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemAddressReserve");
    if (result != kSuccess) return result;
    if (bytes == 0 || bytes % kPiece != 0) return kInvalidValue;
    void* const at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return kOutOfMemory;
    *made = reinterpret_cast<Address>(at);
    machine.reserved[*made] = bytes;
    return kSuccess;
}

Result cuMemAddressFree(Address address, std::size_t bytes) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemAddressFree");
    if (result != kSuccess) return result;
    auto const at = machine.reserved.find(address);
    if (at == machine.reserved.end() || at->second != bytes || machine.mapped.count(address) != 0) {
        return kInvalidValue;
    }
    machine.reserved.erase(at);
    return munmap(pages(address), bytes) == 0 ? kSuccess : kInvalidValue;
}

Result cuMemMap(Address address, std::size_t bytes, std::size_t offset, MappedMemory memory,
                unsigned long long) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemMap");
    if (result != kSuccess) return result;
    auto const range = machine.reserved.find(address);
    auto const at = machine.physical.find(memory);
    if (range == machine.reserved.end() || range->second != bytes ||
        machine.mapped.count(address) != 0 || at == machine.physical.end() ||
        at->second.bytes != bytes || offset != 0) {
        return kInvalidValue;
    }
    // Nobody has access yet.
    if (mmap(pages(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, at->second.file, 0) ==
        MAP_FAILED) {
        return kOutOfMemory;
    }
    ++at->second.maps;
    machine.mapped[address] = memory;
    machine.blocks[address] = {bytes, at->second.gpu, false};
    return kSuccess;
}

Result cuMemUnmap(Address address, std::size_t bytes) {
    std::vector<std::shared_ptr<Work>> left;  // ends behind the lock, as nobody waits for it
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemUnmap");
    if (result != kSuccess) return result;
    auto const at = machine.mapped.find(address);
    if (at == machine.mapped.end() || machine.reserved[address] != bytes) return kInvalidValue;
    MappedMemory const memory = at->second;
    machine.mapped.erase(at);
    machine.blocks.erase(address);
    (void)mmap(pages(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    --machine.physical[memory].maps;
    drop_if_unused(memory);
    left.swap(machine.left);
    return kSuccess;
}

Result cuMemSetAccess(Address address, std::size_t bytes, MappedAccess const* access,
                      std::size_t count) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemSetAccess");
    if (result != kSuccess) return result;
    auto const at = machine.mapped.find(address);
    if (at == machine.mapped.end() || machine.reserved[address] != bytes) return kInvalidValue;
    int const gpu = machine.physical[at->second].gpu;
    for (std::size_t i = 0; i < count; ++i) {
        int const by = access[i].location.id;
        bool const can = machine.is_gpu(by) && (by == gpu || reaches(machine, by, gpu));
        if (!can || access[i].flags != kReadAndWrite) return kInvalidValue;
    }
    return mprotect(pages(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}

Result cuMemExportToShareableHandle(void* made, MappedMemory memory, int kind, unsigned long long) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemExportToShareableHandle");
    if (result != kSuccess) return result;
    auto const at = machine.physical.find(memory);
    if (at == machine.physical.end() || kind != kByDescriptor) return kInvalidValue;
    int const file = fcntl(at->second.file, F_DUPFD_CLOEXEC, 0);
    std::memcpy(made, &file, sizeof(file));
    return file < 0 ? kOutOfMemory : kSuccess;
}

Result cuMemImportFromShareableHandle(MappedMemory* made, void* from, int kind) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin("cuMemImportFromShareableHandle");
    if (result != kSuccess) return result;
    int const file = fcntl(int(reinterpret_cast<std::intptr_t>(from)), F_DUPFD_CLOEXEC, 0);
    struct stat facts{};
    if (file < 0 || kind != kByDescriptor || fstat(file, &facts) != 0) return kInvalidValue;
    int const gpu = gpu_of(machine, file);
    if (gpu == kHost) {
        close(file);
        return kInvalidDevice;
    }
    *made = machine.next_physical++;
    machine.physical[*made] = {file, std::size_t(facts.st_size), gpu, false};
    return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
