#include "planner/shape_paths.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace mgi::planner {
namespace {

constexpr PathRange kUnknown{UINT32_MAX, UINT32_MAX};

}  // namespace

std::vector<std::uint32_t> VertexSet::list() const {
    std::vector<std::uint32_t> found;
    found.reserve(std::size_t(std::popcount(low_)));
    std::uint32_t base = 0;
    auto const collect = [&](std::uint64_t word) {
        for (; word != 0; word &= word - 1) {
            found.push_back(base + std::uint32_t(std::countr_zero(word)));
        }
        base += 64;
    };
    collect(low_);
    for (std::uint64_t const word : more_) collect(word);
    return found;
}

std::size_t VertexSet::hash() const {
    std::uint64_t mixed = low_ * 0x9e3779b97f4a7c15ULL;
    for (std::uint64_t const word : more_) {
        mixed = (mixed ^ mixed >> 29 ^ word) * 0xbf58476d1ce4e5b9ULL;
    }
    return mixed ^ mixed >> 32;
}

ShapePaths::ShapePaths(std::shared_ptr<Shape const> shape, PathRules rules)
    : shape_(std::move(shape)), rules_(rules) {
    if (!shape_->is_small()) return;
    auto const vertices = std::uint32_t(shape_->vertices().size());
    for (std::uint32_t v = 0; v < vertices; ++v) {
        if (!closed(v)) open_ |= std::uint64_t(1) << v;
    }
    found_small_.assign(std::size_t(vertices) * vertices, kUnknown);
}

bool is_closed(Shape const& shape, std::uint32_t vertex, PathRules const& rules) {
    bool const managed = shape.managed(vertex);
    // GPUs that were not declared take no part.
    if (shape.is(vertex, VertexKind::Gpu)) return !managed || !rules.relay_gpus;
    if (shape.is(vertex, VertexKind::Cpu)) return managed && !rules.relay_host;
    return false;
}

Scope ShapePaths::scope_of(std::uint32_t from, std::uint32_t to) const {
    if (to == shape_->network()) return Scope::Out;
    return from == shape_->network() ? Scope::In : Scope::Inside;
}

PathRange ShapePaths::find(SmallFlow& flow, std::uint32_t from, std::uint32_t to) {
    if (shape_->is_small()) {
        PathRange& known = found_small_[from * shape_->vertices().size() + to];
        if (known.begin == kUnknown.begin) known = solve(flow, from, to);
        return known;
    }
    std::uint64_t const pair = std::uint64_t(from) << 32 | to;
    if (auto const at = found_large_.find(pair); at != found_large_.end()) return at->second;
    // Solved first: an entry of a search that failed would say that there is no path.
    PathRange const found = solve(flow, from, to);
    found_large_.emplace(pair, found);
    return found;
}

PathRange ShapePaths::solve(SmallFlow& flow, std::uint32_t from, std::uint32_t to) {
    std::uint32_t const begin = list_.size();
    try {
        if (shape_->is_small()) {
            solve_small(flow, from, to);
        } else {
            solve_large(from, to);
        }
    } catch (...) {
        list_.truncate(begin);  // half a path would be the beginning of the next one
        throw;
    }
    return {begin, list_.size()};
}

std::vector<std::uint32_t> ShapePaths::surplus_nics(std::uint32_t begin) const {
    std::vector<std::uint32_t> met;
    for (std::uint32_t p = begin; p < list_.size(); ++p) {
        for (std::uint32_t const v : list_[p].vertices) {
            if (shape_->is(v, VertexKind::Nic) && std::find(met.begin(), met.end(), v) == met.end())
                met.push_back(v);
        }
    }
    met.erase(met.begin(),
              met.begin() + std::min<std::ptrdiff_t>(rules_.max_nics, std::ptrdiff_t(met.size())));
    return met;
}

