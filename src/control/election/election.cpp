#include "control/election/election.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <mgi/error.hpp>

#include "core/log.hpp"

namespace mgi::control {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAgain{200};
constexpr milliseconds kResignLimit{1000};
/// An etcd that does not answer for so long is asked anew, however long the lease.
constexpr milliseconds kQuestionLimit{3000};

}  // namespace

std::string leader_key(EtcdOptions const& options) {
    return options.prefix + "leader";
}

Election::Election(EtcdClient const& etcd, EtcdOptions options, std::string address,
                   std::stop_token stop)
    : etcd_(etcd),
      options_(std::move(options)),
      address_(std::move(address)),
      stop_(std::move(stop)) {}

EtcdLimit Election::question(milliseconds most) const {
    return {steady_clock::now() + std::min(most, kQuestionLimit), stop_};
}

bool Election::pause(milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop_, time, [] { return false; });
    return !stop_.stop_requested();
}

std::optional<Term> Election::try_once(std::string& leader) {
    EtcdLimit const limit = question(options_.lease);
    std::string const key = leader_key(options_);
    if (auto const found = etcd_.read(key, limit)) {
        leader = found->value;
        return std::nullopt;
    }
    leader.clear();
    Term term;
    // The lease begins at the latest when the answer comes: counted from before the question, it ends
    // here before it ends there.
    term.sure_until = BootClock::now() + options_.lease;
    term.lease = etcd_.grant(options_.lease, limit);
    etcdserverpb::TxnRequest request;
    *request.add_compare() = created_at(key, 0);
    *request.add_success() = put(key, address_, term.lease);
    *request.add_failure() = get(key);
    try {
        auto const answer = etcd_.transact(request, limit);
        if (answer.succeeded()) {
            term.epoch = std::uint64_t(answer.header().revision());
            return term;
        }
        auto const found = entry_of(answer.responses(0).response_range());
        if (found && found->lease == term.lease) {  // a first answer got lost, and it had worked
            term.epoch = std::uint64_t(found->create_revision);
            return term;
        }
        if (found) leader = found->value;
    } catch (Error const&) {
        resign(term);
        throw;
    }
    resign(term);
    return std::nullopt;
}

std::optional<Term> Election::campaign(std::function<void(std::string const&)> const& other) {
    std::optional<std::string> known;
    std::string trouble;
    while (!stop_.stop_requested()) {
        std::string leader;
        try {
            if (auto const term = try_once(leader)) return term;
            if (!trouble.empty()) log::info("election: etcd answers again");
            trouble.clear();
        } catch (Error const& error) {
            if (stop_.stop_requested()) break;
            if (trouble.empty()) log::error("election: {}", error.what());
            trouble = error.what();
            leader.clear();
        }
        if (known != leader) {
            known = leader;
            other(leader);
        }
        if (!pause(kLookAgain)) break;
    }
    return std::nullopt;
}

std::string Election::hold(Term term, Fence& fence) {
    std::string const key = leader_key(options_);
    char const* const slept = "this process did not run for so long that its lease is over";
    std::string trouble = slept;
    milliseconds const usual = milliseconds(options_.lease) / 4;
    milliseconds until_next = usual;
    auto const left = [&] {
        auto const time = std::chrono::ceil<milliseconds>(term.sure_until - BootClock::now());
        return std::max(time, milliseconds(0));
    };
    while (pause(std::min(until_next, left()))) {
        BootTime const now = BootClock::now();
        if (now >= term.sure_until) return trouble;
        try {
            if (!etcd_.keep_alive(term.lease, question(left()))) return "etcd let the lease go";
            auto const found = etcd_.read(key, question(left()));
            if (!found || std::uint64_t(found->create_revision) != term.epoch) {
                return found ? "another controller leads: " + found->value
                             : "somebody deleted " + key + " in etcd";
            }
            term.sure_until = now + options_.lease;
            if (!fence.renew(term.sure_until)) return slept;
            trouble = slept;
            until_next = usual;
        } catch (Error const& error) {
            trouble = error.what();
            until_next = kLookAgain;
        }
    }
    return "";
}

void Election::resign(Term const& term) noexcept {
    try {
        etcd_.revoke(term.lease, steady_clock::now() + kResignLimit);
    } catch (std::exception const& error) {
        log::debug("election: resigned without etcd: {}", error.what());
    }
}

}  // namespace mgi::control
