#include "operators/join_directory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace mgi::operators {

namespace {

constexpr u64 kLeastSlots = 64;
// Hashes are told apart by 32 bits, of which a few must be left for the tag.
constexpr u64 kMostSlots = u64{1} << 28;

u64 slots_for(u64 rows) {
    return std::clamp(std::bit_ceil(rows), kLeastSlots, kMostSlots);
}

}  // namespace

u64 JoinDirectory::bytes(u64 rows) {
    u64 const slots = slots_for(rows);
    return (slots + kLine) * sizeof(u16) + slots / kLine * sizeof(u64);
}

void JoinDirectory::allocate(u64 rows, u32 parts) {
    slots_ = slots_for(rows);
    shift_ = 32 - u32(std::bit_width(slots_) - 1);
    parts_ = parts;
    entries_ = Buffer((slots_ + kLine) * sizeof(u16), true);
    lines_ = Buffer(slots_ / kLine * sizeof(u64), true);
    overflows_.resize(parts);
}

JoinDirectory::Part::Part(JoinDirectory& directory, u32 part)
    : entries_(directory.entries()),
      lines_(directory.lines_.as<u64>()),
      overflows_(&directory.overflows_[part]) {
    u64 const lines = directory.slots_ / kLine;
    first_ = lines * part / directory.parts_ * kLine;
    last_ = lines * (part + 1) / directory.parts_ * kLine;
}

u64 JoinDirectory::Part::rows_of(u64 line) const {
    u64 rows = 0;
    if (Overflow const* const counts = overflow(lines_[line])) {
        for (u64 const count : counts->ends) rows += count;
    } else {
        for (u64 i = 0; i < kLine; ++i) rows += entries_[line * kLine + i] >> kTagBits;
    }
    return rows;
}

bool JoinDirectory::Part::overflows() {
    for (u64 line = first_ / kLine; line < last_ / kLine; ++line) {
        if (rows_of(line) < kFull / kOne) continue;
        lines_[line] = std::bit_cast<u64>(&overflows_->emplace_back()) + 1;
    }
    return !overflows_->empty();
}

u64 JoinDirectory::Part::rows() const {
    u64 rows = 0;
    for (u64 line = first_ / kLine; line < last_ / kLine; ++line) rows += rows_of(line);
    return rows;
}

void JoinDirectory::Part::lay_out(u64 row) {
    for (u64 line = first_ / kLine; line < last_ / kLine; ++line) {
        // From here on a slot's end is where its next row goes; at last it is where its rows end.
        if (Overflow* const ends = overflow(lines_[line])) {
            ends->first = row;
            for (u64& end : ends->ends) row += std::exchange(end, row);
            continue;
        }
        lines_[line] = row << 1;
        u32 before = 0;
        for (u64 i = 0; i < kLine; ++i) {
            u16& entry = entries_[line * kLine + i];
            u32 const count = entry >> kTagBits;
            entry = u16(before << kTagBits | entry % kOne);
            before += count;
        }
        row += before;
    }
}

}  // namespace mgi::operators
