#include "peers/messages.hpp"

#include <cstring>

namespace mgi::peers {
namespace {

perf::Buffer<char> empty_ring(Segments const& segments) {
    auto memory = perf::make_buffer<char>(Ring::bytes(segments));
    std::memset(memory.get(), 0, Ring::bytes(segments));
    return memory;
}

}  // namespace

Messages::Messages(Options const& options)
    : options_(options),
      segments_(options),
      out_(perf::make_buffer<char>(std::uint64_t(count()) * (kHead + segments_.bytes))),
      in_(perf::make_buffer<char>(std::uint64_t(count()) * (kHead + segments_.bytes))),
      next_out_(options.processes),
      next_in_(options.processes),
      own_(empty_ring(segments_)),
      own_out_(own_.get(), segments_),
      own_in_(own_.get(), segments_) {}

void Messages::barrier() {
    if (!expects_ && options_.receives()) {
        for (std::uint32_t from = 0; from < options_.sources; ++from) {
            if (from == options_.rank) continue;
            for (std::uint32_t slot = 0; slot < segments_.slots; ++slot) expect(from, slot);
        }
    }
    expects_ = true;
    meet();
}

char* Messages::open(std::uint32_t to) {
    if (to == options_.rank) return own_out_.open();
    std::uint32_t const mine = number(to, next_out_[to]);
    return sent(mine) ? message(out_, mine) + kHead : nullptr;
}

void Messages::publish(std::uint32_t to, std::uint32_t rows, bool last) {
    if (to == options_.rank) return own_out_.publish(rows, last);
    std::uint32_t const mine = number(to, next_out_[to]++);
    Head const head{rows, last ? 1u : 0u};
    std::memcpy(message(out_, mine), &head, sizeof(head));
    start_send({mine, to, message(out_, mine), kHead + used_bytes(rows)});
}

std::optional<Carrier::Arrived> Messages::arrived(std::uint32_t from) {
    if (from == options_.rank) return own_in_.arrived();
    std::uint32_t const mine = number(from, next_in_[from]);
    if (!received(mine)) return std::nullopt;
    Head head;
    std::memcpy(&head, message(in_, mine), sizeof(head));
    return Arrived{message(in_, mine) + kHead, head.rows, head.last != 0};
}

void Messages::release(std::uint32_t from) {
    if (from == options_.rank) return own_in_.release();
    expect(from, next_in_[from]++);
}

bool Messages::all_left() {
    bool all = true;
    for (std::uint32_t mine = 0; mine < count(); ++mine) all = sent(mine) && all;
    return all;
}

std::uint32_t Messages::used_bytes(std::uint32_t rows) const {
    if (rows == 0) return 0;
    if (options_.rows.layout == Layout::Rows) return rows * options_.rows.row_bytes;
    return (((options_.columns() - 1) * segments_.rows) + rows) * 8;
}

void Messages::expect(std::uint32_t from, std::uint64_t next) {
    std::uint32_t const mine = number(from, next);
    start_receive({mine, from, message(in_, mine), kHead + segments_.bytes});
}

}  // namespace mgi::peers
