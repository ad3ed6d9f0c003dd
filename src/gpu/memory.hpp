/// \file
/// Owners of a GPU's primary context, streams and memory. What fails throws Error as Driver::check does.
/// Memory is made and freed while no kernel is resident that waits for the host: freeing waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/driver.hpp"
#include "gpu/mapping.hpp"
#include "gpu/provided.hpp"

namespace mgi::gpu {

/// A GPU's primary context, which CUDA's runtime uses as well.
Context primary_context(Driver const& driver, int gpu);

/// Makes a GPU's primary context, which CUDA's runtime uses as well, the calling thread's while it lives.
class Current {
public:
    explicit Current(int gpu) : Current(Driver::get(), gpu) {}
    Current(Driver const& driver, int gpu);
    ~Current();
    Current(Current const&) = delete;
    Current& operator=(Current const&) = delete;

private:
    Driver const& driver_;
    Context before_ = nullptr;
};

/// A stream that never waits for the legacy default stream.
class OwnStream {
public:
    explicit OwnStream(int gpu);
    ~OwnStream();
    OwnStream(OwnStream const&) = delete;
    OwnStream& operator=(OwnStream const&) = delete;

    [[nodiscard]] Stream get() const { return stream_; }
    [[nodiscard]] int gpu() const { return gpu_; }
    /// Whether all that was put into it is over; throws what of it failed.
    [[nodiscard]] bool is_done() const;
    /// Waits until it is; `what`: what that is, for the error.
    void wait(std::string const& what) const;

private:
    Driver const& driver_ = Driver::get();  // the same to the end
    int gpu_;
    Stream stream_ = nullptr;
};

/// A place in somebody's stream.
class OwnEvent {
public:
    /// Behind what is in the stream now. Throws Error(InvalidArgument) for what is no stream of that GPU.
    OwnEvent(int gpu, Stream stream);
    ~OwnEvent();
    OwnEvent(OwnEvent const&) = delete;
    OwnEvent& operator=(OwnEvent const&) = delete;

    /// Whether all that is before it is over; throws what of it failed.
    [[nodiscard]] bool is_done() const;
    /// What is put into another stream of that GPU from here on comes behind it. Throws as the constructor does.
    void hold_up(Stream stream) const;

private:
    void check_stream(Result result, std::string const& what) const;

    Driver const& driver_ = Driver::get();  // the same to the end
    int gpu_;
    Event event_ = nullptr;
};

/// How other processes get at memory.
enum class Shared : std::uint8_t {
    Not,
    WithNics,  ///< not at all, but NICs do
    Plainly,   ///< by CUDA's IPC handle: it must stay until all of them have let go
    Mapped,    ///< by a descriptor: see Mapping
};

/// Whether other processes use memory that they have imported.
enum class Use : std::uint8_t {
    Over,
    OnGoing,
    Broken,  ///< one of them has died, or does not know what its kernels still do
};

/// Of a piece of memory that processes share: among all processes' the only one.
std::uint64_t new_number();

/// Zeroed memory of a GPU.
class DeviceMemory {
public:
    /// None where `bytes` is 0.
    DeviceMemory(int gpu, std::uint64_t bytes, Shared shared = Shared::Not);
    /// Of a caller's allocator, for this process alone; zeroed in a stream of that GPU's. Throws as ProvidedMemory does.
    DeviceMemory(std::shared_ptr<GpuAllocator const> from, std::uint64_t bytes,
                 OwnStream const& zeroes);
    ~DeviceMemory();
    DeviceMemory(DeviceMemory const&) = delete;
    DeviceMemory& operator=(DeviceMemory const&) = delete;

