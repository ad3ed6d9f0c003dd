// The public ClusterClient: calls as messages.
#include <mgi/cluster.hpp>

#include "control/local/client.hpp"
#include "control/local/words.hpp"
#include "core/log.hpp"

namespace mgi {

using control::Json;

ClusterClient::ClusterClient(ClusterOptions const& options,
                             std::shared_ptr<ClusterListener> listener)
    : impl_(std::make_unique<Impl>(options, std::move(listener))) {}

ClusterClient::~ClusterClient() = default;

void ClusterClient::close() noexcept {
    impl_->close();
}

std::string ClusterClient::server() const {
    return impl_->server();
}

std::vector<ClusterDevice> ClusterClient::devices() const {
    return impl_->devices();
}

ClusterEndpoint ClusterClient::create_endpoint(std::string const& device) {
    Json request = {{"op", "create_endpoint"}};
    if (!device.empty()) request["device"] = device;
    Json const answer = impl_->call(std::move(request));
    return {static_cast<std::uint32_t>(control::number_in(answer, "endpoint", UINT32_MAX)),
            static_cast<std::uint32_t>(control::number_in(answer, "vertex", UINT32_MAX)),
            control::text_in(answer, "device")};
}

void ClusterClient::delete_endpoint(std::uint32_t id) {
    impl_->call({{"op", "delete_endpoint"}, {"endpoint", id}});
}

ClusterPlan ClusterClient::create_channel(ClusterChannelSpec const& spec) {
    Json request = {{"op", "create_channel"}};
    control::add_spec(request, spec);
    return control::plan_in(impl_->call(std::move(request)));
}

void ClusterClient::delete_channel(std::uint32_t id) {
    impl_->call({{"op", "delete_channel"}, {"channel", id}});
}

void ClusterClient::release_channel(std::uint32_t id) noexcept {
    try {
        impl_->post({{"op", "delete_channel"}, {"channel", id}});
    } catch (std::exception const& error) {
        log::warn("channel {} is left to its cluster: {}", id, error.what());
    }
}

void ClusterClient::interrupt() noexcept {
    impl_->interrupt();
}

void ClusterClient::check_channel(std::uint32_t id) const {
    impl_->check_channel(id);
}

std::string ClusterClient::status() {
    return control::text_in(impl_->call({{"op", "status"}}), "status", control::kMostAnswerBytes);
}

}  // namespace mgi
