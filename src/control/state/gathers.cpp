#include "control/state/gathers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <mgi/device/assert.hpp>

#include "control/state/validation.hpp"

namespace mgi::control {
namespace {

constexpr std::size_t kMostNamed = 8;      // ranks in an error's text
constexpr std::size_t kCallCost = 256;     // bytes that a call takes beside its share's data
constexpr std::size_t kMostGone = 65'536;  // endpoints that are remembered

void answer(CallId call, Problem problem, std::string text, Effects& effects) {
    effects.emplace_back(Answer{call, problem, std::move(text), 0, 0, nullptr});
}

// Bytes to know whose endpoint is whose.
std::size_t watch_cost(std::size_t endpoints) {
    return endpoints * sizeof(std::pair<std::uint32_t, std::uint32_t>);
}

}  // namespace

Gathers::Gathers(Limits const& limits, Millis keep_ms)
    : limits_(limits),
      keep_ms_(keep_ms),
      waiting_("calls that wait for others of their gather", limits.gather_calls, "repeat later"),
      bytes_("bytes of gathers", limits.gathers_bytes,
             "say less at once, or wait until gathers under way are over") {}

std::string Gathers::wrong(GatherRequest const& request) const {
    std::string text = wrong_token("the request's name", request.request());
    if (text.empty()) text = wrong_owner(request.owner());
    if (text.empty()) text = wrong_name("the key", request.key(), limits_.text);
    if (!text.empty()) return text;
    if (request.size() == 0 || request.size() > limits_.gather_ranks) {
        return fmt::format("of {} ranks; 1 to {} are possible", request.size(),
                           limits_.gather_ranks);
    }
    if (request.rank() >= request.size()) {
        return fmt::format("rank {} of {}: ranks count from 0", request.rank(), request.size());
    }
    if (request.data().size() > limits_.gather_share) {
        return fmt::format("rank {} says {} bytes; at most {} are possible", request.rank(),
                           request.data().size(), limits_.gather_share);
    }
    int const endpoints = request.endpoints_size();
    if (endpoints != 0 && static_cast<std::uint32_t>(endpoints) != request.size()) {
        return fmt::format("{} endpoints of {} ranks: one of each, or none", endpoints,
                           request.size());
    }
    return "";
}

// Of this rank with those who came first, who are right.
std::string Gathers::contradiction(GatherRequest const& request) const {
    auto const found = meetings_.find({request.owner(), request.key()});
    if (found == meetings_.end()) return "";
    Meeting const& meeting = found->second;
    if (meeting.size != request.size()) {
        return fmt::format("rank {} says that there are {} ranks, and others have said {}",
                           request.rank(), request.size(), meeting.size);
    }
    auto const said = meeting.shares.find(request.rank());
    if (said == meeting.shares.end() || said->second.data == request.data()) return "";
    return fmt::format(
        "rank {} has said something else already: two processes with one rank, or one key for two "
        "purposes",
        request.rank());
}

void Gathers::say(CallId call, GatherRequest const& request, Millis now, Millis deadline,
                  Timers& timers, Effects& effects) {
    auto const fail = [&](Problem problem, std::string const& text) {
        answer(call, problem, fmt::format("gather '{}': {}", request.key(), text), effects);
    };
    std::string text = wrong(request);
    if (!text.empty()) {
        // The key itself may be what is wrong.
        return answer(call, Problem::InvalidArgument, "gather: " + text, effects);
    }
    Key const key{request.owner(), request.key()};
    auto const known = answers_.find({request.owner(), request.request()});
    if (known != answers_.end()) {
        effects.emplace_back(Answer{call, Problem::None, {}, 0, 0, known->second});
        return;
    }
    if (!request.answered()) {
        if (hear_failure(call, request, now, timers, effects)) return;
        if (request.failed()) return fail_meeting(call, request, now, deadline, timers, effects);
        text = rank_gone(request);
        if (!text.empty()) return fail(Problem::Aborted, text);
    }
    text = contradiction(request);
    if (!text.empty() && request.answered()) return fail(Problem::Aborted, "it is over");
    if (!text.empty()) {
        // A share of a meeting that is over elsewhere must not stand in a new one's way.
        auto const& shares = meetings_.at(key).shares;
        bool const all_over = std::all_of(shares.begin(), shares.end(),
                                          [](auto const& share) { return share.second.answered; });
        if (!all_over) return fail(Problem::InvalidArgument, text);
        for (auto const& [rank, share] : std::map(shares)) {
            for (CallId const old : share.of) {
                take_out(old, timers);
                answer(old, Problem::Aborted, "the gather is over", effects);
            }
        }
    }
    text = waiting_.refusal(key.owner);
    if (!text.empty()) return fail(Problem::Unavailable, text);
    std::size_t const bytes = request.data().size();
    auto const endpoints = static_cast<std::size_t>(request.endpoints_size());
    auto const met = meetings_.find(key);
    if (met != meetings_.end() && met->second.bytes + bytes > limits_.gather_bytes) {
        return fail(Problem::ResourceExhausted,
                    fmt::format("all ranks together say more than {} bytes", limits_.gather_bytes));
    }
    bool const said = met != meetings_.end() && met->second.shares.contains(request.rank());
    bool const watches = met != meetings_.end() && !met->second.ranks_at.empty();
    std::size_t const watched = watches ? 0 : watch_cost(endpoints);
    std::size_t const cost = kCallCost + watched + (said ? 0 : bytes);
    text = bytes_.refusal(key.owner, cost);
    if (!text.empty()) return fail(Problem::ResourceExhausted, text);
    Meeting& meeting = meetings_[key];
    meeting.size = request.size();
    if (watched != 0) {
        for (std::size_t rank = 0; rank < endpoints; ++rank) {
            meeting.ranks_at.emplace_back(request.endpoints(static_cast<int>(rank)),
                                          static_cast<std::uint32_t>(rank));
        }
        std::sort(meeting.ranks_at.begin(), meeting.ranks_at.end());
    }
    Share& share = meeting.shares[request.rank()];
    if (!said) {
        share.data = request.data();
        meeting.bytes += bytes;
        auto& missing = meeting.missing;
        if (std::binary_search(missing.begin(), missing.end(), request.rank())) missing.clear();
    }
    bytes_.add(key.owner, cost);
    waiting_.add(key.owner);
    share.answered = share.answered && request.answered();
    share.of.push_back(call);
    calls_.emplace(call, Waiting{key, request.rank(), request.request()});
    if (meeting.shares.size() == meeting.size) {
        return answer_all(key, now, timers, effects);
    }
    timers.set(Due::Gather, call, deadline);
}

// Its calls are answered, and the answer is kept for those whose got lost.
Gathers::Meeting Gathers::end_meeting(Key const& key,
                                      std::shared_ptr<GatherReply const> const& reply, Kept& kept,
                                      std::size_t& bytes, Timers& timers, Effects& effects) {
    auto const found = meetings_.find(key);
    Meeting meeting = std::move(found->second);
    meetings_.erase(found);
    bytes_.remove(key.owner, meeting.bytes + watch_cost(meeting.ranks_at.size()));
    for (auto const& [rank, share] : meeting.shares) {
        for (CallId const call : share.of) {
            auto const waiting = calls_.find(call);
            std::string& request = waiting->second.request;
            answers_[{key.owner, request}] = reply;
            kept.requests.push_back(std::move(request));
            bytes += kCallCost;
            bytes_.remove(key.owner, kCallCost);
            calls_.erase(waiting);
            waiting_.remove(key.owner);
            timers.cancel(Due::Gather, call);
            effects.emplace_back(Answer{call, Problem::None, {}, 0, 0, reply});
        }
    }
    return meeting;
}

void Gathers::answer_all(Key const& key, Millis now, Timers& timers, Effects& effects) {
    Meeting& meeting = meetings_.at(key);
    auto const reply = std::make_shared<GatherReply>();
    Kept kept{now + keep_ms_, key.owner, {}};
    std::size_t bytes = meeting.bytes;
    for (auto& [rank, share] : meeting.shares) reply->add_data(std::move(share.data));
    (void)end_meeting(key, reply, kept, bytes, timers, effects);
    keep(std::move(kept), bytes, timers);
}

void Gathers::keep(Kept kept, std::size_t bytes, Timers& timers) {
    if (kept_.empty()) timers.set(Due::Gathered, 0, kept.until);
    std::string const owner = kept.owner;
    kept_.add(owner, std::move(kept), bytes);
    while (kept_.size() > limits_.kept_gathers_bytes) drop(kept_.drop_of_largest());
}

// Ranks that wait hear it now, and the others as they come, until the deadline of the rank that has failed.
void Gathers::fail_meeting(CallId call, GatherRequest const& request, Millis now, Millis deadline,
                           Timers& timers, Effects& effects) {
    Key const key{request.owner(), request.key()};
    std::size_t const bytes = kCallCost + request.size() + request.data().size();
    std::string const full = bytes_.refusal(key.owner, bytes);
    if (!full.empty()) return answer(call, Problem::ResourceExhausted, full, effects);
    auto const reply = std::make_shared<GatherReply>();
    for (std::uint32_t rank = 0; rank < request.size(); ++rank) {
        reply->add_data(rank == request.rank() ? request.data() : "");
    }
    Kept kept{now + keep_ms_, key.owner, {request.request()}};
    std::size_t kept_bytes = bytes;
    Failed failed{request.size(), bytes, {request.rank()}, reply};
    auto const met = meetings_.find(key);
    if (met != meetings_.end() && met->second.size == request.size()) {
        auto const meeting = end_meeting(key, reply, kept, kept_bytes, timers, effects);
        for (auto const& [rank, share] : meeting.shares) failed.heard.insert(rank);
    }
    answers_[{key.owner, request.request()}] = reply;
    keep(std::move(kept), kept_bytes, timers);
    effects.emplace_back(Answer{call, Problem::None, {}, 0, 0, reply});
    if (failed.heard.size() == failed.size) return;
    bytes_.add(key.owner, bytes);
    std::uint64_t const number = next_failure_++;
    failures_.emplace(std::pair(key, number), std::move(failed));
    failure_keys_.emplace(number, key);
    timers.set(Due::FailedGather, number, deadline);
}

// Whether this rank comes to a meeting that another one has failed, of which it has not heard yet.
bool Gathers::hear_failure(CallId call, GatherRequest const& request, Millis now, Timers& timers,
                           Effects& effects) {
    Key const key{request.owner(), request.key()};
    for (auto at = failures_.lower_bound({key, 0}); at != failures_.end() && at->first.first == key;
         ++at) {
        Failed& failed = at->second;
        if (failed.size != request.size() || !failed.heard.insert(request.rank()).second) continue;
        auto const reply = failed.reply;
        answers_[{key.owner, request.request()}] = reply;
        keep({now + keep_ms_, key.owner, {request.request()}}, kCallCost, timers);
        effects.emplace_back(Answer{call, Problem::None, {}, 0, 0, reply});
        if (failed.heard.size() == failed.size) {
            timers.cancel(Due::FailedGather, at->first.second);
            forget_failure(at->first.second);
        }
        return true;
    }
    return false;
}

void Gathers::forget_failure(std::uint64_t number) {
    auto const key = failure_keys_.find(number);
    auto const failed = failures_.find({key->second, number});
    bytes_.remove(key->second.owner, failed->second.bytes);
    failures_.erase(failed);
    failure_keys_.erase(key);
}

// Of the ranks of this meeting the first that comes no more.
std::string Gathers::rank_gone(GatherRequest const& request) const {
    for (int rank = 0; rank < request.endpoints_size(); ++rank) {
        auto const gone = gone_.find(request.endpoints(rank));
        if (gone == gone_.end()) continue;
        return fmt::format("rank {} of {} is gone: {}", rank, request.size(), gone->second);
    }
    return "";
}

void Gathers::endpoint_gone(std::uint32_t endpoint, std::string const& why, Timers& timers,
                            Effects& effects) {
    gone_[endpoint] = fmt::format("endpoint {}: {}", endpoint, why);
    gone_order_.push_back(endpoint);
    if (gone_order_.size() > kMostGone) {
        gone_.erase(gone_order_.front());
        gone_order_.pop_front();
    }
    std::vector<std::pair<CallId, std::string>> over;
    for (auto const& [key, meeting] : meetings_) {
        auto const& at = meeting.ranks_at;
        auto const found = std::lower_bound(at.begin(), at.end(), std::pair(endpoint, 0u));
        if (found == at.end() || found->first != endpoint) continue;
        std::string const text = fmt::format("gather '{}': rank {} of {} is gone: {}", key.name,
                                             found->second, meeting.size, gone_[endpoint]);
        for (auto const& [rank, share] : meeting.shares) {
            for (CallId const call : share.of) over.emplace_back(call, text);
        }
    }
    for (auto const& [call, text] : over) {
        take_out(call, timers);
        answer(call, Problem::Aborted, text, effects);
    }
}

void Gathers::take_out(CallId call, Timers& timers) {
    auto const waiting = calls_.find(call);
    if (waiting == calls_.end()) return;
    auto const meeting = meetings_.find(waiting->second.key);
    std::string const& owner = meeting->first.owner;
    auto const share = meeting->second.shares.find(waiting->second.rank);
    calls_.erase(waiting);
    timers.cancel(Due::Gather, call);
    waiting_.remove(owner);
    bytes_.remove(owner, kCallCost);
    std::erase(share->second.of, call);
    if (!share->second.of.empty()) return;
    std::size_t const bytes = share->second.data.size();
    MGI_ASSERT(meeting->second.bytes >= bytes, meeting->second.bytes, bytes);
    bytes_.remove(owner, bytes);
    meeting->second.bytes -= bytes;
    auto& missing = meeting->second.missing;
    if (!missing.empty()) {
        missing.insert(std::upper_bound(missing.begin(), missing.end(), share->first),
                       share->first);
        missing.resize(std::min(missing.size(), kMostNamed));
    }
    meeting->second.shares.erase(share);
    if (!meeting->second.shares.empty()) return;
    bytes_.remove(owner, watch_cost(meeting->second.ranks_at.size()));
    meetings_.erase(meeting);
}

std::vector<std::uint32_t> Gathers::first_missing(Meeting const& meeting) {
    std::vector<std::uint32_t> missing;
    auto share = meeting.shares.begin();
    for (std::uint32_t rank = 0; rank < meeting.size && missing.size() < kMostNamed; ++rank) {
        if (share != meeting.shares.end() && share->first == rank) {
            ++share;
        } else {
            missing.push_back(rank);
        }
    }
    return missing;
}

void Gathers::due(CallId call, Timers& timers, Effects& effects) {
    auto const waiting = calls_.find(call);
    if (waiting == calls_.end()) return;
    Key const& key = waiting->second.key;
    Meeting& meeting = meetings_.at(key);
    if (meeting.missing.empty()) meeting.missing = first_missing(meeting);
    std::string missing = fmt::format("{}", fmt::join(meeting.missing, ", "));
    std::size_t const named = meeting.missing.size();
    std::size_t const count = meeting.size - meeting.shares.size();
    if (named < count) missing += fmt::format(" and {} more", count - named);
    std::string text =
        fmt::format("gather '{}': {} {} of {} {} not come", key.name, count == 1 ? "rank" : "ranks",
                    missing, meeting.size, count == 1 ? "has" : "have");
    take_out(call, timers);
    answer(call, Problem::DeadlineExceeded, std::move(text), effects);
}

void Gathers::gone(CallId call, Timers& timers) {
    take_out(call, timers);
}

void Gathers::drop(Kept const& kept) {
    for (std::string const& request : kept.requests) answers_.erase({kept.owner, request});
}

void Gathers::forget(Millis now, Timers& timers) {
    while (!kept_.empty() && kept_.oldest().until <= now) drop(kept_.drop_oldest());
    if (!kept_.empty()) timers.set(Due::Gathered, 0, kept_.oldest().until);
}

}  // namespace mgi::control
