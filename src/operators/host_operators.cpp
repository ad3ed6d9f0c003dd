#include "operators/host_operators.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include <mgi/error.hpp>

#include "core/ordering.hpp"
#include "operators/join_rules.hpp"
#include "operators/sort_splitters.hpp"

namespace mgi::operators {

namespace {

constexpr std::size_t kMostRanges = 1u
                                    << 15;  // of which a sort has one for each endpoint and round
constexpr u32 kMostCuts = 4;                // of rows into ranges, each into twice as many
constexpr u64 kSortedBeside =
    40;  // bytes of a row's words and number, twice, and of what is gathered

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
        auto const places = call.places(limit_of_rows(call.options));
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

// The same rows, of these columns alone: what no operator looks at is not copied. `input`: the tables, checked.
std::vector<Table> with_columns(Input const& input, std::set<std::string> const& names) {
    Schema const& schema = input.schema();
    std::vector<Table> parts(input.parts());
    std::vector<std::size_t> kept;
    for (std::size_t c = 0; c < schema.size(); ++c) {
        if (names.count(schema[c].name) != 0) kept.push_back(c);
    }
    auto const fields_of = [&](Schema const& all) {
        std::vector<Field> fields;
        for (std::size_t const c : kept) fields.push_back(all[c]);
        return Schema(std::move(fields));
    };
    for (std::size_t p = 0; p < parts.size(); ++p) {
        Table const& part = input.part(p);
        if (!part.schema.empty()) parts[p].schema = fields_of(part.schema);
        for (RecordBatch const& batch : part.batches) {
            RecordBatch some;
            some.schema = fields_of(batch.schema);
            some.rows = batch.rows;
            for (std::size_t const c : kept) some.columns.push_back(batch.columns[c]);
            some.owner = batch.owner;
            parts[p].batches.push_back(std::move(some));
        }
    }
    return parts;
}

}  // namespace

JoinColumns columns_of(InputColumns const& left, InputColumns const& right, JoinSpec const& spec) {
    JoinColumns of;
    bool const pairs = shape_of(spec.kind).pairs;
    of.right.insert(spec.right_keys.begin(), spec.right_keys.end());
    for (u32 const c : pairs ? right.columns_or_all(spec.right_columns) : std::vector<u32>()) {
        of.right.insert(right.schema()[c].name);
    }
    // A left column that nobody wants still has its name, which a right one may not have.
    of.left = of.right;
    of.left.insert(spec.left_keys.begin(), spec.left_keys.end());
    for (u32 const c : left.columns_or_all(spec.left_columns)) {
        of.left.insert(left.schema()[c].name);
    }
    return of;
}

std::set<std::string> columns_of(std::vector<std::string> const& keys,
                                 std::vector<Aggregate> const& aggregates) {
    std::set<std::string> names(keys.begin(), keys.end());
    for (Aggregate const& one : aggregates) {
        if (!one.column.empty()) names.insert(one.column);
    }
    return names;
}

OperatorOptions options_of_round(OperatorOptions const& options) {
    OperatorOptions of_round = options;
    of_round.gpu_out.clear();
    of_round.one_endpoint_bytes = 0;
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
            Rounds::Side const side{&input};
            check_keys(input, input.columns(keys), call.options.hash);
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
        Input const all_left("join: left", call.endpoints, left, talk, spec.left_keys);
        Input const all_right("join: right", call.endpoints, right, talk, spec.right_keys);
        // Throws what is wrong.
        (void)JoinRules("join", all_left, all_right, spec, call.options.hash, call.endpoints.size(),
                        [](bool, u32) { return u64{0}; });
        JoinColumns const columns = columns_of(all_left, all_right, spec);
        std::vector<Table> const some_left = with_columns(all_left, columns.left);
        std::vector<Table> const some_right = with_columns(all_right, columns.right);
        Input const of_left("join: left", call.endpoints, some_left, talk, spec.left_keys);
        Input const of_right("join: right", call.endpoints, some_right, talk, spec.right_keys);
        JoinKeys const keys("join", of_left, of_right, spec, call.options.hash);
        return rounds.by_keys({{&of_left, keys.compared(true)}, {&of_right, keys.compared(false)}},
                              NullKeys::Drop,
                              [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                                  return join(sides[0], sides[1], report);
                              });
    });
}

