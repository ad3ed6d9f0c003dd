// The public ClusterClient: calls as messages.
#include <mgi/cluster.hpp>

#include "control/local/client.hpp"
#include "control/local/words.hpp"
#include "core/log.hpp"
#include "core/process_limits.hpp"

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
    return {control::number32_in(answer, "endpoint"), control::number32_in(answer, "vertex"),
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

void ClusterClient::leave_channel(std::uint32_t id) {
    impl_->call({{"op", "leave_channel"}, {"channel", id}});
}

void ClusterClient::abandon_channel(std::uint32_t id) noexcept {
    try {
        impl_->post({{"op", "leave_channel"}, {"channel", id}});
    } catch (std::exception const& error) {
        log::warn("channel {} is left to its cluster: {}", id, error.what());
    }
}

void ClusterClient::put_part(std::uint32_t channel, int descriptor) {
    control::Fd fd = control::duplicate(descriptor);
    impl_->call({{"op", "put_part"}, {"channel", channel}}, &fd);
}

int ClusterClient::get_part(std::uint32_t channel) {
    control::Fd fd;
    impl_->call({{"op", "get_part"}, {"channel", channel}}, &fd);
    if (fd) return fd.release();
    throw Error(ErrorCode::OutOfMemory, "get_part: " + too_many_files_text());
}

int ClusterClient::share_board(int descriptor) {
    control::Fd fd = control::duplicate(descriptor);
    impl_->call({{"op", "share_board"}}, &fd);
    if (fd) return fd.release();
    throw Error(ErrorCode::OutOfMemory, "share_board: " + too_many_files_text());
}

std::vector<std::string> ClusterClient::gather(std::string const& key, std::uint32_t rank,
                                               std::uint32_t size, std::string const& data,
                                               std::chrono::milliseconds timeout) {
    return gather({key, rank, size, data, timeout});
}

std::vector<std::string> ClusterClient::gather(ClusterGather const& said) {
    Json request = {{"op", "gather"},
                    {"key", said.key},
                    {"rank", said.rank},
                    {"size", said.size},
                    {"data", control::bytes_value(said.data)}};
    if (!said.endpoints.empty()) request["endpoints"] = control::runs_of(said.endpoints);
    if (said.failed) request["failed"] = true;
    return control::shares_in(impl_->call(std::move(request), nullptr, said.timeout), said.size);
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
