// Other processes of the job: whose endpoints are whose, and what all of them say to each other.
#include <charconv>
#include <iterator>
#include <map>

#include "core/text.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi {

namespace {

// What a process says of itself is its server, and its endpoints' ids, a line each; behind the id of one on
// a GPU:
constexpr std::string_view kOnGpu = "g";

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

std::vector<Endpoint> Runtime::Impl::gather_endpoints(std::vector<Endpoint> const& mine) {
    std::string share = coordinator_->server();
    for (Endpoint const endpoint : mine) {
        try {
            bool const on_gpu = device_of(endpoint).kind == VertexKind::Gpu;
            share += '\n' + std::to_string(endpoint.id);
            if (on_gpu) share += kOnGpu;
        } catch (Error const& error) {
            throw Error(
                ErrorCode::InvalidArgument,
                std::string("gather_endpoints is for a process' own endpoints: ") + error.what());
        }
    }
    Job const job = coordinator_->job();
    std::vector<std::string> const shares =
        coordinator_->gather(key_of("endpoints", job.name), job.rank, job.size, share, {});
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
    std::map<std::uint32_t, std::string> ranks;  // and their servers
    for (Endpoint const endpoint : endpoints) {
        if (resolved(endpoint).device != Endpoint::kElsewhere) {
            company.on_gpu.push_back(device_of(endpoint).kind == VertexKind::Gpu);
            company.rank_of.push_back(company.job.rank);
            ranks.emplace(company.job.rank, server);
            continue;
        }
        std::lock_guard const lock(registry_->mutex);
        Other const& other = others_.at(endpoint.id);
        company.on_gpu.push_back(other.on_gpu);
        company.rank_of.push_back(other.rank);
        ranks.emplace(other.rank, other.server);
    }
    for (auto const& [rank, on] : ranks) {
        company.ranks.push_back(rank);
        company.servers.push_back(on);
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

std::vector<std::string> Runtime::Impl::gather(Company const& company, std::string const& what,
                                               std::string const& data,
                                               std::chrono::milliseconds timeout) {
    std::string const ranks = list_text(company.ranks);
    auto const size = static_cast<std::uint32_t>(company.ranks.size());
    if (size == 1) return {data};
    try {
        return coordinator_->gather(key_of(what, company.job.name + '\n' + ranks), company.me, size,
                                    data, timeout);
    } catch (Error const& error) {
        // The gather counts those who take part.
        if (company.ranks.back() + 1 == size) throw;
        throw Error(error.code(),
                    std::string(error.what()) + " (these are the job's ranks " + ranks + ")");
    }
}

}  // namespace mgi
