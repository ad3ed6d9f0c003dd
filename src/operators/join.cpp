// Repartitioned hash join: rows of one side are kept and built into a table while they come, those of the other
// probe it from the moment it is complete at their endpoint. Built rows that come out alone do so at the end.
#include <memory>

#include "operators/join_probe.hpp"
#include "operators/join_source.hpp"
#include "operators/two_level.hpp"

namespace mgi {

namespace operators {
namespace {

constexpr u32 kJoinedARound = 8;

// What the groups of one endpoint share.
struct EndpointJoin {
    EndpointJoin(JoinPlan const& plan, Table const& probe_part, Table const& build_part, u32 groups,
                 Run& run)
        : probe_rows(probe_part),
          build_rows(build_part),
          build(plan, groups, run),
          received(groups),
          allocated(1),
          counted(groups),
          placed(groups),
          finished(1),
          probed(groups),
          results(groups) {}

    Morsels probe_rows;
    Morsels build_rows;
    JoinBuild build;
    Meeting received;
    Meeting allocated;
    Meeting counted;
    Meeting placed;
    Meeting finished;
    Meeting probed;
    std::vector<std::vector<RecordBatch>> results;
};

// One group of a join. It never waits for one thing alone: while the table is not complete it goes on
// sending, and probing rows that nobody takes yet stay in their lanes.
class Joiner {
public:
    Joiner(JoinPlan const& plan, Channel const& probe, Channel const& build, Endpoint endpoint,
           EndpointJoin& here, Run& run)
        : plan_(plan),
          here_(here),
          run_(run),
          send_probe_(plan.probe(), probe, endpoint, here.probe_rows),
          send_build_(plan.build(), build, endpoint, here.build_rows),
          from_probe_(probe, endpoint),
          from_build_(build, endpoint),
          probe_(plan, here.build, run) {}

    void run(device::Group const& group, device::Shared& shared) {
        for (u32 idle = 0; !done();) {
            bool moved = send(group, shared);
            moved = receive(group, shared) || moved;
            if (moved) {
                idle = 0;
                continue;
            }
            // A group of the endpoint that failed does not come to the next step.
            if (run_.failed()) return;
            device::backoff(idle++);
        }
        here_.results[group.block] = probe_.finish();
    }

private:
    // What a group is at, or waits for.
    enum class Step : u8 { Receive, Allocated, Counted, Finished, Probe, Probed, Done };

    [[nodiscard]] bool done() const {
        return step_ == Step::Done && send_probe_.flushed() && send_build_.flushed();
    }

    bool send(device::Group const& group, device::Shared& shared) {
        bool moved = false;
        if (!send_build_.flushed()) moved = send_build_.step(group, shared);
        if (send_build_.exhausted() && !send_probe_.flushed()) {
            moved = send_probe_.step(group, shared) || moved;
        }
        return moved;
    }

    // One step towards the complete table, and of probing it then, if the other groups have come so far.
    bool receive(device::Group const& group, device::Shared& shared) {
        switch (step_) {
            case Step::Receive: return receive_build(group, shared);
            case Step::Allocated:
                if (!here_.allocated.complete()) return false;
                here_.build.count(group.block);
                here_.counted.arrive();
                step_ = Step::Counted;
                return true;
            case Step::Counted:
                if (!here_.counted.complete()) return false;
                here_.build.place(group.block);
                if (here_.placed.arrive()) {
                    here_.build.finish();
                    here_.finished.arrive();
                }
                step_ = Step::Finished;
                return true;
            case Step::Finished:
                if (!here_.finished.complete()) return false;
                step_ = Step::Probe;
                return true;
            case Step::Probe: return receive_probe(group, shared);
            case Step::Probed:
                if (!here_.probed.complete()) return false;
                give_built(group);
                step_ = Step::Done;
                return true;
            default: return false;
        }
    }

    bool receive_build(device::Group const& group, device::Shared& shared) {
        u32 const received = from_build_.receive(
            group, shared, kJoinedARound,
            [&](auto const& batch) { here_.build.add(group.block, from_build_.keep(batch)); });
        if (!from_build_.ended()) return received != 0;
        if (here_.received.arrive()) {
            here_.build.allocate();
            here_.allocated.arrive();
        }
        step_ = Step::Allocated;
        return true;
    }

