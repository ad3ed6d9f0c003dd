// What the processes of a channel share on this server, and how they leave it.
#include <utility>

#include "control/agent/core.hpp"
#include "control/local/words.hpp"
#include "core/log.hpp"

namespace mgi::control {

// A channel's memory is for those who take part in it alone.
HeldPlans& AgentCore::joined_channel(Request const& request, std::uint32_t id) {
    HeldPlans* const held = holdings_.find(id);
    if (held != nullptr && !holdings_.endpoints_in(*held, request.application).empty()) {
        return *held;
    }
    Application const& application = applications_.at(request.application);
    log::warn(
        "{} of channel {} was refused to application {} (process {}): it has no endpoint of it",
        request.op, id, application.name, application.pid);
    throw Error(ErrorCode::NotFound, request.op + ": channel " + std::to_string(id) +
                                         " does not exist, or has no endpoint of this application");
}

void AgentCore::put_part(Request const& request, Json const& message, Fd fd) {
    std::uint32_t const id = number32_in(message, "channel");
    HeldPlans& held = joined_channel(request, id);
    if (!has(message, "fd")) {
        throw Error(ErrorCode::InvalidArgument, "put_part brings no file descriptor (fd)");
    }
    if (!fd) {
        throw Error(ErrorCode::OutOfMemory,
                    "put_part: the agent of server " + options_.name + " has too many open files");
    }
    Shares parts("channels' parts that this agent keeps", kMostParts, "delete channels");
    for (auto const& [other, plans] : holdings_.channels())
        parts.add(plans.owner, plans.part ? 1 : 0);
    std::string const full = held.part ? "" : parts.refusal(held.owner);
    if (!full.empty()) throw Error(ErrorCode::Refused, "put_part: " + full);
    held.part = std::move(fd);
    answer(request, Json::object());
    for (auto at = part_waits_.begin(); at != part_waits_.end();) {
        if (at->channel != id) {
            ++at;
            continue;
        }
        PartWait const wait = *at;
        at = part_waits_.erase(at);
        waits_no_more(wait);
        hand_part(wait, held);
    }
}

void AgentCore::get_part(Request const& request, Json const& message) {
    std::uint32_t const id = number32_in(message, "channel");
    HeldPlans const& held = joined_channel(request, id);
    PartWait const wait{request.application, request.id, id, request.deadline};
    if (held.part) return hand_part(wait, held);
    check_room(request);
    part_waits_.push_back(wait);
    ++applications_.at(wait.application).requests;
    requests_of_.add(request.user);
}

void AgentCore::waits_no_more(PartWait const& wait) {
    Application& application = applications_.at(wait.application);
    --application.requests;
    requests_of_.remove(application.user);
}

void AgentCore::hand_part(PartWait const& wait, HeldPlans const& held) {
    try {
        Fd fd = duplicate(held.part.get());
        ports_.hand(wait.application, {{"id", wait.id}, {"ok", true}, {"fd", true}}, std::move(fd));
    } catch (Error const& error) {
        ports_.tell(wait.application,
                    {{"id", wait.id}, {"error", error_value(error.code(), error.what())}});
    }
}

// The first one that is offered is everybody's of that user, as long as he has an application here.
void AgentCore::share_board(Request const& request, Json const& message, Fd fd) {
    Application const& application = applications_.at(request.application);
    if (!has(message, "fd") || !fd) {
        throw Error(ErrorCode::InvalidArgument,
                    "share_board brings no file descriptor (fd), or the agent of server " +
                        options_.name + " has too many open files");
    }
    Fd& board = boards_[board_of(application)];
    if (!board) board = std::move(fd);
    ports_.hand(request.application, {{"id", request.id}, {"ok", true}, {"fd", true}},
                duplicate(board.get()));
}

// A user's, but where that number may be many users'.
std::string AgentCore::board_of(Application const& application) const {
    return application.uid == options_.nobody ? application.owner
                                              : control::owner_of(application.uid, "");
}

void AgentCore::forget_board(std::string const& board) {
    for (auto const& [id, application] : applications_) {
        if (board_of(application) == board) return;
    }
    boards_.erase(board);
}

void AgentCore::end_part_waits(std::function<bool(PartWait const&)> const& of, Json answer) {
    for (auto at = part_waits_.begin(); at != part_waits_.end();) {
        if (!of(*at)) {
            ++at;
            continue;
        }
        PartWait const wait = *at;
        at = part_waits_.erase(at);
        waits_no_more(wait);
        answer["id"] = wait.id;
        ports_.tell(wait.application, answer);
    }
}

// The application may end at once: the controller hears of it in the same order.
void AgentCore::leave_channel(Request const& request, Json const& message) {
    std::uint32_t const id = number32_in(message, "channel");
    HeldPlans const* const held = holdings_.channel(id);
    // What is another owner's is as what has ended.
    bool const unknown = held == nullptr || held->owner != owner_of(request.application);
    if (unknown || left_.contains(id) || held->leavers.contains(request.application)) {
        return answer(request, Json::object());
    }
    bool const creator = held->creator == request.application;
    auto const endpoints = holdings_.endpoints_in(*held, request.application);
    if (!creator && endpoints.empty()) {
        throw Error(ErrorCode::NotFound,
                    "channel " + std::to_string(id) + " has no endpoint of this application");
    }
    holdings_.leave(id, request.application);
    usage_.application_left(request.application, id);
    AgentMessage word;
    ChannelLeft& left = *word.mutable_channel_left();
    left.set_channel(id);
    left.set_creator(creator);
    left.mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
    report(std::move(word));
    answer(request, Json::object());
}

// What an application says again after the agent's restart.
void AgentCore::take_left(ApplicationId id, std::uint32_t channel, Json const& message) {
    HeldPlans* const held = holdings_.find(channel);
    if (held == nullptr) return;
    if (has(message, "left")) {
        holdings_.note_left(channel, ids_in(message, "left"));
        held->told = false;
    }
    if (!has(message, "gone") || !flag_in(message, "gone")) return;
    held->leavers.insert(id);
    if (has(message, "creator_left") && flag_in(message, "creator_left")) {
        holdings_.note_creator_left(channel);
    }
}

void AgentCore::channel_left(ChannelLeft const& left) {
    HeldPlans const* const held = holdings_.channel(left.channel());
    if (held == nullptr) return;
    std::vector<std::uint32_t> const endpoints(left.endpoints().begin(), left.endpoints().end());
    holdings_.note_left(left.channel(), endpoints);
    Json const notice = {
        {"notice", "channel_left"}, {"channel", left.channel()}, {"endpoints", runs_of(endpoints)}};
    for (ApplicationId const id : holdings_.parties(*held)) ports_.tell(id, notice);
}

// Nobody here has a part in it any more, but this server may be the only one that knows so: should the
// controller be gone before it has told the others, the next one must hear of it.
void AgentCore::goes_on_elsewhere(std::uint32_t channel) {
    HeldPlans* const held = holdings_.find(channel);
    if (held == nullptr) return;
    log::info("channel {} goes on without this server", channel);
    Json const notice = {{"notice", "channel_ended"},
                         {"channel", channel},
                         {"failed", false},
                         {"why", "all of this server have left it"}};
    for (ApplicationId const id : std::exchange(held->leavers, {})) ports_.tell(id, notice);
    held->part.reset();
    usage_.forget_channel(channel);
    left_[channel] = now_ + kRepeatLeaving;
}

// While there is no controller nobody can be told.
void AgentCore::forget_left(Time now) {
    if (!session_.joined()) return;
    for (auto at = left_.begin(); at != left_.end();) {
        if (now < at->second) {
            ++at;
            continue;
        }
        holdings_.remove_channel(at->first);
        at = left_.erase(at);
    }
}

}  // namespace mgi::control
