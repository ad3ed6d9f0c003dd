#include "operators/processes.hpp"

#include <algorithm>
#include <map>

#include <mgi/members.hpp>

namespace mgi::operators {

namespace {

// One process with all of the endpoints: there is nobody to talk to.
class ThisProcess final : public Processes {
public:
    ThisProcess(Runtime const& runtime, std::size_t endpoints)
        : runtime_(runtime), endpoints_(endpoints) {}

    [[nodiscard]] std::size_t count() const override { return 1; }
    [[nodiscard]] std::size_t me() const override { return 0; }
    [[nodiscard]] std::string name(std::size_t) const override { return "this process"; }
    [[nodiscard]] bool mine(Endpoint) const override { return true; }
    [[nodiscard]] std::vector<u32> servers() const override {
        return std::vector<u32>(endpoints_, 0);
    }
    u64 next_operator() override { return 0; }
    std::vector<std::string> gather(std::string const&, std::string const& words,
                                    std::chrono::milliseconds, std::function<bool()> const&,
                                    bool) override {
        return {words};
    }
    Channel create_channel(ChannelSpec const& spec) override {
        return runtime_.create_channel(spec);
    }
    void delete_channel(Channel const& channel) override { runtime_.delete_channel(channel); }
    std::shared_ptr<GpuWindows> windows() override { return nullptr; }

private:
    Runtime runtime_;
    std::size_t endpoints_;
};

// Of a job, each with some of the endpoints.
class JobsProcesses final : public Processes {
public:
    JobsProcesses(Runtime const& runtime, std::vector<Endpoint> const& endpoints)
        : runtime_(runtime), members_(runtime, endpoints), endpoints_(endpoints) {
        std::map<std::string, u32> numbers;
        for (std::size_t e = 0; e < endpoints.size(); ++e) {
            u32 const next = u32(numbers.size());
            servers_.push_back(numbers.try_emplace(members_.server(e), next).first->second);
        }
    }

    [[nodiscard]] std::size_t count() const override { return members_.count(); }
    [[nodiscard]] std::size_t me() const override { return members_.me(); }
    [[nodiscard]] std::string name(std::size_t process) const override {
        return "rank " + std::to_string(members_.rank(process));
    }
    [[nodiscard]] bool mine(Endpoint endpoint) const override { return members_.mine(endpoint); }
    [[nodiscard]] std::vector<u32> servers() const override { return servers_; }
    u64 next_operator() override { return members_.next_occasion(); }
    std::vector<std::string> gather(std::string const& key, std::string const& words,
                                    std::chrono::milliseconds timeout,
                                    std::function<bool()> const& stop, bool failed) override {
        return members_.gather(key, words, timeout, stop, failed);
    }
    Channel create_channel(ChannelSpec const& spec) override {
        return runtime_.create_channel(spec);
    }
    void delete_channel(Channel const& channel) override { runtime_.delete_channel(channel); }
    std::shared_ptr<GpuWindows> windows() override { return gpu_windows(runtime_, endpoints_); }

private:
    Runtime runtime_;
    Members members_;
    std::vector<Endpoint> endpoints_;
    std::vector<u32> servers_;
};

}  // namespace

std::unique_ptr<Processes> processes_of(Runtime& runtime, std::vector<Endpoint> const& endpoints) {
    bool const alone = std::none_of(endpoints.begin(), endpoints.end(), [](Endpoint const& one) {
        return one.device == Endpoint::kElsewhere;
    });
    if (alone) return std::make_unique<ThisProcess>(runtime, endpoints.size());
    return std::make_unique<JobsProcesses>(runtime, endpoints);
}

}  // namespace mgi::operators
