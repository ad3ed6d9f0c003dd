// Where an operator's tables lie and its kernels run: a GPU, or the host, so that the same operators run in
// tests on threads. Each endpoint has a place of its own; what is put into it is done in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <mgi/device/group.hpp>
#include <mgi/error.hpp>
#include <mgi/runtime.hpp>

#include "operators/callers_memory.hpp"

namespace mgi::operators::on_gpu {

using device::i64;
using device::u16;
using device::u32;
using device::u64;
using device::u8;

// Scratch of so many bytes, of which Shared::take hands out pieces of 16 from the end.
inline u32 whole_words(u32 bytes) {
    return (bytes + 15) / 16 * 16;
}

// Memory of a place that is given back with the last copy.
using Memory = std::shared_ptr<void>;

// What a call's caller wants of its places.
struct PlaceOptions {
    u64 limit = 0;                                  // bytes of memory; 0: what there is
    std::shared_ptr<GpuAllocator const> allocator;  // null: the place has memory of its own
    std::optional<void*> stream;   // a cudaStream_t to work behind, where there is one
    std::map<int, void*> streams;  // those of all GPUs of the call, by GPU
};

// Words, each with the number of a row, to be sorted by bits [0, bits) of the words; equal ones stay in their order.
struct WordsToSort {
    u64* words = nullptr;
    u64* other_words = nullptr;  // room for as many
    u32* rows = nullptr;
    u32* other_rows = nullptr;
    u64 count = 0;
    u32 bits = 64;
};

class Place {
public:
    explicit Place(PlaceOptions const& options)
        : limit_(options.limit == 0 ? ~u64{0} : options.limit),
          of_caller_(options.allocator != nullptr) {}
    virtual ~Place() = default;
    Place(Place const&) = delete;
    Place& operator=(Place const&) = delete;

    // Memory that is given back behind what was put in before; or, where it outlives the place with a result, behind what is in
    // the stream that its provider wants: the legacy default stream, or the caller's. `what` is for the error: throws
    // Error(OutOfMemory).
    Memory allocate(u64 bytes, std::string const& what) {
        return count(bytes, what, [&] { return take(bytes, what); });
    }
    // The most that was given out at a time.
    [[nodiscard]] u64 peak() const { return peak_; }
    // Whether the caller's allocator provides that.
    [[nodiscard]] bool has_callers_memory() const { return of_caller_; }
    // Memory that `take()` gives, as a part of what this place may take.
    template <class Take>
    Memory count(u64 bytes, std::string const& what, Take const& take) {
        u64 const used = *used_;
        if (used > limit_ || bytes > limit_ - used) {
            throw Error(ErrorCode::OutOfMemory,
                        name() + ": " + what + " takes " + std::to_string(bytes) +
                            " bytes, and of OperatorOptions::receive_limit " +
                            std::to_string(limit_ - std::min(used, limit_)) +
                            " are left; raise it, or spread the rows over more endpoints");
        }
        Memory memory = take();
        u64 const now = *used_ += bytes;
        for (u64 peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) continue;
        void* const at = memory.get();
        return {at, [used = used_, bytes, held = std::move(memory)](void*) mutable {
                    *used -= bytes;
                    held.reset();
                }};
    }

    // Copies of arrays, one behind the other: all of them by one copy.
    template <class... T>
    std::tuple<T*...> upload(std::vector<Memory>& keep, std::vector<T> const&... arrays) {
        std::vector<char> all((0 + ... + in_whole_words(arrays)));
        Memory const memory = allocate(all.size(), "a plan");
        keep.push_back(memory);
        u64 at = 0;
        auto const add = [&]<class Value>(std::vector<Value> const& array) {
            if (!array.empty()) std::memcpy(&all[at], array.data(), array.size() * sizeof(Value));
            auto* const to = reinterpret_cast<Value*>(static_cast<char*>(memory.get()) + at);
            at += in_whole_words(array);
            return to;
        };
        std::tuple<T*...> const places{add(arrays)...};
        copy_in(memory.get(), all.data(), all.size());
        return places;
    }
    template <class T>
    T* upload_one(std::vector<Memory>& keep, std::vector<T> const& array) {
        return std::get<0>(upload(keep, array));
    }
    template <class T>
    std::vector<T> download(T const* from, u64 count) {
        std::vector<T> values(count);
        copy_out(values.data(), from, count * sizeof(T));
        return values;
    }

    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual bool is_gpu() const = 0;
    [[nodiscard]] virtual int gpu() const = 0;
    // Whether its kernels may write into another one's memory.
    [[nodiscard]] virtual bool reaches(Place const& other) const = 0;
    // And into what `other`, which it reaches, has allocated there.
    [[nodiscard]] virtual bool reaches_memory(Place const& other, void* at) const = 0;
    // Threads of a group, of kernels that call a channel as well.
    [[nodiscard]] virtual u32 threads() const = 0;
    virtual void fill(void* at, int byte, u64 bytes) = 0;
    // Behind what was put in before; `from` may change once it comes back.
    virtual void copy_in(void* to, void const* from, u64 bytes) = 0;
    // Within the place's memory.
    virtual void copy(void* to, void const* from, u64 bytes) = 0;
    // Sorts, behind what was put in before; `words` and `rows` are then where the sorted ones lie, and the others trade places
    // with them.
    virtual void sort(WordsToSort& all) = 0;
    // Over when it comes back, as all that was put in before.
    virtual void copy_out(void* to, void const* from, u64 bytes) = 0;
    // Until all that was put in is done.
    virtual void wait() = 0;
    // What is put in from here on comes behind what was put into the other place.
    virtual void follow(Place& other) = 0;
    // Lets go of memory that is kept for others.
    virtual void trim() {}

    // Runs `kernel(group, shared, args...)`, which calls no channel and takes so many bytes of scratch, behind what was
    // put in before: in as many groups as the place runs at a time.
    template <class Kernel, class... Args>
    void run(u32 scratch, Kernel kernel, Args... args) {
        scratch = whole_words(scratch);
        if (is_gpu()) {
#if defined(__CUDACC__)
            GpuOfThread const here(gpu());
            start_gpu_kernel(GpuLaunch{gpu(), stream(), 0, threads(), scratch, 0}, kernel, args...);
#endif
            return;
        }
        run_groups(scratch, [&](device::Group const& group, device::Shared& shared) {
            kernel(group, shared, args...);
        });
    }

    // Groups that a place runs at a time at most, whatever they take.
    [[nodiscard]] virtual u32 most_groups() const = 0;

protected:
    using Body = std::function<void(device::Group const&, device::Shared&)>;
    virtual Memory take(u64 bytes, std::string const& what) = 0;
    virtual void run_groups(u32 scratch, Body const& body) = 0;
    [[nodiscard]] virtual void* stream() const = 0;

private:
    template <class T>
    static u64 in_whole_words(std::vector<T> const& array) {
        return (array.size() * sizeof(T) + 15) / 16 * 16;
    }

    u64 const limit_;
    bool const of_caller_;
    // What is given out may outlive the place.
    std::shared_ptr<std::atomic<u64>> const used_ = std::make_shared<std::atomic<u64>>(0);
    std::atomic<u64> peak_ = 0;
};

// For nvcc alone; tests have a HostPlace.
std::unique_ptr<Place> gpu_place(int gpu, PlaceOptions const& options);

// What operators can still take of a GPU, what is kept for them included, and all of its memory.
struct GpuMemorySize {
    u64 free = 0;
    u64 total = 0;
};
GpuMemorySize memory_of_gpu(int gpu);

}  // namespace mgi::operators::on_gpu
