#include "planner/joint_flow.hpp"

#include <algorithm>
#include <iterator>

namespace mgi::planner {
namespace {

bool comes_before(Arc const& a, Arc const& b) {
    return a.from != b.from ? a.from < b.from : a.to < b.to;
}

/// A path that is being put right.
struct Draft {
    std::vector<LocalVertex> vertices;
    Capacity capacity = 0;
    [[nodiscard]] bool returns() const { return vertices.front() == vertices.back(); }
};

/// Leaves out what leads back to a vertex, but for a path's end at its own start.
void simplify(std::vector<LocalVertex>& path) {
    for (std::size_t i = 0; i < path.size(); ++i) {
        for (std::size_t j = path.size() - 1; j > i; --j) {
            if (path[i] != path[j]) continue;
            if (i == 0 && j + 1 == path.size()) continue;
            path.erase(path.begin() + std::ptrdiff_t(i), path.begin() + std::ptrdiff_t(j));
            break;
        }
    }
}

/// `loop` leads from a vertex back to it. Where it meets `other`, which neither starts nor ends there,
/// the two change tails: what each sends then arrives somewhere else. Whether they meet.
bool change_tails(Draft& loop, Draft& other, std::vector<Draft>& made) {
    LocalVertex const home = loop.vertices.front();
    if (other.vertices.front() == home || other.vertices.back() == home) return false;
    for (std::size_t i = 1; i + 1 < loop.vertices.size(); ++i) {
        auto const meets =
            std::find(other.vertices.begin(), other.vertices.end(), loop.vertices[i]);
        if (meets == other.vertices.end()) continue;
        Capacity const both = std::min(loop.capacity, other.capacity);
        auto const at = loop.vertices.begin() + std::ptrdiff_t(i);
        Draft away{{loop.vertices.begin(), at}, both};
        away.vertices.insert(away.vertices.end(), meets, other.vertices.end());
        Draft back{{other.vertices.begin(), meets}, both};
        back.vertices.insert(back.vertices.end(), at, loop.vertices.end());
        simplify(away.vertices);
        simplify(back.vertices);
        loop.capacity -= both;
        other.capacity -= both;
        made.push_back(std::move(away));
        made.push_back(std::move(back));
        return true;
    }
    return false;
}

/// Rearranges paths so that as few as possible return to where they start, and drops those.
void straighten(std::vector<Draft>& drafts) {
    // Loops first: two of them that meet are both straight afterwards.
    std::stable_partition(drafts.begin(), drafts.end(), [](Draft const& d) { return d.returns(); });
    for (std::size_t i = 0; i < drafts.size(); ++i) {
        if (!drafts[i].returns()) continue;
        for (std::size_t j = 0; j < drafts.size() && drafts[i].capacity > 0; ++j) {
            if (j == i || drafts[j].capacity == 0) continue;
            std::vector<Draft> made;
            if (!change_tails(drafts[i], drafts[j], made)) continue;
            drafts.insert(drafts.end(), made.begin(), made.end());
        }
    }
    std::erase_if(drafts, [](Draft const& d) { return d.capacity == 0 || d.returns(); });
}

}  // namespace

void JointFlow::build(JointQuestion const& question) {
    vertices_ = count_ = question.vertices;
    original_.clear();
    arcs_.clear();
    Capacity all = 0;
    for (Arc const& arc : question.arcs) all += arc.capacity;
    std::vector<std::uint32_t> sends(vertices_);
    std::vector<bool> is_source(vertices_, false);
    std::vector<bool> is_sink(vertices_, false);
    for (std::uint32_t v = 0; v < vertices_; ++v) sends[v] = v;
    for (std::uint32_t const s : question.sources) is_source[s] = true;
    for (std::uint32_t const d : question.sinks) is_sink[d] = true;
    for (std::uint32_t v = 0; v < vertices_; ++v) {
        if (!is_source[v] || !is_sink[v]) continue;
        sends[v] = count_++;
        original_.push_back(v);
        if (!question.closed(v)) arcs_.push_back({v, sends[v], all});
    }
    for (Arc const& arc : question.arcs) {
        // Into what only sends, or out of what only receives, and passes nothing: nothing goes.
        bool const enters = is_sink[arc.to] || !question.closed(arc.to);
        bool const leaves = is_source[arc.from] || !question.closed(arc.from);
        if (enters && leaves) arcs_.push_back({sends[arc.from], arc.to, arc.capacity});
    }
    std::uint32_t const from = count_++;
    std::uint32_t const to = count_++;
    for (std::uint32_t const s : question.sources) arcs_.push_back({from, sends[s], all});
    for (std::uint32_t const d : question.sinks) arcs_.push_back({d, to, all});
}

Capacity JointFlow::solve(SmallFlow& flow) {
    std::uint32_t const from = count_ - 2;
    std::uint32_t const to = count_ - 1;
    raw_.truncate(0);
    found_.truncate(0);
    // Between what all sources and all sinks hang from.
    auto const keep = [&](auto const& vertices, Capacity capacity) {
        for (std::size_t i = 1; i + 1 < vertices.size(); ++i) raw_.push(original(vertices[i]));
        raw_.add(capacity);
    };
    if (count_ <= SmallGraph::kMost) {
        graph_.reset(count_);
        for (Arc const& arc : arcs_) graph_.add(arc.from, arc.to, arc.capacity);
        flow.load(graph_);
        Capacity const value = flow.run(from, to, ~std::uint64_t(0), found_);
        flow.unload();
        for (std::uint32_t p = 0; p < found_.size(); ++p)
            keep(found_[p].vertices, found_[p].capacity);
        return value;
    }
    FlowNetwork network(count_, arcs_);
    Flow const found = network.max_flow(from, to);
    for (FlowPath const& path : network.paths(found, from, to)) keep(path.vertices, path.capacity);
    return found.value;
}

void JointFlow::emit(PathList& paths) {
    std::vector<Draft> drafts;
    drafts.reserve(raw_.size());
    for (std::uint32_t p = 0; p < raw_.size(); ++p) {
        auto const vertices = raw_[p].vertices;
        Draft draft{{vertices.begin(), vertices.end()}, raw_[p].capacity};
        simplify(draft.vertices);
        drafts.push_back(std::move(draft));
    }
    straighten(drafts);
    std::stable_sort(drafts.begin(), drafts.end(), [](Draft const& a, Draft const& b) {
        return a.vertices.size() < b.vertices.size();
    });
    for (Draft const& draft : drafts) paths.add(draft.vertices, draft.capacity);
}

void JointFlow::start_over(JointQuestion const& question) {
    left_.assign(question.arcs.begin(), question.arcs.end());
    if (!std::is_sorted(left_.begin(), left_.end(), comes_before)) {
        std::sort(left_.begin(), left_.end(), comes_before);
    }
}

Capacity JointFlow::send(JointQuestion const& question, std::vector<std::uint32_t> const& sources,
                         std::vector<std::uint32_t> const& sinks, SmallFlow& flow,
                         PathList& paths) {
    JointQuestion part = question;
    part.arcs = left_;
    part.sources = sources;
    part.sinks = sinks;
    std::uint32_t const before = paths.size();
    build(part);
    Capacity const value = solve(flow);
    emit(paths);
    for (std::uint32_t p = before; p < paths.size(); ++p) {
        auto const vertices = paths[p].vertices;
        for (std::size_t i = 0; i + 1 < vertices.size(); ++i) {
            Arc const link{vertices[i], vertices[i + 1], 0};
            Capacity rest = paths[p].capacity;
            auto at = std::lower_bound(left_.begin(), left_.end(), link, comes_before);
            for (; rest > 0 && at != left_.end(); ++at) {  // parallel arcs stand side by side
                Capacity const part_of_it = std::min(rest, at->capacity);
                at->capacity -= part_of_it;
                rest -= part_of_it;
            }
        }
    }
    return value;
}

Capacity JointFlow::send_in_turn(JointQuestion const& question,
                                 std::vector<std::uint32_t> const& order, SmallFlow& flow,
                                 PathList& paths) {
    Capacity value = 0;
    for (std::uint32_t const source : order) {
        std::vector<std::uint32_t> others;
        for (std::uint32_t const d : question.sinks) {
            if (d != source) others.push_back(d);
        }
        value += send(question, {source}, others, flow, paths);
    }
    return value;
}

void JointFlow::find(JointQuestion const& question, SmallFlow& flow, PathList& paths) {
    std::vector<std::uint32_t> both;
    for (std::uint32_t const s : question.sources) {
        if (std::find(question.sinks.begin(), question.sinks.end(), s) != question.sinks.end()) {
            both.push_back(s);
        }
    }
    build(question);
    Capacity const most = solve(flow);
    if (both.empty()) {
        emit(paths);
        return;
    }
    // One half of those that do both only sends, then only receives.
    auto const half = [&](std::span<std::uint32_t const> all, std::size_t which) {
        std::vector<std::uint32_t> part;
        for (std::uint32_t const v : all) {
            auto const at = std::find(both.begin(), both.end(), v) - both.begin();
            if (at == std::ssize(both) || std::size_t(at) % 2 == which) part.push_back(v);
        }
        return part;
    };
    start_over(question);
    Capacity value =
        send(question, half(question.sources, 0), half(question.sinks, 1), flow, paths);
    value += send(question, half(question.sources, 1), half(question.sinks, 0), flow, paths);
    if (value == most) return;
    std::vector<std::uint32_t> order(question.sources.begin(), question.sources.end());
    value += send_in_turn(question, order, flow, paths);
    if (value == most) return;
    start_over(question);
    std::reverse(order.begin(), order.end());
    send_in_turn(question, order, flow, paths);
    build(question);
    solve(flow);
    emit(paths);
}

}  // namespace mgi::planner
