// peer_stream: what rows through rings in the peers' memory reach, from every GPU to every GPU, on 1, 2, 4 ... of
// them; and the copy engines' all to all of rows that were partitioned before, which is the links' limit. See
// peer_stream.hpp.
#include "peer_stream.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "registry.hpp"

namespace mgi::bench {
namespace {

using namespace peers;

constexpr u32 kSegmentBytes = 128 << 10;
constexpr u32 kSlots = 256;

/// Makes a GPU the current one, until its end.
class On {
public:
    explicit On(u32 gpu) {
        check(cudaGetDevice(&before_), "ask for the current GPU");
        check(cudaSetDevice(int(gpu)), "choose a GPU");
    }
    ~On() { cudaSetDevice(before_); }
    On(On const&) = delete;
    On& operator=(On const&) = delete;

private:
    int before_ = 0;
};

bool reaches(u32 from, u32 to) {
    int possible = 0;
    check(cudaDeviceCanAccessPeer(&possible, int(from), int(to)), "ask for peer access");
    return possible != 0;
}

/// How many GPUs reach each other's memory, counted from the first; opens the ways.
u32 connected_gpus() {
    int count = 0;
    check(cudaGetDeviceCount(&count), "count GPUs");
    u32 gpus = 1;
    for (; gpus < std::min(u32(count), kMostGpus); ++gpus) {
        bool all = true;
        for (u32 other = 0; other < gpus; ++other) {
            all = all && reaches(gpus, other) && reaches(other, gpus);
        }
        if (!all) break;
    }
    for (u32 from = 0; from < gpus; ++from) {
        On const on(from);
        for (u32 to = 0; to < gpus; ++to) {
            if (from == to) continue;
            cudaError_t const opened = cudaDeviceEnablePeerAccess(int(to), 0);
            if (opened == cudaErrorPeerAccessAlreadyEnabled) {
                cudaGetLastError();
            } else {
                check(opened, "open peer access");
            }
        }
    }
    return gpus;
}

/// A GPU's rows, words, rings and stream.
struct Gpu {
    Gpu(u32 number, u64 rows, u32 words, u32 gpus)
        : number(number), input(Layout::Rows, rows, words) {
        generate(input.table(), Keys::Uniform, stream.get(), number + 1);
        sent = sums_of(input.table(), gpus, stream.get());
    }
    u32 number;
    Stream stream;
    TableBuffer input;
    std::vector<Sums> sent;  ///< by destination
};

/// What changes during a run, in one piece of a GPU's memory, so that one copy makes it new.
struct Words {
    Words(u32 gpus, u32 capacity, u32 words)
        : lanes(u64(gpus) * kSlots), rings(u64(gpus) * kSlots * capacity * words) {
        bytes = Counters::bytes(gpus) + lanes * (sizeof(Slot) + sizeof(u64));
        image.resize(bytes);
        auto* const slots = reinterpret_cast<Slot*>(image.data() + Counters::bytes(gpus));
        for (u64 i = 0; i < lanes; ++i) slots[i].free = i % kSlots;
        memory = DeviceArray<char>(bytes);
        segments = DeviceArray<u64>(rings);
    }
    /// Counters come first, by lane and for the GPU.
    struct Counters {
        static u64 bytes(u32 gpus) { return (2 * gpus + 2) * sizeof(Counter) + 512; }
    };
    u64 lanes;
    u64 rings;
    u64 bytes = 0;
    std::vector<char> image;
    DeviceArray<char> memory;
    DeviceArray<u64> segments;
};

Part part_of(std::vector<std::unique_ptr<Words>> const& words,
             std::vector<std::unique_ptr<Gpu>> const& gpus, u32 me, u32 capacity, u32 row_words) {
    auto const count = u32(gpus.size());
    auto const base = [&](u32 gpu) { return words[gpu]->memory.get(); };
    auto const counters = [&](u32 gpu) { return reinterpret_cast<Counter*>(base(gpu)); };
    auto const tail = [&](u32 gpu) { return base(gpu) + (2 * count + 2) * sizeof(Counter); };
    auto const slots = [&](u32 gpu, u32 lane) {
        return reinterpret_cast<Slot*>(base(gpu) + Words::Counters::bytes(count)) +
               u64(lane) * kSlots;
    };
    auto const full = [&](u32 gpu, u32 lane) {
        return reinterpret_cast<u64*>(slots(gpu, count)) + u64(lane) * kSlots;
    };
    auto const ring = [&](u32 gpu, u32 lane) {
        return words[gpu]->segments.get() + u64(lane) * kSlots * capacity * row_words;
    };
    Part part;
    part.input = gpus[me]->input.table();
    part.gpus = count;
    part.me = me;
    part.capacity = capacity;
    part.slots = kSlots;
    part.cursors = counters(me);
    part.turns = counters(me) + count;
    part.tiles = counters(me) + 2 * count;
    part.finished = part.tiles + 1;
    part.my_ends = reinterpret_cast<u64*>(tail(me));
    part.tally = reinterpret_cast<Tally*>(tail(me) + 256);
    for (u32 other = 0; other < count; ++other) {
        part.lanes[other] = slots(me, other);
        part.rings[other] = ring(other, me);
        part.full[other] = full(other, me);
        part.ends[other] = reinterpret_cast<u64*>(tail(other)) + me;
        part.my_rings[other] = ring(me, other);
        part.my_full[other] = full(me, other);
        part.freed[other] = slots(other, me);
    }
    return part;
}

/// Milliseconds from the first launch to the last end; a thread starts each GPU's work.
double timed(u32 gpus, std::function<void(u32)> const& work) {
    using Clock = std::chrono::steady_clock;
    std::vector<Clock::time_point> passed;  // when all were at the gate
    passed.reserve(2);
    auto const note = [&]() noexcept { passed.push_back(Clock::now()); };
    std::barrier gate(gpus, note);
    std::vector<std::string> errors(gpus);
    std::vector<std::thread> threads;
    for (u32 gpu = 0; gpu < gpus; ++gpu) {
        threads.emplace_back([&, gpu] {
            gate.arrive_and_wait();
            try {
                On const on(gpu);
                work(gpu);
            } catch (std::exception const& error) {
                errors[gpu] = error.what();
            }
            gate.arrive_and_wait();
        });
    }
    for (auto& thread : threads) thread.join();
    for (auto const& error : errors) require(error.empty(), error.c_str());
    return std::chrono::duration<double, std::milli>(passed[1] - passed[0]).count();
}

/// Whether every destination got what all sources have for it.
bool is_exact(std::vector<Tally> const& got, std::vector<std::unique_ptr<Gpu>> const& gpus) {
    for (std::size_t d = 0; d < got.size(); ++d) {
        Sums wanted;
        for (auto const& gpu : gpus) {
            wanted.rows += gpu->sent[d].rows;
            wanted.keys += gpu->sent[d].keys;
            wanted.all += gpu->sent[d].all;
        }
        if (!(wanted == Sums{got[d].rows, got[d].keys, got[d].all})) return false;
    }
    return true;
}

void stream_rows(Context& context, std::vector<std::unique_ptr<Gpu>> const& gpus, u32 row_words,
                 double share) {
    auto const count = u32(gpus.size());
    u32 const capacity = kSegmentBytes / (row_words * 8);
    Kernel const kernel = kernel_of(row_words);
    std::vector<std::unique_ptr<Words>> words;
    u32 most = ~0u;  // blocks: all have to be resident
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on(gpu);
        words.push_back(std::make_unique<Words>(count, capacity, row_words));
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   int(scratch_of(row_words))),
              "shared memory of a block");
        int each = 0;
        int multiprocessors = 0;
        check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, int(kThreads),
                                                            scratch_of(row_words)),
              "occupancy");
        check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, int(gpu)),
              "count multiprocessors");
        most = std::min(most, std::min(kBlocks, u32(each)) * u32(multiprocessors));
    }
    require(most > 0, "a block fits no multiprocessor");
    u32 const blocks = std::max(1u, u32(most * share));
    std::vector<Part> parts;
    for (u32 gpu = 0; gpu < count; ++gpu) {
        parts.push_back(part_of(words, gpus, gpu, capacity, row_words));
    }
    std::vector<Tally> tallies(count);
    auto const run = [&](bool check_rows) {
        for (u32 gpu = 0; gpu < count; ++gpu) {
            On const on(gpu);
            parts[gpu].check = check_rows;
            check(
                cudaMemcpyAsync(words[gpu]->memory.get(), words[gpu]->image.data(),
                                words[gpu]->bytes, cudaMemcpyHostToDevice, gpus[gpu]->stream.get()),
                "make the words new");
            check(cudaStreamSynchronize(gpus[gpu]->stream.get()), "make the words new");
        }
        double const ms = timed(count, [&](u32 gpu) {
            kernel<<<blocks, kThreads, scratch_of(row_words), gpus[gpu]->stream.get()>>>(
                parts[gpu]);
            check_launch("launch the stream");
            check(cudaStreamSynchronize(gpus[gpu]->stream.get()), "wait for the stream");
        });
        for (u32 gpu = 0; gpu < count; ++gpu) {
            check(
                cudaMemcpy(&tallies[gpu], parts[gpu].tally, sizeof(Tally), cudaMemcpyDeviceToHost),
                "read a tally");
            require(tallies[gpu].late == 0, "a block passed its deadline");
        }
        return ms;
    };
    run(true);  // to warm up, too
    bool exact = is_exact(tallies, gpus);
    Timing timing;
    for (int i = 0; i < (context.quick() ? 3 : 7); ++i) {
        timing.ms.push_back(run(false));
        for (u32 d = 0; d < count; ++d) {
            u64 rows = 0;
            for (auto const& gpu : gpus) rows += gpu->sent[d].rows;
            exact = exact && tallies[d].rows == rows;
        }
    }
    std::sort(timing.ms.begin(), timing.ms.end());
    Result result;
    result.with("how", "stream").with("gpus", count).with("row_bytes", row_words * 8);
    result.with("blocks", blocks).with("segment_bytes", kSegmentBytes).with("slots", kSlots);
    timing.fill(result, gpus[0]->input.table().bytes() * count);
    if (count == 1) result.floor_gbps = context.exchange_floor_gbps();
    result.exact = exact;
    context.add(result);
}

