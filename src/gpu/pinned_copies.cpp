#include "gpu/pinned_copies.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/parallel.hpp"
#include "gpu/memory.hpp"

namespace mgi::gpu {

namespace {

constexpr char const* kUp = "copy a table to the GPU";
constexpr char const* kDown = "copy a table to the host";

/// A pinned buffer, and the last copy that used it.
class PinnedPiece {
public:
    explicit PinnedPiece(int gpu) : memory_(gpu, kPieceBytes), gpu_(gpu) {
        Current const here(driver_, gpu);
        driver_.check(driver_.cuEventCreate(&event_, kEventDisableTiming), "create an event", gpu);
    }
    ~PinnedPiece() { (void)driver_.cuEventDestroy(event_); }
    PinnedPiece(PinnedPiece const&) = delete;
    PinnedPiece& operator=(PinnedPiece const&) = delete;

    [[nodiscard]] char* data() const { return memory_.data(); }

    /// Behind what the stream has now.
    void mark(Stream stream) {
        driver_.check(driver_.cuEventRecord(event_, stream), "mark a copy", gpu_);
        under_way_ = true;
    }
    /// Until its copy is over. Polls: the driver's own waits hold locks that movers want.
    void wait(char const* what) {
        for (unsigned round = 0; under_way_; ++round) {
            Result const result = driver_.cuEventQuery(event_);
            if (result != kNotReady) {
                under_way_ = false;
                driver_.check(result, what, gpu_);
            } else if (round < 100) {
                std::this_thread::yield();
            } else {
                std::this_thread::sleep_for(std::chrono::microseconds(10));
            }
        }
    }
    void forget() { under_way_ = false; }

private:
    Driver const& driver_ = Driver::get();
    PinnedMemory memory_;
    int gpu_;
    Event event_ = nullptr;
    bool under_way_ = false;
};

/// What one thread copies with: it fills or empties one buffer while the other one is copied.
struct Lane {
    explicit Lane(int gpu) : pieces{PinnedPiece(gpu), PinnedPiece(gpu)} {}
    PinnedPiece pieces[2];
};

/// Copies in one direction, in turn.
struct Direction {
    explicit Direction(int gpu) : stream(gpu) {}
    std::mutex busy;
    OwnStream stream;
    std::vector<std::unique_ptr<Lane>> lanes;

    /// Nothing is on its way behind it, whatever has failed.
    void calm() noexcept {
        try {
            stream.wait(kUp);
        } catch (std::exception const&) {
            // The GPU's context is lost, or the failure is known.
        }
        for (auto const& lane : lanes) {
            for (PinnedPiece& piece : lane->pieces) piece.forget();
        }
    }
};

/// Both directions of one GPU.
class Link {
public:
    explicit Link(int gpu) : gpu_(gpu), up_(gpu), down_(gpu) {}

    Direction& up() { return up_; }
    Direction& down() { return down_; }

    /// Sees to it that each direction has so many lanes. Both are given theirs at once: memory is pinned while no
    /// kernel is resident that waits for the host, and results may be copied while one is.
    void ready(std::size_t lanes) {
        if (lanes_.load(std::memory_order_acquire) >= lanes) return;
        std::scoped_lock const lock(up_.busy, down_.busy);
        while (up_.lanes.size() < lanes) {
            auto lane = std::make_unique<Lane>(gpu_);
            down_.lanes.push_back(std::make_unique<Lane>(gpu_));
            up_.lanes.push_back(std::move(lane));
        }
        lanes_.store(up_.lanes.size(), std::memory_order_release);
    }

private:
    int const gpu_;
    Direction up_;
    Direction down_;
    std::atomic<std::size_t> lanes_{0};
};

/// Made at the first copy and kept to the end of the process.
Link& link_of(int gpu) {
    static std::mutex mutex;
    static auto* const links = new std::map<std::pair<Driver const*, int>, std::unique_ptr<Link>>;
    Driver const* const driver = &Driver::get();
    driver->check_gpu(gpu);
    std::lock_guard const lock(mutex);
    auto& link = (*links)[{driver, gpu}];
    if (!link) link = std::make_unique<Link>(gpu);
    return *link;
}

/// A lane that writes into a GPU.
class GpuWriter final : public PieceWriter {
public:
    GpuWriter(Lane& lane, OwnStream const& stream) : lane_(lane), stream_(stream) {}

