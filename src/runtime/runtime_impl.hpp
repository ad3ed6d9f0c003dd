// A process' runtime: devices, movers, watchdog, and the registry of what users made.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <mgi/cluster.hpp>
#include <mgi/runtime.hpp>

#include "mover/mover_thread.hpp"
#include "runtime/coordinator.hpp"
#include "runtime/registry.hpp"
#include "runtime/watchdog.hpp"

namespace mgi {

class Runtime::Impl {
public:
    explicit Impl(RuntimeOptions const& options);
    Impl(RuntimeOptions const& options, ClusterOptions const& cluster);
    ~Impl();
    Impl(Impl const&) = delete;
    Impl& operator=(Impl const&) = delete;

    [[nodiscard]] RuntimeOptions const& options() const { return options_; }
    [[nodiscard]] std::vector<Device> const& devices() const { return devices_; }
    [[nodiscard]] Graph const& graph() const { return graph_; }
    [[nodiscard]] std::shared_ptr<Registry> const& registry() const { return registry_; }
    [[nodiscard]] std::uint64_t memory_left() const { return account_->left(); }
    [[nodiscard]] Coordinator& coordinator() { return *coordinator_; }

    Endpoint create_endpoint(std::string const& device);
    void delete_endpoint(Endpoint endpoint);
    Channel create_channel(ChannelSpec const& spec);
    void delete_channel(ChannelImpl const& channel);
    using Body = std::function<void(device::Group const&, device::Shared&)>;
    // `channels` are those that the kernel was given; `sorts` marks MGI's own sorters.
    Launch start(Endpoint endpoint, LaunchOptions const& options,
                 std::vector<device::Channel> const& channels, Body body, bool sorts = false);

    // The device of an endpoint; throws Error(NotFound).
    [[nodiscard]] Device const& device_of(Endpoint endpoint) const;

private:
    [[nodiscard]] std::size_t device_named(std::string const& name) const;
    [[nodiscard]] std::size_t free_device() const;
    void check_endpoints(std::vector<Endpoint> const& endpoints, char const* role,
                         std::string const& who) const;
    [[nodiscard]] Plan plan_channel(ChannelSpec const& spec, Schema const& schema) const;
    std::shared_ptr<ChannelImpl> build_channel(std::uint32_t id, ChannelSpec const& spec,
                                               std::optional<std::uint32_t> text_bytes = {});
    Channel make_channel(std::uint32_t id, ChannelSpec const& spec);
    void open_channel(std::shared_ptr<ChannelImpl> const& channel);
    void abandon(ChannelImpl const& channel) noexcept;
    void take_apart(ChannelImpl const& channel);
    [[nodiscard]] std::uint32_t scratch_of(Launch::State& launch) const;
    void add_stages(std::shared_ptr<ChannelImpl> const& channel);
    void start_sorters(std::shared_ptr<ChannelImpl> const& channel);
    void add_moves(std::shared_ptr<ChannelImpl> const& channel);

    RuntimeOptions options_;
    std::vector<Device> devices_;
    Graph graph_;
    std::shared_ptr<memory::Account> account_;
    std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
    std::vector<std::size_t>
        coming_;  // endpoints on their way, by device; under the registry's mutex
    std::unique_ptr<Coordinator> coordinator_ = std::make_unique<LocalCoordinator>();
    std::mutex movers_mutex_;
    std::map<std::uint32_t, mover::MoverThread> movers_;  // by device
    std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace mgi
