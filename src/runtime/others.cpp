// Other processes of the job: whose endpoints are whose, and what all of them say to each other.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>

#include "core/log.hpp"
#include "core/text.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

// What a process says of itself is its server, and its endpoints' ids, a line each; behind the id of one on
// a GPU:
constexpr std::string_view kOnGpu = "g";
// One that has failed says instead its code and why, behind
constexpr std::string_view kFailed = "\nfailed ";

std::string share_of(Error const& why) {
    return std::string(kFailed) + std::to_string(static_cast<std::uint32_t>(why.code())) + ' ' +
           why.what();
}

std::optional<Error> failure_in(std::string_view share) {
    if (!share.starts_with(kFailed)) return std::nullopt;
    share.remove_prefix(kFailed.size());
    std::uint32_t code = 0;
    (void)std::from_chars(share.data(), share.data() + share.size(), code);
    bool const known = code != 0 && code <= static_cast<std::uint32_t>(ErrorCode::Internal);
    share.remove_prefix(std::min(share.size(), share.find(' ') + 1));
    return Error(known ? static_cast<ErrorCode>(code) : ErrorCode::GroupFailed, std::string(share));
}

// Of a gather of so many processes each says an endpoint of each; of a larger one the first ones do.
constexpr std::uint32_t kAllSayEndpoints = 256;
constexpr std::uint32_t kSayEndpoints = 16;

[[noreturn]] void refuse_share(std::uint32_t rank) {
    throw Error(ErrorCode::Internal, "rank " + std::to_string(rank) +
                                         " said its endpoints in words that this version does not "
                                         "know; let all processes use the same version");
}

// A key of any words: names may be long, and of any bytes.
std::string key_of(std::string const& what, std::string const& words) {
    return what + " " + hex_text(text_hash(words));
}

}  // namespace

std::vector<Endpoint> Runtime::gather_endpoints(std::vector<Endpoint> const& mine) {
    return impl_->gather_endpoints(mine);
}

void Runtime::decline_endpoints(Error const& why) {
    impl_->decline_endpoints(why);
}

void Runtime::decline_channel(std::vector<Endpoint> const& endpoints, Error const& why) {
    impl_->decline_channel(endpoints, why);
}

std::vector<Endpoint> Runtime::Impl::gather_endpoints(std::vector<Endpoint> const& mine) {
    std::string share = coordinator_->server();
    for (Endpoint const endpoint : mine) {
        try {
            bool const on_gpu = device_of(endpoint).kind == VertexKind::Gpu;
            share += '\n' + std::to_string(endpoint.id);
            if (on_gpu) share += kOnGpu;
        } catch (Error const& error) {
            Error const wrong(
                ErrorCode::InvalidArgument,
                std::string("gather_endpoints is for a process' own endpoints: ") + error.what());
            decline_endpoints(wrong);
            throw Error(wrong);
        }
    }
    Job const job = coordinator_->job();
    std::vector<std::string> const shares =
        coordinator_->gather({key_of("endpoints", job.name), job.rank, job.size, share});
    for (std::uint32_t rank = 0; rank < shares.size(); ++rank) {
        if (std::optional<Error> const why = failure_in(shares[rank])) {
            throw Error(why->code(),
                        "gather_endpoints: rank " + std::to_string(rank) + ": " + why->what());
        }
    }
    std::vector<Endpoint> all;
    std::lock_guard const lock(registry_->mutex);
    for (std::uint32_t rank = 0; rank < shares.size(); ++rank) {
        std::string_view left = shares[rank];
        std::string_view const server = left.substr(0, left.find('\n'));
        left.remove_prefix(server.size());
        while (!left.empty()) {
            left.remove_prefix(1);
            std::uint32_t id = 0;
            auto const [end, error] = std::from_chars(left.data(), left.data() + left.size(), id);
            left.remove_prefix(std::size_t(end - left.data()));
            bool const on_gpu = left.starts_with(kOnGpu);
            if (on_gpu) left.remove_prefix(kOnGpu.size());
            if (error != std::errc() || (!left.empty() && left.front() != '\n')) refuse_share(rank);
            auto const own = registry_->endpoints.find(id);
            if (own != registry_->endpoints.end()) {
                all.push_back(own->second);
            } else {
                others_[id] = {rank, std::string(server), on_gpu};
                all.push_back({id, Endpoint::kElsewhere});
            }
        }
    }
    return all;
}

