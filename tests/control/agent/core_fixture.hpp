/// \file
/// The agent's core against a scripted controller, in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <mgi/graph.hpp>

#include "control/agent/core.hpp"
#include "control/agent/signing.hpp"
#include "control/local/words.hpp"
#include "control/state/settings.hpp"

namespace mgi::control::test {

struct Asked {
    CallNumber number = 0;
    UnaryRequest request;
};

class Ports final : public AgentPorts {
public:
    void open_session(std::uint64_t session, std::string const& controller) override {
        opened.emplace_back(session, controller);
        open = true;
    }
    void send(AgentMessage const& message) override { sent.push_back(message); }
    void close_session() override { open = false; }
    void call(CallNumber number, UnaryRequest const& request, Milliseconds) override {
        calls.push_back({number, request});
    }
    void cancel(CallNumber number) override { cancelled.push_back(number); }
    void tell(ApplicationId application, Json const& message) override {
        told[application].push_back(message);
    }
    void hand(ApplicationId application, Json const& message, Fd fd) override {
        tell(application, message);
        handed.push_back(std::move(fd));
    }
    void dismiss(ApplicationId application) override { dismissed.push_back(application); }
    [[nodiscard]] std::int64_t wall_ms() const override { return 1234; }

    std::vector<std::pair<std::uint64_t, std::string>> opened;
    bool open = false;
    std::vector<AgentMessage> sent;
    std::vector<Asked> calls;
    std::vector<CallNumber> cancelled;
    std::vector<Fd> handed;
    std::map<ApplicationId, std::vector<Json>> told;
    std::vector<ApplicationId> dismissed;
};

class Core : public ::testing::Test {
protected:
    explicit Core(CoreOptions made = options()) : core_(std::move(made), ports_) {}

    static constexpr char const* kTicketKey = "the key of this test's agent";

    static CoreOptions options() {
        CoreOptions made;
        made.name = "node1";
        made.instance = "instance";
        made.version = "test";
        Vertex& cpu = *made.graph.add_vertices();
        cpu.set_name("cpu0");
        Vertex& gpu = *made.graph.add_vertices();
        gpu.set_name("gpu0");
        gpu.set_kind(static_cast<std::uint32_t>(VertexKind::Gpu));
        Link& link = *made.graph.add_links();
        link.set_to(1);
        link.set_gbps(24);
        link.set_kind("pcie");
        made.session.controllers = {"one:1", "two:2"};
        made.ticket_key = kTicketKey;
        return made;
    }

    static ControllerMessage message(std::uint64_t epoch = 1) {
        ControllerMessage made;
        made.set_protocol(kProtocol);
        made.set_epoch(epoch);
        return made;
    }
    void receive(ControllerMessage const& message) {
        core_.session_received(ports_.opened.back().first, message, now_);
    }
    void register_agent() {
        core_.tick(now_);
        while (!ports_.open) wait(Milliseconds(1));
        ControllerMessage answer = message();
        answer.mutable_registered()->set_agent(7);
        answer.mutable_registered()->set_incarnation(ports_.opened.size());
        answer.mutable_registered()->set_heartbeat_ms(300);
        answer.mutable_registered()->set_lease_ms(1200);
        receive(answer);
    }
    void refuse(Refused::Why why, std::string const& leader = "") {
        ControllerMessage answer = message();
        answer.mutable_refused()->set_why(why);
        answer.mutable_refused()->set_text("the reason");
        answer.mutable_refused()->set_leader(leader);
        receive(answer);
    }
    void wait(Milliseconds time) {
        for (auto const end = now_ + time; now_ < end; now_ += Milliseconds(1)) {
            if (core_.next() <= now_) core_.tick(now_);
        }
    }
    /// What it says that it holds, this agent has given to that user.
    Json hello(ApplicationId id, Json message = Json::object(), std::uint32_t uid = 1000) {
        return claim(id, with_tickets(std::move(message), kTicketKey, owner_of(uid, "")), uid);
    }
    /// As it stands there.
    Json claim(ApplicationId id, Json message, std::uint32_t uid = 1000) {
        core_.application_came(id, 42, uid, now_);
        message["op"] = "hello";
        message["id"] = 0u;
        if (!message.contains("protocol")) message["protocol"] = kSocketProtocol;
        message["name"] = "query";
        core_.application_said(id, message, now_);
        return ports_.told[id].empty() ? Json() : ports_.told[id].front();
    }
    Json ask(ApplicationId id, Json const& message) {
        core_.application_said(id, message, now_);
        return ports_.told[id].empty() ? Json() : ports_.told[id].back();
    }
    static Json create(std::uint64_t id, std::uint64_t timeout = 10'000) {
        return {{"op", "create_endpoint"},
                {"id", id},
                {"request", "request-" + std::to_string(id)},
                {"timeout_ms", timeout}};
    }
    void end_call(std::size_t index, CallOutcome::Kind kind, std::uint32_t id = 0) {
        CallOutcome outcome;
        outcome.kind = kind;
        outcome.id = id;
        outcome.code = ErrorCode::Refused;
        outcome.text = "the controller's words";
        core_.call_ended(ports_.calls.at(index).number, outcome, now_);
    }
    static std::string error_of(Json const& message) {
        return message.contains("error") ? message["error"]["message"].get<std::string>()
                                         : "no error: " + message.dump();
    }

    Ports ports_;
    Time now_ = Time() + std::chrono::hours(1);
    AgentCore core_;
};

}  // namespace mgi::control::test
