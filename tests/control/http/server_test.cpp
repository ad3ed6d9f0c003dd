// The web side: what it serves, to whom, and what it does not put up with.
#include "control/http/server.hpp"

#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mgi/cluster.hpp>
#include <mgi/error.hpp>
#include <mgi/graph.hpp>

#include "control/http/controller_metrics.hpp"
#include "control/http/metric_text.hpp"
#include "control/http/page.hpp"
#include "control/rpc/authority.hpp"

namespace mgi::control {
namespace {

using mgi::test::Authority;
using mgi::test::Issued;
using mgi::test::kToken;
using mgi::test::TemporaryFolder;

HttpContent content() {
    return {status_page(), [] { return std::string("{}"); },
            [] { return std::string("mgi_up 1\n"); }};
}

class HttpTest : public ::testing::Test {
protected:
    static std::unique_ptr<httplib::Client> client_of(HttpServer const& server) {
        auto made = std::make_unique<httplib::Client>(server.url());
        made->enable_server_certificate_verification(false);
        return made;
    }
    static int status_of(httplib::Result const& result) { return result ? result->status : -1; }

    TemporaryFolder folder_;
};

TEST_F(HttpTest, ServesPageStatusAndMetrics) {
    Security const open({});
    HttpServer const server({"127.0.0.1:0"}, open, content());
    auto const client = client_of(server);
    auto const page = client->Get("/");
    ASSERT_TRUE(page);
    EXPECT_EQ(page->status, 200);
    EXPECT_NE(page->body.find("<!doctype html>"), std::string::npos);
    EXPECT_NE(page->body.find("</html>"), std::string::npos);
    EXPECT_NE(page->get_header_value("Content-Security-Policy"), "");
    EXPECT_EQ(client->Get("/status.json")->body, "{}");
    EXPECT_EQ(client->Get("/metrics")->body, "mgi_up 1\n");
    EXPECT_EQ(status_of(client->Get("/healthz")), 200);
    EXPECT_EQ(status_of(client->Get("/../etc/passwd")), 404);
    EXPECT_EQ(status_of(client->Post("/status.json", "{}", "application/json")), 404);
    EXPECT_NE(status_of(client->Post("/", std::string(1 << 20, 'x'), "text/plain")), 200);
}

TEST_F(HttpTest, NoPageWhereThereIsNone) {
    Security const open({});
    HttpContent without = content();
    without.page = {};
    HttpServer const server({"127.0.0.1:0"}, open, without);
    EXPECT_EQ(status_of(client_of(server)->Get("/")), 404);
}

TEST_F(HttpTest, ATokenOpensIt) {
    Security const guarded({"", "", "", folder_.write("token", kToken), ""});
    HttpServer const server({"127.0.0.1:0"}, guarded, content());
    auto const get = [&](char const* path, std::string const& authorization) {
        return status_of(client_of(server)->Get(path, {{"Authorization", authorization}}));
    };
    for (char const* const path : {"/", "/status.json", "/metrics"}) {
        EXPECT_EQ(status_of(client_of(server)->Get(path)), 401);
        EXPECT_EQ(get(path, std::string("Bearer ") + kToken), 200);
        EXPECT_EQ(get(path, "Bearer wrong"), 401);
        EXPECT_EQ(get(path, "Basic !!!!"), 401);
        EXPECT_EQ(get(path, "Basic "), 401);
    }
    auto const browser = client_of(server);
    browser->set_basic_auth("anybody", kToken);
    EXPECT_EQ(status_of(browser->Get("/")), 200);
    browser->set_basic_auth("anybody", "wrong");
    EXPECT_EQ(status_of(browser->Get("/")), 401);
    EXPECT_EQ(status_of(client_of(server)->Get("/healthz")), 200);
}

TEST_F(HttpTest, OverHttpsWithCertificates) {
    Authority const authority(folder_, "ours");
    Issued const issued = authority.issue("server");
    Security const full({authority.file(), issued.certificate, issued.key, "", ""});
    HttpServer const server({"localhost:0"}, full, content());
    EXPECT_EQ(server.url().substr(0, 8), "https://");
    EXPECT_EQ(status_of(client_of(server)->Get("/")), 200);
}

TEST_F(HttpTest, AddressesThatCannotBeListenedOn) {
    Security const open({});
    HttpServer const server({"127.0.0.1:0"}, open, content());
    std::string const taken = server.url().substr(7);
    for (std::string const& address : {taken, std::string("192.0.2.1:0"), std::string("localhost"),
                                       std::string(":80"), std::string("localhost:99999")}) {
        try {
            HttpServer const second({address}, open, content());
            ADD_FAILURE() << address;
        } catch (Error const& error) {
            EXPECT_NE(std::string(error.what()).find("--http " + address), std::string::npos)
                << error.what();
        }
    }
}

TEST_F(HttpTest, AFailureOfTheContentIsAnAnswer) {
    Security const open({});
    HttpContent failing = content();
    failing.status = []() -> std::string { throw std::runtime_error("made to fail"); };
    HttpServer const server({"127.0.0.1:0"}, open, failing);
    EXPECT_EQ(status_of(client_of(server)->Get("/status.json")), 500);
}

TEST_F(HttpTest, ManyReadersAtATime) {
    Security const open({});
    HttpServer const server({"127.0.0.1:0"}, open, content());
    std::vector<std::thread> readers;
    for (int reader = 0; reader < 16; ++reader) {
        readers.emplace_back([&] {
            auto const client = client_of(server);
            for (int round = 0; round < 20; ++round) {
                EXPECT_EQ(status_of(client->Get("/status.json")), 200);
            }
        });
    }
    for (std::thread& reader : readers) reader.join();
}

// httplib's limits are for each read: such a client would hold its thread until the header is full.
TEST_F(HttpTest, EndsAlthoughAClientSendsAByteNowAndThen) {
    Security const open({});
    auto server = std::make_unique<HttpServer>(HttpOptions{"127.0.0.1:0"}, open, content());
    int const port = std::stoi(server->url().substr(server->url().rfind(':') + 1));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(std::uint16_t(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int const slow = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(slow, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(send(slow, "GET /", 5, MSG_NOSIGNAL), 5);
    std::atomic<bool> ended{false};
    std::thread ends([&] {
        server.reset();
        ended = true;
    });
    constexpr int kHeader = 8192;
    int sent = 0;
    while (sent < kHeader && !ended && send(slow, "x", 1, MSG_NOSIGNAL) == 1) {
        ++sent;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_LT(sent, kHeader);
    ends.join();
    close(slow);
}

TEST(MetricText, LabelsAreQuotedAndNamesStandTogether) {
    MetricText text;
    text.gauge("mgi_a", "A", 1, {{"server", "x\"\\\ny"}});
    text.counter("mgi_b_total", "B", 2);
    text.gauge("mgi_a", "A", 3, {{"server", "z"}});
    EXPECT_EQ(text.text(),
              "# HELP mgi_a A\n# TYPE mgi_a gauge\n"
              "mgi_a{server=\"x\\\"\\\\\\ny\"} 1\nmgi_a{server=\"z\"} 3\n"
              "# HELP mgi_b_total B\n# TYPE mgi_b_total counter\nmgi_b_total 2\n");
}

TEST(ControllerMetrics, StatesThatNobodyIsInAreZero) {
    Snapshot snapshot;
    snapshot.epoch = 7;
    snapshot.servers.push_back({});
    snapshot.servers[0].name = "node1";
    snapshot.servers[0].state = "away";
    std::string const text = controller_metrics(snapshot, true);
    for (char const* const line :
         {"mgi_controller_leads 1\n", "mgi_controller_epoch 7\n", "mgi_servers{state=\"away\"} 1\n",
          "mgi_servers{state=\"present\"} 0\n", "mgi_server_present{server=\"node1\"} 0\n",
          "mgi_channels{state=\"failed\"} 0\n", "mgi_controller_heartbeats_total 0\n"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    EXPECT_EQ(controller_metrics({}, false).find("mgi_servers"), std::string::npos);
}

TEST(ControllerMetrics, WhatNicsCanCarryAndDo) {
    auto graph = std::make_shared<ServerGraph>();
    graph->add_vertices()->set_name("cpu0");
    Vertex& nic = *graph->add_vertices();
    nic.set_name("nic0");
    nic.set_kind(static_cast<std::uint32_t>(VertexKind::Nic));
    Vertex& network = *graph->add_vertices();
    network.set_name("network");
    network.set_kind(static_cast<std::uint32_t>(VertexKind::Network));
    for (std::uint32_t const to : {0u, 2u}) {
        Link& link = *graph->add_links();
        link.set_from(1);
        link.set_to(to);
        link.set_gbps(12.5);
    }
    LinkFigures figures;
    LinkUse& use = *figures.Add();
    use.set_from(1);
    use.set_to(2);
    use.set_gbps(0.5);
    Snapshot snapshot;
    snapshot.servers.push_back({});
    snapshot.servers[0].name = "node1";
    snapshot.servers[0].graph = std::move(graph);
    snapshot.servers[0].use.links = std::make_shared<LinkFigures const>(figures);
    std::string const text = controller_metrics(snapshot, true);
    std::string const labels = R"({from="nic0",server="node1",to="network"} )";
    EXPECT_NE(text.find("mgi_network_link_capacity_bytes_per_second" + labels + "12500000000\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("mgi_network_link_used_bytes_per_second" + labels + "500000000\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("to=\"cpu0\""), std::string::npos) << text;
}

TEST(ControllerMetrics, WhatChannelsAndPathsMove) {
    Snapshot snapshot;
    snapshot.servers.emplace_back();
    snapshot.servers[0].id = 3;
    snapshot.servers[0].name = "node1";
    snapshot.servers[0].nics.push_back({"nic0", true, 1, 2, 0, 2, {}});
    snapshot.servers[0].nics[0].payload.resends = 5;
    ChannelView& channel = snapshot.channels.emplace_back();
    channel.id = 7;
    channel.name = "shuffle";
    channel.state = "running";
    channel.flow.bytes = 1000;
    channel.flow.waited_ms = 1500;
    channel.queued = 4;
    PathView& path = channel.paths.emplace_back();
    path.server = 3;
    path.source = 1;
    path.destination = ClusterPathUse::kAll;
    path.by = "copy";
    path.flow.gbps = 0.5;
    ChannelView over = channel;
    over.id = 8;
    over.state = "failed";
    snapshot.channels.push_back(over);
    std::string const text = controller_metrics(snapshot, true);
    std::string const of = R"({channel="7",name="shuffle"} )";
    std::string const on =
        R"({by="copy",channel="7",from="1",nic="",peer="",server="node1",to="all"} )";
    for (std::string const& line :
         {"mgi_channel_bytes_total" + of + "1000\n",
          "mgi_channel_credit_wait_seconds_total" + of + "1.5\n",
          "mgi_channel_segments_queued" + of + "4\n",
          "mgi_path_bytes_per_second" + on + "500000000\n",
          std::string("mgi_nic_resends_total{nic=\"nic0\",server=\"node1\"} 5\n")}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    EXPECT_EQ(text.find("channel=\"8\""), std::string::npos) << "it is over";
}

}  // namespace
}  // namespace mgi::control
