#include "hostile/ledger.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

namespace mgi::hostile {

using device::RoutingKind;

namespace {}  // namespace

Ledger::Ledger(Shape const& shape)
    : shape_(shape),
      one_queue_(shape.channel.routing == RoutingKind::Balance && shape.channel.by_reference) {
    test::Random random(shape.seed * 31 + 7);
    test::DataShape data;
    data.keys = static_cast<test::Keys>(random.below(4));
    data.longest_text = 40;
    data.nulls = shape.structs ? 0 : 4;
    for (std::uint32_t s = 0; s < shape.channel.sources; ++s) {
        for (std::uint32_t g = 0; g < shape.groups; ++g) {
            Offer& offer = offers_.emplace_back();
            offer.source = s;
            offer.first_id = encoded_.size();
            auto const count = static_cast<std::size_t>(random.below(shape.most_rows + 1));
            offer.rows = test::random_rows(shape.schema, count, random, data);
            offer.sent_to.resize(count, kByRouting);
            for (test::Row& row : offer.rows) {
                row[1] = test::cell(static_cast<std::int64_t>(encoded_.size()));
                encoded_.push_back(test::encode(row));
            }
        }
    }
    at_.resize(shape.channel.destinations);
    for (Destination& destination : at_) {
        destination.queued = std::make_unique<Mark[]>(encoded_.size());
        destination.arrived = std::make_unique<Mark[]>(encoded_.size());
        destination.last.resize(offers_.size());
    }
}

Ledger::Offer const& Ledger::offer_of(std::uint64_t id) const {
    std::size_t o = offers_.size() - 1;
    while (offers_[o].first_id > id) --o;
    return offers_[o];
}

std::string Ledger::name(std::uint64_t id) const {
    Offer const& offer = offer_of(id);
    auto const group = static_cast<std::uint64_t>(&offer - offers_.data()) % shape_.groups;
    return "row " + std::to_string(id - offer.first_id) + " of source " +
           std::to_string(offer.source) + ", group " + std::to_string(group);
}

std::uint64_t Ledger::id_of(device::ReceivedBatch const& batch, std::uint32_t row) {
    std::uint64_t id = 0;
    std::memcpy(&id, batch.value(1, row), sizeof(id));
    return id;
}

void Ledger::queued(std::uint32_t destination, std::uint64_t id) {
    if (id < encoded_.size()) at_[destination].queued[id].store(1, std::memory_order_relaxed);
}

void Ledger::arrived(std::uint32_t destination, device::ReceivedBatch const& batch,
                     std::uint32_t row) {
    std::uint64_t const id = id_of(batch, row);
    std::string const where = " at destination " + std::to_string(destination);
    if (id >= encoded_.size()) throw Broken("a row that nobody sent arrived" + where);
    if (batch.source != offer_of(id).source) {
        throw Broken(name(id) + " came from source " + std::to_string(batch.source) + where);
    }
    if (test::encode_row(batch, shape_.schema, row) != encoded_[id]) {
        throw Broken(name(id) + " arrived changed" + where);
    }
    Mark& mark = at_[destination].arrived[id];
    if (mark.load(std::memory_order_relaxed) != 0)
        throw Broken(name(id) + " arrived twice" + where);
    if (at_[one_queue_ ? 0 : destination].queued[id].load(std::memory_order_relaxed) == 0) {
        throw Broken(name(id) + " arrived without having been in the queue" + where);
    }
    mark.store(1, std::memory_order_relaxed);
}

void Ledger::arrived_next(std::uint32_t destination, std::uint64_t id) {
    Destination& here = at_[destination];
    Offer const& offer = offer_of(id);
    std::uint64_t& last = here.last[static_cast<std::size_t>(&offer - offers_.data())];
    if (id < last) {
        throw Broken(name(id) + " arrived after " + name(last - 1) + " at destination " +
                     std::to_string(destination));
    }
    last = id + 1;
    here.order.push_back(id);
}

std::uint32_t Ledger::places(std::uint64_t id, bool in_queue) const {
    std::uint32_t count = 0;
    for (Destination const& destination : at_) {
        auto const& marks = in_queue ? destination.queued : destination.arrived;
        count += marks[id].load(std::memory_order_relaxed);
    }
    return count;
}

std::uint32_t Ledger::wanted(Offer const& offer, std::uint64_t index) const {
    bool const all = shape_.channel.routing == RoutingKind::Broadcast;
    return all && offer.sent_to[index] == kByRouting ? shape_.channel.destinations : 1;
}

std::uint64_t Ledger::arrivals() const {
    std::uint64_t sum = 0;
    for (Offer const& offer : offers_) {
        for (std::uint64_t i = 0; i < offer.rows.size(); ++i) sum += wanted(offer, i);
    }
    return sum;
}

void Ledger::check_delivered(Offer const& offer, std::uint64_t count) const {
    for (std::uint64_t i = 0; i < count; ++i) {
        std::uint64_t const id = offer.first_id + i;
        if (places(id, true) == wanted(offer, i)) continue;
        throw Broken("a flush was done, but " + name(id) + " stands in " +
                     std::to_string(places(id, true)) + " receive queues, not in " +
                     std::to_string(wanted(offer, i)));
    }
}

void Ledger::check_one_arrived(Offer const& offer, std::uint64_t index) const {
    std::uint64_t const id = offer.first_id + index;
    if (places(id, false) != wanted(offer, index)) {
        throw Broken(name(id) + " arrived at " + std::to_string(places(id, false)) +
                     " destinations, not at " + std::to_string(wanted(offer, index)));
    }
    if (offer.sent_to[index] == kByRouting) return;
    if (at_[offer.sent_to[index]].arrived[id].load(std::memory_order_relaxed) == 0) {
        throw Broken(name(id) + " did not arrive at destination " +
                     std::to_string(offer.sent_to[index]) + ", to which it was sent");
    }
}

void Ledger::check_keys_together() const {
    std::map<std::string, std::size_t> destination_of;
    for (Offer const& offer : offers_) {
        for (std::uint64_t i = 0; i < offer.accepted; ++i) {
            if (offer.sent_to[i] != kByRouting) continue;
            test::Row key;
            for (std::uint32_t const k : shape_.channel.keys) key.push_back(offer.rows[i][k]);
            std::size_t d = 0;
            while (at_[d].arrived[offer.first_id + i].load(std::memory_order_relaxed) == 0) ++d;
            auto const [at, fresh] = destination_of.emplace(test::encode(key), d);
            if (at->second == d) continue;
            throw Broken(name(offer.first_id + i) + " arrived at destination " + std::to_string(d) +
                         ", others of its key at " + std::to_string(at->second));
        }
    }
}

void Ledger::check_all_arrived() const {
    for (Offer const& offer : offers_) {
        if (offer.accepted != offer.rows.size()) {
            throw Broken("all has ended although source " + std::to_string(offer.source) +
                         " took only " + std::to_string(offer.accepted) + " of " +
                         std::to_string(offer.rows.size()) + " rows of a group");
        }
        for (std::uint64_t i = 0; i < offer.accepted; ++i) check_one_arrived(offer, i);
    }
    if (shape_.channel.routing == RoutingKind::Partition) check_keys_together();
    if (shape_.channel.ordered && shape_.channel.routing == RoutingKind::Broadcast) {
        auto const for_all = [this](std::uint64_t id) {
            Offer const& offer = offer_of(id);
            return offer.sent_to[id - offer.first_id] == kByRouting;
        };
        auto const order_of = [&](Destination const& destination) {
            std::vector<std::uint64_t> ids;
            std::copy_if(destination.order.begin(), destination.order.end(),
                         std::back_inserter(ids), for_all);
            return ids;
        };
        for (Destination const& destination : at_) {
            if (order_of(destination) == order_of(at_[0])) continue;
            throw Broken("two destinations of an ordered broadcast saw two orders");
        }
    }
}

}  // namespace mgi::hostile
