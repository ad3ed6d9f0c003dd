/// \file
/// NVIDIA's NCCL, opened at run time: what it needs of it, declared here since its header comes with it alone. The
/// environment variable MGI_NCCL_LIBRARY has its path where libnccl.so.2 is not found by its name.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "check.hpp"

namespace mgi::bench {

/// A communicator for each of some GPUs of this process.
class Nccl {
public:
    /// Throws where there is none.
    explicit Nccl(int gpus) : gpus_(gpus), communicators_(gpus) {
        char const* const told = std::getenv("MGI_NCCL_LIBRARY");
        void* const library = dlopen(told != nullptr ? told : "libnccl.so.2", RTLD_NOW);
        require(library != nullptr, "no NCCL (libnccl.so.2); MGI_NCCL_LIBRARY names another file");
        find(library, "ncclGetErrorString", text_);
        find(library, "ncclGetVersion", version_);
        find(library, "ncclCommInitAll", init_);
        find(library, "ncclCommDestroy", destroy_);
        find(library, "ncclGroupStart", start_);
        find(library, "ncclGroupEnd", end_);
        find(library, "ncclSend", send_);
        find(library, "ncclRecv", receive_);
        find(library, "ncclBroadcast", broadcast_);
        std::vector<int> numbers(gpus);
        std::iota(numbers.begin(), numbers.end(), 0);
        check(init_(communicators_.data(), gpus, numbers.data()), "make communicators");
    }
    ~Nccl() {
        for (void* const communicator : communicators_) (void)destroy_(communicator);
    }
    Nccl(Nccl const&) = delete;
    Nccl& operator=(Nccl const&) = delete;

    /// As 22809 for 2.28.9.
    [[nodiscard]] int version() const {
        int number = 0;
        check(version_(&number), "ask for the version");
        return number;
    }
    /// Calls between these two are one operation.
    void start() const { check(start_(), "start a group"); }
    void end() const { check(end_(), "end a group"); }
    /// So many words of 8 bytes from a GPU, with its stream, to another one.
    void send(int gpu, int to, void const* words, std::size_t count, cudaStream_t stream) const {
        check(send_(words, count, kWords, to, communicators_[gpu], stream), "send");
    }
    void receive(int gpu, int from, void* words, std::size_t count, cudaStream_t stream) const {
        check(receive_(words, count, kWords, from, communicators_[gpu], stream), "receive");
    }
    /// The root's words to each GPU's `to`, with its stream; a call for each GPU.
    void broadcast(int gpu, int root, void const* from, void* to, std::size_t count,
                   cudaStream_t stream) const {
        check(broadcast_(from, to, count, kWords, root, communicators_[gpu], stream), "broadcast");
    }

private:
    static constexpr int kWords = 5;  // ncclUint64

    template <class Call>
    static void find(void* library, char const* name, Call& call) {
        call = reinterpret_cast<Call>(dlsym(library, name));
        require(call != nullptr, name);
    }
    void check(int result, char const* what) const {
        if (result == 0) return;
        fail("NCCL: " + std::string(what) + ": " + text_(result), std::source_location::current());
    }

    int gpus_;
    std::vector<void*> communicators_;
    char const* (*text_)(int) = nullptr;
    int (*version_)(int*) = nullptr;
    int (*init_)(void**, int, int const*) = nullptr;
    int (*destroy_)(void*) = nullptr;
    int (*start_)() = nullptr;
    int (*end_)() = nullptr;
    int (*send_)(void const*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
    int (*receive_)(void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
    int (*broadcast_)(void const*, void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
};

}  // namespace mgi::bench
