// The fake driver's streams, events, copies and launches.
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "gpu_driver/fake_cuda.hpp"

using namespace mgi::fake;
using namespace mgi::gpu;

namespace {

// A call on a stream, and what is to be done once the stream comes to it.
Result add(char const* call, Stream stream, std::function<void()> task) {
    std::shared_ptr<Work> work;
    {
        Machine& machine = Machine::one();
        std::lock_guard const lock(machine.mutex);
        if (machine.streams.count(stream) == 0) return kInvalidHandle;
        Result const result = begin(call, stream->context);
        if (result != kSuccess) return result;
        work = stream->work;
    }
    work->add(std::move(task));
    return kSuccess;
}

// Whether device memory, or any host memory that the driver knows, has all of it.
bool known(Address address, std::size_t bytes) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    return machine.block_of(address, bytes) != nullptr;
}

void* pointer(Address address) {
    return reinterpret_cast<void*>(address);
}

// A byte of what goes straight between GPUs that are broken (MGI_FAKE_CUDA_BROKEN) arrives changed.
bool breaks(void const* to, void const* from) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    if (machine.broken.empty()) return false;
    auto const* const there = machine.block_of(reinterpret_cast<Address>(to), 1);
    auto const* const here = machine.block_of(reinterpret_cast<Address>(from), 1);
    if (there == nullptr || here == nullptr) return false;
    int const one = here->second.gpu;
    int const other = there->second.gpu;
    if (one == kHost || other == kHost || one == other) return false;
    return names_pair(machine.broken, one, other);
}

// As a copy engine does it beside kernels that change what it reads, or read what it changes: word by word, which is no
// race. So ThreadSanitizer does not look at it.
__attribute__((no_sanitize("thread"))) void copy_words(void* to, void const* from,
                                                       std::size_t bytes) {
    auto* into = static_cast<char*>(to);
    auto const* out_of = static_cast<char const*>(from);
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    auto const at =
        reinterpret_cast<std::uintptr_t>(into) | reinterpret_cast<std::uintptr_t>(out_of);
    if (at % kWord == 0) {
        for (; bytes >= kWord; bytes -= kWord, into += kWord, out_of += kWord) {
            __atomic_store_n(
                reinterpret_cast<std::uint64_t*>(into),
                __atomic_load_n(reinterpret_cast<std::uint64_t const*>(out_of), __ATOMIC_RELAXED),
                __ATOMIC_RELAXED);
        }
    }
    for (; bytes != 0; --bytes) {
        __atomic_store_n(into++, __atomic_load_n(out_of++, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    }
}

Result copy(char const* call, void* to, void const* from, std::size_t bytes, Stream stream) {
    bool const broken = breaks(to, from);
    return add(call, stream, [=] {
        std::memmove(to, from, bytes);
        if (broken) *static_cast<unsigned char*>(to) ^= 1;
    });
}

Result make_stream(char const* call, Stream* made, unsigned flags) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here(call);
    if (result != kSuccess) return result;
    if (flags != kStreamNonBlocking) return kInvalidValue;
    std::unique_ptr<CUstream_st> stream(
        new CUstream_st{current, std::make_shared<Work>(machine.when)});
    machine.streams.insert(stream.get());
    *made = stream.release();
    return kSuccess;
}

// The work of a stream, for a call that asks how far it is.
Result work_of(char const* call, Stream stream, std::shared_ptr<Work>& work) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    if (machine.streams.count(stream) == 0) return kInvalidHandle;
    work = stream->work;
    return begin(call, stream->context);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
    return copy("cuMemcpyAsync", pointer(to), pointer(from), bytes, stream);
}

Result cuMemcpyHtoDAsync_v2(Address to, void const* from, std::size_t bytes, Stream stream) {
    if (!known(to, bytes)) return kInvalidValue;
    return add("cuMemcpyHtoDAsync", stream, [=] { copy_words(pointer(to), from, bytes); });
}

Result cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, Stream stream) {
    if (!known(from, bytes)) return kInvalidValue;
    return add("cuMemcpyDtoHAsync", stream, [=] { copy_words(to, pointer(from), bytes); });
}

Result cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, Stream stream) {
    if (!known(to, bytes) || !known(from, bytes)) return kInvalidValue;
    return copy("cuMemcpyDtoDAsync", pointer(to), pointer(from), bytes, stream);
}

Result cuMemcpyPeerAsync(Address to, Context to_context, Address from, Context from_context,
                         std::size_t bytes, Stream stream) {
    if (!known(to, bytes) || !known(from, bytes)) return kInvalidValue;
    if (to_context == nullptr || from_context == nullptr) return kInvalidContext;
    return copy("cuMemcpyPeerAsync", pointer(to), pointer(from), bytes, stream);
}

Result cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, Stream stream) {
    if (!known(to, bytes)) return kInvalidValue;
    return add("cuMemsetD8Async", stream, [=] { std::memset(pointer(to), value, bytes); });
}

