#include "mover/two_servers.hpp"

#include <algorithm>

#include "runtime/runtime_impl.hpp"
#include "transport/cpu_copy.hpp"

namespace mgi::test {

bool LooseLink::deliver(mover::link::LinkOwner& from, mover::link::LinkOwner& to) {
    if (empty()) return false;
    std::size_t const at = random_.below(transfers.size() + words.size());
    if (at >= transfers.size()) {
        mover::link::Word const word = words[at - transfers.size()];
        // It may come again, late.
        if (!random_.one_in(4)) words.erase(words.begin() + std::ptrdiff_t(at - transfers.size()));
        to.word(word);
        return true;
    }
    mover::link::Transfer const transfer = transfers[at];
    std::vector<iovec> pieces;
    EXPECT_TRUE(to.target(transfer.key, transfer.tag, transfer.bytes(), pieces));
    std::vector<char> bytes;
    for (iovec const& piece : transfer.pieces) {
        auto const* const first = static_cast<char const*>(piece.iov_base);
        bytes.insert(bytes.end(), first, first + piece.iov_len);
    }
    std::size_t taken = 0;
    for (iovec const& piece : pieces) {
        std::memcpy(piece.iov_base, bytes.data() + taken, piece.iov_len);
        taken += piece.iov_len;
    }
    EXPECT_EQ(taken, bytes.size());
    // A wire died: its bytes come once more.
    if (random_.one_in(4)) return true;
    transfers.erase(transfers.begin() + std::ptrdiff_t(at));
    to.arrived(transfer.key, transfer.tag);
    from.acknowledged(transfer.token);
    return true;
}

TwoServers::TwoServers(ChannelSpec spec, std::uint32_t endpoints_each, std::uint64_t seed)
    : random(seed), each_(endpoints_each) {
    PartMembers members;
    members.count = 2;
    members.server = {0, 1};
    for (std::uint32_t e = 0; e < 2 * each_; ++e) {
        endpoints_.push_back({e, 0});
        members.source_member.push_back(e / each_);
        members.destination_member.push_back(e / each_);
    }
    spec.sources = spec.destinations = endpoints_;
    RuntimeOptions options;
    options.pin = false;
    Runtime const runtime = Runtime::local(options);
    Plan const plan = runtime.impl()->plan_together(spec, members);
    for (std::uint32_t s = 0; s < 2; ++s) {
        Server& server = servers[s];
        members.me = s;
        server.channel = ChannelImpl::create(
            7, spec, *spec.schema, plan,
            {std::make_shared<memory::Account>(std::uint64_t{1} << 30), nullptr},
            ChannelImpl::Sharing{members, nullptr});
        mover::ChannelPeer peer{"the other server", 1 - s, {}, {}, {}};
        for (std::uint32_t from = 0; from < 2 * each_; ++from) {
            for (std::uint32_t to = 0; to < 2 * each_; ++to) {
                if (from / each_ == to / each_) continue;
                (from / each_ == s ? peer.out : peer.in).emplace_back(from, to);
            }
        }
        auto& state = server.channel->state();
        server.links = std::make_unique<mover::ChannelLinks>(
            7, state, plan.credits, std::vector<mover::ChannelPeer>{peer}, 2, s, server.heard);
        server.out = std::make_unique<LooseLink>(random);
        server.links->set_carrier(0, server.out.get());
        server.moves = std::make_unique<mover::ChannelMoves>(
            state, server.channel->here().sources, std::make_unique<transport::CpuCopy>(),
            [&server](std::uint32_t from, std::uint32_t lane, std::uint32_t to,
                      transport::Transport& transport, std::uint64_t index) {
                return server.links->route(from, lane, to, 0, transport, index);
            });
    }
}

bool TwoServers::step() {
    std::uint64_t const s = random.below(2);
    Server& server = servers[s];
    switch (random.below(4)) {
        case 0: return server.moves->step();
        case 1: return server.links->say_credits();
        default: return server.out->deliver(owner(int(s)), owner(int(1 - s)));
    }
}

Parties::Parties(TwoServers& servers, Routing const& routing, std::uint32_t endpoints,
                 std::int64_t rows)
    : to_all_(routing.kind == device::RoutingKind::Broadcast) {
    for (std::uint32_t e = 0; e < endpoints; ++e) {
        Channel const channel(servers.servers[servers.server_of(e)].channel);
        auto const own = numbered_rows(std::size_t(rows), 40, std::int64_t(e) * rows);
        for (Row const& row : own) all_.push_back(encode(row));
        parties_.push_back({channel.sender(servers.endpoint(e)),
                            channel.receiver(servers.endpoint(e)),
                            make_batch(numbered_schema(), own)});
    }
}

void Parties::act(Random& random) {
    Party& party = parties_[random.below(parties_.size())];
    if (random.one_in(2)) {
        if (party.sent < party.batch.rows) {
            party.sent += party.sender.try_send(party.batch, party.sent);
        } else if (!party.flushed) {
            party.flushed = party.sender.try_flush();
        }
    } else if (!party.ended) {
        RecordBatch batch;
        device::Status const status = party.receiver.try_recv(batch);
        party.ended = status == device::Status::End;
        for (std::int64_t i = 0; status == device::Status::Ok && i < batch.rows; ++i) {
            party.got.push_back(encode_row(batch, i));
        }
    }
}

bool Parties::over() const {
    return std::all_of(parties_.begin(), parties_.end(),
                       [](Party const& party) { return party.flushed && party.ended; });
}

void Parties::check() const {
    std::vector<std::string> got;
    for (Party const& party : parties_) {
        got.insert(got.end(), party.got.begin(), party.got.end());
        if (!to_all_) continue;
        EXPECT_TRUE(same_rows(party.got, all_));
    }
    if (!to_all_) {
        EXPECT_TRUE(same_rows(got, all_));
    }
}

}  // namespace mgi::test
