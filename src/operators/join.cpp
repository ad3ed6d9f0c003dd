// Hash join. Both sides' rows go to the endpoint that owns their keys, where one side's are kept and built into a table while
// they come; the other's probe it from the moment it is complete. Or all processes get all built rows, each for one table that
// its endpoints share, and the probing rows stay where they are. Built rows that come out alone do so at the end.
#include <memory>
#include <numeric>
#include <optional>

#include "operators/coded_columns.hpp"
#include "operators/join_probe.hpp"
#include "operators/join_source.hpp"
#include "operators/message.hpp"
#include "operators/two_level.hpp"

namespace mgi {

namespace operators {
namespace {

constexpr u32 kJoinedARound = 8;

// A table and the meetings of those who make it: the groups of its endpoint, or, where one is for all, of this process'
// endpoints.
struct SharedTable {
    // `receivers`: groups of the `makers` that rows for it come to.
    SharedTable(JoinPlan const& plan, u32 receivers, u32 makers, Run& run)
        : build(plan, makers, run),
          groups(makers),
          received(receivers),
          allocated(1),
          counted(makers),
          placed(makers),
          finished(1),
          probed(makers) {}

    JoinBuild build;
    u32 const groups;
    Meeting received;
    Meeting allocated;
    Meeting counted;
    Meeting placed;
    Meeting finished;
    Meeting probed;
};

// What the groups of one endpoint share.
struct EndpointJoin {
    EndpointJoin(Table const& probe_part, Table const& build_part, SharedTable& shared, u32 before,
                 u32 groups)
        : probe_rows(probe_part),
          build_rows(build_part),
          table(shared),
          groups_before(before),
          results(groups) {}

    Morsels probe_rows;
    Morsels build_rows;
    SharedTable& table;
    u32 const groups_before;  // of those who make the table
    std::vector<std::vector<RecordBatch>> results;
};

// The channels of the two sides; null where a side's rows do not move.
struct JoinChannels {
    Passage probe;
    Passage build;
};

// One group of a join. It never waits for one thing alone: while the table is not complete it goes on
// sending, and probing rows that nobody takes yet stay in their lanes.
class Joiner {
public:
    // `receives`: whether built rows come to its endpoint.
    Joiner(JoinPlan const& plan, JoinChannels const& channels, Endpoint endpoint, bool receives,
           EndpointJoin& here, u32 group, Run& run)
        : plan_(plan),
          table_(here.table),
          number_(here.groups_before + group),
          run_(run),
          probe_slices_(plan.probe(), here.probe_rows),
          build_slices_(plan.build(), here.build_rows),
          probe_(plan, here.table.build, run),
          step_(receives ? Step::Receive : Step::Allocated) {
        if (channels.probe.rows) {
            send_probe_.emplace(probe_slices_, channels.probe, endpoint);
            from_probe_.emplace(channels.probe, endpoint);
        }
        if (channels.build.rows) {
            send_build_.emplace(build_slices_, channels.build, endpoint);
            if (receives) from_build_.emplace(channels.build, endpoint);
        }
    }

    std::vector<RecordBatch> run(device::Group const& group, device::Shared& shared) {
        for (u32 idle = 0; !done();) {
            bool moved = send(group, shared);
            moved = receive(group, shared) || moved;
            // A group of the table that failed does not come to the next step, and rows that stay go through no channel that
            // would tell.
            if (run_.failed()) return {};
            idle = moved ? 0 : idle + 1;
            if (!moved) device::backoff(idle);
        }
        return probe_.finish();
    }

private:
    // What a group is at, or waits for.
    enum class Step : u8 { Receive, Allocated, Counted, Finished, Probe, Probed, Done };

    static bool flushed(std::optional<JoinSource> const& source) {
        return !source || source->flushed();
    }
    [[nodiscard]] bool done() const {
        return step_ == Step::Done && flushed(send_probe_) && flushed(send_build_);
    }

    bool send(device::Group const& group, device::Shared& shared) {
        bool moved = false;
        if (!flushed(send_build_)) moved = send_build_->step(group, shared);
        bool const all_built = !send_build_ || send_build_->exhausted();
        if (all_built && !flushed(send_probe_)) {
            moved = send_probe_->step(group, shared) || moved;
        }
        return moved;
    }

