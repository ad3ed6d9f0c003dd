#include "planner/table_codec.hpp"

#include <optional>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

constexpr std::uint64_t kMostVertex = 0xffff;
constexpr auto kMostCapacity = std::uint64_t(1) << 62;

void put_hops(ByteWriter& out, std::vector<NextHop> const& hops) {
    out.number(hops.size());
    for (NextHop const& hop : hops) {
        out.number(hop.next);
        out.number(hop.stage);
        out.number(hop.path.size());
        for (LocalVertex const v : hop.path) out.number(v);
        out.number(std::uint64_t(hop.capacity));
    }
}

/// Of an entry at `stage`.
std::vector<NextHop> take_hops(ByteReader& in, std::uint8_t stage) {
    std::vector<NextHop> hops(in.count(4, "hops"));
    if (hops.empty()) in.refuse("at least one hop");
    for (NextHop& hop : hops) {
        hop.next = LocalVertex(in.number(kMostVertex, "the next vertex"));
        hop.stage = std::uint8_t(in.number(kMostStage, "the next stage"));
        if (hop.stage != 0 && hop.stage <= stage) in.refuse("a stage behind the entry's own");
        hop.path.resize(in.count(1, "vertices of a path"));
        for (LocalVertex& v : hop.path) v = LocalVertex(in.number(kMostVertex, "a path's vertex"));
        hop.capacity = Capacity(in.number(kMostCapacity, "a capacity"));
        if (hop.capacity == 0) in.refuse("a capacity above 0");
    }
    return hops;
}

/// Refuses what does not come after `last`, and remembers it.
template <class T>
void ascend(ByteReader const& in, std::optional<T>& last, T const& now, char const* of) {
    if (last && !(*last < now)) in.refuse(std::string(of) + " in ascending order");
    last = now;
}

}  // namespace

void ByteReader::refuse(std::string const& expected) const {
    throw Error(ErrorCode::InvalidArgument, std::string(what_) + ", byte " + std::to_string(at_) +
                                                " of " + std::to_string(bytes_.size()) +
                                                ": expected " + expected);
}

void ByteReader::header(char const (&magic)[5], std::uint16_t version) {
    if (bytes_.substr(0, 4) != std::string_view(magic, 4)) {
        refuse(std::string("\"") + magic + "\"");
    }
    at_ = 4;
    if (bytes_.size() < 6) refuse("a version");
    auto const found = std::uint8_t(bytes_[4]) | std::uint8_t(bytes_[5]) << 8;
    if (found != version) {
        refuse("version " + std::to_string(version) + ", not " + std::to_string(found) +
               "; both sides must run the same MGI");
    }
    at_ = 6;
}

std::uint64_t ByteReader::number(std::uint64_t most, char const* of) {
    std::uint64_t value = 0;
    for (std::uint32_t shift = 0;; shift += 7) {
        if (at_ == bytes_.size()) refuse(std::string(of) + ", not the end");
        auto const byte = std::uint8_t(bytes_[at_]);
        std::uint64_t const part = byte & 0x7f;
        if (shift > 63 || (shift == 63 && part > 1) || (shift != 0 && byte == 0)) {
            refuse(std::string(of) + " written as shortly as can be");
        }
        value |= part << shift;
        ++at_;
        if ((byte & 0x80) == 0) break;
    }
    if (value > most) {
        refuse(std::string(of) + " of at most " + std::to_string(most) + ", not " +
               std::to_string(value));
    }
    return value;
}

std::size_t ByteReader::count(std::size_t least_bytes, char const* of) {
    return std::size_t(number((bytes_.size() - at_) / least_bytes, of));
}

void ByteReader::end() const {
    if (at_ != bytes_.size()) refuse("the end");
}

std::string encode(ServerTable const& table) {
    ByteWriter out;
    out.header(kTableMagic, kTableVersion);
    out.number(table.vertices.size());
    for (VertexTable const& vertex : table.vertices) {
        out.number(vertex.vertex);
        out.number(vertex.forwards.size());
        for (Forward const& forward : vertex.forwards) {
            out.number(std::uint64_t(forward.target.kind));
            if (forward.target.kind == Target::Kind::Local) out.number(forward.target.vertex);
            out.number(forward.stage);
            put_hops(out, forward.hops);
        }
    }
    out.number(table.arrivals.size());
    for (Arrival const& arrival : table.arrivals) {
        out.number(std::uint64_t(arrival.gateway));
        out.number(arrival.destination);
        put_hops(out, arrival.hops);
    }
    return std::move(out).take();
}

ServerTable decode_table(std::string_view bytes) {
    ByteReader in(bytes, "forwarding table");
    in.header(kTableMagic, kTableVersion);
    ServerTable table;
    table.vertices.resize(in.count(2, "vertices"));
    std::optional<LocalVertex> last_vertex;
    for (VertexTable& vertex : table.vertices) {
        vertex.vertex = LocalVertex(in.number(kMostVertex, "a vertex"));
        ascend(in, last_vertex, vertex.vertex, "vertices");
        vertex.forwards.resize(in.count(7, "targets"));
        if (vertex.forwards.empty()) in.refuse("at least one target");
        std::optional<std::pair<Target, std::uint8_t>> last;
        for (Forward& forward : vertex.forwards) {
            forward.target.kind = Target::Kind(in.number(2, "a kind of target"));
            if (forward.target.kind == Target::Kind::Local) {
                forward.target.vertex = LocalVertex(in.number(kMostVertex, "a destination"));
            }
            forward.stage = std::uint8_t(in.number(kMostStage, "a stage"));
            ascend(in, last, {forward.target, forward.stage}, "targets");
            forward.hops = take_hops(in, forward.stage);
        }
    }
    table.arrivals.resize(in.count(7, "arrivals"));
    std::optional<std::pair<Gateway, LocalVertex>> last_arrival;
    for (Arrival& arrival : table.arrivals) {
        arrival.gateway = Gateway(in.number(1, "a gateway"));
        arrival.destination = LocalVertex(in.number(kMostVertex, "a destination"));
        ascend(in, last_arrival, {arrival.gateway, arrival.destination}, "arrivals");
        arrival.hops = take_hops(in, 0);
    }
    in.end();
    return table;
}

}  // namespace mgi::planner
