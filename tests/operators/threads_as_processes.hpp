/// \file
/// Operators by several processes, played by threads of this one: endpoints of one runtime are shared
/// out among them, and what processes say to each other goes through memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "operators/processes.hpp"

namespace mgi::test {

/// Where the processes meet. Thread-safe.
class MeetingPlace {
public:
    MeetingPlace(Runtime runtime, std::size_t processes) : runtime_(runtime), count_(processes) {}

    [[nodiscard]] std::size_t count() const { return count_; }
    /// What all of `who` say, or all processes where that is empty.
    std::vector<std::string> gather(std::string const& key, std::size_t process,
                                    std::string const& words, std::chrono::milliseconds timeout,
                                    std::function<bool()> const& stop,
                                    std::vector<std::size_t> const& who = {}, bool failed = false);
    /// The channel that the processes `who` create by their `number`-th call together.
    Channel create_channel(std::size_t number, std::size_t process, ChannelSpec const& spec,
                           std::vector<std::size_t> const& who);
    void leave_channel(Channel const& channel);
    /// Channels that were created and not yet left by all.
    [[nodiscard]] std::size_t channels();

private:
    Runtime runtime_;
    std::size_t count_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::vector<std::optional<std::string>>> said_;
    std::map<std::string, std::vector<std::string>> failed_;  ///< what all hear of one that has
    struct Made {
        Channel channel;
        std::size_t users = 0;
    };
    std::map<std::string, Made> made_;
};

/// One of the processes; `owners[e]` has endpoint e of `endpoints`, on server `servers[owners[e]]`.
class ThreadAsProcess final : public operators::Processes {
public:
    ThreadAsProcess(MeetingPlace& place, std::size_t me, std::vector<Endpoint> const& endpoints,
                    std::vector<std::size_t> const& owners, std::vector<std::uint32_t> servers = {})
        : place_(place),
          me_(me),
          endpoints_(endpoints),
          owners_(owners),
          servers_(std::move(servers)) {
        servers_.resize(place.count());
    }

    [[nodiscard]] std::size_t count() const override { return place_.count(); }
    [[nodiscard]] std::size_t me() const override { return me_; }
    [[nodiscard]] std::string name(std::size_t process) const override {
        return "rank " + std::to_string(process);
    }
    [[nodiscard]] bool mine(Endpoint endpoint) const override;
    [[nodiscard]] std::vector<std::uint32_t> servers() const override;
    operators::u64 next_operator() override { return operators_++; }
    std::vector<std::string> gather(std::string const& key, std::string const& words,
                                    std::chrono::milliseconds timeout,
                                    std::function<bool()> const& stop, bool failed) override {
        return place_.gather(key, me_, words, timeout, stop, {}, failed);
    }
    Channel create_channel(ChannelSpec const& spec) override;
    void delete_channel(Channel const& channel) override { place_.leave_channel(channel); }
    std::shared_ptr<GpuWindows> windows() override { return windows_of(); }

    /// Of this process' "GPUs", in tests that have some.
    std::function<std::shared_ptr<GpuWindows>()> windows_of = [] { return nullptr; };

    /// Called before each channel is created; what it throws stays in this process.
    std::function<void()> before_channel = [] {};
    /// How many channels it has taken part in.
    [[nodiscard]] std::size_t channels() const { return all_channels_; }

private:
    [[nodiscard]] std::size_t owner_of(Endpoint endpoint) const;

    MeetingPlace& place_;
    std::size_t me_;
    std::vector<Endpoint> const& endpoints_;
    std::vector<std::size_t> const& owners_;
    std::vector<std::uint32_t> servers_;
    operators::u64 operators_ = 0;
    std::map<std::vector<std::size_t>, std::size_t> channels_;  // by who makes them together
    std::size_t all_channels_ = 0;
};

}  // namespace mgi::test