    // One step towards the complete table, and of probing it then, if the other groups have come so far.
    bool receive(device::Group const& group, device::Shared& shared) {
        switch (step_) {
            case Step::Receive: return from_build_ ? receive_build(group, shared) : take_build();
            case Step::Allocated:
                if (!table_.allocated.complete()) return false;
                table_.build.count(number_);
                table_.counted.arrive();
                step_ = Step::Counted;
                return true;
            case Step::Counted:
                if (!table_.counted.complete()) return false;
                table_.build.place(number_);
                if (table_.placed.arrive()) {
                    table_.build.finish();
                    table_.finished.arrive();
                }
                step_ = Step::Finished;
                return true;
            case Step::Finished:
                if (!table_.finished.complete()) return false;
                step_ = Step::Probe;
                return true;
            case Step::Probe: return from_probe_ ? receive_probe(group, shared) : probe_here();
            case Step::Probed:
                if (!table_.probed.complete()) return false;
                give_built();
                step_ = Step::Done;
                return true;
            default: return false;
        }
    }

    bool receive_build(device::Group const& group, device::Shared& shared) {
        u32 const received = from_build_->receive(
            group, shared, kJoinedARound,
            [&](auto const& batch) { table_.build.add(number_, from_build_->keep(batch)); });
        if (!from_build_->ended()) return received != 0;
        end_build();
        return true;
    }

    // Rows that are where their table is.
    bool take_build() {
        RecordBatch batch = build_slices_.next_batch();
        if (batch.rows != 0) {
            table_.build.add(number_, std::move(batch));
        } else {
            end_build();
        }
        return true;
    }

    void end_build() {
        if (table_.received.arrive()) {
            table_.build.allocate();
            table_.allocated.arrive();
        }
        step_ = Step::Allocated;
    }

    bool receive_probe(device::Group const& group, device::Shared& shared) {
        u32 const received =
            from_probe_->receive(group, shared, kJoinedARound, [&](auto const& batch) {
                columns_.aim(batch);
                probe_.probe(columns_.data(), batch.rows);
                from_probe_->release(group, shared, batch);
            });
        if (!from_probe_->ended()) return received != 0;
        end_probe();
        return true;
    }

    // Rows that stay.
    bool probe_here() {
        u32 const rows = probe_slices_.next(staying_);
        if (rows != 0) {
            probe_.probe(staying_.data(), rows);
        } else {
            end_probe();
        }
        return true;
    }

    void end_probe() {
        table_.probed.arrive();
        step_ = plan_.marks() ? Step::Probed : Step::Done;
    }

    // This group's share of the built rows that come out alone.
    void give_built() {
        u64 const rows = table_.build.all_rows();
        probe_.give_built(rows * number_ / table_.groups, rows * (number_ + 1) / table_.groups);
    }

    JoinPlan const& plan_;
    SharedTable& table_;
    u32 const number_;  // among the groups that make the table
    Run const& run_;
    JoinSlices probe_slices_;
    JoinSlices build_slices_;
    std::optional<JoinSource> send_probe_;
    std::optional<JoinSource> send_build_;
    std::optional<Inbox> from_probe_;
    std::optional<Inbox> from_build_;
    JoinProbe probe_;
    ReceivedColumns columns_;
    std::vector<ColumnView> staying_;
    Step step_;
};

// The endpoints to which built rows go that are broadcast: one of each process.
std::vector<u32> first_of_each_process(Conversation& talk, Run const& run) {
    u32 first = 0;
    while (!run.mine(first)) ++first;
    std::vector<u32> endpoints;
    for (std::string const& said : talk.gather(MessageWriter().number(first).take())) {
        endpoints.push_back(u32(MessageReader(said).number(run.endpoints().size() - 1)));
    }
    return endpoints;
}

// The work of one join.
class HashJoin {
public:
    HashJoin(Conversation& talk, Run& run, JoinPlan const& plan, Input const& left,
             Input const& right, bool by_owner, Hash hash)
        : run_(run),
          plan_(plan),
          probe_input_(plan.roles().build_left ? right : left),
          build_input_(plan.roles().build_left ? left : right),
          receives_(run.endpoints().size(), true) {
        bool const one_table = plan.roles().broadcast;
        if (one_table && !talk.alone()) {
            Flow flow = flow_of(true);
            flow.destinations = first_of_each_process(talk, run);
            channels_.build = open(flow, plan.build(), build_input_, Routing::broadcast());
            receives_.assign(receives_.size(), false);
            for (u32 const e : flow.destinations) receives_[e] = true;
        } else if (!one_table) {
            auto const to_owners = [&](std::vector<std::string> const& keys) {
                return by_owner ? Routing::partition({keys[0]}, Hash::Modulo)
                                : Routing::partition(keys, hash);
            };
            channels_.build =
                open(flow_of(true), plan.build(), build_input_, to_owners(plan.build().keys));
            channels_.probe =
                open(flow_of(false), plan.probe(), probe_input_, to_owners(plan.probe().keys));
        }
        make_tables(one_table);
    }

