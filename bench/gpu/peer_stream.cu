// peer_stream: what rows through rings in the peers' memory reach, from every GPU to every GPU, on 1, 2, 4 ... of
// them; and the copy engines' all to all of rows that were partitioned before, which is the links' limit. See
// peer_stream.hpp.
#include "peer_stream.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "contest.hpp"
#include "kernels.hpp"

namespace mgi::bench {
namespace {

using namespace peers;

/// A GPU's words and rings.
struct Rings {
    explicit Rings(u32 gpus) : words(1), bytes(gpus * kRingBytes) {}
    DeviceArray<Words> words;
    DeviceArray<char> bytes;
};

class ByStream final : public Contestant {
public:
    ByStream(Load const& load, peers::Gpus const& gpus, double share = 1)
        : gpus_(gpus), wanted_(wanted_by(load, gpus)), kernel_(kernel_of(load.words)) {
        require(load.layout == Layout::Rows && load.pattern == Pattern::Exchange,
                "the reference is for exchanges of row structs alone");
        part_.gpus = load.gpus;
        tallies_.resize(load.gpus);
        for (u32 gpu = 0; gpu < load.gpus; ++gpu) {
            On const on{int(gpu)};
            rings_.push_back(std::make_unique<Rings>(load.gpus));
            part_.words[gpu] = rings_[gpu]->words.get();
            part_.rings[gpu] = rings_[gpu]->bytes.get();
            blocks_ = std::min(blocks_, resident_blocks(kernel_, kThreads, kTileBytes));
        }
        blocks_ = std::max(1u, u32(blocks_ * share));
        run_once(true);  // to warm up, too
        for (u32 d = 0; d < load.gpus; ++d) exact_ = exact_ && tallies_[d].got == wanted_[d];
    }

    [[nodiscard]] u32 blocks() const { return blocks_; }
    bool exact() override { return exact_; }

    Turn run() override {
        double const ms = run_once(false);
        for (u32 d = 0; d < part_.gpus; ++d) {
            exact_ = exact_ && tallies_[d].got.rows == wanted_[d].rows;
        }
        return {ms, ms};
    }

private:
    double run_once(bool check_rows) {
        part_.check = check_rows;
        for (u32 gpu = 0; gpu < part_.gpus; ++gpu) {
            cudaStream_t const stream = gpus_[gpu]->stream.get();
            check(cudaMemcpyAsync(part_.words[gpu], &fresh_, sizeof(fresh_), cudaMemcpyHostToDevice,
                                  stream),
                  "make the words new");
            check(cudaStreamSynchronize(stream), "make the words new");
        }
        double const ms = timed(part_.gpus, [&](u32 gpu) {
            Part mine = part_;
            mine.me = gpu;
            mine.input = gpus_[gpu]->input.table();
            kernel_<<<blocks_, kThreads, kTileBytes, gpus_[gpu]->stream.get()>>>(mine);
            check_launch("launch the stream");
            check(cudaStreamSynchronize(gpus_[gpu]->stream.get()), "wait for the stream");
        });
        for (u32 gpu = 0; gpu < part_.gpus; ++gpu) {
            check(cudaMemcpy(&tallies_[gpu], &part_.words[gpu]->tally, sizeof(Tally),
                             cudaMemcpyDeviceToHost),
                  "read a tally");
            require(tallies_[gpu].late == 0, "a block passed its deadline");
        }
        return ms;
    }

