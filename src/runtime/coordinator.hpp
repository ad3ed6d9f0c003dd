// Who gives a runtime's endpoints and channels their numbers and may end its channels: this process alone,
// or the cluster that it has joined. All else about a channel is the same for both.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/cluster.hpp>
#include <mgi/graph.hpp>
#include <mgi/job.hpp>

namespace mgi {

// Thread-safe; calls may wait for a service, a bounded time, so nobody makes them holding a lock.
class Coordinator {
public:
    Coordinator() = default;
    Coordinator(Coordinator const&) = delete;
    Coordinator& operator=(Coordinator const&) = delete;
    virtual ~Coordinator() = default;

    // The new endpoint's id.
    virtual std::uint32_t create_endpoint(Device const& device) = 0;
    virtual void delete_endpoint(std::uint32_t id) = 0;
    // The new channel's id. Its endpoints are this runtime's.
    virtual std::uint32_t create_channel(ChannelSpec const& spec) = 0;
    // Called once the channel is known here: throws if it has ended already, elsewhere.
    virtual void check_channel(std::uint32_t id) const = 0;
    virtual void delete_channel(std::uint32_t id) noexcept = 0;
    // Of a channel with endpoints of other processes: this one does without it; waits for nobody.
    virtual void leave_channel(std::uint32_t id) noexcept = 0;
    // The memory of such a channel, for the server's other processes; as ClusterClient's.
    virtual void put_part(std::uint32_t id, int descriptor) = 0;
    virtual int get_part(std::uint32_t id) = 0;
    // What processes of this server leave word in; as ClusterClient's.
    virtual int share_board(int descriptor) = 0;
    // Which of the processes that were started together this one is.
    [[nodiscard]] virtual Job job() const = 0;
    [[nodiscard]] virtual std::string server() const = 0;
    // What all processes say under one key, by rank; as ClusterClient::gather.
    virtual std::vector<std::string> gather(ClusterGather const& said) = 0;
    // Where an endpoint may be that this runtime does not have.
    [[nodiscard]] virtual std::string elsewhere() const = 0;
    // Whether calls go beyond this process.
    [[nodiscard]] virtual bool may_wait() const = 0;
    // Calls that wait now throw Error(Interrupted).
    virtual void interrupt() noexcept = 0;
};

// Of a process alone.
class LocalCoordinator final : public Coordinator {
public:
    std::uint32_t create_endpoint(Device const&) override { return next_endpoint_++; }
    void delete_endpoint(std::uint32_t) override {}
    std::uint32_t create_channel(ChannelSpec const&) override { return next_channel_++; }
    void check_channel(std::uint32_t) const override {}
    void delete_channel(std::uint32_t) noexcept override {}
    void leave_channel(std::uint32_t) noexcept override {}
    void put_part(std::uint32_t id, int descriptor) override;
    int get_part(std::uint32_t id) override;
    int share_board(int descriptor) override;
    [[nodiscard]] Job job() const override { return Job::from_environment(); }
    [[nodiscard]] std::string server() const override { return job().server; }
    std::vector<std::string> gather(ClusterGather const& said) override;
    [[nodiscard]] std::string elsewhere() const override { return "or made by another one"; }
    [[nodiscard]] bool may_wait() const override { return false; }
    void interrupt() noexcept override {}

private:
    std::atomic<std::uint32_t> next_endpoint_ = 0;
    std::atomic<std::uint32_t> next_channel_ = 0;
};

}  // namespace mgi