    std::vector<Table> results() {
        run_.run([&](std::size_t e, device::Group const& group, device::Shared& shared) {
            auto const joiner = std::make_unique<Joiner>(plan_, channels_, run_.endpoints()[e],
                                                         receives_[e], *all_[e], group.block, run_);
            all_[e]->results[group.block] = joiner->run(group, shared);
        });
        std::vector<Table> results(all_.size());
        for (std::size_t e = 0; e < all_.size(); ++e) {
            if (all_[e] != nullptr) results[e] = table_of(plan_.result_schema(), all_[e]->results);
            results[e].schema = plan_.result_schema();
        }
        return results;
    }

private:
    // A side's rows from all endpoints to all.
    [[nodiscard]] Flow flow_of(bool built) const {
        Flow flow;
        flow.name = built == plan_.roles().build_left ? "join left" : "join right";
        flow.sources.resize(run_.endpoints().size());
        std::iota(flow.sources.begin(), flow.sources.end(), 0u);
        flow.destinations = flow.sources;
        flow.keeps = built;
        return flow;
    }

    Passage open(Flow const& flow, JoinSide const& side, Input const& input,
                 Routing const& routing) {
        return run_.open({flow}, side.schema, routing, measure_texts(input, side.moved_texts()))
            .front();
    }

    void make_tables(bool one_table) {
        std::size_t const endpoints = run_.endpoints().size();
        u32 groups = 0;
        u32 receivers = 0;
        for (std::size_t e = 0; e < endpoints; ++e) {
            groups += run_.groups(e);
            receivers += receives_[e] ? run_.groups(e) : 0;
        }
        u32 before = 0;
        for (std::size_t e = 0; e < endpoints; ++e) {
            all_.emplace_back();
            if (!run_.mine(e)) continue;
            u32 const own = run_.groups(e);
            if (!one_table) {
                tables_.push_back(std::make_unique<SharedTable>(plan_, own, own, run_));
            } else if (tables_.empty()) {
                tables_.push_back(std::make_unique<SharedTable>(plan_, receivers, groups, run_));
            }
            all_[e] = std::make_unique<EndpointJoin>(probe_input_.part(e), build_input_.part(e),
                                                     *tables_.back(), before, own);
            if (one_table) before += own;
        }
    }

