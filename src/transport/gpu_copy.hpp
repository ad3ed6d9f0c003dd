// Where GPUs' memory is concerned: the copy engines, by several streams of each GPU.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gpu/memory.hpp"
#include "transport/transport.hpp"

namespace mgi::transport {

// Memory of a GPU's.
struct GpuRange {
    int gpu =
        0;  // whose copy engines bring segments from there or, of another process' memory, to it
    char const* data = nullptr;
    std::uint64_t bytes = 0;
    int on = gpu;           // whose it is
    bool imported = false;  // another process'
    bool relay = false;     // for segments on their way from one GPU to another
};

// Where a channel's segments lie; all other memory is the host's, pinned where copies are not to wait.
// Thread-safe.
class GpuMemories {
public:
    void add(GpuRange const& range);
    [[nodiscard]] std::vector<int> gpus() const;
    // It has nothing else there.
    [[nodiscard]] bool is_relay(int gpu) const;
    [[nodiscard]] std::optional<GpuRange> find(char const* address) const;

private:
    mutable std::mutex mutex_;
    std::vector<GpuRange> ranges_;
};

// A copy is on a stream of the GPU that it leaves, or else of the one that it comes to; peers that do not reach
// each other are copied between by the driver, through the host's memory.
class GpuCopy final : public Engines {
public:
    // Makes all streams, for the GPUs of `memories`; what is added to them later has the same. `bounce`: the largest copy within one GPU's memory, 0 for none: such copies go through
    // pinned memory of the host, since the driver makes kernels of them, which do not run beside kernels that
    // fill the GPU (docs/performance.md).
    GpuCopy(std::shared_ptr<GpuMemories const> memories, std::uint64_t bounce);
    // Waits for copies that are under way: nobody writes into freed memory.
    ~GpuCopy() override;
    GpuCopy(GpuCopy const&) = delete;
    GpuCopy& operator=(GpuCopy const&) = delete;

    bool submit(Copy const& copy) override;
    void poll(std::vector<std::uint64_t>& complete, std::vector<FailedCopy>& failed) override;

private:
    // Enough to keep a GPU's copy engines busy while the next copy is asked for; no more, since the driver's
    // queues are shared with launches.
    static constexpr std::size_t kLines = 4;
    static constexpr std::size_t kUnderWay = 8;  // of a line

    // One stream, and what is under way on it, in its order.
    class Line {
    public:
        Line(int gpu, std::uint64_t bounce) : gpu_(gpu), stream_(gpu), bounce_(gpu, bounce) {}
        ~Line();
        Line(Line const&) = delete;
        Line& operator=(Line const&) = delete;

        // One on which a copy has failed takes no other until it is empty.
        [[nodiscard]] std::size_t under_way() const {
            return failing_ ? kUnderWay : flights_.size();
        }
        // `within`: both ends are this GPU's memory.
        void submit(Copy const& copy, bool within);
        void poll(std::vector<std::uint64_t>& complete, std::vector<FailedCopy>& failed);

    private:
        struct Flight {
            std::uint64_t token = 0;
            gpu::Event event = nullptr;  // null: its copy could not be asked for
            std::optional<Error> failure;
        };
        gpu::Event take_event();
        void start(Flight& flight, Copy const& copy, bool within);
        void take_complete(std::vector<std::uint64_t>& complete);
        [[nodiscard]] bool is_at_rest();
        void end_all(std::vector<std::uint64_t>& complete, std::vector<FailedCopy>& failed);
        void put(gpu::Address to, gpu::Address from, std::uint64_t bytes);

        gpu::Driver const& driver_ = gpu::Driver::get();
        int const gpu_;
        gpu::OwnStream stream_;
        gpu::PinnedMemory bounce_;  // one copy at a time: they are on one stream
        std::deque<Flight> flights_;
        std::vector<gpu::Event> free_;
        bool failing_ = false;
    };

    // The line with the least to do; null when all are full.
    Line* line_of(int gpu);

    std::shared_ptr<GpuMemories const> const memories_;
    std::map<int, std::vector<std::unique_ptr<Line>>> lines_;
    std::vector<std::uint64_t> complete_;  // of copies within the host's memory
};

}  // namespace mgi::transport