    [[nodiscard]] char* data() const { return reinterpret_cast<char*>(at_); }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] int gpu() const { return gpu_; }
    /// A kernel that nobody knows of may still use it: it must be freed, which waits for that, and not be used again.
    void abandon() { abandoned_ = true; }
    [[nodiscard]] bool abandoned() const { return abandoned_; }
    [[nodiscard]] Shared shared() const { return shared_; }
    /// Whether a caller's allocator has provided it, which gets it back as soon as this dies.
    [[nodiscard]] bool is_provided() const { return provided_.has_value(); }
    /// Zeroes it again, once all that is before in the stream is over. Waits for nothing.
    void zero(OwnStream const& stream) const;
    /// What others import: so many bytes, by this handle or by this descriptor, which stays the memory's.
    [[nodiscard]] std::uint64_t shared_bytes() const { return all_; }
    [[nodiscard]] IpcHandle handle() const;
    [[nodiscard]] int descriptor() const;
    /// Of this memory alone, among all processes'.
    [[nodiscard]] std::uint64_t number() const { return number_; }
    /// Others use it from now on; `use`, which must not throw, says how far they are.
    void lend_to_others(std::function<Use()> use) {
        used_before_ = std::exchange(use_, std::move(use));
    }
    [[nodiscard]] Use use() const { return use_ ? use_() : Use::Over; }

private:
    void zero() const;

    Driver const& driver_ = Driver::get();  // the same to the end
    int gpu_;
    std::uint64_t bytes_;
    Shared shared_;
    std::uint64_t all_;
    std::uint64_t const number_;
    std::optional<Mapping> mapping_;
    std::optional<ProvidedMemory> provided_;
    mutable std::mutex mutex_;
    mutable int descriptor_ = -1;  // made when it is first asked for: that takes a millisecond
    Address at_ = 0;
    std::function<Use()> use_;
    // The one before, whose importers have what they imported until memory is handed over anew.
    std::function<Use()> used_before_;
    std::atomic<bool> abandoned_ = false;
};

/// Another process' DeviceMemory, for GPUs of this one that are its GPU or peers of it.
class ImportedMemory {
public:
    ImportedMemory(int gpu, IpcHandle const& handle);
    /// So many bytes; the descriptor stays the caller's.
    ImportedMemory(std::vector<int> const& gpus, int descriptor, std::uint64_t bytes);
    ~ImportedMemory();
    ImportedMemory(ImportedMemory const&) = delete;
    ImportedMemory& operator=(ImportedMemory const&) = delete;

    [[nodiscard]] char* data() const { return reinterpret_cast<char*>(at_); }
    /// The GPU that has it.
    [[nodiscard]] int on() const;

private:
    Driver const& driver_ = Driver::get();  // the same to the end
    int gpu_;
    std::optional<Mapping> mapping_;
    Address at_ = 0;
};

/// Memory that others may still have imported plainly: freed once `let_go`, which must not throw, says that they have
/// not, here or by a later free_let_go(). What is left goes with the process.
void free_later(std::shared_ptr<DeviceMemory> memory, std::function<bool()> let_go);
/// As memory is made and freed: while no kernel is resident that waits for the host.
void free_let_go();

/// Zeroed memory of the host, pinned, that kernels of all GPUs reach at the same addresses.
class PinnedMemory {
public:
    /// None where `bytes` is 0.
    PinnedMemory(int gpu, std::uint64_t bytes);
    ~PinnedMemory();
    PinnedMemory(PinnedMemory const&) = delete;
    PinnedMemory& operator=(PinnedMemory const&) = delete;

    [[nodiscard]] char* data() const { return static_cast<char*>(at_); }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] int gpu() const { return gpu_; }
    /// As of DeviceMemory.
    void abandon() { abandoned_ = true; }
    [[nodiscard]] bool abandoned() const { return abandoned_; }

private:
    Driver const& driver_ = Driver::get();  // the same to the end
    int gpu_;
    std::uint64_t bytes_;
    void* at_ = nullptr;
    std::atomic<bool> abandoned_ = false;
};

/// Pins memory of the host's while it lives, so that copies to and from GPUs go straight and do not wait.
class PinnedRange {
public:
    PinnedRange(int gpu, char* data, std::uint64_t bytes);
    ~PinnedRange();
    PinnedRange(PinnedRange const&) = delete;
    PinnedRange& operator=(PinnedRange const&) = delete;

private:
    Driver const& driver_ = Driver::get();  // the same to the end
    int gpu_;
    char* data_;
};

}  // namespace mgi::gpu