    peers::Gpus const& gpus_;
    std::vector<Sums> const wanted_;
    Kernel const kernel_;
    Words const fresh_;
    std::vector<std::unique_ptr<Rings>> rings_;
    Part part_;
    u32 blocks_ = ~0u;  // all have to be resident
    std::vector<Tally> tallies_;
    bool exact_ = true;
};

/// Each source's rows, part by part, to their destinations, its own GPU included.
class ByCopies final : public Contestant {
public:
    ByCopies(Load const& load, peers::Gpus const& gpus) : load_(load) {
        std::vector<Sums> const wanted = wanted_by(load, gpus);
        std::vector<char*> next;
        for (u32 gpu = 0; gpu < load.gpus; ++gpu) {
            On const on{int(gpu)};
            memory_.emplace_back(wanted[gpu].rows * load.row_bytes());
            streams_.emplace_back(load.gpus);
            next.push_back(memory_.back().get());
        }
        copies_.resize(load.gpus);
        for (u32 from = 0; from < load.sources(); ++from) {
            auto const* at = reinterpret_cast<char const*>(gpus[from]->input.table().column[0]);
            for (u32 d = 0; d < load.destinations(); ++d) {
                u32 const to = load.destination(d);
                u64 const bytes = sent_to(load, gpus[from]->sent, to).rows * load.row_bytes();
                copies_[from].push_back({to, next[to], at, bytes});
                next[to] += bytes;
                if (!load.to_all()) at += bytes;
            }
            // Not all to the first GPU first.
            std::rotate(copies_[from].begin(), copies_[from].begin() + from % load.destinations(),
                        copies_[from].end());
        }
    }

    bool exact() override { return true; }

    Turn run() override {
        double const ms = timed(load_.sources(), [&](u32 gpu) {
            for (Copy const& copy : copies_[gpu]) {
                check(cudaMemcpyAsync(copy.place, copy.from, copy.bytes, cudaMemcpyDefault,
                                      streams_[gpu][copy.to].get()),
                      "copy to a peer");
            }
            for (Copy const& copy : copies_[gpu]) {
                check(cudaStreamSynchronize(streams_[gpu][copy.to].get()), "wait for a copy");
            }
        });
        return {ms, ms};
    }

private:
    struct Copy {
        u32 to;
        char* place;
        char const* from;
        u64 bytes;
    };
    Load const load_;
    std::vector<DeviceArray<char>> memory_;
    std::vector<std::vector<Stream>> streams_;
    std::vector<std::vector<Copy>> copies_;  // by source
};

void stream_rows(Context& context, Load const& load, peers::Gpus const& gpus, double share) {
    ByStream stream(load, gpus, share);
    Timing timing;
    for (int i = 0; i < repeats(context); ++i) timing.ms.push_back(stream.run().read);
    Result result;
    result.with("how", "stream").with("gpus", load.gpus).with("row_bytes", load.row_bytes());
    result.with("blocks", stream.blocks());
    result.with("segment_bytes", kSegmentBytes).with("slots", kSlots);
    if (load.gpus == 1) result.floor_gbps = context.exchange_floor_gbps();
    result.exact = stream.exact();
    report(context, std::move(result), timing, load.bytes());
}

void copy_rows(Context& context, Load const& load, peers::Gpus const& gpus) {
    ByCopies copies(load, gpus);
    copies.run();
    Timing timing;
    for (int i = 0; i < repeats(context); ++i) timing.ms.push_back(copies.run().arrived);
    Result result;
    result.with("how", "copy engines").with("gpus", load.gpus);
    report(context, std::move(result), timing, load.bytes());
}

void peer_stream(Context& context) {
    auto const all = u32(connected_gpus(kMostGpus));
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    for (u32 count = 1; count <= all; count *= 2) {
        for (u32 const row_words : {4u, 2u, 8u}) {
            Load const load{count, Layout::Rows, bytes / (row_words * 8), row_words};
            peers::Gpus const gpus = gpus_of(load);
            stream_rows(context, load, gpus, 1);
            if (row_words != 4) continue;
            for (double const share : {0.5, 0.25}) stream_rows(context, load, gpus, share);
            if (count > 1) copy_rows(context, load, gpus);
        }
    }
}

Registration const registered{
    "peer_stream", "rows through rings in the memory of the GPUs that they are for", peer_stream};

}  // namespace

std::unique_ptr<Contestant> by_stream(Load const& load, peers::Gpus const& gpus) {
    require(load.gpus <= kMostGpus, "the reference is for 8 GPUs at most");
    return std::make_unique<ByStream>(load, gpus);
}

std::unique_ptr<Contestant> by_copies(Load const& load, peers::Gpus const& gpus) {
    return std::make_unique<ByCopies>(load, gpus);
}

}  // namespace mgi::bench
