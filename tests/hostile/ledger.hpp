/// \file
/// What every row of a run is, and what became of it: offered, in a receive queue, arrived.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hostile/shape.hpp"
#include "support/tables.hpp"

namespace mgi::hostile {

/// A promise was broken.
struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Marks are relaxed words: fibers tell each other nothing through the ledger.
class Ledger {
public:
    explicit Ledger(Shape const& shape);

    static constexpr std::uint32_t kByRouting = ~std::uint32_t(0);

    /// Rows that a source's group offers; their numbers follow each other from `first_id`.
    struct Offer {
        std::uint32_t source = 0;
        std::uint64_t first_id = 0;
        std::vector<test::Row> rows;
        // Written by the group's leader, read when all has ended.
        std::uint64_t accepted = 0;
        std::vector<std::uint32_t>
            sent_to;  ///< by row: the destination that was named, or kByRouting
    };
    [[nodiscard]] Offer& offer(std::uint32_t source, std::uint32_t group) {
        return offers_[source * shape_.groups + group];
    }
    [[nodiscard]] Offer const& offer_of(std::uint64_t id) const;

    /// The row stands in a destination's receive queue.
    void queued(std::uint32_t destination, std::uint64_t id);
    /// A group has the row in its hands: nobody had it before, and it is what was offered.
    void arrived(std::uint32_t destination, device::ReceivedBatch const& batch, std::uint32_t row);
    /// The one consumer of an ordered channel's destination has the row next.
    void arrived_next(std::uint32_t destination, std::uint64_t id);
    static std::uint64_t id_of(device::ReceivedBatch const& batch, std::uint32_t row);

    /// A flush was done: the offer's first `count` rows stand in receive queues.
    void check_delivered(Offer const& offer, std::uint64_t count) const;
    /// All has ended well: every accepted row has arrived, where it belongs.
    void check_all_arrived() const;
    /// Rows that destinations receive in all.
    [[nodiscard]] std::uint64_t arrivals() const;

private:
    using Mark = std::atomic<std::uint8_t>;
    struct Destination {
        std::unique_ptr<Mark[]> queued;   ///< by id
        std::unique_ptr<Mark[]> arrived;  ///< by id
        /// By offer: number of the last row of it, plus 1. Of the one consumer of an ordered channel.
        std::vector<std::uint64_t> last;
        std::vector<std::uint64_t> order;  ///< ids as they came
    };
    [[nodiscard]] std::string name(std::uint64_t id) const;
    [[nodiscard]] std::uint32_t places(std::uint64_t id, bool in_queue) const;
    /// How many destinations a row is for, which are the one that was named or those of the routing.
    [[nodiscard]] std::uint32_t wanted(Offer const& offer, std::uint64_t index) const;
    void check_one_arrived(Offer const& offer, std::uint64_t index) const;
    void check_keys_together() const;

    Shape const& shape_;
    bool const one_queue_;  ///< Balance by reference: all destinations share it
    std::vector<Offer> offers_;
    std::vector<std::string> encoded_;  ///< by id
    std::vector<Destination> at_;
};

}  // namespace mgi::hostile
