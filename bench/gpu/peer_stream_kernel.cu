// What every block of peer_stream.hpp does.
#include "peer_stream.hpp"
#include "sync.hpp"

namespace mgi::bench::peers {
namespace {

using Wide = unsigned long long;  // as atomicAdd has it
constexpr u64 kDeadlineNs = 5'000'000'000;
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

/// Rows of a tile for each thread: 32 KiB a block.
template <u32 kWords>
constexpr u32 kItems = 16 / kWords;

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
        : part_(part), receiving_(receiving), deadline_(gpu_ns() + kDeadlineNs) {
        if (threadIdx.x < part.gpus) {
            receiving.turn[threadIdx.x] = add(part.turns[threadIdx.x], 1);
        }
        if (threadIdx.x == 0) {
            receiving.over = 0;
            receiving.first = part.me;
        }
        __syncthreads();
    }

    /// Reads a segment if there is one for this block; false when there was none.
    __device__ bool receive() {
        if (over_) {
            late_ = __syncthreads_or(gpu_ns() > deadline_) != 0;
            return false;
        }
        if (threadIdx.x < 32) look();
        __syncthreads();
        int const lane = receiving_.lane;
        if (lane < 0) {
            over_ = receiving_.over == (1u << part_.gpus) - 1;
            late_ = __syncthreads_or(gpu_ns() > deadline_) != 0;
            over_ = over_ || late_;
            return false;
        }
        u64 const sequence = receiving_.turn[lane];
        u64 const slot = sequence % part_.slots;
        // Asked for ahead of the rows, to be there behind them.
        u64 const next = threadIdx.x == 0 ? add(part_.turns[lane], 1) : 0;
        read(part_.my_rings[lane] + slot * part_.capacity * kWords, receiving_.rows);
        __syncthreads();
        if (threadIdx.x == 0) {
            Word(part_.freed[lane][slot].free)
                .store(sequence + part_.slots, cuda::memory_order_release);
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
        atomicAdd(reinterpret_cast<Wide*>(&part_.tally->keys), Wide(keys_));
        atomicAdd(reinterpret_cast<Wide*>(&part_.tally->all), Wide(all_));
        if (threadIdx.x != 0) return;
        atomicAdd(reinterpret_cast<Wide*>(&part_.tally->rows), Wide(rows_));
        if (late_) atomicAdd(&part_.tally->late, 1u);
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
            u64* const word = part_.my_full[lane] + turn % part_.slots;
            full = peek(word);
            ready = full >> kRowBits == turn + 1;
            if (!ready) {
                u64 const end = peek(part_.my_ends + lane);
                ended = end != 0 && turn >= end - 1;
            }
            if (ready) static_cast<void>(Word(*word).load(cuda::memory_order_acquire));
        }
        u32 const all = __ballot_sync(~0u, ready);
        u32 const ends = __ballot_sync(~0u, ended);
        u32 const behind = all & ~((1u << receiving_.first) - 1);
        int const chosen = __ffs(int(behind != 0 ? behind : all)) - 1;
        u32 const rows = u32(__shfl_sync(~0u, full, chosen < 0 ? 0 : chosen) & kRowMask);
        if (lane != 0) return;
        receiving_.over |= ends;
        receiving_.lane = chosen;
        receiving_.rows = rows;
        if (chosen >= 0) receiving_.first = u32(chosen + 1) % part_.gpus;
    }

    /// Adds up a segment's words; with `check` so that words that parted from their row are seen.
    __device__ void read(u64 const* from, u32 rows) {
        if (threadIdx.x == 0) rows_ += rows;
        if (part_.check) {
            for (u32 i = threadIdx.x; i < rows; i += kThreads) {
                u64 sum = 0;
                for (u32 w = 0; w < kWords; ++w) sum = row_sum(sum, from[i * kWords + w]);
                keys_ += from[i * kWords];
                all_ += sum;
            }
            return;
        }
        auto const* const pieces = reinterpret_cast<Piece const*>(from);
        u32 const count = rows * kWords / 2;
        for (u32 first = threadIdx.x; first < count; first += kAtOnce * kThreads) {
            Piece held[kAtOnce];
            for (u32 k = 0; k < kAtOnce; ++k) {
                u32 const i = first + k * kThreads;
                held[k] = i < count ? pieces[i] : Piece{0, 0};
            }
            for (u32 k = 0; k < kAtOnce; ++k) all_ += held[k].x + held[k].y;
        }
    }

