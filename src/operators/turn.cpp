#include <algorithm>
#include <exception>

#include <mgi/members.hpp>
#include <mgi/operator_turn.hpp>

#include "operators/conversation.hpp"

namespace mgi {

OperatorTurn::OperatorTurn(Runtime const& runtime, std::vector<Endpoint> const& endpoints)
    : runtime_(runtime),
      endpoints_(endpoints),
      alone_(std::none_of(endpoints.begin(), endpoints.end(),
                          [](Endpoint const& one) { return one.device == Endpoint::kElsewhere; })) {
    if (!alone_) before_ = Members(runtime_, endpoints_).occasions();
}

void OperatorTurn::decline(std::string const& what, Error const& why,
                           OperatorOptions const& options) {
    if (alone_ || Members(runtime_, endpoints_).occasions() != before_) return;
    auto const processes = operators::processes_of(runtime_, endpoints_);
    operators::Conversation(*processes, what, {}, options).give_up(std::make_exception_ptr(why));
}

}  // namespace mgi