/// Each GPU's rows in equal parts to all, its own included, by copy engines.
void copy_rows(Context& context, std::vector<std::unique_ptr<Gpu>> const& gpus) {
    auto const count = u32(gpus.size());
    u64 const each = gpus[0]->input.table().bytes() / count / 256 * 256;
    std::vector<DeviceArray<char>> memory;
    std::vector<std::vector<Stream>> streams(count);
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on(gpu);
        memory.emplace_back(each * count);
        streams[gpu] = std::vector<Stream>(count);
    }
    Timing timing;
    for (int i = 0; i <= (context.quick() ? 3 : 7); ++i) {
        double const ms = timed(count, [&](u32 gpu) {
            auto const* const from =
                reinterpret_cast<char const*>(gpus[gpu]->input.table().structs());
            for (u32 k = 0; k < count; ++k) {
                u32 const to = (gpu + k) % count;
                check(cudaMemcpyAsync(memory[to].get() + gpu * each, from + to * each, each,
                                      cudaMemcpyDefault, streams[gpu][to].get()),
                      "copy to a peer");
            }
            for (auto const& stream : streams[gpu]) {
                check(cudaStreamSynchronize(stream.get()), "wait for a copy");
            }
        });
        if (i > 0) timing.ms.push_back(ms);
    }
    std::sort(timing.ms.begin(), timing.ms.end());
    Result result;
    result.with("how", "copy engines").with("gpus", count);
    timing.fill(result, each * count * count);
    context.add(result);
}

void peer_stream(Context& context) {
    u32 const all = connected_gpus();
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    for (u32 count = 1; count <= all; count *= 2) {
        for (u32 const row_words : {4u, 2u, 8u}) {
            std::vector<std::unique_ptr<Gpu>> gpus;
            for (u32 gpu = 0; gpu < count; ++gpu) {
                On const on(gpu);
                gpus.push_back(
                    std::make_unique<Gpu>(gpu, bytes / (row_words * 8), row_words, count));
            }
            stream_rows(context, gpus, row_words, 1);
            if (row_words != 4) continue;
            for (double const share : {0.5, 0.25}) stream_rows(context, gpus, row_words, share);
            if (count > 1) copy_rows(context, gpus);
        }
    }
}

Registration const registered{
    "peer_stream", "rows through rings in the memory of the GPUs that they are for", peer_stream};

}  // namespace
}  // namespace mgi::bench
