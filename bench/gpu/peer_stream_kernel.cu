// What every block of peer_stream.hpp does.
#include "peer_stream.hpp"

#include "kernels.hpp"
#include "sync.hpp"

namespace mgi::bench::peers {
namespace {

using Wide = unsigned long long;  // as atomicAdd has it
constexpr u64 kDeadlineNs = 5'000'000'000;
constexpr u32 kBlocks = 3;  // of a multiprocessor
constexpr u32 kWarps = kThreads / 32;
constexpr u32 kRowBits = 21;  // of a word of `full`
constexpr u64 kRowMask = (u64(1) << kRowBits) - 1;
constexpr u32 kAtOnce = 4;  // loads of a thread on their way

using Word = cuda::atomic_ref<u64, cuda::thread_scope_system>;
__device__ u64 peek(u64* word) {
    return Word(*word).load(cuda::memory_order_relaxed);
}
__device__ u64 add(Counter& to, u64 much) {
    return atomicAdd(reinterpret_cast<Wide*>(&to.value), Wide(much));
}

using Piece = ulonglong2;  // what a thread loads and stores at once

template <u32 kWords>
struct alignas(16) Row {
    u64 word[kWords];
};
/// Rows of a tile for each thread, of a segment, and of a ring.
template <u32 kWords>
constexpr u32 kItems = kTileBytes / kThreads / sizeof(Row<kWords>);
template <u32 kWords>
constexpr u32 kCapacity = kSegmentBytes / sizeof(Row<kWords>);
template <u32 kWords>
constexpr u32 kRing = kRingBytes / sizeof(Row<kWords>);

/// The rows that a source has for a destination, in the latter's memory.
template <u32 kWords>
__device__ Row<kWords>* ring_of(Part const& part, u32 source, u32 destination) {
    return reinterpret_cast<Row<kWords>*>(part.rings[destination] + source * kRingBytes);
}

/// A block's receiving end, in shared memory.
struct Receiving {
    u64 turn[kMostGpus];
    u32 over;   ///< lanes, by bit
    u32 first;  ///< lane to look at first
    int lane;   ///< that has a segment, or -1
    u32 rows;   ///< of it
};

template <u32 kWords>
class Block {
public:
    __device__ Block(Part const& part, Receiving& receiving)
        : part_(part),
          words_(*part.words[part.me]),
          receiving_(receiving),
          deadline_(gpu_ns() + kDeadlineNs) {
        if (threadIdx.x < part.gpus) {
            receiving.turn[threadIdx.x] = add(words_.turns[threadIdx.x], 1);
        }
        if (threadIdx.x == 0) {
            receiving.over = 0;
            receiving.first = part.me;
        }
        __syncthreads();
    }

    /// Reads a segment if there is one for this block; false when there was none.
    __device__ bool receive() {
        if (over_) return false;
        if (threadIdx.x < 32) look();
        __syncthreads();
        int const lane = receiving_.lane;
        if (lane < 0) {
            bool const all = receiving_.over == (1u << part_.gpus) - 1;
            late_ = __syncthreads_or(gpu_ns() > deadline_) != 0;
            over_ = all || late_;
            return false;
        }
        u64 const sequence = receiving_.turn[lane];
        u64 const slot = sequence % kSlots;
        // Asked for ahead of the rows, to be there behind them.
        u64 const next = threadIdx.x == 0 ? add(words_.turns[lane], 1) : 0;
        read(ring_of<kWords>(part_, lane, part_.me) + slot * kCapacity<kWords>, receiving_.rows);
        __syncthreads();
        if (threadIdx.x == 0) {
            Word(part_.words[lane]->lanes[part_.me][slot].free)
                .store(sequence + kSlots, cuda::memory_order_release);
            receiving_.turn[lane] = next;
        }
        __syncthreads();
        return true;
    }
    [[nodiscard]] __device__ bool is_over() const { return over_; }
    [[nodiscard]] __device__ bool is_late() const { return late_; }

