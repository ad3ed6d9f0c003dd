// What a client holds: how it comes to that, what it says of it, and what it is told.
#include <unistd.h>

#include "control/local/client.hpp"
#include "control/local/words.hpp"

namespace mgi {

using control::Json;

namespace {

constexpr std::size_t kMostEnded = 1024;

}  // namespace

Json ClusterClient::Impl::hello() const {
    Json message = {{"op", "hello"},
                    {"id", 0u},
                    {"protocol", control::kSocketProtocol},
                    {"version", MGI_VERSION},
                    {"name", options_.name},
                    {"pid", static_cast<std::uint32_t>(getpid())}};
    if (!options_.job_secret.empty()) message["job_secret"] = options_.job_secret;
    Json endpoints = Json::array();
    for (auto const& [id, endpoint] : endpoints_) {
        endpoints.push_back(Json{{"endpoint", id},
                                 {"vertex", endpoint.vertex},
                                 {"ticket", control::bytes_value(endpoint_tickets_.at(id))}});
    }
    Json channels = Json::array();
    for (auto const& [id, plan] : channels_) {
        Json held = {{"channel", id},
                     {"generation", plan.generation},
                     {"request", plan.request},
                     {"created", created_.contains(id)}};
        control::add_spec(held, plan.spec);
        Tickets const& tickets = channel_tickets_.at(id);
        held["ticket"] = control::bytes_value(tickets.plan);
        held["creator_ticket"] = control::bytes_value(tickets.creator);
        if (auto const left = left_.find(id); left != left_.end()) {
            auto const& gone = left->second.endpoints;
            held["left"] = control::runs_of(std::vector<std::uint32_t>(gone.begin(), gone.end()));
            held["gone"] = left->second.gone;
            held["creator_left"] = left->second.creator;
        }
        channels.push_back(std::move(held));
    }
    message["endpoints"] = std::move(endpoints);
    message["channels"] = std::move(channels);
    return message;
}

// An agent that was started again has none.
void ClusterClient::Impl::put_parts_again() {
    for (auto const& [channel, part] : parts_) {
        put_again({{"op", "put_part"}, {"channel", channel}, {"fd", true}}, part);
    }
    if (board_) put_again({{"op", "share_board"}, {"fd", true}}, board_);
}

void ClusterClient::Impl::put_again(Json request, control::Fd const& fd) {
    auto const call = std::make_shared<Call>();
    call->posted = true;
    call->brings = control::duplicate(fd.get());
    queue(call, std::move(request), options_.timeout);
}

// Told here and not by the caller's thread, so that what a notice says later comes later.
void ClusterClient::Impl::note_made(Json const& request, Json const& answer) {
    std::string const& op = request["op"].get_ref<std::string const&>();
    if (op == "create_endpoint") {
        auto const id = control::number32_in(answer, "endpoint");
        auto const vertex = control::number32_in(answer, "vertex");
        endpoints_[id] = {id, vertex, control::text_in(answer, "device")};
        endpoint_tickets_[id] = control::bytes_or_none_in(answer, "ticket");
    } else if (op == "create_channel") {
        ClusterPlan plan = control::plan_in(answer);
        created_.try_emplace(plan.channel);
        note_tickets(plan.channel, answer);
        channels_[plan.channel] = std::move(plan);
    } else if (op == "delete_endpoint") {
        forget_endpoint(request["endpoint"].get<std::uint32_t>());
    } else if (op == "delete_channel") {
        forget_channel(request["channel"].get<std::uint32_t>());
        created_.erase(request["channel"].get<std::uint32_t>());
    } else if (op == "leave_channel") {
        note_left(request["channel"].get<std::uint32_t>());
    }
}

void ClusterClient::Impl::note_tickets(std::uint32_t channel, Json const& message) {
    Tickets& tickets = channel_tickets_[channel];
    tickets.plan = control::bytes_or_none_in(message, "ticket");
    if (control::has(message, "creator_ticket")) {
        tickets.creator = control::bytes_or_none_in(message, "creator_ticket");
    }
}

// It is held until its end is heard: the agent may be killed before it has told the controller.
void ClusterClient::Impl::note_left(std::uint32_t channel) {
    auto const held = channels_.find(channel);
    bool const creator = created_.erase(channel) != 0;
    parts_.erase(channel);
    if (held == channels_.end()) return;
    Left& left = left_[channel];
    left.gone = true;
    left.creator = left.creator || creator;
    for (auto const* ids : {&held->second.spec.sources, &held->second.spec.destinations}) {
        for (std::uint32_t const id : *ids) {
            if (endpoints_.contains(id)) left.endpoints.insert(id);
        }
    }
}

void ClusterClient::Impl::forget_endpoint(std::uint32_t id) {
    endpoints_.erase(id);
    endpoint_tickets_.erase(id);
}

void ClusterClient::Impl::forget_channel(std::uint32_t id) {
    channels_.erase(id);
    channel_tickets_.erase(id);
    left_.erase(id);
    parts_.erase(id);
}

// What was made for a caller that has given up is given back.
void ClusterClient::Impl::undo(Json const& request, Json const& answer) {
    std::string const& op = request["op"].get_ref<std::string const&>();
    char const* what = op == "create_endpoint" ? "endpoint" : "channel";
    send({{"op", std::string("delete_") + what},
          {"id", next_id_++},
          {"timeout_ms", options_.timeout.count()},
          {what, control::number_in(answer, what, UINT32_MAX)}});
}

void ClusterClient::Impl::take_notice(Json const& message, News& news) {
    using control::number32_in;
    using control::text_in;
    std::string const notice = text_in(message, "notice");
    if (notice == "plan") {
        ClusterPlan plan = control::plan_in(message);
        channels_[plan.channel] = plan;
        note_tickets(plan.channel, message);
        news.emplace_back(
            [plan = std::move(plan)](ClusterListener& listener) { listener.plan_changed(plan); });
    } else if (notice == "channel_ended") {
        auto const id = number32_in(message, "channel");
        End end{control::flag_in(message, "failed"), text_in(message, "why", 1u << 16)};
        bool const gone = left_.contains(id) && left_[id].gone;
        forget_channel(id);
        if (auto const found = created_.find(id); found != created_.end()) {
            found->second = end;
        } else if (!gone) {
            ended_[id] = end;
            // Ids grow: the first are the oldest.
            if (ended_.size() > kMostEnded) ended_.erase(ended_.begin());
        }
        news.emplace_back([id, end = std::move(end)](ClusterListener& listener) {
            listener.channel_ended(id, end.failed, end.why);
        });
    } else if (notice == "channel_left") {
        auto const id = number32_in(message, "channel");
        std::vector<std::uint32_t> const endpoints = control::ids_in(message, "endpoints");
        if (channels_.contains(id)) left_[id].endpoints.insert(endpoints.begin(), endpoints.end());
    } else if (notice == "endpoint_lost") {
        auto const id = number32_in(message, "endpoint");
        forget_endpoint(id);
        news.emplace_back([id, why = text_in(message, "why", 1u << 16)](ClusterListener& listener) {
            listener.endpoint_lost(id, why);
        });
    } else if (notice == "server") {
        news.emplace_back([server = text_in(message, "server"),
                           state = text_in(message, "state")](ClusterListener& listener) {
            listener.server_changed(server, state);
        });
    } else if (notice == "controller") {
        news.emplace_back([reached = control::flag_in(message, "reached"),
                           why = text_in(message, "why", 1u << 16)](ClusterListener& listener) {
            listener.controller_changed(reached, why);
        });
    }
    // What a newer agent says beyond this is for newer applications.
}

}  // namespace mgi
