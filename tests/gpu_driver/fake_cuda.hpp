// A driver that is made up: GPUs whose memory is the host's. A shared library that MGI_CUDA_LIBRARY names;
// tests/support/fake_driver.hpp sets it up. cuInit() reads what it is from the environment:
//
//   MGI_FAKE_CUDA_DEVICES   how many GPUs there are (1); CUDA_VISIBLE_DEVICES chooses by number
//   MGI_FAKE_CUDA_VERSION   13000
//   MGI_FAKE_CUDA_MEMORY    bytes of each GPU (1 GiB); more is CUDA_ERROR_OUT_OF_MEMORY
//   MGI_FAKE_CUDA_NAME      "NVIDIA H100 80GB HBM3"
//   MGI_FAKE_CUDA_SM        compute capability (90)
//   MGI_FAKE_CUDA_BUS       their bus ids, with commas between (0000:01:00.0, 0000:02:00.0, ...)
//   MGI_FAKE_CUDA_PEERS     "all", "none", or pairs that reach each other: "0-1,2-3"
//   MGI_FAKE_CUDA_BROKEN    pairs of these whose copies change a byte that arrives
//   MGI_FAKE_CUDA_MAPS      whether they have memory that is mapped, and shared by descriptors (1)
//   MGI_FAKE_CUDA_MANAGED   whether their memory says that it is managed (0)
//   MGI_FAKE_CUDA_NICS      how NICs reach their memory: "none", "flushed" (it takes a flush until kernels see it),
//                           "ordered" (it takes none), "unseen" (it would, and there is none) (none)
//   MGI_FAKE_CUDA_LOADING   "EAGER" or "LAZY"
//   MGI_FAKE_CUDA_STREAMS   when work is done: "at once" (inside the call that asks for it), "late:N" (only
//                           once the stream or an event behind it was asked for the Nth time), "waited" (only once
//                           somebody waits for the stream; what a destroyed one has left, behind the next cuMemUnmap), "threads" (by
//                           a thread of the stream: kernels may wait for the host, and copies go beside them)
//   MGI_FAKE_CUDA_FAIL      "cuMemAlloc:3:2,cuEventQuery:1+:700": the third call returns 2, the first and all
//                           after it 700. A result that loses the context loses it.
//
// A kernel (gpu::Function) is a pointer to a host function that gets cuLaunchKernel's parameters, which
// must stay until it has run. A second cuInit() is another machine: contexts are well again. Stricter than
// the driver: streams must be non-blocking, and never null; who destroys one has a current context. More
// lenient: an IPC handle opens in the process that made it, and in no other; mapped memory goes to any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/types.hpp"
#include "gpu_driver/fake_stream.hpp"

struct CUctx_st {
    int gpu = 0;
    int retained = 0;
    mgi::gpu::Result lost = mgi::gpu::kSuccess;
    std::set<CUctx_st*> peers;
};

struct CUstream_st {
    CUctx_st* context = nullptr;
    std::shared_ptr<mgi::fake::Work> work;
};

struct CUevent_st {
    CUctx_st* context = nullptr;
    std::shared_ptr<mgi::fake::Work> work;  // null: not recorded
    std::uint64_t ticket = 0;
};

namespace mgi::fake {

using gpu::Address;
using gpu::Result;

using gpu::kInvalidContext;
using gpu::kInvalidHandle;
using gpu::kInvalidValue;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kPeerAccessUnsupported = 217;
inline constexpr Result kHostMemoryNotRegistered = 713;
inline constexpr Result kNotSupported = 801;

inline constexpr int kHost = -1;

struct Block {
    std::size_t bytes = 0;
    int gpu = kHost;  // whose memory
    bool registered = false;
};

// What was created to be mapped.
struct Physical {
    int file = -1;
    std::size_t bytes = 0;
    int gpu = kHost;
    bool is_own = true;  // not imported
    bool released = false;
    int maps = 0;
};

struct Failure {
    std::string call;
    std::uint64_t at = 1;
    bool on = false;  // and all after it
    Result result = 0;
};

// All state, under one mutex; work of streams runs outside it.
struct Machine {
    std::mutex mutex;
    bool initialized = false;
    int version = 13000;
    std::vector<int> gpus;  // physical numbers of those that are seen
    std::size_t memory = std::size_t(1) << 30;
    std::string name;
    int sm = 90;
    std::vector<std::string> bus;  // by physical number
    std::string peers = "all";
    std::string broken;
    bool lazy = false;
    bool maps = true;
    bool managed = false;
    std::string nics = "none";
    When when;
    std::vector<Failure> failures;
    std::map<std::string, std::uint64_t> calls;

    std::map<int, CUctx_st> contexts;  // by ordinal; a primary context keeps its address
    std::map<Address, Block> blocks;
    std::map<gpu::MappedMemory, Physical> physical;
    std::map<Address, gpu::MappedMemory> mapped;  // by where
    std::map<Address, std::size_t> reserved;
    gpu::MappedMemory next_physical = 1;
    std::map<int, std::size_t> used;
    std::map<int, std::size_t>
        used_before;  // when it was initialized last: what lost contexts keep
    std::set<CUstream_st*> streams;
    std::vector<std::shared_ptr<Work>> left;  // of streams that were destroyed ("waited")
    std::set<CUevent_st*> events;

    static Machine& one();
    void read_environment();
    void read_failures(char const* text);
    [[nodiscard]] bool is_gpu(int ordinal) const {
        return ordinal >= 0 && std::size_t(ordinal) < gpus.size();
    }
    // Bytes of a GPU that are free.
    [[nodiscard]] std::size_t room(int gpu);
    // The block that has all of [address, address + bytes); null: no one.
    [[nodiscard]] std::pair<Address const, Block> const* block_of(Address address,
                                                                  std::size_t bytes) const;
};

// The context of this thread. With the thread's own memory: a library's that was opened later is given back by the
// loader, which ThreadSanitizer does not see.
[[gnu::tls_model("initial-exec")]] extern thread_local CUctx_st* current;

// Whether "0-1,2-3" has a pair.
bool names_pair(std::string const& pairs, int a, int b);
// By ordinals.
bool reaches(Machine const& machine, int from, int to);

// MGI_FAKE_CUDA_name of the environment.
std::string setting(char const* name, std::string const& otherwise);

// A call begins: what it fails with, by its name or since its context is lost; else kSuccess. With the mutex
// held. begin_here() is for calls that need a current context.
Result begin(char const* call, CUctx_st* context = nullptr);
Result begin_here(char const* call);

}  // namespace mgi::fake