// Where this very process has failed nobody else has to wait for it; that nobody can be told does not matter more.
void Runtime::Impl::decline_endpoints(Error const& why) noexcept {
    try {
        Job const job = coordinator_->job();
        ClusterGather said{key_of("endpoints", job.name), job.rank, job.size, share_of(why)};
        said.failed = true;
        if (job.size > 1) (void)coordinator_->gather(said);
    } catch (std::exception const& error) {
        log::debug("nobody is told that gather_endpoints has failed here: {}", error.what());
    }
}

Endpoint Runtime::Impl::resolved(Endpoint endpoint) const {
    std::lock_guard const lock(registry_->mutex);
    auto const own = registry_->endpoints.find(endpoint.id);
    if (own != registry_->endpoints.end()) {
        return endpoint.device == Endpoint::kElsewhere ? own->second : endpoint;
    }
    return others_.contains(endpoint.id) ? Endpoint{endpoint.id, Endpoint::kElsewhere} : endpoint;
}

Runtime::Impl::Company Runtime::Impl::company_of(std::vector<Endpoint> const& endpoints) const {
    Company company;
    company.job = coordinator_->job();
    company.rank_of.reserve(endpoints.size());
    std::string const server = coordinator_->server();
    struct One {
        std::string server;
        std::uint32_t first;
    };
    std::map<std::uint32_t, One> ranks;
    for (Endpoint const endpoint : endpoints) {
        if (resolved(endpoint).device != Endpoint::kElsewhere) {
            company.on_gpu.push_back(device_of(endpoint).kind == VertexKind::Gpu);
            company.rank_of.push_back(company.job.rank);
            ranks.try_emplace(company.job.rank, One{server, endpoint.id});
            continue;
        }
        std::lock_guard const lock(registry_->mutex);
        Other const& other = others_.at(endpoint.id);
        company.on_gpu.push_back(other.on_gpu);
        company.rank_of.push_back(other.rank);
        ranks.try_emplace(other.rank, One{other.server, endpoint.id});
    }
    for (auto const& [rank, one] : ranks) {
        company.ranks.push_back(rank);
        company.servers.push_back(one.server);
        company.first.push_back(one.first);
    }
    auto const me = ranks.find(company.job.rank);
    if (me == ranks.end()) {
        throw Error(ErrorCode::InvalidArgument,
                    "none of the endpoints is this process'; it takes no part, and must not call");
    }
    company.me = static_cast<std::uint32_t>(std::distance(ranks.begin(), me));
    return company;
}

std::uint64_t Runtime::Impl::next_occasion(Company const& company) {
    std::lock_guard const lock(registry_->mutex);
    return occasions_[company.ranks]++;
}

std::uint64_t Runtime::Impl::occasions(Company const& company) const {
    std::lock_guard const lock(registry_->mutex);
    auto const found = occasions_.find(company.ranks);
    return found == occasions_.end() ? 0 : found->second;
}

std::vector<std::string> Runtime::Impl::gather(Company const& company, std::string const& what,
                                               std::string const& data,
                                               std::chrono::milliseconds timeout, bool failed) {
    std::string const ranks = list_text(company.ranks);
    auto const size = static_cast<std::uint32_t>(company.ranks.size());
    if (size == 1) return {data};
    ClusterGather said{
        key_of(what, company.job.name + '\n' + ranks), company.me, size, data, timeout, {}, failed};
    // All know them. Of many processes some say them, so that not each brings a list of all.
    if (size <= kAllSayEndpoints || company.me < kSayEndpoints) said.endpoints = company.first;
    try {
        return coordinator_->gather(said);
    } catch (Error const& error) {
        // The gather counts those who take part.
        if (company.ranks.back() + 1 == size) throw;
        throw Error(error.code(),
                    std::string(error.what()) + " (these are the job's ranks " + ranks + ")");
    }
}

}  // namespace mgi
