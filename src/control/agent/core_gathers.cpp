// What processes say to each other when they meet: the controller gathers it, and answers all at once.
#include <utility>
#include <variant>

#include "control/agent/core.hpp"

namespace mgi::control {

bool AgentCore::is_gather(Request const& request) {
    return std::holds_alternative<GatherRequest>(request.message);
}

// Says that its rank cannot go on, which the others hear also where it has ended.
bool AgentCore::is_failure(Request const& request) {
    auto const* const asked = std::get_if<GatherRequest>(&request.message);
    return asked != nullptr && asked->failed();
}

void AgentCore::gather(Request request, Json const& message) {
    GatherRequest asked;
    asked.set_request(text_in(message, "request", 128));
    asked.set_key(text_in(message, "key", 255));
    asked.set_rank(number32_in(message, "rank"));
    asked.set_size(number32_in(message, "size"));
    asked.set_data(bytes_in(message, "data"));
    if (has(message, "endpoints")) {
        for (std::uint32_t const endpoint : ids_in(message, "endpoints")) {
            asked.add_endpoints(endpoint);
        }
    }
    asked.set_failed(has(message, "failed") && flag_in(message, "failed"));
    asked.set_owner(owner_of(request.application));
    request.message = std::move(asked);
    ask(std::move(request));
}

// The controller may be gone before others have had the same answer. They ask the next one, which knows
// nothing of this: so what was said here is kept a while, to be said again.
void AgentCore::gathered(Requests::iterator at, GatherReply const& reply) {
    Request& request = at->second;
    if (request.answered_by != 0) {  // the others have what they waited for
        request.answered_by = session_.sender().epoch();
        return;
    }
    Json shares = Json::array();
    for (std::string const& data : reply.data()) shares.push_back(bytes_value(data));
    answer(request, {{"data", std::move(shares)}});
    if (is_failure(request)) {  // a rank that has heard of it must not hear of it again
        forget(at);
        return;
    }
    Request kept = request;
    forget(at);
    kept.application = 0;
    std::string const user = std::exchange(kept.user, "");
    kept.answered_by = session_.sender().epoch();
    kept.deadline = now_ + kRepeatGathers;
    repeated_.add(user, next_request_);
    add(next_request_++, std::move(kept));
    if (repeated_.size() <= kMostRepeated) return;
    auto const oldest = requests_.find(repeated_.drop_of_largest());
    if (oldest != requests_.end()) drop(oldest);
}

void AgentCore::repeat_gathers() {
    for (auto& [number, request] : requests_) {
        bool const news =
            request.answered_by != 0 && request.answered_by != session_.sender().epoch();
        if (news) request.deadline = now_ + kRepeatGathers;
    }
}

}  // namespace mgi::control
