#include "link/nics.hpp"

#include <algorithm>
#include <array>

namespace mgi::test {

using mover::link::Command;
using mover::link::kNever;

namespace {

constexpr std::size_t kSocket = 128U << 10;  // what a socket takes ahead of its NIC
constexpr std::size_t kPacket = 4096;

}  // namespace

bool Stream::target(mover::link::Key const& /*key*/, std::uint64_t /*tag*/, std::uint64_t bytes,
                    std::vector<iovec>& pieces) {
    nowhere.resize(std::max<std::size_t>(nowhere.size(), bytes));
    pieces.push_back({nowhere.data(), bytes});
    return true;
}

void Stream::arrived(mover::link::Key const& /*key*/, std::uint64_t /*tag*/) {
    arrived_bytes += options.segment;
}

void Stream::acknowledged(std::uint64_t /*token*/) {
    ++done;
}

Stream& Nics::add(Stream::Options const& options, NicBoard& board) {
    streams_.push_back(std::make_unique<Stream>());
    Stream& stream = *streams_.back();
    stream.options = options;
    stream.memory.resize(options.segment);
    // More than one wire reads at a time.
    stream.nowhere.resize(options.segment);
    stream.wires.resize(rates_.size());
    stream.carried.resize(rates_.size());
    stream.last_carried.resize(rates_.size());
    mover::link::LinkOptions link;
    link.slots.resize(rates_.size());
    for (std::uint32_t i = 0; i < rates_.size(); ++i) link.slots[i].nic = i;
    stream.far = std::make_unique<Link>(link, stream, far_board_, now);
    link.dials = true;
    stream.near = std::make_unique<Link>(link, stream, board, now);
    stream.near->set_weight(options.channel, options.weight);
    return stream;
}

void Nics::want(Stream& stream, bool wants) {
    stream.wants = wants;
    stream.first_begun = 0;
}

void Nics::start(Stream& stream) {
    while (stream.wants && stream.started < stream.done + stream.options.credits) {
        mover::link::Transfer transfer;
        transfer.key = {stream.options.channel, 0, 1, stream.started++};
        transfer.pieces = {{stream.memory.data(), stream.memory.size()}};
        transfer.nics = stream.options.nics;
        if (stream.first_begun == 0) stream.first_begun = now;
        stream.near->start(std::move(transfer));
    }
}

void Nics::obey(Stream& stream, Link& link) {
    std::vector<Command> commands;
    link.take_commands(commands);
    for (Command const& command : commands) {
        if (command.kind != Command::Kind::Dial) {
            stream.wires[command.slot].open = false;
            stream.trouble = "a wire was closed: " + link.last_trouble();
            continue;
        }
        stream.wires[command.slot].open =
            stream.far->opened(command.slot, command.generation, now) &&
            stream.near->opened(command.slot, command.generation, now);
    }
}

// Both ends of all its wires into their sockets. What comes back is of no NIC's concern.
void Nics::write(Stream& stream) {
    std::array<iovec, 16> pieces{};
    for (std::uint32_t slot = 0; slot < stream.wires.size(); ++slot) {
        Stream::Wire& wire = stream.wires[slot];
        auto const move = [&](Link& link, std::string& to, std::size_t room) {
            std::size_t moved = 0;
            while (to.size() < room) {
                std::size_t const count = link.gather(slot, pieces, now);
                if (count == 0) break;
                std::size_t taken = 0;
                for (std::size_t i = 0; i < count && to.size() < room; ++i) {
                    std::size_t const here = std::min(pieces[i].iov_len, room - to.size());
                    to.append(static_cast<char const*>(pieces[i].iov_base), here);
                    taken += here;
                }
                link.sent(slot, taken, now);
                moved += taken;
            }
            return moved;
        };
        if (!wire.open) continue;
        std::size_t const more = move(*stream.near, wire.out, kSocket);
        if (more != 0) wire.written.emplace_back(now, more);
        (void)move(*stream.far, wire.back, kSocket);
        read(*stream.near, slot, wire.back, wire.back.size(), now);
    }
}

void Nics::read(Link& link, std::uint32_t slot, std::string& bytes, std::size_t most, Time now) {
    std::array<iovec, 4> pieces{};
    std::size_t at = 0;
    while (at < most) {
        std::size_t const count = link.scatter(slot, pieces);
        std::size_t taken = 0;
        for (std::size_t i = 0; i < count && at + taken < most; ++i) {
            std::size_t const here = std::min(pieces[i].iov_len, most - at - taken);
            std::copy_n(bytes.data() + at + taken, here, static_cast<char*>(pieces[i].iov_base));
            taken += here;
        }
        if (taken == 0) break;
        link.received(slot, taken, now);
        at += taken;
    }
    bytes.erase(0, at);
}

void Nics::deliver(Stream& stream, std::size_t nic, std::size_t bytes) {
    Stream::Wire& wire = stream.wires[nic];
    stream.carried[nic] += bytes;
    if (bytes == kPacket) stream.last_carried[nic] = now;  // a part of a segment
    stream.allowance -= double(bytes);
    for (std::size_t left = bytes; left != 0;) {
        std::size_t const here = std::min(left, wire.written.front().second);
        left -= here;
        wire.written.front().second -= here;
        if (wire.written.front().second == 0) wire.written.pop_front();
    }
    read(*stream.far, std::uint32_t(nic), wire.out, bytes, now);
}

void Nics::carry(std::size_t nic) {
    budget_[nic] = std::min(budget_[nic], 0.0) + rates_[nic] * double(kStep);
    while (budget_[nic] > 0) {
        Stream* next = nullptr;
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            Stream& stream = *streams_[(turn_[nic] + i) % streams_.size()];
            auto const& wire = stream.wires[nic];
            if (!wire.open || wire.out.empty() ||
                (stream.options.most != 0 && stream.allowance <= 0))
                continue;
            if (next == nullptr ||
                (discipline_ == Discipline::InOrder &&
                 wire.written.front().first < next->wires[nic].written.front().first)) {
                next = &stream;
            }
        }
        if (next == nullptr) return;
        ++turn_[nic];
        std::size_t const bytes = std::min(kPacket, next->wires[nic].out.size());
        budget_[nic] -= double(bytes);
        deliver(*next, nic, bytes);
    }
}

void Nics::run(Time time) {
    for (Time const until = now + time; now < until; now += kStep) {
        for (auto const& stream : streams_) {
            stream->allowance =
                std::min(stream->allowance, 0.0) + stream->options.most * double(kStep);
            start(*stream);
            (void)stream->near->tick(now);
            obey(*stream, *stream->near);
            (void)stream->far->tick(now);
            write(*stream);
        }
        for (std::size_t nic = 0; nic < rates_.size(); ++nic) carry(nic);
    }
}

}  // namespace mgi::test
