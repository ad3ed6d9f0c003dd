#include "transport/gpu_copy.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <mgi/error.hpp>

namespace mgi::transport {

namespace {

gpu::Address address_of(char const* at) {
    return reinterpret_cast<gpu::Address>(at);
}

}  // namespace

GpuCopy::Line::~Line() {
    try {
        gpu::Current const here(gpu_);
        (void)driver_.cuStreamSynchronize(stream_.get());
        for (Flight const& flight : flights_) {
            if (flight.event != nullptr) (void)driver_.cuEventDestroy(flight.event);
        }
        for (gpu::Event const event : free_) (void)driver_.cuEventDestroy(event);
    } catch (Error const&) {
        // The GPU's context is lost, and its streams with it.
    }
}

gpu::Event GpuCopy::Line::take_event() {
    if (!free_.empty()) {
        gpu::Event const event = free_.back();
        free_.pop_back();
        return event;
    }
    gpu::Event event = nullptr;
    driver_.check(driver_.cuEventCreate(&event, gpu::kEventDisableTiming), "create an event", gpu_);
    return event;
}

void GpuCopy::Line::put(gpu::Address to, gpu::Address from, std::uint64_t bytes) {
    driver_.check(driver_.cuMemcpyAsync(to, from, bytes, stream_.get()), "copy a segment", gpu_);
}

void GpuCopy::Line::submit(Copy const& copy, bool within) {
    Flight& flight = flights_.emplace_back();
    flight.token = copy.token;
    try {
        start(flight, copy, within);
    } catch (Error const& error) {
        flight.failure = error;
        failing_ = true;
    }
}

void GpuCopy::Line::start(Flight& flight, Copy const& copy, bool within) {
    gpu::Current const here(gpu_);
    flight.event = take_event();
    for (memory::Range const& range : copy.ranges) {
        if (range.bytes == 0) continue;
        gpu::Address from = address_of(copy.from + range.offset);
        if (within) {
            if (std::uint64_t{range.offset} + range.bytes > bounce_.bytes()) {
                throw Error(ErrorCode::Internal,
                            "a copy within cuda:" + std::to_string(gpu_) +
                                " goes through more pinned memory than was made for such copies");
            }
            gpu::Address const over = address_of(bounce_.data() + range.offset);
            put(over, from, range.bytes);
            from = over;
        }
        put(address_of(copy.to + range.offset), from, range.bytes);
    }
    driver_.check(driver_.cuEventRecord(flight.event, stream_.get()), "mark the end of a copy",
                  gpu_);
}

void GpuCopy::Line::poll(std::vector<std::uint64_t>& complete, std::vector<FailedCopy>& failed) {
    if (flights_.empty()) return;
    try {
        gpu::Current const here(gpu_);
        take_complete(complete);
        if (!failing_ || !is_at_rest()) return;
    } catch (Error const& error) {
        // The GPU's context is lost: nothing runs there.
        for (Flight& flight : flights_) {
            if (!flight.failure) flight.failure = error;
        }
    }
    end_all(complete, failed);
}

// In their order, up to the first that is under way or has failed.
void GpuCopy::Line::take_complete(std::vector<std::uint64_t>& complete) {
    while (!flights_.empty() && !flights_.front().failure) {
        Flight& flight = flights_.front();
        gpu::Result const result = driver_.cuEventQuery(flight.event);
        if (result == gpu::kNotReady) return;
        try {
            driver_.check(result, "copy a segment", gpu_);
        } catch (Error const& error) {
            flight.failure = error;
            failing_ = true;
            return;
        }
        complete.push_back(flight.token);
        free_.push_back(flight.event);
        flights_.pop_front();
    }
}

// Whether nothing of the stream touches memory any more: of a copy that has failed some parts may have been asked for.
bool GpuCopy::Line::is_at_rest() {
    gpu::Result const result = driver_.cuStreamQuery(stream_.get());
    if (result == gpu::kNotReady) return false;
    driver_.check(result, "copy a segment", gpu_);
    return true;
}

void GpuCopy::Line::end_all(std::vector<std::uint64_t>& complete, std::vector<FailedCopy>& failed) {
    for (Flight& flight : flights_) {
        if (flight.failure) {
            failed.push_back({flight.token, *flight.failure});
        } else {
            complete.push_back(flight.token);
        }
        if (flight.event != nullptr) free_.push_back(flight.event);
    }
    flights_.clear();
    failing_ = false;
}

void GpuMemories::add(GpuRange const& range) {
    std::lock_guard const lock(mutex_);
    ranges_.push_back(range);
}

std::vector<int> GpuMemories::gpus() const {
    std::lock_guard const lock(mutex_);
    std::vector<int> gpus;
    for (GpuRange const& range : ranges_) gpus.push_back(range.gpu);
    std::sort(gpus.begin(), gpus.end());
    gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
    return gpus;
}

bool GpuMemories::is_relay(int gpu) const {
    std::lock_guard const lock(mutex_);
    return std::all_of(ranges_.begin(), ranges_.end(),
                       [&](GpuRange const& range) { return range.gpu != gpu || range.relay; });
}

std::optional<GpuRange> GpuMemories::find(char const* address) const {
    std::lock_guard const lock(mutex_);
    auto const at = std::find_if(ranges_.begin(), ranges_.end(), [&](GpuRange const& range) {
        return address >= range.data && address < range.data + range.bytes;
    });
    if (at == ranges_.end()) return std::nullopt;
    return *at;
}

GpuCopy::GpuCopy(std::shared_ptr<GpuMemories const> memories, std::uint64_t bounce)
    : memories_(std::move(memories)) {
    for (int const gpu : memories_->gpus()) {
        auto& lines = lines_[gpu];
        // No copy is within a relay.
        std::uint64_t const own = memories_->is_relay(gpu) ? 0 : bounce;
        for (std::size_t i = 0; i < kLines; ++i) lines.push_back(std::make_unique<Line>(gpu, own));
    }
}

GpuCopy::~GpuCopy() = default;

GpuCopy::Line* GpuCopy::line_of(int gpu) {
    auto& lines = lines_[gpu];
    Line* best = nullptr;
    for (auto const& line : lines) {
        if (best == nullptr || line->under_way() < best->under_way()) best = line.get();
    }
    return best != nullptr && best->under_way() < kUnderWay ? best : nullptr;
}

bool GpuCopy::submit(Copy const& copy) {
    auto const from = memories_->find(copy.from);
    auto const to = memories_->find(copy.to);
    auto const& range = from && !(to && to->imported) ? from : to;
    if (!range) {
        for (memory::Range const& part : copy.ranges) {
            std::memcpy(copy.to + part.offset, copy.from + part.offset, part.bytes);
        }
        complete_.push_back(copy.token);
        return true;
    }
    Line* const line = line_of(range->gpu);
    if (line == nullptr) return false;
    line->submit(copy, from && to && from->on == to->on);
    return true;
}

void GpuCopy::poll(std::vector<std::uint64_t>& complete, std::vector<FailedCopy>& failed) {
    complete.insert(complete.end(), complete_.begin(), complete_.end());
    complete_.clear();
    for (auto const& [gpu, lines] : lines_) {
        for (auto const& line : lines) line->poll(complete, failed);
    }
}

}  // namespace mgi::transport
