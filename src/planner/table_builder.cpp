#include "planner/table_builder.hpp"

#include <algorithm>
#include <string>

#include <mgi/error.hpp>

#include "planner/table_codec.hpp"

namespace mgi::planner {

void TableBuilder::start(Shape const& shape) {
    shape_ = &shape;
    for (auto& entries : entries_) entries.clear();
    if (entries_.size() < shape.vertices().size()) entries_.resize(shape.vertices().size());
    arrivals_.clear();
    hops_.clear();
    path_.clear();
    pair_ = 0;
    widest_ = 0;
}

Target TableBuilder::target_of(std::uint32_t vertex) const {
    if (vertex == shape_->network()) return {Target::Kind::Network, 0};
    if (vertex == shape_->domain()) return {Target::Kind::Domain, 0};
    return {Target::Kind::Local, LocalVertex(vertex)};
}

void TableBuilder::add(PathList::Path const& path) {
    auto const vertices = path.vertices;
    std::uint32_t const end = vertices.back();
    Target const target = target_of(end);
    bool const arrives = !shape_->managed(vertices.front());
    std::size_t from = 0;
    std::uint32_t stage = 0;
    for (std::size_t to = 1; to < vertices.size(); ++to) {
        bool const last = to + 1 == vertices.size();
        if (!last && !shape_->managed(vertices[to])) continue;
        auto const between = vertices.subspan(from + 1, to - from - 1);
        if (stage > kMostStage) {
            throw Error(ErrorCode::InvalidArgument,
                        "the path from vertex " + std::to_string(vertices.front()) + " to vertex " +
                            std::to_string(end) + " has more than " +
                            std::to_string(kMostStage + 1) +
                            " hops between GPUs and CPUs, which no forwarding table has room for");
        }
        if (from == 0 && arrives) {
            Gateway const gateway =
                vertices[0] == shape_->network() ? Gateway::Network : Gateway::Domain;
            add_hop(arrivals_, std::uint64_t(gateway) << 32 | end, vertices[to], between,
                    path.capacity);
        } else {
            add_hop(entries_[vertices[from]], key_of(target, stage), vertices[to], between,
                    path.capacity);
        }
        ++stage;
        from = to;
    }
}

void TableBuilder::add_hop(std::vector<Entry>& entries, std::uint64_t key, std::uint32_t next,
                           std::span<LocalVertex const> path, Capacity capacity) {
    auto entry = std::find_if(entries.rbegin(), entries.rend(),
                              [key](Entry const& e) { return e.key == key; });
    if (entry == entries.rend()) {
        entries.push_back({key, kNone, kNone});
        entry = entries.rbegin();
    }
    std::uint32_t at = entry->first;
    for (; at != kNone; at = hops_[at].following) {
        Hop const& hop = hops_[at];
        if (hop.next == next && hop.length == path.size() &&
            std::equal(path.begin(), path.end(), path_.begin() + hop.path)) {
            break;
        }
    }
    if (at == kNone) {
        at = std::uint32_t(hops_.size());
        Hop hop;
        hop.next = LocalVertex(next);
        hop.length = LocalVertex(path.size());
        hop.path = std::uint32_t(path_.size());
        hop.pair = pair_;
        hops_.push_back(hop);
        path_.insert(path_.end(), path.begin(), path.end());
        (entry->first == kNone ? entry->first : hops_[entry->last].following) = at;
        entry->last = at;
    }
    Hop& hop = hops_[at];
    if (hop.pair != pair_) {
        hop.pair = pair_;
        hop.of_pair = 0;
    }
    hop.of_pair += capacity;
    hop.capacity = std::max(hop.capacity, hop.of_pair);
    widest_ = std::max(widest_, hop.capacity);
}

void TableBuilder::put_hops(ByteWriter& out, Entry const& entry) const {
    std::uint32_t count = 0;
    for (std::uint32_t at = entry.first; at != kNone; at = hops_[at].following) ++count;
    out.number(count);
    for (std::uint32_t at = entry.first; at != kNone; at = hops_[at].following) {
        Hop const& hop = hops_[at];
        out.number(hop.next);
        out.number(hop.length);
        for (std::uint32_t i = 0; i < hop.length; ++i) out.number(path_[hop.path + i]);
        out.number(std::uint64_t(hop.capacity));
    }
}

std::string TableBuilder::bytes() {
    auto const by_key = [](Entry const& a, Entry const& b) { return a.key < b.key; };
    ByteWriter out;
    out.reserve(64 + hops_.size() * 12);
    out.header(kTableMagic, kTableVersion);
    std::size_t const vertices = shape_->vertices().size();
    std::uint32_t used = 0;
    for (std::size_t v = 0; v < vertices; ++v) used += entries_[v].empty() ? 0 : 1;
    out.number(used);
    for (std::size_t v = 0; v < vertices; ++v) {
        auto& entries = entries_[v];
        if (entries.empty()) continue;
        std::sort(entries.begin(), entries.end(), by_key);
        out.number(v);
        out.number(entries.size());
        for (Entry const& entry : entries) {
            auto const kind = Target::Kind(entry.key >> 32);
            out.number(std::uint64_t(kind));
            if (kind == Target::Kind::Local) out.number(entry.key >> 8 & 0xffff);
            out.number(entry.key & 0xff);
            put_hops(out, entry);
        }
    }
    std::sort(arrivals_.begin(), arrivals_.end(), by_key);
    out.number(arrivals_.size());
    for (Entry const& entry : arrivals_) {
        out.number(entry.key >> 32);
        out.number(entry.key & 0xffff);
        put_hops(out, entry);
    }
    return std::move(out).take();
}

}  // namespace mgi::planner
