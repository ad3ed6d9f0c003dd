#include "control/http/controller_metrics.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <mgi/cluster.hpp>
#include <mgi/graph.hpp>

#include "control/http/metric_text.hpp"

namespace mgi::control {

namespace {

/// What joins NICs to the network; agents measure no others.
void add_links(MetricText& text, ServerView const& server) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> used;
    for (LinkUse const& figure : *server.use.links) {
        used[{figure.from(), figure.to()}] = figure.gbps();
    }
    auto const vertex = [&](std::uint32_t at) -> Vertex const& {
        return server.graph->vertices(static_cast<int>(at));
    };
    auto const is_network = [&](std::uint32_t at) {
        return vertex(at).kind() == static_cast<std::uint32_t>(VertexKind::Network);
    };
    for (Link const& link : server.graph->links()) {
        if (!is_network(link.from()) && !is_network(link.to())) continue;
        MetricText::Labels const labels{{"server", server.name},
                                        {"from", vertex(link.from()).name()},
                                        {"to", vertex(link.to()).name()}};
        text.gauge("mgi_network_link_capacity_bytes_per_second",
                   "What a NIC's link to or from the network can carry; 0: it is down",
                   link.gbps() * 1e9, labels);
        text.gauge("mgi_network_link_used_bytes_per_second",
                   "What it carries, MGI's or not, where its agent can measure it",
                   used[{link.from(), link.to()}] * 1e9, labels);
    }
}

void add_nics(MetricText& text, ServerView const& server) {
    for (NicView const& nic : server.nics) {
        MetricText::Labels const labels{{"server", server.name}, {"nic", nic.name}};
        text.gauge("mgi_nic_payload_bytes_per_second", "Payload of channels that leaves by the NIC",
                   nic.payload.gbps * 1e9, labels);
        text.counter("mgi_nic_payload_bytes_total", "Payload of channels that left by the NIC",
                     double(nic.payload.bytes), labels);
        text.gauge("mgi_nic_segments_in_flight", "Segments on their way by the NIC",
                   double(nic.payload.in_flight), labels);
        text.counter("mgi_nic_resends_total", "Segments that were sent again",
                     double(nic.payload.resends), labels);
    }
}

void add_servers(MetricText& text, Snapshot const& snapshot) {
    std::map<std::string, double> states{{"present", 0}, {"away", 0}, {"failed", 0}};
    for (ServerView const& server : snapshot.servers) ++states[server.state];
    for (auto const& [state, count] : states) {
        text.gauge("mgi_servers", "Servers by state", count, {{"state", state}});
    }
    for (ServerView const& server : snapshot.servers) {
        MetricText::Labels const labels{{"server", server.name}};
        text.gauge("mgi_server_present", "1 while the server's lease holds",
                   server.state == "present" ? 1 : 0, labels);
        text.gauge("mgi_server_endpoints", "Endpoints on the server", double(server.endpoints),
                   labels);
        text.gauge("mgi_server_clock_off_seconds", "The server's clock minus the controller's",
                   double(server.clock_off_ms) / 1e3, labels);
        add_links(text, server);
        add_nics(text, server);
    }
}

void add_flow(MetricText& text, std::string const& of, std::string const& what,
              FlowView const& flow, MetricText::Labels const& labels) {
    text.counter(of + "_bytes_total", "Payload that " + what + " has moved", double(flow.bytes),
                 labels);
    text.gauge(of + "_bytes_per_second", "Payload that " + what + " moves", flow.gbps * 1e9,
               labels);
    text.gauge(of + "_segments_in_flight", "Segments on their way to their receive queues",
               double(flow.in_flight), labels);
    text.gauge(of + "_segments_waiting", "Segments that wait for a credit", double(flow.waiting),
               labels);
    text.counter(of + "_credit_wait_seconds_total",
                 "Time for which its lanes waited for a credit, all together",
                 double(flow.waited_ms) / 1e3, labels);
    text.gauge(of + "_longest_credit_wait_seconds", "The longest of these waits",
               double(flow.longest_wait_ms) / 1e3, labels);
    text.counter(of + "_resends_total", "Segments that were sent again", double(flow.resends),
                 labels);
}

std::string end_text(std::uint32_t endpoint) {
    return endpoint == ClusterPathUse::kAll ? "all" : std::to_string(endpoint);
}

void add_channel(MetricText& text, ChannelView const& channel,
                 std::map<std::uint32_t, std::string> const& servers) {
    MetricText::Labels const labels{{"channel", std::to_string(channel.id)},
                                    {"name", channel.name}};
    add_flow(text, "mgi_channel", "the channel", channel.flow, labels);
    text.counter("mgi_channel_rows_total", "Rows that the channel has moved",
                 double(channel.flow.rows), labels);
    text.gauge("mgi_channel_segments_queued", "Segments that its destinations have not taken yet",
               double(channel.queued), labels);
    for (PathView const& path : channel.paths) {
        auto const server = servers.find(path.server);
        add_flow(text, "mgi_path", "the path", path.flow,
                 {{"channel", std::to_string(channel.id)},
                  {"server", server == servers.end() ? "" : server->second},
                  {"from", end_text(path.source)},
                  {"to", end_text(path.destination)},
                  {"by", path.by},
                  {"nic", path.nic},
                  {"peer", path.peer}});
    }
}

void add_channels(MetricText& text, Snapshot const& snapshot) {
    std::map<std::string, double> states{
        {"preparing", 0}, {"running", 0}, {"recovering", 0}, {"failed", 0}};
    std::map<std::uint32_t, std::string> servers;
    for (ServerView const& server : snapshot.servers) servers[server.id] = server.name;
    double gbps = 0;
    for (ChannelView const& channel : snapshot.channels) {
        ++states[channel.state];
        gbps += channel.flow.gbps;
        if (channel.state == "running") add_channel(text, channel, servers);
    }
    for (auto const& [state, count] : states) {
        text.gauge("mgi_channels", "Channels by state", count, {{"state", state}});
    }
    text.gauge("mgi_endpoints", "Endpoints", double(snapshot.endpoints.size()));
    text.gauge("mgi_throughput_bytes_per_second", "Payload that all channels move together",
               gbps * 1e9);
}

void add_counters(MetricText& text, Counters const& counters) {
    auto const add = [&text](char const* name, char const* help, std::uint64_t value) {
        text.counter(name, help, double(value));
    };
    add("mgi_controller_registrations_total", "Agents' registrations", counters.registrations);
    add("mgi_controller_heartbeats_total", "Agents' heartbeats", counters.heartbeats);
    add("mgi_controller_messages_total", "Agents' messages, heartbeats among them",
        counters.messages);
    add("mgi_controller_refused_total", "Agents' messages that were refused", counters.refused);
    add("mgi_controller_calls_total", "Clients' calls", counters.calls);
    add("mgi_controller_calls_failed_total", "Clients' calls that failed", counters.calls_failed);
    add("mgi_controller_channels_created_total", "Channels created", counters.channels_created);
    add("mgi_controller_channels_failed_total", "Channels failed", counters.channels_failed);
    add("mgi_controller_plans_renewed_total", "New generations of plans", counters.plans_renewed);
    add("mgi_controller_plans_aborted_total", "Plans that not every server took",
        counters.plans_aborted);
}

}  // namespace

std::string controller_metrics(Snapshot const& snapshot, bool leads) {
    MetricText text;
    text.gauge("mgi_controller_leads", "1 for the controller that leads, 0 for one that stands by",
               leads ? 1 : 0);
    if (leads) {
        text.gauge("mgi_controller_epoch",
                   "Life of a controller, one more at each start or election",
                   double(snapshot.epoch));
        text.gauge("mgi_controller_uptime_seconds", "Since this epoch began", snapshot.uptime_s);
        add_servers(text, snapshot);
        add_channels(text, snapshot);
        add_counters(text, snapshot.counters);
    }
    return text.text();
}

}  // namespace mgi::control
