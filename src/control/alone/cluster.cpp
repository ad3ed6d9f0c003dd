// The public ClusterClient of a library that was built without nlohmann-json, whose messages it needs: there are
// no clients, and who asks for one is told so.
#include <mgi/cluster.hpp>
#include <mgi/error.hpp>

namespace mgi {

class ClusterClient::Impl {};

namespace {

[[noreturn]] void cannot_join() {
    throw Error(ErrorCode::NotFound,
                "this build of MGI knows no clusters: it was built without nlohmann-json "
                "(MGI_THIRD_PARTY); use Runtime::local, or build it with nlohmann-json");
}

}  // namespace

ClusterClient::ClusterClient(ClusterOptions const& /*options*/,
                             std::shared_ptr<ClusterListener> /*listener*/) {
    cannot_join();
}

ClusterClient::~ClusterClient() = default;

void ClusterClient::close() noexcept {}

std::string ClusterClient::server() const {
    cannot_join();
}

std::vector<ClusterDevice> ClusterClient::devices() const {
    cannot_join();
}

ClusterEndpoint ClusterClient::create_endpoint(std::string const& /*device*/) {
    cannot_join();
}

void ClusterClient::delete_endpoint(std::uint32_t /*id*/) {
    cannot_join();
}

ClusterPlan ClusterClient::create_channel(ClusterChannelSpec const& /*spec*/) {
    cannot_join();
}

void ClusterClient::delete_channel(std::uint32_t /*id*/) {
    cannot_join();
}

void ClusterClient::release_channel(std::uint32_t /*id*/) noexcept {}

void ClusterClient::check_channel(std::uint32_t /*id*/) const {
    cannot_join();
}

void ClusterClient::leave_channel(std::uint32_t /*id*/) {
    cannot_join();
}

void ClusterClient::abandon_channel(std::uint32_t /*id*/) noexcept {}

void ClusterClient::put_part(std::uint32_t /*channel*/, int /*descriptor*/) {
    cannot_join();
}

int ClusterClient::get_part(std::uint32_t /*channel*/) {
    cannot_join();
}

int ClusterClient::share_board(int /*descriptor*/) {
    cannot_join();
}

std::vector<std::string> ClusterClient::gather(std::string const& /*key*/, std::uint32_t /*rank*/,
                                               std::uint32_t /*size*/, std::string const& /*data*/,
                                               std::chrono::milliseconds /*timeout*/) {
    cannot_join();
}

std::vector<std::string> ClusterClient::gather(ClusterGather const& /*said*/) {
    cannot_join();
}

std::string ClusterClient::status() {
    cannot_join();
}

void ClusterClient::interrupt() noexcept {}

}  // namespace mgi
