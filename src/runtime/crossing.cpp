#include "runtime/crossing.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>

#include "core/log.hpp"
#include "runtime/channel_impl.hpp"
#include "runtime/counters.hpp"
#include "transport/wire/crypto.hpp"

namespace mgi {

namespace {

constexpr std::chrono::milliseconds kLook{1};
// For a failure's words, so that others hear why.
constexpr std::chrono::milliseconds kLastWords{500};

}  // namespace

Terms Terms::of(Plan const& plan) {
    Terms terms;
    terms.plan = plan;
    transport::wire::fill_random(terms.secret);
    std::array<std::uint8_t, sizeof(terms.number)> number{};
    transport::wire::fill_random(number);
    std::memcpy(&terms.number, number.data(), number.size());
    return terms;
}

Crossing::Crossing(ChannelImpl& channel, ChannelNetwork& network, Terms const& terms,
                   MemberAddresses const& addresses)
    : channel_(channel),
      network_(network),
      terms_(terms),
      own_addresses_(network.addresses()),
      nics_(network.nics()) {
    PartMembers const& members = channel.part()->members();
    std::vector<mover::ChannelPeer> ends;
    for (std::uint32_t m = 0; m < members.count; ++m) {
        if (members.is_here(m)) continue;
        mover::ChannelPeer end;
        end.name = members.name(m);
        end.server = members.server[m];
        for (std::uint32_t s = 0; s < members.source_member.size(); ++s) {
            std::uint32_t const by = channel.mover_of(s);
            for (std::uint32_t d = 0; d < members.destination_member.size(); ++d) {
                std::uint32_t const to = members.destination_member[d];
                if (by == members.me && to == m) end.out.emplace_back(s, d);
                if (by == m && to == members.me) end.in.emplace_back(s, d);
            }
        }
        if (end.out.empty() && end.in.empty()) continue;
        peers_.push_back({m, end.name, addresses.at(m), nullptr, nullptr});
        ends.push_back(std::move(end));
    }
    std::uint32_t const servers =
        *std::max_element(members.server.begin(), members.server.end()) + 1;
    links_ =
        std::make_unique<mover::ChannelLinks>(channel.id(), channel.state(), channel.plan().credits,
                                              ends, servers, members.server[members.me], *this);
}

Crossing::~Crossing() {
    close();
}

transport::wire::LinkName Crossing::name_of(Peer const& peer) const {
    std::uint32_t const me = channel_.part()->members().me;
    std::array<std::uint32_t, 2> const ends{std::min(me, peer.member), std::max(me, peer.member)};
    transport::wire::LinkName name{};
    static_assert(sizeof(name) == sizeof(terms_.number) + sizeof(ends));
    std::memcpy(name.data(), &terms_.number, sizeof(terms_.number));
    std::memcpy(name.data() + sizeof(terms_.number), ends.data(), sizeof(ends));
    return name;
}

// Of two members the first one dials. A wire for each NIC, of whichever end has more.
void Crossing::connect() {
    using transport::wire::Address;
    for (std::size_t p = 0; p < peers_.size(); ++p) {
        Peer& peer = peers_[p];
        if (peer.addresses.empty()) {
            throw Error(ErrorCode::Internal, peer.name + " has not said where it is reached");
        }
        bool const dials = channel_.part()->members().me < peer.member;
        mover::link::LinkOptions options;
        options.largest_segment = std::uint32_t(channel_.plan().segment_bytes);
        options.begins_later = true;
        std::chrono::nanoseconds const gone = channel_.spec().options.gone_limit;
        if (gone.count() != 0) options.still_limit = std::uint64_t(gone.count());
        std::vector<mover::link::Route> routes;
        std::size_t const wires = std::max(own_addresses_.size(), peer.addresses.size());
        for (std::size_t i = 0; i < wires; ++i) {
            mover::link::SlotOptions slot;
            slot.nic = nic_of(i);
            options.slots.push_back(slot);
            if (!dials) continue;
            routes.push_back({Address(own_addresses_[slot.nic]).without_port(),
                              Address(peer.addresses[i % peer.addresses.size()])});
        }
        peer.link = std::make_unique<mover::link::SharedLink>(
            network_.wires(), name_of(peer), terms_.secret, std::move(routes), std::move(options),
            links_->owner(p), network_.board());
        peer.counts = peer.link->counts();
        peer.link->set_weight(channel_.id(), channel_.spec().options.weight);
        links_->set_carrier(p, peer.link.get());
    }
}

void Crossing::begin() {
    for (Peer const& peer : peers_) peer.link->begin();
}

namespace {

// Looks again and again; false once there is no time left.
template <class Peers, class Done>
bool wait_for_all(Peers const& peers, Done const& done,
                  std::chrono::steady_clock::time_point until) {
    while (!std::all_of(peers.begin(), peers.end(), done)) {
        if (std::chrono::steady_clock::now() >= until) return false;
        std::this_thread::sleep_for(kLook);
    }
    return true;
}

}  // namespace

bool Crossing::bid_farewell(std::chrono::steady_clock::time_point until) {
    links_->say_farewell();
    return wait_for_all(peers_, [](Peer const& peer) { return peer.link->settled(); }, until);
}

void Crossing::close() noexcept {
    try {
        auto const nothing_to_say = [](Peer const& peer) {
            return peer.link == nullptr || peer.link->settled() || !peer.link->hopeful();
        };
        wait_for_all(peers_, nothing_to_say, std::chrono::steady_clock::now() + kLastWords);
        ErrorCode const code = channel_.failed() ? channel_.state().error() : ErrorCode::Closed;
        std::string const why = channel_.failure_text();
        // All of them are ended before any is waited for.
        for (std::size_t p = 0; p < peers_.size(); ++p) {
            links_->set_carrier(p, nullptr);
            if (peers_[p].link != nullptr) peers_[p].link->close(code, why);
        }
        for (Peer& peer : peers_) peer.link.reset();
    } catch (std::exception const& error) {
        log::warn("{}: a link could not be closed in order: {}", channel_.describe(), error.what());
    }
}

std::string Crossing::describe() const {
    std::string text;
    for (Peer const& peer : peers_) {
        text += "\n  to " + peer.name + ": " +
                (peer.link == nullptr ? "no link" : peer.link->describe());
    }
    return text;
}

void Crossing::add_use(ClusterUse& use) const {
    std::vector<ClusterNicUse> nics(nics_.size());
    for (std::size_t nic = 0; nic < nics.size(); ++nic) nics[nic].nic = nics_[nic];
    for (Peer const& peer : peers_) {
        if (peer.counts == nullptr) continue;
        for (std::size_t wire = 0; wire < peer.counts->size(); ++wire) {
            auto const& counts = (*peer.counts)[wire];
            ClusterPathUse path;
            path.by = "wire";
            path.nic = nics_[nic_of(wire)];
            path.peer = peer.name;
            path.flow.segments = counts.segments.value();
            path.flow.bytes = counts.bytes.value();
            path.flow.in_flight = counts.in_flight.value();
            path.flow.resends = counts.resends.value();
            add(nics[nic_of(wire)].flow, path.flow);
            use.flow.resends += path.flow.resends;
            use.paths.push_back(std::move(path));
        }
    }
    use.nics.insert(use.nics.end(), nics.begin(), nics.end());
}

void Crossing::failed(ErrorCode code, std::string const& why) {
    // What another process says begins with the channel's name, as our own error will.
    std::string const name = channel_.describe() + ", ";
    std::size_t const at = why.find(name);
    if (at == std::string::npos) return channel_.fail(code, why);
    channel_.fail(code, "from another server: ", why.substr(at + name.size()));
}

void Crossing::progressed(std::uint64_t count) {
    channel_.part()->note_far_progress(count);
}

void Crossing::attended(std::uint32_t destination, bool is_attended) {
    channel_.part()->attend_destination(destination, is_attended);
}

}  // namespace mgi