    __device__ void report() {
        for (u32 o = 16; o != 0; o /= 2) {
            keys_ += __shfl_xor_sync(~0u, keys_, o);
            all_ += __shfl_xor_sync(~0u, all_, o);
        }
        if (threadIdx.x % 32 != 0) return;
        Tally& tally = words_.tally;
        atomicAdd(reinterpret_cast<Wide*>(&tally.got.keys), Wide(keys_));
        atomicAdd(reinterpret_cast<Wide*>(&tally.got.all), Wide(all_));
        if (threadIdx.x != 0) return;
        atomicAdd(reinterpret_cast<Wide*>(&tally.got.rows), Wide(rows_));
        if (late_) atomicAdd(&tally.late, 1u);
    }

private:
    /// A thread of the first warp for each lane: whether this block's turn has come.
    __device__ void look() {
        u32 const lane = threadIdx.x;
        bool ready = false;
        bool ended = false;
        u64 full = 0;
        if (lane < part_.gpus && (receiving_.over >> lane & 1) == 0) {
            u64 const turn = receiving_.turn[lane];
            u64* const word = &words_.full[lane][turn % kSlots];
            full = peek(word);
            ready = full >> kRowBits == turn + 1;
            if (!ready) {
                u64 const end = peek(&words_.ends[lane]);
                ended = end != 0 && turn >= end - 1;
            }
            if (ready) static_cast<void>(Word(*word).load(cuda::memory_order_acquire));
        }
        u32 const all = __ballot_sync(~0u, ready);
        u32 const ends = __ballot_sync(~0u, ended);
        u32 const behind = all & ~((1u << receiving_.first) - 1);
        int const chosen = __ffs(int(behind != 0 ? behind : all)) - 1;
        u32 const rows = u32(__shfl_sync(~0u, full, chosen < 0 ? 0 : chosen) & kRowMask);
        __syncwarp();  // all have read what the first one changes
        if (lane != 0) return;
        receiving_.over |= ends;
        receiving_.lane = chosen;
        receiving_.rows = rows;
        if (chosen >= 0) receiving_.first = u32(chosen + 1) % part_.gpus;
    }

    /// Adds up a segment's words; with `check` so that words that parted from their row are seen.
    __device__ void read(Row<kWords> const* from, u32 rows) {
        if (threadIdx.x == 0) rows_ += rows;
        if (!part_.check) {
            all_ += part_of_sum<kAtOnce>(from->word, rows * kWords);
            return;
        }
        for (u32 i = threadIdx.x; i < rows; i += kThreads) {
            u64 sum = 0;
            for (u64 const word : from[i].word) sum = row_sum(sum, word);
            keys_ += from[i].word[0];
            all_ += sum;
        }
    }

