#include "limits/scatter.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace mgi::limits {

std::uint32_t best_segment_bytes(std::uint32_t fan_out) {
    return fan_out <= 16 ? 256u << 10 : 64u << 10;
}

std::uint32_t best_tile_rows(std::uint32_t fan_out) {
    return fan_out <= 16 ? 1024 : fan_out <= 64 ? 4096 : 8192;
}

std::uint32_t segment_rows(std::uint32_t bytes, std::uint32_t columns) {
    return std::max(64u, bytes / (columns * kWord) / 64 * 64);
}

void pin(std::uint32_t index) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    std::uint32_t const cpus = std::uint32_t(CPU_COUNT(&allowed));
    std::uint32_t left = index % std::max(1u, cpus);
    for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed) || left-- != 0) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

Scatter::Scatter(std::uint32_t fan_out, std::uint32_t tile_rows)
    : fan_out_(fan_out),
      tile_rows_(tile_rows),
      ops_(simd::tile_ops()),
      lane_(tile_rows + device::TileOps::kSlack),
      order_(tile_rows + device::TileOps::kSlack),
      first_(fan_out),
      end_(fan_out) {}

void Scatter::route(perf::Rows const& input, std::uint64_t at, std::uint32_t rows) {
    std::uint32_t const width = input.structs() ? input.columns() * kWord : kWord;
    input_ = &input;
    keys_ = reinterpret_cast<char const*>(input.words()) + at * width;
    rows_ = rows;
    ops_.route(keys_, width, rows, fan_out_, lane_.data());
}

void Scatter::count(perf::Rows const& input, std::uint64_t at, std::uint32_t rows,
                    std::vector<std::uint64_t>& counts) {
    route(input, at, rows);
    for (std::uint32_t i = 0; i < rows; ++i) ++counts[lane_[i]];
}

void Scatter::sort(perf::Rows const& input, std::uint64_t at, std::uint32_t rows) {
    route(input, at, rows);
    ops_.sort(lane_.data(), rows, fan_out_, order_.data(), first_.data(), end_.data());
}

void Scatter::copy(std::uint32_t k, std::uint32_t some, char* segment, std::uint64_t filled,
                   std::uint64_t stride) const {
    std::uint32_t const columns = input_->structs() ? 1 : input_->columns();
    std::uint32_t const width = input_->structs() ? input_->columns() * kWord : kWord;
    for (std::uint32_t c = 0; c < columns; ++c) {
        gather(segment + (c * stride * kWord) + (filled * width),
               keys_ + (c * input_->size() * kWord), k, some, width);
    }
}

void Scatter::gather(char* to, char const* from, std::uint32_t k, std::uint32_t some,
                     std::uint32_t width) const {
    std::uint16_t const* const order = order_.data() + k;
    if (std::has_single_bit(width) && width <= 64) {
        char const* const ahead = from + (std::uint64_t(rows_ + k) * width);
        return ops_.gather[device::log2_of(width)](to, from, order, some, ahead);
    }
    for (std::uint32_t i = 0; i < some; ++i) {
        std::memcpy(to + (std::uint64_t(i) * width), from + (std::uint64_t(order[i]) * width),
                    width);
    }
}

}  // namespace mgi::limits
