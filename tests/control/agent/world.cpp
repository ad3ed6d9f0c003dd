#include "control/agent/world.hpp"

#include <algorithm>
#include <set>

#include <mgi/graph.hpp>

#include "control/agent/signing.hpp"
#include "control/local/words.hpp"

namespace mgi::control::test {

namespace {

ServerGraph small_graph() {
    ServerGraph graph;
    auto const add = [&](char const* name, VertexKind kind) {
        Vertex& vertex = *graph.add_vertices();
        vertex.set_name(name);
        vertex.set_kind(static_cast<std::uint32_t>(kind));
    };
    add("cpu0", VertexKind::Cpu);
    add("gpu0", VertexKind::Gpu);
    add("gpu1", VertexKind::Gpu);
    add("nic0", VertexKind::Nic);
    for (std::uint32_t v = 1; v < 4; ++v) {
        for (auto const& [from, to] : {std::pair{0u, v}, std::pair{v, 0u}}) {
            Link& link = *graph.add_links();
            link.set_from(from);
            link.set_to(to);
            link.set_gbps(24);
            link.set_kind("pcie");
        }
    }
    return graph;
}

}  // namespace

void Node::start() {
    CoreOptions options;
    options.name = name_;
    options.instance = name_ + "-instance-" + std::to_string(++life_);
    options.version = "test";
    options.graph = small_graph();
    options.session.controllers = {"controller:1"};
    options.session.seed = life_;
    options.ticket_key = name_;  // the same in all of its lives
    session_ = 0;
    core_ = std::make_unique<AgentCore>(std::move(options), *this);
}

void Node::kill() {
    core_ = nullptr;
    ++life_;
    for (auto const& [session, number] : numbers_) {
        if (!parted)
            world_.after(Milliseconds(1), [this, session = session] {
                world_.happens([&](Cluster& cluster, Now now, Effects& effects) {
                    cluster.session_closed(session, now, effects);
                });
            });
    }
    numbers_.clear();
    told_.clear();
}

ApplicationId Node::application(std::string const& name, Json held) {
    ApplicationId const id = next_application_++;
    core_->application_came(id, 100, 1000, world_.now());
    held = with_tickets(std::move(held), name_, owner_of(1000, ""));
    held["op"] = "hello";
    held["id"] = 0u;
    held["protocol"] = kSocketProtocol;
    held["name"] = name;
    core_->application_said(id, held, world_.now());
    return id;
}

void Node::leave(ApplicationId application) {
    core_->application_left(application, "its process has ended", world_.now());
}

std::uint64_t Node::ask(ApplicationId application, Json request) {
    std::uint64_t const id = next_request_++;
    request["id"] = id;
    if (!request.contains("request")) request["request"] = name_ + "-request-" + std::to_string(id);
    core_->application_said(application, request, world_.now());
    return id;
}

std::optional<Json> Node::answer(ApplicationId application, std::uint64_t id) {
    for (Json const& message : told_[application]) {
        if (!message.contains("notice") && message["id"] == id) return message;
    }
    return std::nullopt;
}

std::vector<Json> Node::notices(ApplicationId application, std::string const& kind) {
    std::vector<Json> found;
    for (Json const& message : told_[application]) {
        if (message.value("notice", "") == kind) found.push_back(message);
    }
    return found;
}

void Node::thaw() {
    frozen = false;
    for (auto const& event : std::exchange(waiting_, {})) event();
}

void Node::received(SessionId session, ControllerMessage const& message) {
    auto const number = numbers_.find(session);
    if (number != numbers_.end()) core_->session_received(number->second, message, world_.now());
}

void Node::broken(SessionId session, std::string const& why) {
    auto const found = numbers_.find(session);
    if (found == numbers_.end()) return;
    std::uint64_t const number = found->second;
    core_->session_broken(number, why, world_.now());
}

void Node::tell(ApplicationId application, Json const& message) {
    told_[application].push_back(message);
}

void Node::hand(ApplicationId application, Json const& message, Fd fd) {
    tell(application, message);
    handed.push_back(std::move(fd));
}

std::int64_t Node::wall_ms() const {
    return world_.controllers_now().wall;
}

void Node::open_session(std::uint64_t number, std::string const&) {
    SessionId const session = world_.next_session_++;
    session_ = session;
    numbers_[session] = number;
    if (parted) return;  // no answer, until the agent gives up
    if (world_.cluster_ == nullptr) {
        world_.at(world_.now_ + Milliseconds(1), [this, session, life = life_, number] {
            world_.deliver(*this, life, [this, session, number] {
                numbers_.erase(session);
                core_->session_broken(number, "connection refused", world_.now());
            });
        });
        return;
    }
    world_.routes_[session] = {this, life_, world_.now_, world_.now_};
    world_.happens([&](Cluster& cluster, Now now, Effects& effects) {
        cluster.session_opened(session, now, effects);
    });
}

void Node::send(AgentMessage const& message) {
    auto const route = world_.routes_.find(session_);
    if (parted || route == world_.routes_.end()) return;
    world_.at(world_.in_order(route->second.last_up), [this, session = session_, message] {
        if (!world_.routes_.contains(session)) return;
        AgentMessage copy = message;
        world_.happens([&](Cluster& cluster, Now now, Effects& effects) {
            cluster.session_message(session, copy, now, effects);
        });
    });
}

void Node::close_session() {
    SessionId const session = session_;
    numbers_.erase(session);
    session_ = 0;
    for (auto const& [of, number] : calls_) {
        if (of != session) continue;
        world_.after(Milliseconds(0), [this, number = number, life = life_] {
            CallOutcome outcome;
            outcome.kind = CallOutcome::Kind::Repeat;
            outcome.text = "the session was closed";
            world_.deliver(*this, life, [this, number, outcome] {
                core_->call_ended(number, outcome, world_.now());
            });
        });
    }
    std::erase_if(calls_, [&](auto const& call) { return call.first == session; });
    if (!parted) world_.break_session(session);
    world_.routes_.erase(session);
}

void Node::call(CallNumber number, UnaryRequest const& request, Milliseconds) {
    calls_.emplace_back(session_, number);
    if (parted) return;
    CallId const call = world_.next_call_++;
    world_.calls_[call] = {this, life_, number};
    world_.after(Milliseconds(world_.random() % 4), [this, call, request] {
        world_.happens([&](Cluster& cluster, Now now, Effects& effects) {
            std::visit(
                [&](auto const& message) {
                    using Message = std::decay_t<decltype(message)>;
                    if constexpr (std::is_same_v<Message, CreateEndpointRequest>) {
                        cluster.create_endpoint(call, message, now, effects);
                    } else if constexpr (std::is_same_v<Message, DeleteEndpointRequest>) {
                        cluster.delete_endpoint(call, message, now, effects);
                    } else if constexpr (std::is_same_v<Message, CreateChannelRequest>) {
                        cluster.create_channel(call, message, now, effects);
                    } else if constexpr (std::is_same_v<Message, DeleteChannelRequest>) {
                        cluster.delete_channel(call, message, now, effects);
                    } else if constexpr (std::is_same_v<Message, GatherRequest>) {
                        cluster.gather(call, message, now, effects);
                    }
                },
                request);
        });
    });
}

void Node::cancel(CallNumber number) {
    std::erase_if(calls_, [&](auto const& call) { return call.second == number; });
    if (parted) return;
    for (auto const& [call, route] : world_.calls_) {
        if (route.node != this || route.life != life_ || route.number != number) continue;
        world_.after(Milliseconds(1), [this, call = call] {
            world_.happens([&](Cluster& cluster, Now now, Effects& effects) {
                cluster.call_gone(call, now, effects);
            });
        });
    }
}

World::World(std::size_t servers, std::uint64_t seed) : random(seed) {
    now_ = Time() + std::chrono::hours(1);
    for (std::size_t n = 0; n < servers; ++n) {
        nodes_.push_back(std::make_unique<Node>(*this, "node" + std::to_string(n)));
    }
    start_controller();
    for (auto const& node : nodes_) node->start();
}

World::~World() = default;

Now World::controllers_now() const {
    Millis const steady = std::chrono::duration_cast<Milliseconds>(now_.time_since_epoch()).count();
    return {steady, 1'700'000'000'000 + steady};
}

void World::start_controller() {
    IdBlocks blocks;
    for (std::size_t kind = 0; kind < kIdKinds; ++kind) {
        blocks[kind] = {reserved_[kind], 16};
        reserved_[kind] += 16;
    }
    cluster_ = std::make_unique<Cluster>(settings, ++epoch_, blocks, controllers_now());
}

void World::kill_controller() {
    cluster_ = nullptr;
    calls_.clear();
    std::map<SessionId, Route> const routes = std::exchange(routes_, {});
    for (auto const& [session, route] : routes) {
        Node& node = *route.node;
        if (node.parted) continue;
        at(now_ + Milliseconds(1), [this, &node, session = session, life = route.life] {
            deliver(node, life,
                    [this, &node, session] { node.broken(session, "connection reset"); });
        });
    }
}

Snapshot World::snapshot() {
    return cluster_->snapshot(controllers_now());
}

void World::after(Milliseconds delay, std::function<void()> event) {
    at(now_ + delay, std::move(event));
}

void World::deliver(Node& node, std::uint64_t life, std::function<void()> event) {
    if (life != node.life_ || !node.core_) return;
    if (node.frozen) {
        node.waiting_.push_back(std::move(event));
    } else {
        event();
    }
}

Time World::in_order(Time& last) {
    last = std::max(last, now_ + Milliseconds(random() % 4));
    return last;
}

void World::break_session(SessionId session) {
    after(Milliseconds(1), [this, session] {
        happens([&](Cluster& cluster, Now now, Effects& effects) {
            cluster.session_closed(session, now, effects);
        });
    });
}

void World::carry_out(Effects& effects) {
    for (Effect const& effect : effects) {
        if (auto const* send = std::get_if<Send>(&effect)) {
            auto const route = routes_.find(send->session);
            if (route == routes_.end() || route->second.node->parted) continue;
            Node& node = *route->second.node;
            at(in_order(route->second.last_down), [this, &node, life = route->second.life,
                                                   session = send->session,
                                                   message = whole(*send)] {
                if (node.parted) return;
                deliver(node, life, [&node, session, message] { node.received(session, message); });
            });
        } else if (auto const* close = std::get_if<Close>(&effect)) {
            auto const route = routes_.find(close->session);
            if (route == routes_.end()) continue;
            Node& node = *route->second.node;
            at(in_order(route->second.last_down),
               [this, &node, life = route->second.life, session = close->session] {
                   if (node.parted) return;
                   deliver(node, life, [&node, session] {
                       node.broken(session, "the controller ended the session");
                   });
               });
            routes_.erase(route);
        } else if (auto const* answer = std::get_if<Answer>(&effect)) {
            carry_out(*answer);
        } else if (auto const* reserve = std::get_if<Reserve>(&effect)) {
            auto& next = reserved_[static_cast<std::size_t>(reserve->kind)];
            cluster_->ids_reserved(reserve->kind, {next, 16});
            next += 16;
        } else if (auto const* plan = std::get_if<MakePlan>(&effect)) {
            carry_out(*plan);
        }
    }
}

void World::carry_out(Answer const& answer) {
    auto const found = calls_.find(answer.call);
    if (found == calls_.end()) return;
    CallRoute const route = found->second;
    calls_.erase(found);
    using Kind = CallOutcome::Kind;
    CallOutcome outcome;
    outcome.id = answer.id;
    outcome.generation = answer.generation;
    outcome.text = answer.text;
    outcome.gathered = answer.gathered;
    switch (answer.problem) {
        case Problem::None: break;
        case Problem::Unavailable:
        case Problem::DeadlineExceeded:
            outcome.kind = Kind::Repeat;
            outcome.code = ErrorCode::Timeout;
            break;
        case Problem::FailedPrecondition:
            outcome.kind = answer.text.starts_with("stale sender") ? Kind::Stale : Kind::Failed;
            outcome.code = ErrorCode::InvalidArgument;
            break;
        case Problem::NotFound:
            outcome.kind = Kind::Failed;
            outcome.code = ErrorCode::NotFound;
            break;
        default: outcome.kind = Kind::Failed; outcome.code = ErrorCode::Refused;
    }
    after(Milliseconds(random() % 4), [this, route, outcome] {
        Node& node = *route.node;
        if (node.parted) return;
        auto const call = std::find_if(node.calls_.begin(), node.calls_.end(),
                                       [&](auto const& of) { return of.second == route.number; });
        if (call == node.calls_.end()) return;
        node.calls_.erase(call);
        deliver(node, route.life, [this, &node, number = route.number, outcome] {
            node.core_->call_ended(number, outcome, now_);
        });
    });
}

void World::carry_out(MakePlan const& plan) {
    PlanMade made;
    made.directory = "directory of " + std::to_string(plan.channel);
    for (auto const* places : {&plan.sources, &plan.destinations}) {
        for (Place const& place : *places) {
            made.tables[place.agent] =
                "table of " + std::to_string(plan.channel) + ", " + std::to_string(plan.generation);
        }
    }
    after(Milliseconds(random() % 3),
          [this, channel = plan.channel, generation = plan.generation, epoch = epoch_, made] {
              if (epoch != epoch_) return;
              happens([&](Cluster& cluster, Now now, Effects& effects) {
                  cluster.planned(channel, generation, made, now, effects);
              });
          });
}

void World::run(Milliseconds time) {
    Time const end = now_ + time;
    while (now_ < end) {
        while (!events_.empty() && events_.begin()->first <= now_) {
            auto const event = std::move(events_.begin()->second);
            events_.erase(events_.begin());
            event();
        }
        happens([](Cluster& cluster, Now now, Effects& effects) { cluster.tick(now, effects); });
        for (auto const& node : nodes_) {
            if (node->core_ && !node->frozen && node->core_->next() <= now_) {
                node->core_->tick(now_);
            }
        }
        now_ += Milliseconds(1);
    }
}

bool World::run_until(std::function<bool()> const& holds) {
    for (int i = 0; i < 12'000; ++i) {
        if (holds()) return true;
        run(Milliseconds(5));
    }
    return false;
}

Json World::answer(Node& node, ApplicationId application, Json request) {
    std::uint64_t const id = node.ask(application, std::move(request));
    run_until([&] { return node.answer(application, id).has_value(); });
    return node.answer(application, id).value_or(Json{{"error", "no answer"}});
}

}  // namespace mgi::control::test
