// A runtime's place in a cluster: ids and plans come from the controller, and channels end when it says.
#pragma once

#include <memory>
#include <vector>

#include <mgi/cluster.hpp>

#include "runtime/coordinator.hpp"
#include "runtime/registry.hpp"

namespace mgi {

class ClusterCoordinator final : public Coordinator {
public:
    // Throws as ClusterClient does, and Error(NotFound) for a server that has no CPU in its graph.
    ClusterCoordinator(ClusterOptions const& options, std::vector<Device> const& devices,
                       std::shared_ptr<Registry> const& registry);

    std::uint32_t create_endpoint(Device const& device) override;
    void delete_endpoint(std::uint32_t id) override { client_.delete_endpoint(id); }
    std::uint32_t create_channel(ChannelSpec const& spec) override;
    void check_channel(std::uint32_t id) const override { client_.check_channel(id); }
    void delete_channel(std::uint32_t id) noexcept override { client_.release_channel(id); }
    void leave_channel(std::uint32_t id) noexcept override { client_.abandon_channel(id); }
    void put_part(std::uint32_t id, int descriptor) override { client_.put_part(id, descriptor); }
    int get_part(std::uint32_t id) override { return client_.get_part(id); }
    int share_board(int descriptor) override { return client_.share_board(descriptor); }
    [[nodiscard]] Job job() const override { return job_ ? *job_ : Job::from_environment(); }
    [[nodiscard]] std::string server() const override { return client_.server(); }
    std::vector<std::string> gather(ClusterGather const& said) override {
        return client_.gather(said);
    }
    [[nodiscard]] std::string elsewhere() const override;
    [[nodiscard]] bool may_wait() const override { return true; }
    void interrupt() noexcept override { client_.interrupt(); }

private:
    std::optional<Job> const job_;
    ClusterClient client_;
    std::vector<std::string>
        places_;  // by device: the GPU of the server's graph that it is, or the CPU that it is part of
};

}  // namespace mgi
