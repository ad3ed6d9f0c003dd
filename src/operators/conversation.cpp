#include "operators/conversation.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <string_view>

#include "operators/aggregates.hpp"
#include "operators/join_rules.hpp"
#include "operators/message.hpp"

namespace mgi::operators {

namespace {

using std::chrono::milliseconds;

constexpr u64 kVersion = 3;
// Bytes of facts that a process says at a time, and all of them: a gather carries twice as many.
constexpr std::size_t kMostAtATime = std::size_t{128} << 10;
constexpr std::size_t kMostOfAll = std::size_t{16} << 20;
// How long a process that has failed, or whose channels have, waits to hear of the first cause, and
// sees to it that the others do.
constexpr milliseconds kFarewell{5'000};
// The same where its caller wants it to stop, or has waited long enough.
constexpr milliseconds kShortFarewell{2'000};

// Changes when rows move.
u64 moved(std::vector<Channel> const& channels) {
    u64 sum = 0;
    for (Channel const& channel : channels) {
        ChannelStats const stats = channel.stats();
        sum += stats.segments;
        for (QueueStats const& queue : stats.queues) sum += queue.taken;
    }
    return sum;
}

}  // namespace

bool any_failed(std::vector<Channel> const& channels) {
    try {
        for (Channel const& channel : channels) channel.check();
        return false;
    } catch (Error const&) {
        return true;
    }
}

enum class Conversation::Outcome : u8 {
    Well,
    Overflow,  // NarrowOverflow: all begin again with wider sums
    Followed,  // when a channel had failed already
    Failed,
};

struct Conversation::Said {
    Outcome outcome = Outcome::Well;
    ErrorCode code = ErrorCode::Ok;
    std::string text;   // why it failed
    std::string facts;  // else
    std::string call;
};

Conversation::Conversation(Processes& processes, std::string what, Call const& call,
                           OperatorOptions const& options)
    : processes_(processes),
      what_(std::move(what)),
      caller_(what_, options.cancel),
      patience_(options.patience) {
    if (alone()) return;
    number_ = processes_.next_operator();
    if (call.empty()) return;
    MessageWriter words;
    words.text("operator").text(what_);
    for (auto const& [name, value] : call) words.text(name).text(value);
    call_ = words.take();
}

Conversation::Said Conversation::describe(Failure const& failure) {
    Said said;
    if (failure.what == nullptr) return said;
    said.outcome = failure.followed ? Outcome::Followed : Outcome::Failed;
    said.code = ErrorCode::GroupFailed;
    try {
        std::rethrow_exception(failure.what);
    } catch (NarrowOverflow const&) {
        said.outcome = Outcome::Overflow;
    } catch (Error const& error) {
        // To be interrupted is for those whose user asked for it.
        if (error.code() != ErrorCode::Interrupted) said.code = error.code();
        said.text = error.what();
    } catch (std::bad_alloc const&) {
        said.code = ErrorCode::OutOfMemory;
        said.text = "the machine has no more memory";
    } catch (std::exception const& error) {
        said.text = error.what();
    } catch (...) {
        said.text = "it threw something that is no std::exception";
    }
    return said;
}

std::string Conversation::encode(Said const& said) const {
    MessageWriter words;
    words.number(kVersion).text(call_).number(u64(said.outcome)).number(u64(said.code));
    words.text(said.text).text(said.facts);
    return words.take();
}

std::vector<Conversation::Said> Conversation::decode(std::vector<std::string> const& words) {
    std::vector<Said> all;
    for (std::string const& one : words) {
        Said said;
        if (one.empty()) {  // another one has failed
            all.push_back(std::move(said));
            continue;
        }
        MessageReader from(one);
        if (from.number() != kVersion) MessageReader::refuse();
        said.call = from.text();
        said.outcome = Outcome(from.number(u64(Outcome::Failed)));
        said.code = ErrorCode(from.number(u64(ErrorCode::Internal)));
        said.text = from.text();
        said.facts = from.text();
        all.push_back(std::move(said));
    }
    return all;
}

milliseconds Conversation::farewell() const {
    return std::min(patience_, caller_.cancelled() ? kShortFarewell : kFarewell);
}

std::vector<Conversation::Said> Conversation::say(Said const& mine, milliseconds patience,
                                                  std::vector<Channel> const& channels) {
    std::string const key =
        "operator " + std::to_string(number_) + ", step " + std::to_string(step_);
    std::string const words = encode(mine);
    // Who has failed, or was told to stop already, hears why in any case.
    bool const stops = mine.outcome == Outcome::Well;
    bool const gives_up = mine.outcome == Outcome::Failed;
    std::optional<Clock::time_point> failed;
    // A process that gives up waits for nobody but the threads that are to pass it on.
    Clock::time_point const latest = Clock::now() + farewell();
    auto const stop = [&] {
        if (stops && caller_.cancelled()) return true;
        if (gives_up && Clock::now() > latest) return true;
        // Whoever has failed a channel says why, or has died.
        if (!failed && any_failed(channels)) failed = Clock::now();
        return failed && Clock::now() > *failed + kFarewell;
    };
    if (stops) caller_.check();
    said_ = true;
    for (u64 before = moved(channels);;) {
        try {
            auto const answers = processes_.gather(key, words, patience, stop, gives_up);
            ++step_;
            said_ = false;
            return decode(answers);
        } catch (Error const& error) {
            if (stops) caller_.check();
            if (error.code() == ErrorCode::GroupFailed) {  // all hear that one is gone
                over_ = true;
                throw Error(error.code(), what_ + ": " + error.what());
            }
            if (error.code() != ErrorCode::Timeout) throw;
            u64 const now = moved(channels);
            if (now == before) {
                throw Error(ErrorCode::Timeout, what_ +
                                                    ": not all processes have come so far in time "
                                                    "(OperatorOptions::patience): " +
                                                    error.what());
            }
            before = now;
        }
    }
}

// All processes must have called the same operator with the same arguments. A process that could not call,
// or was not heard since another one has failed, says none.
void Conversation::compare_calls(std::vector<Said> const& all) const {
    auto const call_at = [&](std::size_t p) -> std::string const& {
        return p == processes_.me() ? call_ : all[p].call;
    };
    std::size_t named = 0;
    while (named < all.size() && call_at(named).empty()) ++named;
    for (std::size_t p = named + 1; p < all.size(); ++p) {
        if (call_at(p).empty() || call_at(p) == call_at(named)) continue;
        MessageReader first(call_at(named));
        MessageReader other(call_at(p));
        while (!first.at_end() && !other.at_end()) {
            std::string const name(first.text());
            std::string const value(first.text());
            std::string const other_name(other.text());
            std::string const other_value(other.text());
            if (name == other_name && value == other_value) continue;
            std::string text = what_;
            text.append(": ").append(processes_.name(named)).append(" calls it with ");
            text.append(name).append(" ").append(value).append(", ");
            text.append(processes_.name(p)).append(" with ");
            text.append(other_name).append(" ").append(other_value);
            text +=
                ": all processes that have endpoints in an operator make the same calls in the "
                "same order";
            throw Error(ErrorCode::InvalidArgument, text);
        }
        MessageReader::refuse();
    }
}

void Conversation::blame(std::size_t process, Said const& said) const {
    throw Error(said.code, what_ + ": " + processes_.name(process) + " has failed: " + said.text);
}

void Conversation::judge(std::vector<Said> const& all, Outcome mine,
                         std::exception_ptr const& own) {
    auto const first = [&](Outcome outcome) {
        auto const at = std::find_if(all.begin(), all.end(),
                                     [&](Said const& said) { return said.outcome == outcome; });
        return std::size_t(at - all.begin());
    };
    std::size_t const failed = first(Outcome::Failed);
    if (failed != all.size()) {
        over_ = true;
        if (own != nullptr && mine == Outcome::Failed) std::rethrow_exception(own);
        blame(failed, all[failed]);
    }
    if (first(Outcome::Overflow) != all.size()) throw NarrowOverflow{};
    std::size_t const followed = first(Outcome::Followed);
    if (followed == all.size()) return;
    over_ = true;
    if (own != nullptr) std::rethrow_exception(own);
    blame(followed, all[followed]);
}

std::vector<std::string> Conversation::gather(std::string const& facts) {
    if (alone()) return {facts};
    std::size_t const together = std::min(kMostAtATime, kMostOfAll / processes_.count());
    std::vector<std::string> answers(processes_.count());
    u64 longest = 0;
    for (std::size_t at = 0; at == 0 || at < longest; at += together) {
        Said mine;
        MessageWriter words;
        words.number(facts.size());
        words.text(std::string_view(facts).substr(std::min(at, facts.size()), together));
        mine.facts = words.take();
        auto const all = say(mine, patience_, {});
        try {
            compare_calls(all);
        } catch (...) {
            over_ = true;
            throw;
        }
        judge(all, Outcome::Well, nullptr);
        for (std::size_t p = 0; p < all.size(); ++p) {
            MessageReader from(all[p].facts);
            longest = std::max(longest, from.number());
            answers[p] += from.text();
        }
    }
    return answers;
}

void Conversation::end(Failure const& failure, std::vector<Channel> const& channels) {
    if (alone()) {
        if (failure.what != nullptr) std::rethrow_exception(failure.what);
        return;
    }
    if (failure.what == nullptr && caller_.cancelled()) {
        return end({std::make_exception_ptr(caller_.interrupted())}, channels);
    }
    Said const mine = describe(failure);
    std::vector<Said> all;
    try {
        // How long words are waited for, or how long they stand there.
        bool const follows = mine.outcome == Outcome::Followed || mine.outcome == Outcome::Overflow;
        all = say(mine, follows ? farewell() : patience_, channels);
    } catch (...) {
        over_ = true;
        if (failure.what != nullptr && mine.outcome != Outcome::Overflow) {
            std::rethrow_exception(failure.what);
        }
        // Why a channel has failed says more than that somebody does not answer.
        for (Channel const& channel : channels) channel.check();
        // Others that are still at work end too.
        for (Channel const& channel : channels) {
            channel.fail(ErrorCode::GroupFailed, what_ + ": " + processes_.name(processes_.me()) +
                                                     " has given up waiting for the others");
        }
        throw;
    }
    judge(all, mine.outcome, failure.what);
}

void Conversation::give_up(std::exception_ptr const& failure) noexcept {
    if (alone() || over_) return;
    over_ = true;
    try {
        // What was said at a step stays said.
        if (said_) ++step_;
        say(describe({failure}), patience_, {});
    } catch (...) {
        // Whoever does not hear of it waits in vain, for as long as its patience.
    }
}

Conversation::Call call_of(std::vector<Endpoint> const& endpoints, OperatorOptions const& options,
                           TableMemory memory, Conversation::Call const& more) {
    std::vector<std::string> ids;
    ids.reserve(endpoints.size());
    for (Endpoint const& endpoint : endpoints) ids.push_back(std::to_string(endpoint.id));
    char const* const where = memory == TableMemory::Gpu    ? "GPUs"
                              : memory == TableMemory::Host ? "the host"
                                                            : "the host, for GPUs";
    Conversation::Call call{{"tables in the memory of", where}};
    call.insert(call.end(), more.begin(), more.end());
    call.emplace_back("endpoints", names_text(ids));
    call.emplace_back("hash", options.hash == Hash::Modulo ? "modulo" : "murmur3");
    call.emplace_back("by_reference", options.by_reference ? "true" : "false");
    call.emplace_back("segment_bytes", std::to_string(options.segment_bytes));
    call.emplace_back("receive_limit", std::to_string(options.receive_limit));
    call.emplace_back("gpu_out", options.gpu_out.empty() ? "none" : "given");
    call.emplace_back("one_endpoint_bytes", std::to_string(options.one_endpoint_bytes));
    return call;
}

Conversation::Call arguments_of(std::vector<std::string> const& keys,
                                std::vector<Aggregate> const& aggregates) {
    std::vector<std::string> texts;
    texts.reserve(aggregates.size());
    for (Aggregate const& aggregate : aggregates) {
        texts.push_back(std::string(name_of(aggregate.function)) + "(" + aggregate.column +
                        ") as " + aggregate.name);
    }
    return {{"keys", names_text(keys)}, {"aggregates", names_text(texts)}};
}

Conversation::Call arguments_of(JoinSpec const& spec) {
    return {{"kind", name_of(spec.kind)},
            {"broadcast", name_of(spec.broadcast)},
            {"left keys", names_text(spec.left_keys)},
            {"right keys", names_text(spec.right_keys)},
            {"left columns", names_text(spec.left_columns)},
            {"right columns", names_text(spec.right_columns)}};
}

Conversation::Call arguments_of(std::vector<SortKey> const& keys) {
    std::vector<std::string> texts;
    texts.reserve(keys.size());
    for (SortKey const& key : keys) {
        texts.push_back(key.column + (key.descending ? " desc" : " asc") +
                        (key.nulls_first ? " nulls first" : " nulls last"));
    }
    return {{"keys", names_text(texts)}};
}

std::string names_text(std::vector<std::string> const& names) {
    std::string text;
    for (std::string const& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

}  // namespace mgi::operators