    bool receive_probe(device::Group const& group, device::Shared& shared) {
        u32 const received =
            from_probe_.receive(group, shared, kJoinedARound, [&](auto const& batch) {
                columns_.aim(batch);
                probe_.probe(columns_.data(), batch.rows);
                from_probe_.release(group, shared, batch);
            });
        if (!from_probe_.ended()) return received != 0;
        here_.probed.arrive();
        step_ = plan_.marks() ? Step::Probed : Step::Done;
        return true;
    }

    // This group's share of the built rows that come out alone.
    void give_built(device::Group const& group) {
        u64 const rows = here_.build.all_rows();
        probe_.give_built(rows * group.block / group.blocks,
                          rows * (group.block + 1) / group.blocks);
    }

    JoinPlan const& plan_;
    EndpointJoin& here_;
    Run const& run_;
    JoinSource send_probe_;
    JoinSource send_build_;
    Inbox from_probe_;
    Inbox from_build_;
    JoinProbe probe_;
    ReceivedColumns columns_;
    Step step_ = Step::Receive;
};

// Columns whose texts may travel; none: any.
std::vector<std::string> used(std::vector<std::string> const& keys,
                              std::vector<std::string> const& columns) {
    std::vector<std::string> names = columns;
    if (!columns.empty()) names.insert(names.end(), keys.begin(), keys.end());
    return names;
}

}  // namespace

std::vector<Table> join_among(Processes& processes, Runtime& runtime,
                              std::vector<Endpoint> const& endpoints,
                              std::vector<Table> const& left, std::vector<Table> const& right,
                              JoinSpec const& spec, OperatorOptions const& options,
                              OperatorReport* report) {
    Conversation talk(processes, "join",
                      call_of(endpoints, options, TableMemory::Host, arguments_of(spec)), options);
    return converse(talk, [&] {
        refuse_two_levels(talk.what(), options);
        Input const left_input("join: left", endpoints, left, talk,
                               used(spec.left_keys, spec.left_columns));
        Input const right_input("join: right", endpoints, right, talk,
                                used(spec.right_keys, spec.right_columns));
        // Where an address means the same everywhere, texts may stay where they are: in one process.
        // By copy everything goes through the pools, as it does between processes.
        JoinPlan const plan(left_input, right_input, spec, options.hash,
                            options.by_reference && talk.alone());
        JoinRoles const& roles = plan.roles();
        Input const& build_input = roles.build_left ? left_input : right_input;
        Input const& probe_input = roles.build_left ? right_input : left_input;
        Run run(runtime, talk, endpoints, options);
        auto const open = [&](JoinSide const& side, Input const& input, bool built) {
            return run.open(built == roles.build_left ? "join left" : "join right", side.schema,
                            side.keys, measure_texts(input, side.moved_texts()), built);
        };
        Channel const build_channel = open(plan.build(), build_input, true);
        Channel const probe_channel = open(plan.probe(), probe_input, false);

        std::vector<std::unique_ptr<EndpointJoin>> all;
        for (std::size_t e = 0; e < endpoints.size(); ++e) {
            all.push_back(std::make_unique<EndpointJoin>(plan, probe_input.part(e),
                                                         build_input.part(e), run.groups(e), run));
        }
        run.run([&](std::size_t e, device::Group const& group, device::Shared& shared) {
            auto const joiner = std::make_unique<Joiner>(plan, probe_channel, build_channel,
                                                         endpoints[e], *all[e], run);
            joiner->run(group, shared);
        });
        run.report(report);
        if (report != nullptr) report->built = roles.built();

        std::vector<Table> results(endpoints.size());
        for (std::size_t e = 0; e < endpoints.size(); ++e) {
            results[e] = table_of(plan.result_schema(), all[e]->results);
        }
        return results;
    });
}

}  // namespace operators

std::vector<Table> join(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                        std::vector<Table> const& left, std::vector<Table> const& right,
                        JoinSpec const& spec, OperatorOptions const& options,
                        OperatorReport* report) {
    auto const processes = operators::processes_of(runtime, endpoints);
    return operators::join_among(*processes, runtime, endpoints, left, right, spec, options,
                                 report);
}

}  // namespace mgi
