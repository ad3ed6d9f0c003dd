#include "runtime/crossing.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "core/log.hpp"
#include "mover/link/slots.hpp"
#include "runtime/channel_impl.hpp"
#include "runtime/counters.hpp"
#include "transport/wire/crypto.hpp"

namespace mgi {

namespace {

constexpr std::chrono::microseconds kLook{100};
// For a failure's words, so that others hear why.
constexpr std::chrono::milliseconds kLastWords{500};
// A wire is dead after 3 s, a link that has none 10 s later.
constexpr std::chrono::seconds kLongestSearch{14};
constexpr std::size_t kMostName = 128;  // of what the agent is told

}  // namespace

Terms Terms::of(Plan const& plan, bool relays) {
    Terms terms;
    terms.plan = plan;
    terms.relays = relays;
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
      own_addresses_(network.own_addresses()),
      nics_(network.nics()),
      encrypted_(network.encrypts()),
      addresses_(std::make_shared<MemberAddresses const>(addresses)) {
    PartMembers const& members = channel.part()->members();
    for (auto const& place : channel.places()) {
        if (!members.is_direct()) break;
        for (std::uint32_t const d : place->here().destinations) {
            nic_writes_.emplace(d, place->gpu());
        }
    }
    std::vector<mover::ChannelPeer> ends;
    for (std::uint32_t m = 0; m < members.count; ++m) {
        if (members.is_here(m)) continue;
        mover::ChannelPeer end;
        end.name = members.name(m);
        end.server = members.server[m];
        end.in_place = members.in_place;
        for (std::uint32_t s = 0; s < members.source_member.size(); ++s) {
            std::uint32_t const by = channel.mover_of(s);
            for (std::uint32_t d = 0; d < members.destination_member.size(); ++d) {
                std::uint32_t const to = members.destination_member[d];
                if (by == members.me && to == m) end.out.emplace_back(s, d);
                if (by == m && to == members.me) end.in.emplace_back(s, d);
                if (members.writes_into(by, d)) end.placed.emplace(s, d);
                if (!members.is_direct(s, d)) continue;
                if ((by == members.me && to == m) || (by == m && to == members.me)) {
                    end.direct.flows.emplace(s, d);
                }
            }
        }
        if (end.out.empty() && end.in.empty()) continue;
        Peer& peer = peers_.emplace_back();
        peer.member = m;
        peer.name = end.name;
        peer.is_direct = !end.direct.flows.empty();
        end.direct.settle = [this](std::uint32_t d) { nic_writes_.at(d).settle(); };
        // A relay has memory of the host's alone.
        if (terms.relays && !peer.is_direct) {
            peer.relays = relays_between(members, members.me, m);
        }
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

std::vector<std::uint32_t> Crossing::servers_of(std::vector<std::uint32_t> const& members) const {
    std::vector<std::uint32_t> servers;
    for (std::uint32_t const m : members)
        servers.push_back(channel_.part()->members().machine_of(m));
    return servers;
}

// Of two members the first one dials. This process also passes on for others, from now on.
void Crossing::connect() {
    PartMembers const& members = channel_.part()->members();
    for (std::size_t p = 0; p < peers_.size(); ++p) {
        Peer& peer = peers_[p];
        auto const own = std::uint32_t(own_addresses_.size());
        auto const theirs = std::uint32_t(addresses_->at(peer.member).size());
        if (theirs == 0) {
            throw Error(ErrorCode::Internal, peer.name + " has not said where it is reached");
        }
        bool const dials = members.me < peer.member;
        peer.slots = mover::link::slots_between(dials ? own : theirs, dials ? theirs : own,
                                                servers_of(peer.relays), dials);
        mover::link::LinkOptions options;
        options.slots = peer.slots;
        for (std::uint32_t const member : peer.relays) {
            options.relays.push_back(members.name(member));
        }
        options.largest_segment = std::uint32_t(channel_.plan().segment_bytes);
        options.begins_later = true;
        options.by_streams = peer.is_direct;
        std::chrono::nanoseconds const gone = channel_.spec().options.gone_limit;
        if (gone.count() != 0) options.still_limit = std::uint64_t(gone.count());
        mover::link::Routes routes;
        if (dials) {
            routes = routes_to(peer.member, peer.slots, own_addresses_, peer.relays,
                               relays_name(terms_.number), addresses_, reach_);
        }
        peer.link = std::make_unique<mover::link::SharedLink>(
            network_.wires(), name_of(peer), terms_.secret, std::move(routes), std::move(options),
            links_->owner(p), network_.board());
        // Others read it once the link has begun, which they learn behind a lock that set_weight takes.
        peer.counts = peer.link->counts();
        reach_->add(peer.member, peer.slots, peer.counts);
        peer.link->set_weight(channel_.id(), channel_.spec().options.weight);
        links_->set_carrier(p, peer.link.get());
    }
    std::set<std::uint32_t> machines;
    for (std::uint32_t m = 0; m < members.count; ++m) machines.insert(members.machine_of(m));
    bool const are_third = machines.size() > 2;
    if (!are_third || !terms_.relays || !ChannelNetwork::relays()) return;
    network_.wires().pass_on(relays_name(terms_.number), terms_.secret,
                             ways_on(members.me, own_addresses_, addresses_, reach_));
    passes_on_ = true;
}

void Crossing::reach_gpus() {
    for (auto const& place : channel_.places()) {
        transport::GpuRange const memory = place->memory();
        if (memory.bytes == 0) continue;
        reached_.push_back(network_.wires().add_memory({place->gpu(), memory.data, memory.bytes}));
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
    if (!wait_for_all(peers_, [](Peer const& peer) { return peer.link->settled(); }, until)) {
        return false;
    }
    auto const lets_go = [this](Peer const& peer) {
        // Of a channel that has failed nobody needs anything.
        if (channel_.failed() || peer.counts->over.value() != 0) return true;
        return links_->is_released(std::size_t(&peer - peers_.data()));
    };
    if (passes_on_) {
        wait_for_all(peers_, lets_go, std::chrono::steady_clock::now() + kLongestSearch);
    }
    return true;
}

void Crossing::release_leavers() {
    bool const lacks = std::any_of(peers_.begin(), peers_.end(), [](Peer const& peer) {
        // Not yet made: nothing is known of it.
        return peer.counts == nullptr ||
               (peer.counts->wires.value() == 0 && peer.counts->over.value() == 0);
    });
    if (!lacks) links_->release();
}

void Crossing::close() noexcept {
    try {
        // What is passed on now goes on, after the channel's end here as well.
        if (std::exchange(passes_on_, false)) {
            network_.wires().stop_passing_on(relays_name(terms_.number));
        }
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
    reached_.clear();  // while the network is there, which a channel that is held may outlive
}

std::string Crossing::describe() const {
    std::string text;
    for (Peer const& peer : peers_) {
        text += "\n  to " + peer.name + ": " +
                (peer.link == nullptr ? "no link" : peer.link->describe());
    }
    return text;
}

// "wire", or "wire through rank 2, rank 5".
std::string Crossing::carrier_of(Peer const& peer, mover::link::Way const& way) const {
    std::string text = encrypted_ ? "wire (encrypted)" : "wire";
    for (std::uint32_t const relay : way.relays()) {
        text += relay == way.by[0] ? " through " : ", ";
        text += channel_.part()->members().name(peer.relays.at(relay));
    }
    text.resize(std::min(text.size(), kMostName));
    return text;
}

void Crossing::add_use(ClusterUse& use) const {
    std::vector<ClusterNicUse> nics(nics_.size());
    for (std::size_t nic = 0; nic < nics.size(); ++nic) nics[nic].nic = nics_[nic];
    for (Peer const& peer : peers_) {
        if (peer.counts == nullptr) continue;
        for (std::size_t wire = 0; wire < peer.counts->size(); ++wire) {
            auto const& counts = (*peer.counts)[wire];
            auto const way = mover::link::way_of(peer.slots[wire], counts.way.value());
            ClusterPathUse path;
            path.by = carrier_of(peer, way);
            path.nic = nics_[way.nic];
            path.peer = peer.name;
            path.flow.segments = counts.segments.value();
            path.flow.bytes = counts.bytes.value();
            path.flow.in_flight = counts.in_flight.value();
            path.flow.resends = counts.resends.value();
            add(nics[way.nic].flow, path.flow);
            use.flow.resends += path.flow.resends;
            if (peer.slots[wire].is_spare() && path.flow.segments + path.flow.in_flight == 0) {
                continue;
            }
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
    bool const on_gpus = channel_.part()->members().on_gpus();
    channel_.fail(code, on_gpus ? "from another process: " : "from another server: ",
                  why.substr(at + name.size()));
}

void Crossing::progressed(std::uint64_t count) {
    channel_.part()->note_far_progress(count);
}

void Crossing::attended(std::uint32_t destination, bool is_attended) {
    channel_.part()->attend_destination(destination, is_attended);
}

}  // namespace mgi