Result cuStreamWriteValue64_v2(Stream stream, Address to, std::uint64_t value, unsigned) {
    if (!known(to, sizeof(value)) || to % sizeof(value) != 0) return kInvalidValue;
    return add("cuStreamWriteValue64", stream, [=] {
        std::atomic_ref(*static_cast<std::uint64_t*>(pointer(to)))
            .store(value, std::memory_order_release);
    });
}

Result cuStreamCreate(Stream* made, unsigned flags) {
    return make_stream("cuStreamCreate", made, flags);
}

Result cuStreamCreateWithPriority(Stream* made, unsigned flags, int) {
    return make_stream("cuStreamCreateWithPriority", made, flags);
}

// What was asked of the stream is done all the same, as by the driver.
Result cuStreamDestroy_v2(Stream stream) {
    {
        Machine& machine = Machine::one();
        std::lock_guard const lock(machine.mutex);
        if (machine.streams.count(stream) == 0) return kInvalidHandle;
        Result const result = begin_here("cuStreamDestroy");
        if (result != kSuccess) return result;
        machine.streams.erase(stream);
        if (machine.when.kind == When::Waited) machine.left.push_back(stream->work);
    }
    delete stream;
    return kSuccess;
}

Result cuStreamQuery(Stream stream) {
    std::shared_ptr<Work> work;
    Result const result = work_of("cuStreamQuery", stream, work);
    if (result != kSuccess) return result;
    return work->done(work->last()) ? kSuccess : kNotReady;
}

Result cuStreamSynchronize(Stream stream) {
    std::shared_ptr<Work> work;
    Result const result = work_of("cuStreamSynchronize", stream, work);
    if (result != kSuccess) return result;
    work->drain();
    return kSuccess;
}

Result cuCtxSynchronize() {
    std::vector<std::shared_ptr<Work>> all;
    {
        Machine& machine = Machine::one();
        std::lock_guard const lock(machine.mutex);
        Result const result = begin_here("cuCtxSynchronize");
        if (result != kSuccess) return result;
        all = machine.left;
        for (Stream const stream : machine.streams) {
            if (stream->context == current) all.push_back(stream->work);
        }
    }
    for (auto const& work : all) work->drain();
    return kSuccess;
}

Result cuStreamWaitEvent(Stream stream, Event event, unsigned) {
    std::shared_ptr<Work> other;
    std::uint64_t ticket = 0;
    {
        Machine& machine = Machine::one();
        std::lock_guard const lock(machine.mutex);
        if (machine.events.count(event) == 0 || machine.streams.count(stream) == 0) {
            return kInvalidHandle;
        }
        if (event->work != stream->work) other = event->work;  // its own work is done in turn
        ticket = event->ticket;
    }
    return add("cuStreamWaitEvent", stream, [=] {
        if (other != nullptr) other->wait(ticket);
    });
}

Result cuEventCreate(Event* made, unsigned) {
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    Result const result = begin_here("cuEventCreate");
    if (result != kSuccess) return result;
    *made = new CUevent_st{current, nullptr, 0};
    machine.events.insert(*made);
    return kSuccess;
}

Result cuEventRecord(Event event, Stream stream) {
    std::shared_ptr<Work> before;  // may be the last to hold it: ends outside the lock
    Machine& machine = Machine::one();
    std::lock_guard const lock(machine.mutex);
    // Nothing is ever put into the legacy default stream here.
    bool const legacy = reinterpret_cast<std::uintptr_t>(stream) == 1;
    if (machine.events.count(event) == 0 ||
        (!legacy && (machine.streams.count(stream) == 0 || event->context != stream->context))) {
        return kInvalidHandle;
    }
    Result const result = begin("cuEventRecord", event->context);
    if (result != kSuccess) return result;
    before = std::exchange(event->work, legacy ? nullptr : stream->work);
    if (legacy) return kSuccess;
    event->ticket = stream->work->last();
    return kSuccess;
}

Result cuEventQuery(Event event) {
    std::shared_ptr<Work> work;
    std::uint64_t ticket = 0;
    {
        Machine& machine = Machine::one();
        std::lock_guard const lock(machine.mutex);
        if (machine.events.count(event) == 0) return kInvalidHandle;
        Result const result = begin("cuEventQuery", event->context);
        if (result != kSuccess) return result;
        work = event->work;
        ticket = event->ticket;
    }
    return work == nullptr || work->done(ticket) ? kSuccess : kNotReady;
}

Result cuEventDestroy_v2(Event event) {
    {
        Machine& machine = Machine::one();
        std::lock_guard const lock(machine.mutex);
        if (machine.events.count(event) == 0) return kInvalidHandle;
        Result const result = begin("cuEventDestroy", event->context);
        if (result != kSuccess) return result;
        machine.events.erase(event);
    }
    delete event;
    return kSuccess;
}

Result cuLaunchHostFunc(Stream stream, HostFunction function, void* data) {
    return add("cuLaunchHostFunc", stream, [=] { function(data); });
}

Result cuLaunchKernel(Function kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, Stream stream, void** parameters, void**) {
    if (kernel == nullptr) return kInvalidHandle;
    auto* const run = reinterpret_cast<void (*)(void**)>(kernel);
    return add("cuLaunchKernel", stream, [=] { run(parameters); });
}

}  // extern "C"
#pragma GCC visibility pop
