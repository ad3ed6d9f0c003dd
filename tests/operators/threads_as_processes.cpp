#include "operators/threads_as_processes.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>

namespace mgi::test {

namespace {

/// How long a process waits for the others to create a channel.
constexpr std::chrono::seconds kChannelPatience{20};

constexpr std::chrono::milliseconds kLook{5};

/// What must be the same in all processes.
std::string text_of(ChannelSpec const& spec) {
    std::string text = spec.options.name + ": " + spec.schema.value_or(Schema()).to_string();
    for (Endpoint const endpoint : spec.sources) text += " " + std::to_string(endpoint.id);
    text += " to";
    for (Endpoint const endpoint : spec.destinations) text += " " + std::to_string(endpoint.id);
    for (std::string const& key : spec.routing.keys) text += " by " + key;
    text += " owned by";
    for (std::uint32_t const owner : spec.routing.owners) text += " " + std::to_string(owner);
    ChannelOptions const& options = spec.options;
    for (std::uint64_t const number :
         {std::uint64_t{options.by_reference}, std::uint64_t{options.max_groups},
          std::uint64_t{options.segment_bytes}, std::uint64_t{options.text_bytes_per_row},
          options.receive_limit}) {
        text += " " + std::to_string(number);
    }
    return text;
}

}  // namespace

std::vector<std::string> MeetingPlace::gather(std::string const& key, std::size_t process,
                                              std::string const& words,
                                              std::chrono::milliseconds timeout,
                                              std::function<bool()> const& stop,
                                              std::vector<std::size_t> const& who, bool failed) {
    std::vector<std::size_t> all = who;
    if (all.empty()) {
        all.resize(count_);
        std::iota(all.begin(), all.end(), std::size_t{0});
    }
    std::unique_lock lock(mutex_);
    auto& said = said_[key];
    said.resize(count_);
    if (said[process] && *said[process] != words) {
        throw Error(ErrorCode::InvalidArgument,
                    key + ": rank " + std::to_string(process) + " has said something else before");
    }
    said[process] = words;
    if (failed && !failed_.contains(key)) {
        std::vector<std::string>& heard = failed_[key];
        for (std::size_t const p : all) heard.push_back(p == process ? words : "");
    }
    changed_.notify_all();
    auto const all_said = [&] {
        if (failed_.contains(key)) return true;
        return std::all_of(all.begin(), all.end(),
                           [&](std::size_t p) { return said[p].has_value(); });
    };
    auto const deadline = std::chrono::steady_clock::now() + timeout;
    while (!all_said() && std::chrono::steady_clock::now() < deadline) {
        changed_.wait_for(lock, kLook, all_said);
        if (!all_said() && stop()) throw Error(ErrorCode::Interrupted, key + ": interrupted");
    }
    if (!all_said()) {
        std::string missing;
        for (std::size_t const p : all) {
            if (!said[p]) missing += " rank " + std::to_string(p);
        }
        throw Error(ErrorCode::Timeout, key + ": nothing from" + missing);
    }
    if (failed_.contains(key)) return failed_[key];
    std::vector<std::string> answers;
    answers.reserve(all.size());
    for (std::size_t const p : all) answers.push_back(*said[p]);
    return answers;
}

Channel MeetingPlace::create_channel(std::size_t number, std::size_t process,
                                     ChannelSpec const& spec, std::vector<std::size_t> const& who) {
    std::string key = "channel " + std::to_string(number) + " of";
    for (std::size_t const one : who) key += " " + std::to_string(one);
    auto const specs =
        gather(key, process, text_of(spec), kChannelPatience, [] { return false; }, who);
    for (std::string const& one : specs) {
        if (one == specs[0]) continue;
        throw Error(ErrorCode::InvalidArgument, "channels differ: " + specs[0] + "; " + one);
    }
    std::lock_guard const lock(mutex_);
    auto& made = made_[key];
    if (!made.channel) made = {runtime_.create_channel(spec), who.size()};
    return made.channel;
}

void MeetingPlace::leave_channel(Channel const& channel) {
    std::lock_guard const lock(mutex_);
    auto const at = std::find_if(made_.begin(), made_.end(), [&](auto const& one) {
        return one.second.channel.id() == channel.id();
    });
    if (--at->second.users != 0) return;
    made_.erase(at);
    runtime_.delete_channel(channel);
}

std::size_t MeetingPlace::channels() {
    std::lock_guard const lock(mutex_);
    return made_.size();
}

std::size_t ThreadAsProcess::owner_of(Endpoint endpoint) const {
    auto const at = std::find(endpoints_.begin(), endpoints_.end(), endpoint);
    return at == endpoints_.end() ? SIZE_MAX : owners_[std::size_t(at - endpoints_.begin())];
}

bool ThreadAsProcess::mine(Endpoint endpoint) const {
    return owner_of(endpoint) == me_;
}

std::vector<std::uint32_t> ThreadAsProcess::servers() const {
    std::vector<std::uint32_t> servers;
    servers.reserve(owners_.size());
    for (std::size_t const owner : owners_) servers.push_back(servers_[owner]);
    return servers;
}

Channel ThreadAsProcess::create_channel(ChannelSpec const& spec) {
    ++all_channels_;
    std::set<std::size_t> who;
    for (Endpoint const endpoint : spec.sources) who.insert(owner_of(endpoint));
    for (Endpoint const endpoint : spec.destinations) who.insert(owner_of(endpoint));
    std::vector<std::size_t> const all(who.begin(), who.end());
    // Also one that cannot be made is one.
    std::size_t const number = channels_[all]++;
    before_channel();
    return place_.create_channel(number, me_, spec, all);
}

}  // namespace mgi::test
