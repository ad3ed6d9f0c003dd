#include "planner/table_builder.hpp"

#include <algorithm>
#include <string>

#include <mgi/device/assert.hpp>
#include <mgi/error.hpp>

#include "planner/table_codec.hpp"

namespace mgi::planner {

void TableBuilder::start(Shape const& shape) {
    shape_ = &shape;
    std::size_t const vertices = shape.vertices().size();
    for (auto& entries : of_vertex_) entries.clear();
    if (of_vertex_.size() < vertices) of_vertex_.resize(vertices);
    rank_.resize(std::max(rank_.size(), vertices));
    std::uint32_t managed = 0;
    for (std::uint32_t v = 0; v < vertices; ++v) {
        if (shape.managed(v)) rank_[v] = managed++;
    }
    words_ = managed / 64 + 1;
    passed_.resize(words_);
    rest_.resize(words_);
    behind_.clear();
    entries_.clear();
    arrivals_.clear();
    hops_.clear();
    path_.clear();
    visit_ = 0;
    pair_ = 0;
    widest_ = 0;
}

Target TableBuilder::target_of(std::uint32_t vertex) const {
    if (vertex == shape_->network()) return {Target::Kind::Network, 0};
    if (vertex == shape_->domain()) return {Target::Kind::Domain, 0};
    return {Target::Kind::Local, LocalVertex(vertex)};
}

std::uint32_t TableBuilder::find(std::vector<std::uint32_t> const& at, std::uint64_t key) const {
    auto const found = std::find_if(at.rbegin(), at.rend(),
                                    [&](std::uint32_t e) { return entries_[e].key == key; });
    return found == at.rend() ? kNone : *found;
}

std::uint32_t TableBuilder::make(std::vector<std::uint32_t>& at, std::uint64_t key,
                                 std::uint32_t vertex) {
    auto const made = std::uint32_t(entries_.size());
    entries_.push_back({key, vertex, kNone, kNone, 0});
    behind_.resize(behind_.size() + words_, 0);
    at.push_back(made);
    return made;
}

void TableBuilder::add(PathList::Path const& path) {
    auto const vertices = path.vertices;
    std::uint32_t const begin = vertices.front();
    std::uint32_t const end = vertices.back();
    std::uint32_t relays = 0;
    std::fill(rest_.begin(), rest_.end(), 0);
    std::fill(passed_.begin(), passed_.end(), 0);
    for (std::size_t i = 1; i + 1 < vertices.size(); ++i) {
        if (!shape_->managed(vertices[i])) continue;
        put(rest_, vertices[i]);
        ++relays;
    }
    if (relays > kMostStage) {
        throw Error(ErrorCode::InvalidArgument,
                    "the path from vertex " + std::to_string(begin) + " to vertex " +
                        std::to_string(end) + " has more than " + std::to_string(kMostStage + 1) +
                        " hops between GPUs and CPUs, which no forwarding table has room for");
    }
    Target const target = target_of(end);
    bool const arrives = !shape_->managed(begin);
    Gateway const gateway = begin == shape_->network() ? Gateway::Network : Gateway::Domain;
    std::uint64_t const key = arrives ? std::uint64_t(gateway) << 32 | end : key_of(target, 0);
    auto& starts = arrives ? arrivals_ : of_vertex_[begin];
    std::uint32_t entry = find(starts, key);
    if (entry == kNone) entry = make(starts, key, arrives ? kNone : begin);
    if (!arrives) put(passed_, begin);

    std::size_t from = 0;
    std::uint32_t stage = 0;
    for (std::size_t to = 1; to + 1 < vertices.size(); ++to) {
        if (!shape_->managed(vertices[to])) continue;
        take(rest_, vertices[to]);
        --relays;
        std::uint32_t const next =
            entry_behind(vertices[to], target, stage + 1, kMostStage - relays);
        add_hop(entry, vertices[to], next, vertices.subspan(from + 1, to - from - 1),
                path.capacity);
        pass_on(next);
        std::copy_n(behind_.begin() + std::ptrdiff_t(next * words_), words_, passed_.begin());
        put(passed_, vertices[to]);
        entry = next;
        // Walks end, since each hop leads to a later stage.
        MGI_ASSERT((entries_[entry].key & 0xff) > stage, entries_[entry].key & 0xff, stage, begin,
                   end);
        stage = std::uint32_t(entries_[entry].key & 0xff);
        from = to;
    }
    MGI_ASSERT(relays == 0, relays, begin, end);
    add_hop(entry, end, kNone, vertices.subspan(from + 1, vertices.size() - from - 2),
            path.capacity);
}

std::uint32_t TableBuilder::entry_behind(std::uint32_t vertex, Target target, std::uint32_t stage,
                                         std::uint32_t last) {
    auto& entries = of_vertex_[vertex];
    for (std::uint32_t s = stage; s <= last; ++s) {
        std::uint32_t const entry = find(entries, key_of(target, s));
        if (entry == kNone) return make(entries, key_of(target, s), vertex);
        bool apart = true;
        for (std::size_t w = 0; w < words_; ++w) {
            apart = apart && (behind_[entry * words_ + w] & rest_[w]) == 0;
        }
        ++visit_;
        if (apart && !meets_again(entry)) return entry;
    }
    // All stages are used up: walks end all the same, since they lead to later ones.
    std::uint32_t const first = find(entries, key_of(target, stage));
    MGI_ASSERT(first != kNone, vertex, stage, last);
    return first;
}

bool TableBuilder::meets_again(std::uint32_t entry) {
    entries_[entry].visit = visit_;
    for (std::uint32_t h = entries_[entry].first; h != kNone; h = hops_[h].following) {
        std::uint32_t const next = hops_[h].entry;
        if (next == kNone || entries_[next].visit == visit_) continue;
        if (has(passed_, entries_[next].vertex) || meets_again(next)) return true;
    }
    return false;
}

void TableBuilder::pass_on(std::uint32_t entry) {
    bool grows = false;
    for (std::size_t w = 0; w < words_; ++w) {
        Words& behind = behind_[entry * words_ + w];
        grows = grows || (passed_[w] & ~behind) != 0;
        behind |= passed_[w];
    }
    if (!grows) return;
    for (std::uint32_t h = entries_[entry].first; h != kNone; h = hops_[h].following) {
        if (hops_[h].entry != kNone) pass_on(hops_[h].entry);
    }
}

void TableBuilder::add_hop(std::uint32_t entry, std::uint32_t next, std::uint32_t leads_to,
                           std::span<LocalVertex const> path, Capacity capacity) {
    Entry& from = entries_[entry];
    std::uint32_t at = from.first;
    for (; at != kNone; at = hops_[at].following) {
        Hop const& hop = hops_[at];
        if (hop.next == next && hop.entry == leads_to && hop.length == path.size() &&
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
        hop.entry = leads_to;
        hop.pair = pair_;
        hops_.push_back(hop);
        path_.insert(path_.end(), path.begin(), path.end());
        (from.first == kNone ? from.first : hops_[from.last].following) = at;
        from.last = at;
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
        out.number(stage_of(hop));
        out.number(hop.length);
        for (std::uint32_t i = 0; i < hop.length; ++i) out.number(path_[hop.path + i]);
        out.number(std::uint64_t(hop.capacity));
    }
}

std::string TableBuilder::bytes() {
    auto const by_key = [this](std::uint32_t a, std::uint32_t b) {
        return entries_[a].key < entries_[b].key;
    };
    ByteWriter out;
    out.reserve(64 + hops_.size() * 13);
    out.header(kTableMagic, kTableVersion);
    std::size_t const vertices = shape_->vertices().size();
    std::uint32_t used = 0;
    for (std::size_t v = 0; v < vertices; ++v) used += of_vertex_[v].empty() ? 0 : 1;
    out.number(used);
    for (std::size_t v = 0; v < vertices; ++v) {
        auto& entries = of_vertex_[v];
        if (entries.empty()) continue;
        std::sort(entries.begin(), entries.end(), by_key);
        out.number(v);
        out.number(entries.size());
        for (std::uint32_t const e : entries) {
            Entry const& entry = entries_[e];
            auto const kind = Target::Kind(entry.key >> 32);
            out.number(std::uint64_t(kind));
            if (kind == Target::Kind::Local) out.number(entry.key >> 8 & 0xffff);
            out.number(entry.key & 0xff);
            put_hops(out, entry);
        }
    }
    std::sort(arrivals_.begin(), arrivals_.end(), by_key);
    out.number(arrivals_.size());
    for (std::uint32_t const e : arrivals_) {
        Entry const& entry = entries_[e];
        out.number(entry.key >> 32);
        out.number(entry.key & 0xffff);
        put_hops(out, entry);
    }
    return std::move(out).take();
}

}  // namespace mgi::planner
