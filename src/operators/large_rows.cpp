#include "operators/large_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "operators/message.hpp"
#include "operators/run.hpp"

namespace mgi::operators {

namespace {

// Columns of the channel of pieces.
constexpr u32 kNumber = 0;
constexpr u32 kAt = 1;
constexpr u32 kImageBytes = 2;
constexpr u32 kBytes = 3;

constexpr u64 kAlignment = 64;  // as in segments; what Arrow recommends

u64 aligned(u64 offset) {
    return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

device::Storage storage_of(Type const& type) {
    if (type.is_variable()) return device::Storage::Views;
    return type.id == TypeId::Bool ? device::Storage::Bits : device::Storage::Fixed;
}

}  // namespace

ImageForm::ImageForm(Schema const& schema) : columns_(schema.size()) {
    u64 end = 0;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        device::ColumnLayout& column = columns_[c];
        column.storage = storage_of(schema[c].type);
        column.width = schema[c].type.row_width();
        column.stride = column.width;
        if (schema[c].nullable) {
            column.validity = u32(end);
            end += sizeof(u64);
        }
        if (column.storage != device::Storage::Bits) continue;
        column.offset = u32(end);
        end += sizeof(u64);
    }
    layout_.bit_bytes = u32(end);
    for (device::ColumnLayout& column : columns_) {
        if (column.storage == device::Storage::Bits) continue;
        column.offset = u32(aligned(end));
        end = column.offset + u64{column.width};
        layout_.has_views |= column.storage == device::Storage::Views;
    }
    layout_.columns = columns_.data();
    layout_.column_count = u32(columns_.size());
    layout_.rows = 1;
    layout_.bytes_offset = u32(aligned(end));
}

ImageAssembler::Image& ImageAssembler::image_of(Key const& key, u64 bytes) {
    auto const found = coming_.find(key);
    if (found != coming_.end()) {
        if (found->second.memory.bytes() != bytes) MessageReader::refuse();
        return found->second;
    }
    if (bytes < form_.layout().bytes_offset) MessageReader::refuse();
    budget_.take(bytes);
    try {
        return coming_.emplace(key, Image{Buffer(bytes, false), bytes}).first->second;
    } catch (...) {
        budget_.give(bytes);
        throw;
    }
}

bool ImageAssembler::take(device::ReceivedBatch const& piece, u32 i, device::ReceivedBatch& row) {
    Key const key{piece.source, piece.column<u64>(kNumber)[i]};
    u64 const at = piece.column<u64>(kAt)[i];
    u64 const all = piece.column<u64>(kImageBytes)[i];
    Text const bytes = piece.text(kBytes, i);
    if (at > all || bytes.size > all - at) MessageReader::refuse();
    char* to = nullptr;
    {
        std::lock_guard const lock(mutex_);
        to = image_of(key, all).memory.data() + at;
    }
    // Other groups write other parts of the same image meanwhile.
    std::memcpy(to, bytes.data, bytes.size);
    std::lock_guard const lock(mutex_);
    auto const image = coming_.find(key);
    if (bytes.size > image->second.left) MessageReader::refuse();
    image->second.left -= bytes.size;
    if (image->second.left != 0) return false;
    row = {};
    row.segment = image->second.memory.data();
    row.layout = &form_.layout();
    row.rows = 1;
    row.source = key.first;
    row.slot = kNoSlot;
    row.sequence = key.second;
    row.whole = true;
    complete_.insert(coming_.extract(image));
    return true;
}

Buffer ImageAssembler::take_out(device::ReceivedBatch const& row) {
    std::lock_guard const lock(mutex_);
    return std::move(complete_.extract(Key{row.source, row.sequence}).mapped().memory);
}

void ImageAssembler::release(device::ReceivedBatch const& row) {
    budget_.give(take_out(row).bytes());
}

// What it takes stays counted: it is part of the result.
RecordBatch ImageAssembler::keep(device::ReceivedBatch const& row) {
    auto const memory = std::make_shared<Buffer>(take_out(row));
    char* const image = memory->data();
    RecordBatch batch;
    batch.schema = schema_;
    batch.rows = 1;
    device::SegmentLayout const& layout = form_.layout();
    for (u32 c = 0; c < layout.column_count; ++c) {
        device::ColumnLayout const& from = layout.columns[c];
        Column& to = batch.columns.emplace_back();
        to.values = image + from.offset;
        if (from.nullable()) to.validity = reinterpret_cast<u8 const*>(image + from.validity);
        if (from.storage != device::Storage::Views) continue;
        to.encoding = Encoding::Views;
        // Each column has a buffer of its own: a view reaches 2 GiB into it.
        auto& view = *reinterpret_cast<device::StringView16*>(image + from.offset);
        char const* characters = image + layout.bytes_offset;
        bool const is_long = view.length > device::StringView16::kInline;
        if (is_long) characters += std::exchange(view.ref.offset, 0);
        to.buffers = {reinterpret_cast<std::byte const*>(characters)};
        to.buffer_sizes = {is_long ? i64{view.length} : 0};
    }
    batch.owner = memory;
    return batch;
}

LargeRows::LargeRows(Channel rows, Channel pieces, std::vector<Endpoint> const& endpoints,
                     Budget& budget)
    : rows_(std::move(rows)), pieces_(std::move(pieces)), form_(rows_.schema()) {
    for (Endpoint const& endpoint : endpoints) {
        assemblers_.emplace(endpoint.id,
                            std::make_unique<ImageAssembler>(rows_.schema(), form_, budget));
    }
}

Schema const& LargeRows::piece_schema() {
    static Schema const schema{
        {"row", uint64()}, {"at", uint64()}, {"image_bytes", uint64()}, {"bytes", binary()}};
    return schema;
}

void LargeRowSender::write_head(device::Batch const& row) {
    device::SegmentLayout const& layout = large_->form().layout();
    head_.assign(layout.bytes_offset, 0);
    bytes_ = layout.bytes_offset;
    spans_.push_back({reinterpret_cast<std::uintptr_t>(head_.data()), bytes_});
    for (u32 c = 0; c < layout.column_count; ++c) {
        device::ColumnLayout const& column = layout.columns[c];
        if (column.nullable() && row.valid(c, 0)) head_[column.validity] = 1;
        char* const to = head_.data() + column.offset;
        if (column.storage == device::Storage::Bits) {
            *to = row.bit(column, c, 0) ? 1 : 0;
        } else if (column.storage == device::Storage::Fixed) {
            std::memcpy(to, row.fixed(column, c, 0), column.width);
        } else {
            Text const text = row.text(column, c, 0);
            if (text.size > kLongestText) refuse_text(text.size);
            device::StringView16 view;
            view.length = text.size;
            if (text.size <= device::StringView16::kInline) {
                if (text.size != 0) std::memcpy(view.text, text.data, text.size);
            } else {
                std::memcpy(view.ref.prefix, text.data, sizeof(view.ref.prefix));
                view.ref.buffer = 0;
                // What the row has too much is found below.
                view.ref.offset = u32(bytes_ - layout.bytes_offset);
                spans_.push_back({reinterpret_cast<std::uintptr_t>(text.data), text.size});
                bytes_ += text.size;
            }
            std::memcpy(to, &view, sizeof(view));
        }
    }
}

void LargeRowSender::begin(device::Group const& group, device::Batch const& row) {
    spans_.clear();
    next_ = 0;
    write_head(row);
    u64 const texts = bytes_ - head_.size();
    if (texts > std::numeric_limits<u32>::max()) {
        spans_.clear();
        throw Error(ErrorCode::Refused, "channel '" + large_->pieces().name() +
                                            "': a row's texts take " + std::to_string(texts) +
                                            " bytes together; they may take 4 GiB, and each of "
                                            "them 2 GiB: cut it into several rows");
    }
    number_ = u64{group.block} << 32 | u32(number_ + 1);
    sent_ = 0;
    to_ = destination_of(row);
}

// The endpoint that the routing names; any where rows go to all.
u32 LargeRowSender::destination_of(device::Batch const& row) const {
    auto& state = rows_.state();
    std::array<u16, 1 + device::TileOps::kSlack> lane{};
    if (state.lane_count > 1) {
        device::route_rows(device::Group{}, device::Router(state), state, state.layout, row, 0, 1,
                           lane.data());
    }
    return state.destination_ids[lane[0]];
}

device::SendResult LargeRowSender::send_piece(device::Group const& group, device::Shared& shared,
                                              device::TextSpan const& bytes) const {
    std::array<ColumnView, 4> columns;
    columns[kNumber].values = &number_;
    columns[kAt].values = &sent_;
    columns[kImageBytes].values = &bytes_;
    columns[kBytes].values = &bytes;
    columns[kBytes].encoding = device::InputEncoding::Spans;
    device::Batch piece;
    piece.columns = columns.data();
    piece.count = 1;
    if (!pieces_.state().own_lanes()) return pieces_.send(group, shared, piece);
    return pieces_.send_to(group, shared, to_, piece);
}

bool LargeRowSender::send(device::Group const& group, device::Shared& shared) {
    bool moved = false;
    while (next_ < spans_.size()) {
        device::TextSpan& span = spans_[next_];
        device::TextSpan const piece{span.begin, std::min(span.size, piece_bytes_)};
        device::SendResult const result = send_piece(group, shared, piece);
        if (result.status == device::Status::Error) throw_failure(large_->pieces(), result.code);
        if (result.rows == 0) return moved;
        moved = true;
        sent_ += piece.size;
        span.begin += piece.size;
        span.size -= piece.size;
        if (span.size == 0) ++next_;
    }
    spans_.clear();
    large_->count_one();
    return moved;
}

bool LargeRowSender::flush(device::Group const& group, device::Shared& shared) {
    if (flushed_) return true;
    device::CallResult const result = pieces_.flush(group, shared);
    if (result == device::Status::Error) throw_failure(large_->pieces(), result.code);
    flushed_ = result == device::Status::Ok;
    return flushed_;
}

bool LargeRowReceiver::receive(device::Group const& group, device::Shared& shared,
                               device::ReceivedBatch& row) {
    while (!ended_) {
        if (taken_ == batch_.rows) {
            device::CallResult const result = pieces_.recv(group, shared, batch_);
            taken_ = 0;
            if (result == device::Status::Ok) continue;
            batch_ = {};
            if (result == device::Status::Error) throw_failure(large_->pieces(), result.code);
            ended_ = result == device::Status::End;
            return false;
        }
        bool const complete = assembler_->take(batch_, taken_++, row);
        if (taken_ == batch_.rows) pieces_.release(group, shared, batch_);
        if (complete) return true;
    }
    return false;
}

}  // namespace mgi::operators
