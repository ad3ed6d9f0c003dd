#include <mgi/cluster.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "interpreter.hpp"

namespace mgi::python {
namespace {

/// Keeps what happened until Python asks.
class Events final : public ClusterListener {
public:
    struct Event {
        std::string kind;
        std::vector<std::pair<char const*, std::uint64_t>> numbers;
        std::vector<std::pair<char const*, std::string>> texts;
        std::vector<std::pair<char const*, bool>> flags;
    };

    void plan_changed(ClusterPlan const& plan) override {
        add({"plan",
             {{"channel", plan.channel}, {"generation", plan.generation}},
             {{"name", plan.spec.name}},
             {}});
    }
    void channel_ended(std::uint32_t channel, bool failed, std::string const& why) override {
        add({"channel_ended", {{"channel", channel}}, {{"why", why}}, {{"failed", failed}}});
    }
    void endpoint_lost(std::uint32_t endpoint, std::string const& why) override {
        add({"endpoint_lost", {{"endpoint", endpoint}}, {{"why", why}}, {}});
    }
    void server_changed(std::string const& server, std::string const& state) override {
        add({"server", {}, {{"server", server}, {"state", state}}, {}});
    }
    void controller_changed(bool reached, std::string const& why) override {
        add({"controller", {}, {{"why", why}}, {{"reached", reached}}});
    }
    void agent_changed(bool reached, std::string const& why) override {
        add({"agent", {}, {{"why", why}}, {{"reached", reached}}});
    }

    std::deque<Event> take() {
        std::lock_guard const lock(mutex_);
        return std::exchange(events_, {});
    }

private:
    static constexpr std::size_t kMost = 1000;

    void add(Event event) {
        std::lock_guard const lock(mutex_);
        if (events_.size() == kMost) events_.pop_front();
        events_.push_back(std::move(event));
    }

    std::mutex mutex_;
    std::deque<Event> events_;
};

nb::bytes as_bytes(std::string const& text) {
    return nb::bytes(text.data(), text.size());
}

class ClientHolder {
public:
    ClientHolder(std::string const& agent, std::string const& name, std::int64_t timeout_ms)
        : events_(std::make_shared<Events>()) {
        ClusterOptions options;
        options.agent = agent;
        options.name = name;
        options.timeout = std::chrono::milliseconds(timeout_ms);
        client_ = run_beside<Shared>([options, events = events_](std::atomic<bool> const&) {
            return std::make_shared<ClusterClient>(options, events);
        });
    }
    ClientHolder(ClientHolder const&) = delete;
    ClientHolder& operator=(ClientHolder const&) = delete;
    ~ClientHolder() {
        Unlocked const unlocked;
        client_.reset();
    }

    void close() {
        Unlocked const unlocked;
        client_->close();
    }

    /// Waits without the GIL, and sees Ctrl-C.
    template <class Result>
    Result call(std::function<Result(ClusterClient&)> work) {
        return run_beside<Result>(
            [client = client_, work](std::atomic<bool> const&) { return work(*client); },
            [client = client_] { client->interrupt(); });
    }

    [[nodiscard]] ClusterClient& client() { return *client_; }
    [[nodiscard]] Events& events() { return *events_; }

private:
    using Shared = std::shared_ptr<ClusterClient>;
    std::shared_ptr<Events> events_;
    Shared client_;
};

nb::list devices(ClientHolder& holder) {
    nb::list list;
    for (ClusterDevice const& device : holder.client().devices()) {
        nb::dict dict;
        dict["vertex"] = device.vertex;
        dict["name"] = device.name;
        dict["gpu"] = device.gpu;
        list.append(dict);
    }
    return list;
}

std::pair<std::uint32_t, std::string> create_cluster_endpoint(ClientHolder& holder,
                                                              std::string const& device) {
    auto const made = holder.call<ClusterEndpoint>(
        [device](ClusterClient& client) { return client.create_endpoint(device); });
    return {made.id, made.device};
}

nb::dict create_cluster_channel(ClientHolder& holder, std::string const& name,
                                std::vector<std::uint32_t> const& sources,
                                std::vector<std::uint32_t> const& destinations, bool relay_gpus,
                                bool relay_host, std::uint32_t max_nics, nb::bytes const& schema,
                                nb::bytes const& options) {
    ClusterChannelSpec spec;
    spec.name = name;
    spec.sources = sources;
    spec.destinations = destinations;
    spec.relay_gpus = relay_gpus;
    spec.relay_host = relay_host;
    spec.max_nics = max_nics;
    spec.schema.assign(schema.c_str(), schema.size());
    spec.options.assign(options.c_str(), options.size());
    auto const plan = holder.call<ClusterPlan>(
        [spec](ClusterClient& client) { return client.create_channel(spec); });
    nb::dict dict;
    dict["channel"] = plan.channel;
    dict["generation"] = plan.generation;
    dict["directory"] = as_bytes(plan.directory);
    dict["table"] = as_bytes(plan.table);
    return dict;
}

nb::list take_events(ClientHolder& holder) {
    nb::list list;
    for (Events::Event const& event : holder.events().take()) {
        nb::dict dict;
        dict["event"] = event.kind;
        for (auto const& [key, value] : event.numbers) dict[key] = value;
        for (auto const& [key, value] : event.texts) dict[key] = value;
        for (auto const& [key, value] : event.flags) dict[key] = value;
        list.append(dict);
    }
    return list;
}

/// Runs what returns nothing.
void run(ClientHolder& holder, std::function<void(ClusterClient&)> const& work) {
    holder.call<bool>([work](ClusterClient& client) {
        work(client);
        return true;
    });
}

}  // namespace

void bind_cluster(nb::module_& module) {
    nb::class_<ClientHolder>(module, "ClusterClient")
        .def(nb::init<std::string const&, std::string const&, std::int64_t>(), nb::arg("agent"),
             nb::arg("name"), nb::arg("timeout_ms"))
        .def_prop_ro("server", [](ClientHolder& holder) { return holder.client().server(); })
        .def("devices", devices)
        .def("create_endpoint", create_cluster_endpoint, nb::arg("device"))
        .def(
            "delete_endpoint",
            [](ClientHolder& holder, std::uint32_t id) {
                run(holder, [id](ClusterClient& client) { client.delete_endpoint(id); });
            },
            nb::arg("endpoint"))
        .def("create_channel", create_cluster_channel, nb::arg("name"), nb::arg("sources"),
             nb::arg("destinations"), nb::arg("relay_gpus"), nb::arg("relay_host"),
             nb::arg("max_nics"), nb::arg("schema"), nb::arg("options"))
        .def(
            "delete_channel",
            [](ClientHolder& holder, std::uint32_t id) {
                run(holder, [id](ClusterClient& client) { client.delete_channel(id); });
            },
            nb::arg("channel"))
        .def(
            "check_channel",
            [](ClientHolder& holder, std::uint32_t id) { holder.client().check_channel(id); },
            nb::arg("channel"))
        .def("status",
             [](ClientHolder& holder) {
                 return holder.call<std::string>(
                     [](ClusterClient& client) { return client.status(); });
             })
        .def("events", take_events)
        .def("close", &ClientHolder::close);
}

}  // namespace mgi::python