    Part const& part_;
    Words& words_;
    Receiving& receiving_;
    u64 const deadline_;
    u64 rows_ = 0;
    u64 keys_ = 0;
    u64 all_ = 0;
    bool over_ = false;
    bool late_ = false;
};

/// What a tile's threads tell each other.
struct Sending {
    u32 count[kWarps][kMostGpus];  ///< rows of the warps before, of a lane
    u32 start[kMostGpus + 1];      ///< where a lane's rows begin in the tile
    u32 place[kMostGpus];          ///< of its first row in the ring
    bool goes[kMostGpus];          ///< now
    u32 waiting;                   ///< lanes that have no room yet, by bit
    u64 tile;
};

/// Whether the slots of a claimed run may be filled.
template <u32 kWords>
__device__ bool are_free(Part const& part, u32 lane, u64 first, u32 rows) {
    u64 const last = (first + rows - 1) / kCapacity<kWords>;
    for (u64 at = first / kCapacity<kWords>; at <= last; ++at) {
        // acquire: what the slot's reader has done comes before what we write.
        Word const free(part.words[part.me]->lanes[lane][at % kSlots].free);
        if (free.load(cuda::memory_order_acquire) != at) return false;
    }
    return true;
}

/// Says that a slot is full, to the block that reads it.
__device__ void publish(Part const& part, u32 lane, u64 sequence, u64 rows) {
    Word(part.words[lane]->full[part.me][sequence % kSlots])
        .store((sequence + 1) << kRowBits | rows, cuda::memory_order_release);
}

/// Counts a run's rows as written, and publishes the slots that it completes. Behind a barrier.
template <u32 kWords>
__device__ void commit(Part const& part, u32 lane, u64 at, u32 rows) {
    __threadfence_system();
    while (rows != 0) {
        u64 const sequence = at / kCapacity<kWords>;
        u64 const rest = (sequence + 1) * kCapacity<kWords> - at;
        u32 const here = rows < rest ? rows : u32(rest);
        Slot& slot = part.words[part.me]->lanes[lane][sequence % kSlots];
        if (atomicAdd(reinterpret_cast<Wide*>(&slot.committed), Wide(here)) + here ==
            kCapacity<kWords>) {
            __threadfence_system();  // behind the others' rows, which their additions have told of
            slot.committed = 0;
            publish(part, lane, sequence, kCapacity<kWords>);
        }
        at += here;
        rows -= here;
    }
}

/// The source's last block: a half-full segment is the last one.
template <u32 kWords>
__device__ void end_lanes(Part const& part) {
    for (u32 lane = 0; lane < part.gpus; ++lane) {
        u64 const claimed = add(part.words[part.me]->cursors[lane], 0);
        u64 const sequence = claimed / kCapacity<kWords>;
        u64 const rows = claimed % kCapacity<kWords>;
        if (rows != 0) publish(part, lane, sequence, rows);
        Word(part.words[lane]->ends[part.me])
            .store(sequence + (rows != 0 ? 2 : 1), cuda::memory_order_release);
    }
}

/// Sends a tile: its rows are ranked by ballots and sorted by lane in shared memory; runs are claimed,
/// written and committed by a thread a lane, and what finds no room goes when there is some.
template <u32 kWords>
__device__ void send_tile(Part const& part, Block<kWords>& block, Sending& sending,
                          Row<kWords>* sorted, u64 first) {
    constexpr u32 kRows = kItems<kWords>;
    u32 const warp = threadIdx.x / 32;
    u32 const thread = threadIdx.x % 32;
    u32 const lanes = part.gpus;
    u32 const rows = u32(min(u64(kThreads * kRows), part.input.rows - first));
    auto const* const from = reinterpret_cast<Row<kWords> const*>(part.input.structs()) + first;
    Row<kWords> row[kRows];
    u32 lane[kRows];
    u32 rank[kRows];
    u32 have[kMostGpus] = {};
#pragma unroll
    for (u32 k = 0; k < kRows; ++k) {
        u32 const at = (warp * kRows + k) * 32 + thread;
        if (at < rows) row[k] = from[at];
    }
#pragma unroll
    for (u32 k = 0; k < kRows; ++k) {
        bool const is_there = (warp * kRows + k) * 32 + thread < rows;
        lane[k] = is_there ? destination_of(row[k].word[0], lanes) : kMostGpus;
#pragma unroll
        for (u32 x = 0; x < kMostGpus; ++x) {
            if (x >= lanes) break;
            u32 const same = __ballot_sync(~0u, lane[k] == x);
            if (lane[k] == x) rank[k] = have[x] + __popc(same & ((1u << thread) - 1));
            have[x] += __popc(same);
        }
    }
#pragma unroll
    for (u32 x = 0; x < kMostGpus; ++x) {
        if (x < lanes && thread == x) sending.count[warp][x] = have[x];
    }
    __syncthreads();
    u64 at = 0;  // of the lane's clerk, one of the first threads: its run
    u32 claimed = 0;
    auto const try_to_go = [&] {
        bool const goes = claimed != 0 && are_free<kWords>(part, thread, at, claimed);
        if (thread < lanes) {
            sending.place[thread] = u32(at % kRing<kWords>);
            sending.goes[thread] = goes;
        }
        u32 const waiting = __ballot_sync(~0u, claimed != 0 && !goes);
        if (thread == 0) sending.waiting = waiting;
    };
    if (warp == 0) {
        for (u32 w = 0; thread < lanes && w < kWarps; ++w) {
            u32 const of_warp = sending.count[w][thread];
            sending.count[w][thread] = claimed;
            claimed += of_warp;
        }
        u32 end = claimed;
        for (u32 o = 1; o < 32; o *= 2) {
            u32 const before = __shfl_up_sync(~0u, end, o);
            if (thread >= o) end += before;
        }
        if (thread < lanes) {
            sending.start[thread] = end - claimed;
            sending.start[lanes] = rows;
        }
        if (claimed != 0) at = add(part.words[part.me]->cursors[thread], claimed);
        try_to_go();
    }
    __syncthreads();
#pragma unroll
    for (u32 k = 0; k < kRows; ++k) {
        if (lane[k] >= lanes) continue;
        sorted[sending.start[lane[k]] + sending.count[warp][lane[k]] + rank[k]] = row[k];
    }
    __syncthreads();
    for (;;) {
        constexpr u32 kPieces = kWords / 2;
        auto const* const pieces = reinterpret_cast<Piece const*>(sorted);
        for (u32 i = threadIdx.x; i < rows * kPieces; i += kThreads) {
            u32 const position = i / kPieces;
            u32 x = 0;
            while (position >= sending.start[x + 1]) ++x;
            if (!sending.goes[x]) continue;
            u32 place = sending.place[x] + position - sending.start[x];
            if (place >= kRing<kWords>) place -= kRing<kWords>;
            Row<kWords>* const to = ring_of<kWords>(part, part.me, x) + place;
            reinterpret_cast<Piece*>(to)[i % kPieces] = pieces[i];
        }
        __syncthreads();
        bool const waiting = sending.waiting != 0;
        if (warp == 0 && claimed != 0 && sending.goes[thread]) {
            commit<kWords>(part, thread, at, claimed);
            claimed = 0;
        }
        if (!waiting || block.is_late()) return;
        block.receive();
        if (warp == 0) try_to_go();
        __syncthreads();
    }
}

template <u32 kWords>
__global__ void __launch_bounds__(kThreads, kBlocks) stream(Part part) {
    extern __shared__ __align__(16) unsigned char scratch[];
    __shared__ Receiving receiving;
    __shared__ Sending sending;
    Words& words = *part.words[part.me];
    Block<kWords> block(part, receiving);
    constexpr u32 kTile = kThreads * kItems<kWords>;
    u64 const tiles = (part.input.rows + kTile - 1) / kTile;
    while (!block.is_late()) {
        if (threadIdx.x == 0) sending.tile = add(words.tiles, 1);
        __syncthreads();
        u64 const tile = sending.tile;
        if (tile >= tiles) break;
        send_tile(part, block, sending, reinterpret_cast<Row<kWords>*>(scratch), tile * kTile);
        block.receive();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        if (add(words.finished, 1) == gridDim.x - 1) {
            __threadfence_system();  // behind what all others have claimed and written
            end_lanes<kWords>(part);
        }
    }
    for (u32 idle = 0; !block.is_over(); ++idle) {
        if (block.receive()) idle = 0;
        if (idle > 4) __nanosleep(200);
    }
    block.report();
}

}  // namespace

Kernel kernel_of(u32 words) {
    return words == 2 ? stream<2> : words == 4 ? stream<4> : words == 8 ? stream<8> : nullptr;
}

}  // namespace mgi::bench::peers
