#include <mgi/members.hpp>

#include <algorithm>

#include "runtime/runtime_impl.hpp"

namespace mgi {

struct Members::State {
    std::shared_ptr<Runtime::Impl> runtime;
    Runtime::Impl::Company company;
};

Members::Members(Runtime const& runtime, std::vector<Endpoint> const& endpoints)
    : state_(
          std::make_unique<State>(State{runtime.impl(), runtime.impl()->company_of(endpoints)})) {}

Members::Members(Members&&) noexcept = default;
Members& Members::operator=(Members&&) noexcept = default;
Members::~Members() = default;

std::size_t Members::count() const {
    return state_->company.ranks.size();
}

std::size_t Members::me() const {
    return state_->company.me;
}

std::uint32_t Members::rank(std::size_t member) const {
    return state_->company.ranks.at(member);
}

bool Members::mine(Endpoint endpoint) const {
    return endpoint.device != Endpoint::kElsewhere;
}

std::string const& Members::server(std::size_t endpoint) const {
    auto const& company = state_->company;
    auto const at =
        std::lower_bound(company.ranks.begin(), company.ranks.end(), company.rank_of.at(endpoint));
    return company.servers[std::size_t(at - company.ranks.begin())];
}

std::uint64_t Members::next_occasion() {
    return state_->runtime->next_occasion(state_->company);
}

std::uint64_t Members::occasions() const {
    return state_->runtime->occasions(state_->company);
}

std::vector<std::string> Members::gather(std::string const& what, std::string const& words,
                                         std::chrono::milliseconds timeout,
                                         std::function<bool()> const& stop, bool failed) {
    if (count() == 1) return {words};
    return state_->runtime->gather_often(state_->company, what, words, timeout, stop, failed);
}

}  // namespace mgi
