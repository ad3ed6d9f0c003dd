#include "operators/batch_builder.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

constexpr u64 kBatchBytes = u64{4} << 20;
constexpr u64 kFirstBlock = u64{4} << 10;
constexpr u64 kLargestBlock = u64{2} << 20;

u64 lines(u64 bytes) {
    return (bytes + 63) / 64 * 64;
}

// What keeps a finished batch alive.
struct BatchMemory {
    Buffer fixed;
    std::vector<Buffer> texts;
};

}  // namespace

u32 result_batch_rows(Schema const& schema) {
    u64 row = 0;
    for (Field const& field : schema.fields()) row += field.type.row_width() + 1;
    return static_cast<u32>(std::clamp<u64>(kBatchBytes / row, u64{1} << 14, u64{1} << 18));
}

BatchBuilder::BatchBuilder(Schema schema, std::vector<bool> valid_bits, u32 capacity)
    : schema_(std::move(schema)), capacity_(capacity) {
    u64 const bits = lines((u64{capacity} + 7) / 8);
    u64 bytes = 0;
    for (u32 c = 0; c < schema_.size(); ++c) {
        Type const& type = schema_[c].type;
        Out& out = columns_.emplace_back();
        out.is_text = type.is_variable();
        out.width = type.row_width();
        out.valid_bits = valid_bits[c];
        if (out.valid_bits) {
            out.validity = bytes;
            bytes += bits;
        }
        out.values = bytes;
        bytes += out.width == 0 ? bits : lines(u64{capacity} * out.width);
    }
    memory_ = Buffer(bytes, false);
    clear_bits();
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
    text_bytes_ = 0;
    clear_bits();
    for (Out& out : columns_) {
        // The last block is the largest.
        if (out.blocks.size() > 1) out.blocks.erase(out.blocks.begin(), out.blocks.end() - 1);
        out.addresses.clear();
        for (Buffer const& block : out.blocks) {
            out.addresses.push_back(block.data());
            text_bytes_ += block.bytes();
        }
        out.used = 0;
    }
}

char* BatchBuilder::room_for_text(Out& out, u32 size) {
    if (out.blocks.empty() || out.blocks.back().bytes() - out.used < size) {
        u64 const next = out.blocks.empty() ? kFirstBlock : out.blocks.back().bytes() * 4;
        out.blocks.emplace_back(std::max<u64>(size, std::min(next, kLargestBlock)), false);
        out.addresses.push_back(out.blocks.back().data());
        out.used = 0;
        text_bytes_ += out.blocks.back().bytes();
    }
    char* const at = out.blocks.back().data() + out.used;
    out.used += size;
    return at;
}

void BatchBuilder::put_long_text(Out& out, char* to, RowText const& text) {
    using device::StringView16;
    static_assert(sizeof(StringView16) == sizeof(RowText));
    static_assert(StringView16::kInline == RowText::kInline);
    char* const at = room_for_text(out, text.size);
    copy_long(at, text.data, text.size);
    StringView16 view;
    view.length = text.size;
    std::memcpy(view.ref.prefix, text.prefix, sizeof(view.ref.prefix));
    view.ref.buffer = static_cast<u32>(out.blocks.size() - 1);
    view.ref.offset = static_cast<u32>(at - out.blocks.back().data());
    std::memcpy(to, static_cast<void const*>(&view), sizeof(view));
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
            views[c].buffers = out.addresses.data();
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
        for (Buffer& block : out.blocks) {
            column.buffers.push_back(reinterpret_cast<std::byte const*>(block.data()));
            column.buffer_sizes.push_back(static_cast<i64>(block.bytes()));
            memory->texts.push_back(std::move(block));
        }
    }
    memory->fixed = std::move(memory_);
    batch.owner = std::move(memory);
    return batch;
}

}  // namespace mgi::operators
