// The sending half of one wire: frames in the order in which they are written, kept until they are
// acknowledged.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mover/link/codec.hpp"
#include "mover/link/frame.hpp"
#include "mover/link/types.hpp"
#include "mover/link/word_book.hpp"

namespace mgi::mover::link {

// A transfer on a wire.
struct Flight {
    Transfer transfer;
    bool own = true;  // on a NIC of its source's own device; else what it takes is lent
};

class WireSender {
public:
    // Of a new wire. `checksums`: of segments' bytes. Segments go by `codec`, which the other end knows by
    // `number`, and as they lie where that is null; it outlives the wire.
    void restart(bool checksums, std::uint16_t number = 0, Codec const* codec = nullptr);

    void add(Flight flight);
    void add(WordName const& name, Word word);
    // Nothing but a last word goes out any more. False: a segment is half written, whose memory is no
    // longer there, so not even that.
    [[nodiscard]] bool end_with(std::uint64_t code, std::string text);
    // Another acknowledgement takes the place of one that has not been written yet.
    void acknowledge(std::uint64_t frames, std::uint64_t bytes);

    // See WireClient. At most `pieces.size()` pieces and kAtOnce bytes or a frame.
    std::size_t gather(std::span<iovec> pieces, Time now);
    void sent(std::size_t bytes);

    // A frame that the other end has.
    struct Done {
        std::optional<Flight> flight;  // else it was a word
        WordName word;
        std::uint64_t value = 0;
        std::uint64_t bytes = 0;
        Time started = 0;
        std::uint64_t acknowledged_at_start = 0;  // bytes of this wire when it was begun
        bool busy_at_start = false;               // there was something on its way already
    };
    // Takes in what the other end says has arrived; false: it cannot be (more than was sent, or less
    // than was said before).
    [[nodiscard]] bool acknowledged(std::uint64_t frames, std::uint64_t bytes,
                                    std::vector<Done>& done);

    // What a wire that is dead leaves behind. Flights that were begun may still land.
    struct Remains {
        std::deque<std::pair<std::uint64_t, Flight>> begun;  // with their numbers
        std::deque<Flight> waiting;
        std::vector<WordName> words;
        std::uint64_t written = 0;  // numbered frames handed over whole
    };
    [[nodiscard]] Remains take_remains();

    // Of the numbered frames given to this wire that the other end has not acknowledged.
    [[nodiscard]] std::uint64_t in_flight() const { return in_flight_; }
    [[nodiscard]] bool is_written() const { return stream_.empty() && !has_next(); }
    [[nodiscard]] std::uint64_t acknowledged_bytes() const { return acknowledged_bytes_; }

    static constexpr std::size_t kAtOnce = 1U << 20;

private:
    struct Frame {
        Header header;
        std::optional<Flight> flight;
        WordName name;
        std::string text;
        std::vector<char> encoded;  // a segment by a codec
        Time started = 0;
        std::uint64_t acknowledged_at_start = 0;
        bool busy_at_start = false;
        [[nodiscard]] std::size_t size() const { return kHeaderBytes + header.bytes; }
    };
    [[nodiscard]] bool has_next() const {
        return ack_.has_value() || bye_.has_value() || !words_.empty() || !waiting_.empty();
    }
    void begin_next(Time now);
    void begin_word(Frame& frame);
    void begin_flight(Frame& frame);
    void encode(Frame& frame);
    void keep_encoded();
    std::size_t pieces_of(Frame const& frame, std::size_t skip, std::span<iovec> pieces) const;

    bool checksums_ = false;
    std::uint16_t number_ = 0;
    Codec const* codec_ = nullptr;
    std::optional<std::pair<std::uint64_t, std::uint64_t>> ack_;
    std::optional<std::pair<std::uint64_t, std::string>> bye_;
    std::deque<std::pair<WordName, Word>> words_;
    std::deque<Flight> waiting_;
    std::deque<Frame> stream_;  // begun: these bytes are next, from `offset_` of the first one
    std::deque<Frame> unacknowledged_;  // numbered, written whole
    // What stays for who moves the bytes until the wire is gone, which is before the next one ends.
    std::vector<std::vector<char>> left_;
    std::size_t offset_ = 0;
    std::uint64_t last_number_ = 0;     // of a frame that was begun
    std::uint64_t written_number_ = 0;  // of the last one written whole
    std::uint64_t acknowledged_number_ = 0;
    std::uint64_t in_flight_ = 0;
    std::uint64_t stream_bytes_ = 0;
    std::uint64_t written_bytes_ = 0;
    std::uint64_t acknowledged_bytes_ = 0;
};

}  // namespace mgi::mover::link