    Part const& part_;
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
__device__ bool are_free(Part const& part, u32 lane, u64 first, u32 rows) {
    u64 const last = (first + rows - 1) / part.capacity;
    for (u64 at = first / part.capacity; at <= last; ++at) {
        // acquire: what its reader has done comes before what we write.
        Word const free(part.lanes[lane][at % part.slots].free);
        if (free.load(cuda::memory_order_acquire) != at) return false;
    }
    return true;
}

/// Counts a run's rows as written; who completes a slot tells its reader. Behind a barrier.
__device__ void commit(Part const& part, u32 lane, u64 at, u32 rows) {
    __threadfence_system();
    while (rows != 0) {
        u64 const sequence = at / part.capacity;
        u64 const rest = (sequence + 1) * part.capacity - at;
        u32 const here = rows < rest ? rows : u32(rest);
        u64 const place = sequence % part.slots;
        Slot& slot = part.lanes[lane][place];
        if (atomicAdd(reinterpret_cast<Wide*>(&slot.committed), Wide(here)) + here ==
            part.capacity) {
            __threadfence_system();  // behind the others' rows, which their additions have told of
            slot.committed = 0;
            Word(part.full[lane][place])
                .store((sequence + 1) << kRowBits | part.capacity, cuda::memory_order_release);
        }
        at += here;
        rows -= here;
    }
}

/// The source's last block: a half-full segment is the last one.
__device__ void end_lanes(Part const& part) {
    for (u32 lane = 0; lane < part.gpus; ++lane) {
        u64 const claimed = add(part.cursors[lane], 0);
        u64 const sequence = claimed / part.capacity;
        u64 const rows = claimed % part.capacity;
        if (rows != 0) {
            Word(part.full[lane][sequence % part.slots])
                .store((sequence + 1) << kRowBits | rows, cuda::memory_order_release);
        }
        Word(*part.ends[lane]).store(sequence + (rows != 0 ? 2 : 1), cuda::memory_order_release);
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
    u64 const ring = u64(part.slots) * part.capacity;
    u64 at = 0;  // of the lane's clerk, one of the first threads: its run
    u32 claimed = 0;
    auto const try_to_go = [&] {
        bool const goes = claimed != 0 && are_free(part, thread, at, claimed);
        if (thread < lanes) {
            sending.place[thread] = u32(at % ring);
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
        if (claimed != 0) at = add(part.cursors[thread], claimed);
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
            u64 place = u64(sending.place[x]) + position - sending.start[x];
            if (place >= ring) place -= ring;
            reinterpret_cast<Piece*>(part.rings[x])[place * kPieces + i % kPieces] = pieces[i];
        }
        __syncthreads();
        bool const waiting = sending.waiting != 0;
        if (warp == 0 && claimed != 0 && sending.goes[thread]) {
            commit(part, thread, at, claimed);
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
    Block<kWords> block(part, receiving);
    constexpr u32 kTile = kThreads * kItems<kWords>;
    u64 const tiles = (part.input.rows + kTile - 1) / kTile;
    while (!block.is_late()) {
        if (threadIdx.x == 0) sending.tile = add(*part.tiles, 1);
        __syncthreads();
        u64 const tile = sending.tile;
        if (tile >= tiles) break;
        send_tile(part, block, sending, reinterpret_cast<Row<kWords>*>(scratch), tile * kTile);
        block.receive();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        if (add(*part.finished, 1) == gridDim.x - 1) {
            __threadfence_system();  // behind what all others have claimed and written
            end_lanes(part);
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

u32 scratch_of(u32 words) {
    return kThreads * (16 / words) * words * 8;
}

}  // namespace mgi::bench::peers
