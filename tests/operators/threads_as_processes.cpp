#include "operators/threads_as_processes.hpp"

#include <algorithm>

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
                                              std::function<bool()> const& stop) {
    std::unique_lock lock(mutex_);
    auto& said = said_[key];
    said.resize(count_);
    if (said[process] && *said[process] != words) {
        throw Error(ErrorCode::InvalidArgument,
                    key + ": rank " + std::to_string(process) + " has said something else before");
    }
    said[process] = words;
    changed_.notify_all();
    auto const all_said = [&] {
        return std::all_of(said.begin(), said.end(),
                           [](auto const& one) { return one.has_value(); });
    };
    auto const deadline = std::chrono::steady_clock::now() + timeout;
    while (!all_said() && std::chrono::steady_clock::now() < deadline) {
        changed_.wait_for(lock, kLook, all_said);
        if (!all_said() && stop()) throw Error(ErrorCode::Interrupted, key + ": interrupted");
    }
    if (!all_said()) {
        std::string missing;
        for (std::size_t p = 0; p < count_; ++p) {
            if (!said[p]) missing += " rank " + std::to_string(p);
        }
        throw Error(ErrorCode::Timeout, key + ": nothing from" + missing);
    }
    std::vector<std::string> answers;
    for (auto const& one : said) answers.push_back(*one);
    return answers;
}

Channel MeetingPlace::create_channel(std::size_t number, std::size_t process,
                                     ChannelSpec const& spec) {
    std::string const key = "channel " + std::to_string(number);
    auto const specs = gather(key, process, text_of(spec), kChannelPatience, [] { return false; });
    for (std::string const& one : specs) {
        if (one == specs[0]) continue;
        throw Error(ErrorCode::InvalidArgument, "channels differ: " + specs[0] + "; " + one);
    }
    std::lock_guard const lock(mutex_);
    auto& made = made_[number];
    if (!made) made = runtime_.create_channel(spec);
    return made;
}

void MeetingPlace::leave_channel(Channel const& channel) {
    std::lock_guard const lock(mutex_);
    if (++left_[channel.id()] < count_) return;
    left_.erase(channel.id());
    std::erase_if(made_, [&](auto const& one) { return one.second.id() == channel.id(); });
    runtime_.delete_channel(channel);
}

std::size_t MeetingPlace::channels() {
    std::lock_guard const lock(mutex_);
    return made_.size();
}

bool ThreadAsProcess::mine(Endpoint endpoint) const {
    auto const at = std::find(endpoints_.begin(), endpoints_.end(), endpoint);
    return at != endpoints_.end() && owners_[std::size_t(at - endpoints_.begin())] == me_;
}

Channel ThreadAsProcess::create_channel(ChannelSpec const& spec) {
    before_channel();
    return place_.create_channel(channels_++, me_, spec);
}

}  // namespace mgi::test
