// Repartitioned hash join: right rows are kept and built into a table while they come, left rows
// probe it from the moment it is complete at their endpoint.
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
    EndpointJoin(JoinPlan const& plan, Table const& left_part, Table const& right_part, u32 groups,
                 Run& run)
        : left(left_part),
          right(right_part),
          build(plan, groups, run),
          received(groups),
          allocated(1),
          counted(groups),
          placed(groups),
          finished(1),
          results(groups) {}

    Morsels left;
    Morsels right;
    JoinBuild build;
    Meeting received;
    Meeting allocated;
    Meeting counted;
    Meeting placed;
    Meeting finished;
    std::vector<std::vector<RecordBatch>> results;
};

// One group of a join. It never waits for one thing alone: while the table is not complete it goes on
// sending, and rows of the left side that nobody takes yet stay in their lanes.
class Joiner {
public:
    Joiner(JoinPlan const& plan, Channel const& left, Channel const& right, Endpoint endpoint,
           EndpointJoin& here, Run& run)
        : here_(here),
          run_(run),
          send_left_(plan.left(), left, endpoint, here.left),
          send_right_(plan.right(), right, endpoint, here.right),
          left_(left, endpoint),
          right_(right, endpoint),
          probe_(plan, here.build, run) {}

    void run(device::Group const& group, device::Shared& shared) {
        for (u32 idle = 0; !done();) {
            bool moved = send(group, shared);
            moved = (step_ == Step::Probe ? probe(group, shared) : build(group, shared)) || moved;
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
    enum class Step : u8 { Receive, Allocated, Counted, Finished, Probe };

    [[nodiscard]] bool done() const {
        return left_.ended() && send_left_.flushed() && send_right_.flushed();
    }

    bool send(device::Group const& group, device::Shared& shared) {
        bool moved = false;
        if (!send_right_.flushed()) moved = send_right_.step(group, shared);
        if (send_right_.exhausted() && !send_left_.flushed()) {
            moved = send_left_.step(group, shared) || moved;
        }
        return moved;
    }

    // One step towards the complete table, if the other groups have come so far.
    bool build(device::Group const& group, device::Shared& shared) {
        switch (step_) {
            case Step::Receive: return receive_right(group, shared);
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
            default:
                if (!here_.finished.complete()) return false;
                step_ = Step::Probe;
                return true;
        }
    }

    bool receive_right(device::Group const& group, device::Shared& shared) {
        u32 const received = right_.receive(group, shared, kJoinedARound, [&](auto const& batch) {
            here_.build.add(group.block, right_.keep(batch));
        });
        if (!right_.ended()) return received != 0;
        if (here_.received.arrive()) {
            here_.build.allocate();
            here_.allocated.arrive();
        }
        step_ = Step::Allocated;
        return true;
    }

    bool probe(device::Group const& group, device::Shared& shared) {
        u32 const received = left_.receive(group, shared, kJoinedARound, [&](auto const& batch) {
            columns_.aim(batch);
            probe_.probe(columns_.data(), batch.rows);
            left_.release(group, shared, batch);
        });
        return received != 0;
    }

    EndpointJoin& here_;
    Run const& run_;
    JoinSource send_left_;
    JoinSource send_right_;
    Inbox left_;
    Inbox right_;
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
        Run run(runtime, talk, endpoints, options);
        Channel const right_channel =
            run.open("join right", plan.right().schema, plan.right().keys,
                     measure_texts(right_input, plan.right().moved_texts()), true);
        Channel const left_channel =
            run.open("join left", plan.left().schema, plan.left().keys,
                     measure_texts(left_input, plan.left().moved_texts()), false);

        std::vector<std::unique_ptr<EndpointJoin>> all;
        for (std::size_t e = 0; e < endpoints.size(); ++e) {
            all.push_back(std::make_unique<EndpointJoin>(plan, left_input.part(e),
                                                         right_input.part(e), run.groups(e), run));
        }
        run.run([&](std::size_t e, device::Group const& group, device::Shared& shared) {
            auto const joiner = std::make_unique<Joiner>(plan, left_channel, right_channel,
                                                         endpoints[e], *all[e], run);
            joiner->run(group, shared);
        });
        run.report(report);

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
