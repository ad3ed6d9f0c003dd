#include "operators/batch_builder.hpp"

#include <algorithm>

#include "core/block_cache.hpp"

namespace mgi::operators {

namespace {

constexpr u64 kBatchBytes = 2 * BlockCache::kHugePage;
constexpr u64 kFewestRows = u64{1} << 14;
constexpr u64 kMostRows = u64{1} << 18;
constexpr u64 kFirstBlock = u64{4} << 10;
constexpr u64 kLargestBlock = BlockCache::kHugePage;

u64 lines(u64 bytes) {
    return (bytes + 63) / 64 * 64;
}

u64 bytes_of_bits(u64 bits) {
    return (bits + 7) / 8;
}

// What keeps a finished batch alive.
struct BatchMemory {
    Buffer fixed;
    std::vector<Buffer> blocks;
};

}  // namespace

BatchBuilder::BatchBuilder(Schema schema, std::vector<bool> valid_bits, BatchRoom capacity,
                           Budget* budget)
    : schema_(std::move(schema)), capacity_(capacity.rows), budget_(budget) {
    u64 const bits = lines(bytes_of_bits(capacity_));
    for (u32 c = 0; c < schema_.size(); ++c) {
        Type const& type = schema_[c].type;
        Out& out = columns_.emplace_back();
        out.is_text = type.is_variable();
        out.width = type.row_width();
        out.valid_bits = valid_bits[c];
        if (out.valid_bits) {
            out.validity = fixed_bytes_;
            fixed_bytes_ += bits;
        }
        out.values = fixed_bytes_;
        fixed_bytes_ += out.width == 0 ? bits : lines(u64{capacity_} * out.width);
    }
    memory_ = counted(fixed_bytes_ + capacity.characters);
    if (capacity.characters != 0) fill_from(memory_.data() + fixed_bytes_, capacity.characters);
    clear_bits();
}

BatchRoom BatchBuilder::next_room() const {
    u64 lines_lost = 0;
    u64 row_bits = 0;
    for (Out const& out : columns_) {
        row_bits += (out.width == 0 ? 1 : u64{out.width} * 8) + (out.valid_bits ? 1 : 0);
        lines_lost += out.valid_bits ? 128 : 64;
    }
    u64 const used = text_addresses_.empty() ? 0 : u64(text_next_ - text_addresses_.back());
    u64 const characters = filled_ + used;
    // One in sixteen more than so far.
    u64 const text_bits = rows_ == 0 ? 0 : characters * 17 / 2 / rows_;
    u64 const rows =
        std::clamp((kBatchBytes - lines_lost) * 8 / (row_bits + text_bits), kFewestRows, kMostRows);
    // Wide rows: the rest of their texts goes into blocks.
    return {u32(rows), std::min(bytes_of_bits(rows * text_bits), kBatchBytes)};
}

void BatchBuilder::clear_bits() {
    u64 const bits = lines((u64{capacity_} + 7) / 8);
    for (Out const& out : columns_) {
        if (out.valid_bits) std::memset(memory_.data() + out.validity, 0, bits);
        if (out.width == 0) std::memset(memory_.data() + out.values, 0, bits);
    }
}

void BatchBuilder::clear() {
    rows_ = 0;
    clear_bits();
    text_addresses_.clear();
    text_sizes_.clear();
    filled_ = 0;
    if (!blocks_.empty()) {
        // The last block is the largest.
        blocks_.erase(blocks_.begin(), blocks_.end() - 1);
        block_bytes_ = blocks_.back().bytes();
        fill_from(blocks_.back().data(), blocks_.back().bytes());
    } else if (memory_.bytes() > fixed_bytes_) {
        fill_from(memory_.data() + fixed_bytes_, memory_.bytes() - fixed_bytes_);
    }
}

void BatchBuilder::fill_from(char* room, u64 bytes) {
    if (!text_addresses_.empty()) filled_ += u64(text_next_ - text_addresses_.back());
    text_addresses_.push_back(room);
    text_sizes_.push_back(static_cast<i64>(bytes));
    text_next_ = room;
    text_end_ = room + bytes;
}

void BatchBuilder::add_block(u32 least) {
    u64 const next = blocks_.empty() ? kFirstBlock : blocks_.back().bytes() * 4;
    blocks_.push_back(counted(std::max<u64>(least, std::min(next, kLargestBlock))));
    block_bytes_ += blocks_.back().bytes();
    fill_from(blocks_.back().data(), blocks_.back().bytes());
}

Buffer BatchBuilder::counted(u64 bytes) const {
    if (budget_ != nullptr) budget_->take(bytes);
    return {bytes, false};
}

std::vector<ColumnView> BatchBuilder::views() const {
    std::vector<ColumnView> views(columns_.size());
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        Out const& out = columns_[c];
        views[c].values = memory_.data() + out.values;
        if (out.valid_bits) {
            views[c].validity = reinterpret_cast<u8 const*>(memory_.data() + out.validity);
        }
        if (out.is_text) {
            views[c].encoding = device::InputEncoding::Views;
            views[c].buffers = text_addresses_.data();
        }
    }
    return views;
}

RecordBatch BatchBuilder::finish() {
    RecordBatch batch;
    batch.schema = schema_;
    batch.rows = rows_;
    auto memory = std::make_shared<BatchMemory>();
    for (Out& out : columns_) {
        Column& column = batch.columns.emplace_back();
        column.values = memory_.data() + out.values;
        if (out.valid_bits) {
            column.validity = reinterpret_cast<u8 const*>(memory_.data() + out.validity);
        }
        if (!out.is_text) continue;
        column.encoding = Encoding::Views;
        for (std::size_t b = 0; b < text_addresses_.size(); ++b) {
            column.buffers.push_back(reinterpret_cast<std::byte const*>(text_addresses_[b]));
        }
        column.buffer_sizes = text_sizes_;
    }
    memory->fixed = std::move(memory_);
    memory->blocks = std::move(blocks_);
    batch.owner = std::move(memory);
    return batch;
}

}  // namespace mgi::operators