std::vector<Table> sort_from_host(HostCall const& call, std::vector<Table> const& parts,
                                  std::vector<SortKey> const& keys, SortOnGpus const& sort) {
    return in_rounds(call, "sort", arguments_of(keys), [&](Rounds& rounds, Conversation& talk) {
        Input const input("sort", call.endpoints, parts, talk);
        auto const order = key_orders("sort", keys, input.schema());
        Rounds::Side const side{&input};
        std::size_t needed = rounds.needed({side}, kSortedBeside);
        if (needed == 1) {
            auto results = rounds.whole(
                {side}, [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                    return sort.whole(sides[0], report);
                });
            if (results) return std::move(*results);
            needed = 2;
        }
        // Each endpoint has a range of the keys for each round, one behind the other. Where a round has no room there are more.
        std::size_t const count = call.endpoints.size();
        std::size_t const most = std::max<std::size_t>(kMostRanges / count, 1);
        auto const columns = compared_columns(input.schema());
        std::string why;
        for (u32 tried = 0; tried < kMostCuts; ++tried, needed *= 2) {
            needed = std::min(needed, most);
            Splitters const splitters = choose_splitters(talk, input, keys, needed * count);
            auto const table = range_table(order, splitters);
            auto results = rounds.by_numbers(
                side, needed,
                [&](RecordBatch const& batch, i64 first, i64 rows, u32* to) {
                    BatchInput const compared(batch, first);
                    for (i64 i = 0; i < rows; ++i) {
                        u32 const range = table.destination(compared.get(), columns.data(), u64(i));
                        to[i] = range % u32(needed);
                    }
                },
                [&](std::vector<GpuTables> const& sides, std::size_t round,
                    OperatorReport* report) {
                    // An endpoint's range begins at the splitter of the number before its own.
                    return sort.round(
                        sides[0], some_splitters(splitters, needed + round - 1, needed), report);
                },
                why);
            if (results) return std::move(*results);
        }
        throw Error(ErrorCode::OutOfMemory, why + " (in a round of one range of keys, of " +
                                                std::to_string(needed / 2) +
                                                "; maybe most of its rows have one key)");
    });
}

std::vector<Table> group_by_from_host(HostCall const& call, std::vector<Table> const& parts,
                                      std::vector<std::string> const& keys,
                                      std::vector<Aggregate> const& aggregates,
                                      GroupByOnGpus const& group_by) {
    return in_rounds(
        call, "group_by", arguments_of(keys, aggregates), [&](Rounds& rounds, Conversation& talk) {
            Input const all("group_by", call.endpoints, parts, talk, keys);
            check_keys(all, all.columns(keys), call.options.hash);
            for (Aggregate const& one : aggregates) {
                if (!one.column.empty()) (void)all.column(one.column);  // throws
            }
            std::vector<Table> const some = with_columns(all, columns_of(keys, aggregates));
            Input const input("group_by", call.endpoints, some, talk, keys);
            Rounds::Side const side{&input, as_they_lie(input.schema(), input.columns(keys))};
            auto const whole = [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                return group_by.whole(sides[0], report);
            };
            std::size_t needed = rounds.needed({side});
            if (needed == 1) {
                if (auto results = rounds.whole({side}, whole)) return std::move(*results);
                needed = 2;
            }
            if (!can_merge(keys, aggregates)) return rounds.by_keys({side}, NullKeys::Equal, whole);
            std::vector<Table> const groups = rounds.by_rows(
                side, needed, [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                    return group_by.round(sides[0], report);
                });
            Input const merging("group_by", call.endpoints, groups, talk, keys);
            std::vector<u32> columns;  // keys come first
            for (u32 k = 0; k < keys.size(); ++k) columns.push_back(k);
            return rounds.by_keys({{&merging, as_they_lie(merging.schema(), columns)}},
                                  NullKeys::Equal,
                                  [&](std::vector<GpuTables> const& sides, OperatorReport* report) {
                                      return group_by.merge(sides[0], input.schema(), report);
                                  });
        });
}

}  // namespace mgi::operators