void ShapePaths::solve_small(SmallFlow& flow, std::uint32_t from, std::uint32_t to) {
    Scope const scope = scope_of(from, to);
    SmallGraph const& graph = shape_->small(scope);
    if (!flow.holds(graph)) flow.load(graph);
    std::uint64_t open = open_ | std::uint64_t(1) << from | std::uint64_t(1) << to;
    std::uint32_t const begin = list_.size();
    flow.run(from, to, open, list_);
    if (scope == Scope::Inside || rules_.max_nics == 0) return;
    std::vector<std::uint32_t> const surplus = surplus_nics(begin);
    if (surplus.empty()) return;
    // All other NICs are closed as well: the nearest ones are those that were met first.
    for (std::uint32_t v = 0; v < graph.vertices; ++v) {
        if (shape_->is(v, VertexKind::Nic)) open &= ~(std::uint64_t(1) << v);
    }
    for (std::uint32_t p = begin; p < list_.size(); ++p) {
        for (std::uint32_t const v : list_[p].vertices) {
            bool const kept = std::find(surplus.begin(), surplus.end(), v) == surplus.end();
            if (kept) open |= std::uint64_t(1) << v;
        }
    }
    list_.truncate(begin);
    flow.run(from, to, open, list_);
}

FlowNetwork& ShapePaths::network(Scope scope) {
    auto& network = networks_[std::size_t(scope)];
    if (network == nullptr) {
        std::vector<Arc> arcs;
        for (Arc const& arc : shape_->arcs()) {
            if (shape_->carries(arc, scope)) arcs.push_back(arc);
        }
        network = std::make_unique<FlowNetwork>(std::uint32_t(shape_->vertices().size()),
                                                std::move(arcs));
    }
    return *network;
}

void ShapePaths::solve_large(std::uint32_t from, std::uint32_t to) {
    if (from == to) return;
    Scope const scope = scope_of(from, to);
    FlowNetwork& graph = network(scope);
    std::vector<bool> shut(shape_->vertices().size());
    for (std::uint32_t v = 0; v < shut.size(); ++v) shut[v] = closed(v);
    shut[from] = shut[to] = false;
    std::uint32_t const begin = list_.size();
    auto const append = [&] {
        graph.close(shut);
        for (FlowPath const& path : graph.paths(graph.max_flow(from, to), from, to)) {
            for (std::uint32_t const v : path.vertices) list_.push(v);
            list_.add(path.capacity);
        }
    };
    append();
    if (scope == Scope::Inside || rules_.max_nics == 0) return;
    std::vector<std::uint32_t> const surplus = surplus_nics(begin);
    if (surplus.empty()) return;
    std::vector<bool> kept(shut.size(), false);
    for (std::uint32_t p = begin; p < list_.size(); ++p) {
        for (std::uint32_t const v : list_[p].vertices) kept[v] = true;
    }
    for (std::uint32_t const v : surplus) kept[v] = false;
    for (std::uint32_t v = 0; v < shut.size(); ++v) {
        if (shape_->is(v, VertexKind::Nic)) shut[v] = !kept[v];
    }
    list_.truncate(begin);
    append();
}

PathList const& ShapePaths::find_joint(SmallFlow& flow, std::vector<std::uint32_t> const& sources,
                                       std::vector<std::uint32_t> const& sinks) {
    joint_.truncate(0);
    Scope scope = Scope::Inside;
    for (std::uint32_t const s : sources) {
        if (s == shape_->network()) scope = Scope::In;
    }
    for (std::uint32_t const d : sinks) {
        if (d == shape_->network()) scope = Scope::Out;
    }
    std::vector<Arc> arcs;
    for (Arc const& arc : shape_->arcs()) {
        if (shape_->carries(arc, scope)) arcs.push_back(arc);
    }
    JointQuestion question;
    question.vertices = std::uint32_t(shape_->vertices().size());
    question.arcs = arcs;
    question.sources = sources;
    question.sinks = sinks;
    question.closed = [this](std::uint32_t v) { return closed(v); };
    asker_.find(question, flow, joint_);
    return joint_;
}

std::size_t ShapePaths::bytes() const {
    std::size_t sum = sizeof(*this) + list_.bytes() + joint_.bytes();
    sum += found_small_.capacity() * sizeof(PathRange) + found_large_.size() * 48;
    for (auto const& network : networks_) {
        if (network != nullptr) sum += network->arcs().size() * 64;
    }
    return sum;
}

}  // namespace mgi::planner
