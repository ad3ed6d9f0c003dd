// Rows with more text than a segment of their channel holds. They go in pieces, by a channel of their own, and are put
// together where they arrive: into an image, which lies as a segment of one row would. So such a row takes memory once, at its
// destination, and no lane's segments have to be as large as it is.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <mgi/channel.hpp>

#include "operators/budget.hpp"
#include "operators/columns.hpp"

namespace mgi::operators {

// Where the columns of a row lie in its image: bits, values, and the characters of its long texts behind them.
class ImageForm {
public:
    explicit ImageForm(Schema const& schema);
    ImageForm(ImageForm const&) = delete;
    ImageForm& operator=(ImageForm const&) = delete;

    [[nodiscard]] device::SegmentLayout const& layout() const { return layout_; }

private:
    std::vector<device::ColumnLayout> columns_;
    device::SegmentLayout layout_;
};

// Puts together what comes to one endpoint. Thread-safe.
class ImageAssembler {
public:
    ImageAssembler(Schema const& schema, ImageForm const& form, Budget& budget)
        : schema_(schema), form_(form), budget_(budget) {}

    // Takes in a row of the channel of pieces. True when that completes a row, which is then `row`: the group that gets it
    // gives it back, or keeps it. Throws Error: OutOfMemory where the budget or the machine has no room for the row,
    // InvalidArgument for a piece of no row.
    bool take(device::ReceivedBatch const& piece, u32 i, device::ReceivedBatch& row);
    // Whether a batch is such a row.
    [[nodiscard]] static bool made(device::ReceivedBatch const& batch) {
        return batch.slot == kNoSlot;
    }
    void release(device::ReceivedBatch const& row);
    // As a batch of one row that owns its memory.
    [[nodiscard]] RecordBatch keep(device::ReceivedBatch const& row);

private:
    static constexpr u32 kNoSlot = ~0u;
    struct Image {
        Buffer memory;
        u64 left = 0;  // bytes that have not come
    };
    using Key = std::pair<u32, u64>;  // the source, and its number of the row
    using Images = std::map<Key, Image>;

    Image& image_of(Key const& key, u64 bytes);
    [[nodiscard]] Buffer take_out(device::ReceivedBatch const& row);

    Schema const& schema_;
    ImageForm const& form_;
    Budget& budget_;
    std::mutex mutex_;
    Images coming_;
    Images complete_;
};

// What all groups of a run share of the large rows of one of its channels.
class LargeRows {
public:
    // `rows`: the channel whose segments they do not fit; `endpoints`: its destinations of this process.
    LargeRows(Channel rows, Channel pieces, std::vector<Endpoint> const& endpoints, Budget& budget);

    static Schema const& piece_schema();

    [[nodiscard]] Channel const& pieces() const { return pieces_; }
    [[nodiscard]] ImageForm const& form() const { return form_; }
    [[nodiscard]] ImageAssembler& at(Endpoint endpoint) const {
        return *assemblers_.at(endpoint.id);
    }
    void count_one() { sent_.fetch_add(1, std::memory_order_relaxed); }
    // Rows that this process has sent.
    [[nodiscard]] u64 sent() const { return sent_.load(std::memory_order_relaxed); }

private:
    Channel rows_;  // whose schema the assemblers know
    Channel pieces_;
    ImageForm form_;
    std::map<u32, std::unique_ptr<ImageAssembler>> assemblers_;  // by endpoint
    std::atomic<u64> sent_{0};
};

// A channel of an operator, and the way of rows that do not fit its segments; none where all do.
struct Passage {
    Channel rows;
    std::shared_ptr<LargeRows> large;
};

// One group's sending of large rows, one after the other.
class LargeRowSender {
public:
    LargeRowSender(Passage const& passage, Endpoint endpoint)
        : large_(passage.large.get()),
          rows_(passage.rows.on(endpoint)),
          pieces_(large_->pieces().on(endpoint)),
          piece_bytes_(large_->pieces().plan().text_bytes) {}

    [[nodiscard]] bool idle() const { return spans_.empty(); }
    // Begins with the batch's first row, whose columns stay until it has gone. Throws Error(InvalidArgument) for a text
    // that is too long for Arrow's views, Error(Refused) for a row whose texts take 4 GiB together.
    void begin(device::Group const& group, device::Batch const& row);
    // Sends pieces of it as far as there is room; false when there was none. Throws Error.
    bool send(device::Group const& group, device::Shared& shared);
    // True once every piece stands in its receive queue; to be called until then. Throws Error.
    bool flush(device::Group const& group, device::Shared& shared);
    [[nodiscard]] bool flushed() const { return flushed_; }

private:
    void write_head(device::Batch const& row);
    [[nodiscard]] u32 destination_of(device::Batch const& row) const;
    [[nodiscard]] device::SendResult send_piece(device::Group const& group, device::Shared& shared,
                                                device::TextSpan const& bytes) const;

    LargeRows* large_;
    device::Channel rows_;
    device::Channel pieces_;
    u64 piece_bytes_;
    u64 number_ = 0;  // of the row among this group's
    u32 to_ = 0;      // its destination's endpoint
    u64 bytes_ = 0;   // of its image
    u64 sent_ = 0;
    std::vector<char> head_;  // the image up to its characters
    std::vector<device::TextSpan>
        spans_;             // what of the image has not gone: the head, and texts where they lie
    std::size_t next_ = 0;  // of the spans
    bool flushed_ = false;
};

// One group's receiving of large rows.
class LargeRowReceiver {
public:
    LargeRowReceiver(Passage const& passage, Endpoint endpoint)
        : large_(passage.large.get()),
          assembler_(&large_->at(endpoint)),
          pieces_(large_->pieces().on(endpoint)) {}

    // Takes in pieces until a row is complete, which it says; no more when there is nothing now, or nothing will come.
    // Throws Error.
    bool receive(device::Group const& group, device::Shared& shared, device::ReceivedBatch& row);
    [[nodiscard]] bool ended() const { return ended_; }
    [[nodiscard]] ImageAssembler& assembler() const { return *assembler_; }

private:
    LargeRows* large_;
    ImageAssembler* assembler_;
    device::Channel pieces_;
    // A batch of pieces that has completed a row, and how many of them were taken in.
    device::ReceivedBatch batch_;
    u32 taken_ = 0;
    bool ended_ = false;
};

}  // namespace mgi::operators
