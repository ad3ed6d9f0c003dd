#include "operators/two_level.hpp"

#include <algorithm>

namespace mgi::operators {

namespace {

// Passed on before the group looks after its other work.
constexpr u32 kPassedOnARound = 16;
// Times processes: with more endpoints two levels pay, as measured with 2 to 16 processes on two servers.
constexpr std::size_t kMostInOneLevel = 256;

u32 count_of(std::vector<u32> const& servers) {
    return servers.empty() ? 0 : *std::max_element(servers.begin(), servers.end()) + 1;
}

}  // namespace

Levels levels_of(std::vector<u32> const& servers, std::string const& what) {
    std::vector<std::vector<u32>> on(count_of(servers));  // endpoints by server
    std::vector<u32> rank;                                // of an endpoint on its server
    for (u32 e = 0; e < servers.size(); ++e) {
        rank.push_back(u32(on[servers[e]].size()));
        on[servers[e]].push_back(e);
    }
    u32 const ranks = *std::max_element(rank.begin(), rank.end()) + 1;

    Levels levels;
    levels.ways.resize(servers.size());
    for (u32 r = 0; r < ranks; ++r) {
        Flow flow;
        flow.name = what + " across servers, rank " + std::to_string(r);
        flow.owners = servers;
        for (std::vector<u32> const& here : on) {
            if (r < here.size()) {
                flow.sources.push_back(here[r]);
                levels.ways[here[r]].across = r;
            }
            u32 const to = here[r % here.size()];
            flow.destinations.push_back(to);
            levels.ways[to].arriving.push_back(r);
        }
        levels.flows.push_back(std::move(flow));
    }
    for (u32 s = 0; s < on.size(); ++s) {
        Flow flow;
        flow.name = what + " within server " + std::to_string(s);
        flow.sources = flow.destinations = on[s];
        // Parts of other servers never come here.
        for (u32 e = 0; e < servers.size(); ++e) {
            flow.owners.push_back(servers[e] == s ? rank[e] : 0);
        }
        flow.keeps = true;
        flow.again = true;
        for (u32 const e : on[s]) levels.ways[e].within = u32(levels.flows.size());
        levels.flows.push_back(std::move(flow));
    }
    return levels;
}

bool goes_in_two_levels(TwoLevel wanted, std::vector<u32> const& servers, std::size_t processes) {
    u32 const count = count_of(servers);
    if (count < 2 || count == servers.size() || wanted == TwoLevel::Off) return false;
    return wanted == TwoLevel::On || servers.size() * processes > kMostInOneLevel;
}

void refuse_two_levels(std::string const& what, OperatorOptions const& options) {
    if (options.two_level != TwoLevel::On) return;
    throw Error(
        ErrorCode::InvalidArgument,
        what + ": only an exchange goes in two levels; leave OperatorOptions::two_level Auto");
}

std::string name_of(TwoLevel wanted) {
    switch (wanted) {
        case TwoLevel::On: return "on";
        case TwoLevel::Off: return "off";
        case TwoLevel::Auto: break;
    }
    return "auto";
}

SecondLevel::SecondLevel(std::vector<Passage> const& arriving, Passage const& within,
                         Endpoint endpoint)
    : outbox_(within, endpoint) {
    for (Passage const& passage : arriving) inboxes_.emplace_back(passage, endpoint);
}

bool SecondLevel::ended() const {
    return from_ == nullptr && std::all_of(inboxes_.begin(), inboxes_.end(),
                                           [](Inbox const& inbox) { return inbox.ended(); });
}

bool SecondLevel::take(device::Group const& group, device::Shared& shared) {
    for (std::size_t i = 0; i < inboxes_.size(); ++i) {
        Inbox& inbox = inboxes_[next_];
        next_ = (next_ + 1) % inboxes_.size();
        auto const keep = [this](device::ReceivedBatch const& batch) { batch_ = batch; };
        if (inbox.receive(group, shared, 1, keep) == 0) continue;
        from_ = &inbox;
        columns_.aim(batch_);
        std::vector<ColumnView> columns = outbox_.take_columns();
        columns.assign(columns_.data(), columns_.data() + batch_.layout->column_count);
        outbox_.put(std::move(columns), batch_.rows);
        return true;
    }
    return false;
}

bool SecondLevel::pass(device::Group const& group, device::Shared& shared) {
    bool moved = false;
    for (u32 batches = 0; batches < kPassedOnARound; ++batches) {
        if (from_ == nullptr && !take(group, shared)) break;
        moved |= outbox_.send(group, shared);
        if (!outbox_.empty()) return moved;
        from_->release(group, shared, batch_);
        from_ = nullptr;
    }
    if (ended()) outbox_.flush(group, shared);
    return moved;
}

}  // namespace mgi::operators
