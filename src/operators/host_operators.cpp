#include "operators/host_operators.hpp"

#include <algorithm>
#include <chrono>

namespace mgi::operators {

namespace {

// Runs `work(rounds, talk)` in a conversation with the other processes, and tells the report how long it took.
template <class Work>
std::vector<Table> in_rounds(HostCall const& call, std::string const& what,
                             Conversation::Call const& arguments, Work const& work) {
    OperatorReport report;
    auto const start = std::chrono::steady_clock::now();
    Conversation talk(call.processes, what,
                      call_of(call.endpoints, call.options, TableMemory::HostForGpus, arguments),
                      call.options);
    std::vector<Table> results = converse(talk, [&] {
        if (call.endpoints.empty()) refuse(what, "no endpoints; create one with create_endpoint");
        auto const places = call.places();
        Rounds rounds(talk, call.endpoints, *places, call.options, call.host_memory, report);
        return work(rounds, talk);
    });
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (call.report != nullptr) *call.report = std::move(report);
    return results;
}

// Whether groups of some rows and of others can be merged: but for values that are counted once.
bool can_merge(std::vector<std::string> const& keys, std::vector<Aggregate> const& aggregates) {
    return std::all_of(aggregates.begin(), aggregates.end(), [&](Aggregate const& one) {
        return one.function != AggregateFunction::CountDistinct ||
               std::find(keys.begin(), keys.end(), one.column) != keys.end();
    });
}

}  // namespace

OperatorOptions options_of_round(OperatorOptions const& options) {
    OperatorOptions of_round = options;
    if (options.receive_limit != 0) {
        of_round.receive_limit = std::max<u64>(options.receive_limit / 2, 1);
    }
    return of_round;
}

std::vector<Table> exchange_from_host(
    HostCall const& call, std::vector<Table> const& parts, std::vector<std::string> const& keys,
    std::function<GpuTables(GpuTables const& parts, OperatorReport* report)> const& exchange) {
    return in_rounds(
        call, "exchange", {{"keys", names_text(keys)}}, [&](Rounds& rounds, Conversation& talk) {
            Input const input("exchange", call.endpoints, parts, talk, keys);
            Rounds::Side const side{&input, input.columns(keys)};
            check_keys(input, side.keys, call.options.hash);
            // Nothing moves: the part is the result.
            if (call.endpoints.size() == 1) {
                return std::vector<Table>{{input.schema(), parts[0].batches}};
            }
            return rounds.by_rows(side, rounds.needed({side}),
                                  [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                                      return exchange(sides[0], report);
                                  });
        });
}

std::vector<Table> join_from_host(
    HostCall const& call, std::vector<Table> const& left, std::vector<Table> const& right,
    JoinSpec const& spec,
    std::function<GpuTables(GpuTables const& left, GpuTables const& right,
                            OperatorReport* report)> const& join) {
    return in_rounds(call, "join", arguments_of(spec), [&](Rounds& rounds, Conversation& talk) {
        Input const of_left("join: left", call.endpoints, left, talk, spec.left_keys);
        Input const of_right("join: right", call.endpoints, right, talk, spec.right_keys);
        JoinKeys const keys("join", of_left, of_right, spec, call.options.hash);
        (void)joined_columns("join", of_left, of_right, spec, keys);  // throws what is wrong
        return rounds.by_keys({{&of_left, keys.left}, {&of_right, keys.right}},
                              [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                                  return join(sides[0], sides[1], report);
                              });
    });
}

std::vector<Table> group_by_from_host(HostCall const& call, std::vector<Table> const& parts,
                                      std::vector<std::string> const& keys,
                                      std::vector<Aggregate> const& aggregates,
                                      GroupByOnGpus const& group_by) {
    return in_rounds(
        call, "group_by", arguments_of(keys, aggregates), [&](Rounds& rounds, Conversation& talk) {
            Input const input("group_by", call.endpoints, parts, talk, keys);
            Rounds::Side const side{&input, input.columns(keys)};
            check_keys(input, side.keys, call.options.hash);
            auto const whole = [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                return group_by.whole(sides[0], report);
            };
            std::size_t needed = rounds.needed({side});
            if (needed == 1) {
                if (auto results = rounds.whole({side}, whole)) return std::move(*results);
                needed = 2;
            }
            if (!can_merge(keys, aggregates)) return rounds.by_keys({side}, whole);
            std::vector<Table> const groups = rounds.by_rows(
                side, needed, [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                    return group_by.round(sides[0], report);
                });
            Input const merging("group_by", call.endpoints, groups, talk, keys);
            std::vector<u32> columns;  // keys come first
            for (u32 k = 0; k < keys.size(); ++k) columns.push_back(k);
            return rounds.by_keys(
                {{&merging, columns}},
                [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                    return group_by.merge(sides[0], input.schema(), report);
                });
        });
}

}  // namespace mgi::operators
