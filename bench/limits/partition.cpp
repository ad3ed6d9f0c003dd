#include "limits/partition.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "limits/scatter.hpp"
#include "perf/kernels.hpp"

namespace mgi::limits {

using perf::Checksum;
using perf::Clock;
using perf::Rows;

/// One producer's segments for one destination. The two ends keep to cache lines of their own.
struct Partition::Ring {
    struct alignas(64) Slot {
        std::atomic<std::uint32_t> rows{0};  ///< 0: free
    };
    char* segments = nullptr;
    std::vector<Slot> slots;
    alignas(64) std::uint32_t open = 0;  ///< producer: the slot it fills
    std::uint32_t filled = 0;            ///< and the rows in it
    alignas(64) std::uint32_t next = 0;  ///< consumer: the slot it reads next
};

/// One thread: partitions its part of the rows, and reads its destinations' segments meanwhile.
class Partition::Worker {
public:
    Worker(Partition& all, std::uint32_t thread)
        : all_(all),
          thread_(thread),
          fan_out_(all.options_.fan_out),
          scatter_(fan_out_, all.options_.tile_rows) {}

    void run(std::atomic<std::uint32_t>& starting, std::atomic<std::uint32_t>& producing,
             std::atomic<bool> const& abandoned) {
        pin(thread_);
        starting.fetch_sub(1);
        while (starting.load() != 0) {
            if (abandoned.load()) return;
            sched_yield();
        }
        start = Clock::now();
        for (Rows const* const input : all_.inputs_) {
            perf::Part const part(input->size(), thread_, all_.options_.threads);
            for (std::uint64_t at = part.first; at < part.last;) {
                std::uint32_t const rows =
                    std::uint32_t(std::min<std::uint64_t>(all_.options_.tile_rows, part.last - at));
                send(*input, at, rows);
                receive();
                at += rows;
            }
        }
        for (std::uint32_t d = 0; d < fan_out_; ++d) {
            Ring& ring = ring_to(d);
            if (ring.filled != 0) publish(ring);
        }
        producing.fetch_sub(1);
        for (std::uint32_t idle = 0;;) {
            bool const last = producing.load() == 0;
            if (receive()) {
                idle = 0;
            } else if (last) {
                break;
            } else {
                device::backoff(std::min(++idle, 63u));
            }
        }
        end = Clock::now();
    }

    Clock::time_point start;
    Clock::time_point end;
    Checksum sum;

private:
    Ring& ring_to(std::uint32_t destination) {
        return all_.rings_[thread_ * fan_out_ + destination];
    }

    void send(Rows const& input, std::uint64_t at, std::uint32_t rows) {
        scatter_.sort(input, at, rows);
        for (std::uint32_t d = 0; d < fan_out_; ++d) {
            Ring& ring = ring_to(d);
            for (std::uint32_t k = scatter_.first(d); k < scatter_.end(d);) {
                wait_for_room(ring);
                std::uint32_t const some =
                    std::min(scatter_.end(d) - k, all_.segment_rows_ - ring.filled);
                scatter_.copy(k, some, segment_of(ring, ring.open), ring.filled,
                              all_.segment_rows_);
                ring.filled += some;
                k += some;
                if (ring.filled == all_.segment_rows_) publish(ring);
            }
        }
    }

    char* segment_of(Ring const& ring, std::uint32_t slot) const {
        return ring.segments + std::uint64_t(slot) * all_.options_.segment_bytes;
    }

    void wait_for_room(Ring const& ring) {
        if (ring.filled != 0) return;
        for (std::uint32_t idle = 0;
             ring.slots[ring.open].rows.load(std::memory_order_acquire) != 0;) {
            if (receive()) {
                idle = 0;
            } else {
                device::backoff(std::min(++idle, 63u));
            }
        }
    }

    void publish(Ring& ring) {
        ring.slots[ring.open].rows.store(ring.filled, std::memory_order_release);
        ring.open = (ring.open + 1) % all_.options_.slots;
        ring.filled = 0;
    }

    /// Reads one segment of each ring to this thread's destinations. False when there was none.
    bool receive() {
        bool some = false;
        for (std::uint32_t d = thread_; d < fan_out_; d += all_.options_.threads) {
            for (std::uint32_t from = 0; from < all_.options_.threads; ++from) {
                Ring& ring = all_.rings_[from * fan_out_ + d];
                std::atomic<std::uint32_t>& rows = ring.slots[ring.next].rows;
                std::uint32_t const count = rows.load(std::memory_order_acquire);
                if (count == 0) continue;
                sum.add(read(segment_of(ring, ring.next), count));
                rows.store(0, std::memory_order_release);
                ring.next = (ring.next + 1) % all_.options_.slots;
                some = true;
            }
        }
        return some;
    }

    Checksum read(char const* segment, std::uint32_t rows) const {
        auto const* const words = reinterpret_cast<std::uint64_t const*>(segment);
        Rows const& any = *all_.inputs_.front();
        return any.structs()
                   ? perf::checksum_of_rows(words, rows, any.columns())
                   : perf::checksum_of_columns(words, rows, any.columns(), all_.segment_rows_);
    }

    Partition& all_;
    std::uint32_t const thread_;
    std::uint32_t const fan_out_;
    Scatter scatter_;
};

Partition::Partition(PartitionOptions const& options,
                     std::vector<std::unique_ptr<Rows>> const& inputs)
    : options_(options), rings_(std::size_t{options.threads} * options.fan_out) {
    for (auto const& input : inputs) inputs_.push_back(input.get());
    if (options_.segment_bytes == 0) {
        options_.segment_bytes = best_segment_bytes(options_.fan_out);
    }
    if (options_.tile_rows == 0) options_.tile_rows = best_tile_rows(options_.fan_out);
    std::uint32_t const columns = inputs_.front()->columns();
    segment_rows_ = segment_rows(options_.segment_bytes, columns);
    options_.segment_bytes = std::max(options_.segment_bytes, segment_rows_ * columns * kWord);
    std::uint64_t const ring_bytes = std::uint64_t(options_.slots) * options_.segment_bytes;
    pool_ = perf::make_buffer<char>(rings_.size() * ring_bytes);
    for (std::size_t r = 0; r < rings_.size(); ++r) {
        rings_[r].segments = pool_.get() + r * ring_bytes;
        rings_[r].slots = std::vector<Ring::Slot>(options_.slots);
    }
}

Partition::~Partition() = default;

double Partition::run(Checksum& sum) {
    for (Ring& ring : rings_) ring.open = ring.filled = ring.next = 0;
    std::atomic<std::uint32_t> starting{options_.threads};
    std::atomic<std::uint32_t> producing{options_.threads};
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < options_.threads; ++t) {
        workers.push_back(std::make_unique<Worker>(*this, t));
    }
    std::atomic<bool> abandoned{false};
    try {
        for (auto const& worker : workers) {
            threads.emplace_back([&starting, &producing, &abandoned, w = worker.get()] {
                w->run(starting, producing, abandoned);
            });
        }
    } catch (...) {
        abandoned.store(true);  // the system has no thread more
        for (std::thread& thread : threads) thread.join();
        throw;
    }
    for (std::thread& thread : threads) thread.join();
    auto first = Clock::time_point::max();
    auto last = Clock::time_point::min();
    for (auto const& worker : workers) {
        first = std::min(first, worker->start);
        last = std::max(last, worker->end);
        sum.add(worker->sum);
    }
    return std::chrono::duration<double>(last - first).count();
}

}  // namespace mgi::limits