    char* room() override {
        piece().wait(kUp);
        return piece().data();
    }
    void send(char* to, std::size_t bytes) override {
        Current const here(driver_, stream_.gpu());
        driver_.check(driver_.cuMemcpyHtoDAsync(reinterpret_cast<Address>(to), piece().data(),
                                                bytes, stream_.get()),
                      kUp, stream_.gpu());
        piece().mark(stream_.get());
        turn_ ^= 1;
    }
    void finish() {
        for (PinnedPiece& piece : lane_.pieces) piece.wait(kUp);
    }

private:
    PinnedPiece& piece() { return lane_.pieces[turn_]; }

    Driver const& driver_ = Driver::get();
    Lane& lane_;
    OwnStream const& stream_;
    int turn_ = 0;
};

/// The same where the memory is the host's.
class HostWriter final : public PieceWriter {
public:
    char* room() override { return buffer_.data(); }
    void send(char* to, std::size_t bytes) override { std::memcpy(to, buffer_.data(), bytes); }

private:
    std::vector<char> buffer_ = std::vector<char>(kPieceBytes);
};

/// A lane that reads from a GPU.
class GpuReader {
public:
    GpuReader(Lane& lane, OwnStream const& stream) : lane_(lane), stream_(stream) {}

    void read(Reading const& reading) {
        Current const here(driver_, stream_.gpu());
        PinnedPiece& piece = lane_.pieces[turn_];
        driver_.check(
            driver_.cuMemcpyDtoHAsync(piece.data(), reinterpret_cast<Address>(reading.from),
                                      reading.bytes, stream_.get()),
            kDown, stream_.gpu());
        piece.mark(stream_.get());
        wanted_[turn_] = reading;
        turn_ ^= 1;
        empty();  // the one before
    }
    void finish() {
        empty();
        turn_ ^= 1;
        empty();
    }

private:
    void empty() {
        Reading& wanted = wanted_[turn_];
        if (wanted.bytes == 0) return;
        lane_.pieces[turn_].wait(kDown);
        std::memcpy(wanted.to, lane_.pieces[turn_].data(), wanted.bytes);
        wanted.bytes = 0;
    }

    Driver const& driver_ = Driver::get();
    Lane& lane_;
    OwnStream const& stream_;
    Reading wanted_[2];
    int turn_ = 0;
};

/// Calls `job(index, tool)`, with a tool for each lane, which finishes once there are no more jobs.
template <class Tool, class Job>
void run_lanes(Direction& direction, std::size_t jobs, std::size_t lanes, Job const& job) {
    std::lock_guard const lock(direction.busy);
    std::vector<std::unique_ptr<Tool>> tools;
    for (std::size_t l = 0; l < lanes; ++l) {
        tools.push_back(std::make_unique<Tool>(*direction.lanes[l], direction.stream));
    }
    try {
        in_parallel(jobs, lanes,
                    [&](std::size_t index, std::size_t lane) { job(index, *tools[lane]); });
        for (auto const& tool : tools) tool->finish();
    } catch (...) {
        direction.calm();
        throw;
    }
}

}  // namespace

void make_pinned_buffers(int gpu) {
    link_of(gpu).ready(memory_threads());
}

void write_pieces(int gpu, std::size_t jobs,
                  std::function<void(std::size_t job, PieceWriter& writer)> const& write) {
    std::size_t const lanes = std::min(memory_threads(), jobs);
    if (gpu < 0) {
        std::vector<HostWriter> writers(lanes);
        in_parallel(jobs, lanes,
                    [&](std::size_t job, std::size_t lane) { write(job, writers[lane]); });
        return;
    }
    Link& link = link_of(gpu);
    if (jobs == 0) return;
    link.ready(lanes);
    run_lanes<GpuWriter>(link.up(), jobs, lanes, write);
}

void read_pieces(int gpu, std::vector<Reading> const& readings) {
    Link& link = link_of(gpu);
    std::vector<Reading> pieces;
    for (Reading const& reading : readings) {
        for (std::size_t at = 0; at < reading.bytes; at += kPieceBytes) {
            pieces.push_back({reading.to + at, static_cast<char const*>(reading.from) + at,
                              std::min(kPieceBytes, reading.bytes - at)});
        }
    }
    if (pieces.empty()) return;
    std::size_t const lanes = std::min(memory_threads(), pieces.size());
    link.ready(lanes);
    run_lanes<GpuReader>(link.down(), pieces.size(), lanes,
                         [&](std::size_t p, GpuReader& reader) { reader.read(pieces[p]); });
}

}  // namespace mgi::gpu
