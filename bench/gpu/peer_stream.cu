// peer_stream: what rows through rings in the peers' memory reach, from every GPU to every GPU, on 1, 2, 4 ... of
// them; and the copy engines' all to all of rows that were partitioned before, which is the links' limit. See
// peer_stream.hpp.
#include "peer_stream.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels.hpp"
#include "peer_run.hpp"

namespace mgi::bench {
namespace {

using namespace peers;

/// With its words and rings.
struct Streaming : Gpu {
    Streaming(u32 number, u64 rows, u32 row_words, u32 gpus)
        : Gpu(number, Layout::Rows, rows, row_words, gpus), words(1), rings(gpus * kRingBytes) {}
    DeviceArray<Words> words;
    DeviceArray<char> rings;
};
using Gpus = std::vector<std::unique_ptr<Streaming>>;

void stream_rows(Context& context, Gpus const& gpus, u32 row_words, double share) {
    auto const count = u32(gpus.size());
    Kernel const kernel = kernel_of(row_words);
    Part part;
    part.gpus = count;
    u32 blocks = ~0u;  // all have to be resident
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on{int(gpu)};
        part.words[gpu] = gpus[gpu]->words.get();
        part.rings[gpu] = gpus[gpu]->rings.get();
        blocks = std::min(blocks, resident_blocks(kernel, kThreads, kTileBytes));
    }
    blocks = std::max(1u, u32(blocks * share));
    Words const fresh;
    std::vector<Tally> tallies(count);
    auto const run = [&](bool check_rows) {
        part.check = check_rows;
        for (auto const& gpu : gpus) {
            check(cudaMemcpyAsync(gpu->words.get(), &fresh, sizeof(fresh), cudaMemcpyHostToDevice,
                                  gpu->stream.get()),
                  "make the words new");
            check(cudaStreamSynchronize(gpu->stream.get()), "make the words new");
        }
        double const ms = timed(count, [&](u32 gpu) {
            Part mine = part;
            mine.me = gpu;
            mine.input = gpus[gpu]->input.table();
            kernel<<<blocks, kThreads, kTileBytes, gpus[gpu]->stream.get()>>>(mine);
            check_launch("launch the stream");
            check(cudaStreamSynchronize(gpus[gpu]->stream.get()), "wait for the stream");
        });
        for (u32 gpu = 0; gpu < count; ++gpu) {
            check(cudaMemcpy(&tallies[gpu], &gpus[gpu]->words.get()->tally, sizeof(Tally),
                             cudaMemcpyDeviceToHost),
                  "read a tally");
            require(tallies[gpu].late == 0, "a block passed its deadline");
        }
        return ms;
    };
    std::vector<Sums> const wanted = wanted_by(gpus);
    bool exact = true;
    run(true);  // to warm up, too
    for (u32 d = 0; d < count; ++d) exact = exact && tallies[d].got == wanted[d];
    Timing timing;
    for (int i = 0; i < repeats(context); ++i) {
        timing.ms.push_back(run(false));
        for (u32 d = 0; d < count; ++d) exact = exact && tallies[d].got.rows == wanted[d].rows;
    }
    Result result;
    result.with("how", "stream").with("gpus", count).with("row_bytes", row_words * 8);
    result.with("blocks", blocks).with("segment_bytes", kSegmentBytes).with("slots", kSlots);
    if (count == 1) result.floor_gbps = context.exchange_floor_gbps();
    result.exact = exact;
    report(context, std::move(result), timing, gpus[0]->input.table().bytes() * count);
}

/// Each GPU's rows in equal parts to all, its own included, by copy engines.
void copy_rows(Context& context, Gpus const& gpus) {
    auto const count = u32(gpus.size());
    u64 const each = gpus[0]->input.table().bytes() / count / 256 * 256;
    std::vector<DeviceArray<char>> memory;
    std::vector<std::vector<Stream>> streams(count);
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on{int(gpu)};
        memory.emplace_back(each * count);
        streams[gpu] = std::vector<Stream>(count);
    }
    Timing timing;
    for (int i = 0; i <= repeats(context); ++i) {
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
    Result result;
    result.with("how", "copy engines").with("gpus", count);
    report(context, std::move(result), timing, each * count * count);
}

void peer_stream(Context& context) {
    auto const all = u32(connected_gpus(kMostGpus));
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    for (u32 count = 1; count <= all; count *= 2) {
        for (u32 const row_words : {4u, 2u, 8u}) {
            Gpus gpus;
            for (u32 gpu = 0; gpu < count; ++gpu) {
                On const on{int(gpu)};
                gpus.push_back(
                    std::make_unique<Streaming>(gpu, bytes / (row_words * 8), row_words, count));
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