    Run& run_;
    JoinPlan const& plan_;
    Input const& probe_input_;
    Input const& build_input_;
    JoinChannels channels_;
    std::vector<bool> receives_;  // by endpoint: whether built rows come to it
    std::vector<std::unique_ptr<SharedTable>> tables_;
    std::vector<std::unique_ptr<EndpointJoin>> all_;  // by endpoint; none of others'
};

// Columns whose texts may travel; none: any.
std::vector<std::string> used(std::vector<std::string> const& keys,
                              std::vector<std::string> const& columns) {
    std::vector<std::string> names = columns;
    if (!columns.empty()) names.insert(names.end(), keys.begin(), keys.end());
    return names;
}

// A key of type null on one side, which matches nothing, is compared as the other's type.
void match_null_keys(Input& left, Input& right, JoinSpec const& spec) {
    for (std::size_t k = 0; k < std::min(spec.left_keys.size(), spec.right_keys.size()); ++k) {
        u32 const l = left.column(spec.left_keys[k]);
        u32 const r = right.column(spec.right_keys[k]);
        Type const of_left = left.schema()[l].type;
        Type const of_right = right.schema()[r].type;
        if (is_null_type(of_left) == is_null_type(of_right)) continue;
        if (is_null_type(of_left)) left.take_type(l, of_right);
        if (is_null_type(of_right)) right.take_type(r, of_left);
    }
}

// Keys that are compared are numbered alike, if both are; the result's other columns are by themselves.
std::vector<std::vector<InputColumn>> numbered_alike(JoinRules const& rules) {
    auto const& compared = rules.keys.compared(true);
    auto const& others = rules.keys.compared(false);
    std::vector<std::vector<InputColumn>> groups;
    bool as_they_lie = true;  // by converted keys rows would come elsewhere
    for (std::size_t k = 0; k < compared.size(); ++k) {
        as_they_lie = as_they_lie && !compared[k].conversion && !others[k].conversion;
    }
    for (std::size_t k = 0; as_they_lie && k < compared.size(); ++k) {
        groups.push_back({{0, rules.keys.left[k]}, {1, rules.keys.right[k]}});
    }
    for (JoinedColumn const& column : rules.columns) {
        if (rules.keys.has(column.left, column.column)) continue;
        groups.push_back({{column.left ? 0u : 1u, column.column}});
    }
    return groups;
}

// `by_owner`: the first key says which endpoint owns a row.
std::vector<Table> join_inputs(Runtime& runtime, Conversation& talk,
                               std::vector<Endpoint> const& endpoints, Input const& left,
                               Input const& right, JoinSpec const& spec, bool by_owner,
                               OperatorOptions const& options, OperatorReport* report) {
    // Where an address means the same everywhere, texts may stay where they are: in one process.
    // By copy everything that moves goes through the pools, as it does between processes.
    JoinPlan const plan(left, right, spec, options.hash, options.by_reference && talk.alone());
    Run run(runtime, talk, endpoints, options);
    HashJoin join(talk, run, plan, left, right, by_owner, options.hash);
    std::vector<Table> results = join.results();
    run.report(report);
    if (report != nullptr) {
        report->built = plan.roles().built();
        report->broadcast = plan.roles().broadcast;
    }
    return results;
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
        Input left_input("join: left", endpoints, left, talk,
                         used(spec.left_keys, spec.left_columns));
        Input right_input("join: right", endpoints, right, talk,
                          used(spec.right_keys, spec.right_columns));
        match_null_keys(left_input, right_input, spec);
        // Throws what is wrong.
        JoinRules const rules("join", left_input, right_input, spec, options.hash, endpoints.size(),
                              [](bool, u32) { return u64{0}; });
        CodedColumns coded(talk, runtime, options, {&left_input, &right_input},
                           numbered_alike(rules));
        if (coded.empty()) {
            return join_inputs(runtime, talk, endpoints, left_input, right_input, spec, false,
                               options, report);
        }
        JoinSpec numbered = spec;
        bool const moves = endpoints.size() > 1 && spec.broadcast != Broadcast::On;
        bool const by_owner = moves && coded.has_any(0, rules.keys.left);
        if (by_owner) {
            // Rows come where those of texts do.
            std::vector<std::string> of_result;
            for (JoinedColumn const& one : rules.columns) of_result.push_back(one.field.name);
            std::string const owner = free_name("owner of " + names_text(spec.left_keys),
                                                {&left_input, &right_input}, of_result);
            coded.add_owners(0, rules.keys.left, owner, u32(endpoints.size()));
            coded.add_owners(1, rules.keys.right, owner, u32(endpoints.size()));
            numbered.left_keys.insert(numbered.left_keys.begin(), owner);
            numbered.right_keys.insert(numbered.right_keys.begin(), owner);
        }
        Input const left_numbers("join: left", endpoints, coded.parts(0), talk,
                                 used(numbered.left_keys, spec.left_columns));
        Input const right_numbers("join: right", endpoints, coded.parts(1), talk,
                                  used(numbered.right_keys, spec.right_columns));
        std::vector<Table> results =
            join_inputs(runtime, talk, endpoints, left_numbers, right_numbers, numbered, by_owner,
                        options, report);
        // Without a list of columns the owner is the last one of the left, and once.
        if (by_owner && spec.left_columns.empty()) {
            drop_column(results, left_input.schema().size());
        }
        std::vector<InputColumn> from;
        for (JoinedColumn const& column : rules.columns) {
            from.push_back({column.left ? 0u : 1u, column.column});
        }
        coded.restore(results, from);
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
