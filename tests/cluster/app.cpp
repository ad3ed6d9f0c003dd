// An application for tests/python/test_cluster.py: joins a cluster through an agent's socket, does what
// standard input says (JSON, a line each) and tells on standard output what came of it and what happens.
//
//   mgi_cluster_app SOCKET NAME
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <mgi/cluster.hpp>
#include <mgi/error.hpp>

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

void say(Json const& line) {
    static std::mutex mutex;
    std::string const text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    std::lock_guard const lock(mutex);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

/// Tells what happens, and makes up how much its channels move.
class Listener : public mgi::ClusterListener {
public:
    void plan_changed(mgi::ClusterPlan const& plan) override {
        say({{"event", "plan"},
             {"channel", plan.channel},
             {"generation", plan.generation},
             {"table_bytes", plan.table.size()}});
    }
    void channel_ended(std::uint32_t channel, bool failed, std::string const& why) override {
        say({{"event", "ended"}, {"channel", channel}, {"failed", failed}, {"why", why}});
    }
    void endpoint_lost(std::uint32_t endpoint, std::string const& why) override {
        say({{"event", "lost"}, {"endpoint", endpoint}, {"why", why}});
    }
    void server_changed(std::string const& server, std::string const& state) override {
        say({{"event", "server"}, {"server", server}, {"state", state}});
    }
    void controller_changed(bool reached, std::string const& why) override {
        say({{"event", "controller"}, {"reached", reached}, {"why", why}});
    }
    void agent_changed(bool reached, std::string const& why) override {
        say({{"event", "agent"}, {"reached", reached}, {"why", why}});
    }
    std::vector<mgi::ClusterUse> usage() override {
        std::lock_guard const lock(mutex_);
        std::vector<mgi::ClusterUse> uses;
        for (auto const& [channel, flow] : flows_) {
            double const seconds = std::chrono::duration<double>(Clock::now() - flow.since).count();
            auto const bytes = static_cast<std::uint64_t>(seconds * flow.gbps * 1e9);
            mgi::ClusterUse& use = uses.emplace_back();
            use.channel = channel;
            use.flow.rows = bytes / 32;
            use.flow.bytes = bytes;
        }
        return uses;
    }
    void flow(std::uint32_t channel, double gbps) {
        std::lock_guard const lock(mutex_);
        flows_[channel] = {gbps, Clock::now()};
    }

private:
    struct Flow {
        double gbps = 0;
        Clock::time_point since;
    };
    std::mutex mutex_;
    std::map<std::uint32_t, Flow> flows_;
};

Json act(mgi::ClusterClient& client, Listener& listener, Json const& line) {
    auto const op = line.at("op").get<std::string>();
    auto const id = [&](char const* name) { return line.at(name).get<std::uint32_t>(); };
    if (op == "endpoint") {
        auto const made = client.create_endpoint(line.value("device", ""));
        return {{"endpoint", made.id}, {"device", made.device}};
    }
    if (op == "channel") {
        mgi::ClusterChannelSpec spec;
        spec.name = line.at("name");
        spec.sources = line.at("sources").get<std::vector<std::uint32_t>>();
        spec.destinations = line.at("destinations").get<std::vector<std::uint32_t>>();
        auto const plan = client.create_channel(spec);
        return {{"channel", plan.channel}, {"generation", plan.generation}};
    }
    if (op == "delete_channel") {
        client.delete_channel(id("channel"));
    } else if (op == "delete_endpoint") {
        client.delete_endpoint(id("endpoint"));
    } else if (op == "check") {
        client.check_channel(id("channel"));
    } else if (op == "flow") {
        listener.flow(id("channel"), line.at("gbps"));
    } else {
        return {{"error", "no such op"}};
    }
    return Json::object();
}

int run(int count, char** arguments) {
    if (count != 3) {
        std::fputs("usage: mgi_cluster_app SOCKET NAME\n", stderr);
        return 2;
    }
    auto const listener = std::make_shared<Listener>();
    mgi::ClusterOptions options;
    options.agent = arguments[1];
    options.name = arguments[2];
    mgi::ClusterClient client(options, listener);
    say({{"server", client.server()}});
    for (std::string text; std::getline(std::cin, text);) {
        try {
            say(act(client, *listener, Json::parse(text)));
        } catch (mgi::Error const& error) {
            say({{"error", error.what()}, {"code", mgi::to_string(error.code())}});
        }
    }
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        return run(count, arguments);
    } catch (std::exception const& error) {
        say({{"error", error.what()}});
        return 1;
    }
}
