// Hash group-by: rows or partial states to their group's endpoint, folded there as they come.
#include <algorithm>
#include <deque>
#include <memory>

#include "operators/coded_columns.hpp"
#include "operators/group_by_source.hpp"
#include "operators/two_level.hpp"

namespace mgi {

namespace operators {
namespace {

constexpr u32 kFoldedARound = 8;
// 2^32 by the golden ratio: hashes that follow each other come far apart.
constexpr u32 kMergedScatter = 0x9E3779B9;

// What the groups of one endpoint share: each folds what it receives into a table of its own; at the
// end each takes a range of hashes and folds all tables' groups in it together.
struct EndpointGroups {
    EndpointGroups(Table const& part, u32 groups)
        : morsels(part), tables(groups), results(groups), received(groups) {}

    Morsels morsels;
    std::deque<Morsels> pairs;  // by the plan's distinct columns
    std::atomic<u64> result_bytes{0};
    std::vector<std::unique_ptr<Folder>> tables;
    std::vector<std::vector<RecordBatch>> results;
    Meeting received;
};

// One group of a group-by (the paper's Figure 3).
class Grouper {
public:
    Grouper(GroupByPlan const& plan, Passage const& raw, Passage const& partial, Endpoint endpoint,
            EndpointGroups& here, Run& run)
        : plan_(plan),
          partial_channel_(partial.rows),
          here_(here),
          run_(run),
          source_(plan, raw, partial, endpoint, here.morsels, run.budget()),
          raw_(raw, endpoint),
          partial_(partial, endpoint) {}

    void run(device::Group const& group, device::Shared& shared) {
        here_.tables[group.block] = std::make_unique<Folder>(plan_, true, run_.budget());
        Folder& table = *here_.tables[group.block];
        for (u32 idle = 0; !raw_.ended() || !partial_.ended() || !source_.flushed();) {
            bool const sent = !source_.flushed() && source_.step(group, shared);
            u32 const received = receive(group, shared, table);
            if (sent || received != 0) {
                idle = 0;
            } else {
                device::backoff(idle++);
            }
        }
        fold_pairs(table);
        here_.received.arrive();
        if (group.blocks == 1) {
            write_results(table.table(), here_.results[0]);
        } else {
            merge(group);
        }
    }

private:
    u32 receive(device::Group const& group, device::Shared& shared, Folder& table) {
        u32 const raw = raw_.receive(group, shared, kFoldedARound, [&](auto const& batch) {
            columns_.aim(batch);
            table.fold_raw(columns_.data(), batch.rows);
            raw_.release(group, shared, batch);
        });
        u32 const partial = partial_.receive(group, shared, kFoldedARound, [&](auto const& batch) {
            columns_.aim(batch);
            table.fold_partial(columns_.data(), batch.rows);
            partial_.release(group, shared, batch);
        });
        return raw + partial;
    }

    // Those at this endpoint, whose groups it has.
    void fold_pairs(Folder& table) {
        for (std::size_t d = 0; d < here_.pairs.size(); ++d) {
            for (Morsel pairs; here_.pairs[d].next(pairs); run_.check()) {
                table.fold_pairs(pairs, plan_.distinct()[d]);
            }
        }
    }

    // Folds this group's range of hashes of all tables of the endpoint together.
    void merge(device::Group const& group) {
        for (u32 idle = 0; !here_.received.complete(); device::backoff(idle++)) {
            // A group that failed does not come.
            if (run_.failed()) return;
            partial_channel_.check();
        }
        u64 const first = (u64{group.block} << 32) / group.blocks;
        u64 const last = (u64{group.block + 1} << 32) / group.blocks;
        Folder merged(plan_, false, run_.budget(), kMergedScatter);
        u32 const key_words = plan_.layout().key_words;
        std::vector<u64> words(u64{kVector} * key_words);
        u32 hashes[kVector];
        char const* rows[kVector];
        u32 count = 0;
        auto const fold = [&] {
            if (count != 0) merged.fold_groups(words.data(), hashes, rows, count);
            count = 0;
        };
        for (auto const& table : here_.tables) {
            table->table().visit_range(first, last, [&](u32 scattered, char const* row) {
                std::memcpy(words.data() + u64{count} * key_words, row, u64{key_words} * 8);
                hashes[count] = scattered;
                rows[count] = row;
                if (++count == kVector) fold();
            });
        }
        fold();
        write_results(merged.table(), here_.results[group.block]);
    }

    void write_results(GroupTable& table, std::vector<RecordBatch>& results) {
        BatchRoom room = kFirstRoom;
        for (u32 next = 0; next < table.size();) {
            u32 const left = table.size() - next;
            if (left < room.rows) room = {left, room.characters * left / room.rows};
            BatchBuilder builder(plan_.result_schema(), plan_.result_valid_bits(), room,
                                 &run_.budget());
            while (builder.room() != 0) {
                char const* at[kVector];
                u32 const count = std::min(kVector, builder.room());
                for (u32 i = 0; i < count; ++i) at[i] = table.row(next + i);
                append_results(plan_, at, count, builder);
                next += count;
            }
            run_.check();
            here_.result_bytes += builder.bytes();
            room = builder.next_room();
            results.push_back(builder.finish());
        }
    }

    GroupByPlan const& plan_;
    Channel const& partial_channel_;
    EndpointGroups& here_;
    Run& run_;
    GroupBySource source_;
    Inbox raw_;
    Inbox partial_;
    ReceivedColumns columns_;
};

struct Grouped {
    std::vector<Table> tables;  // by endpoint
    u64 bytes = 0;              // of all of them
};

// A group-by of all processes.
struct Job {
    Runtime& runtime;
    Conversation& talk;
    std::vector<Endpoint> const& endpoints;
    Input const& input;
    std::vector<std::string> const& keys;
    std::size_t routed;  // so many of the keys say which endpoint owns a group
    OperatorOptions const& options;
    OperatorReport* report;

    // Each group comes to the endpoint that owns its keys, which are the first ones of the plan's. `pairs`: tables for
    // the plan's distinct columns. `held`: bytes of what was made before, which the call may not have a second time.
    Grouped group(GroupByPlan const& plan, std::vector<Grouped> const& pairs, u64 held) const {
        Run run(runtime, talk, endpoints, options);
        std::vector<std::string> names = plan.key_names();
        names.resize(routed);
        Passage const raw = run.open("group_by rows", plan.raw_schema(), names,
                                     measure_texts(input, plan.input_columns()), false);
        Passage const partial = run.open("group_by states", plan.partial_schema(), names,
                                         measure_texts(input, plan.partial_columns()), false);
        run.budget().take(held);
        Table const none;
        std::vector<std::unique_ptr<EndpointGroups>> all;
        all.reserve(endpoints.size());
        for (std::size_t e = 0; e < endpoints.size(); ++e) {
            Table const& part = plan.wants_rows() ? input.part(e) : none;
            all.push_back(std::make_unique<EndpointGroups>(part, run.groups(e)));
            for (Grouped const& one : pairs) all.back()->pairs.emplace_back(one.tables[e]);
        }
        run.run([&](std::size_t e, device::Group const& group, device::Shared& shared) {
            auto const grouper =
                std::make_unique<Grouper>(plan, raw, partial, endpoints[e], *all[e], run);
            grouper->run(group, shared);
        });
        if (report != nullptr) add_report(run);

        Grouped grouped;
        grouped.tables.resize(endpoints.size());
        for (std::size_t e = 0; e < endpoints.size(); ++e) {
            grouped.tables[e] = table_of(plan.result_schema(), all[e]->results);
            grouped.bytes += all[e]->result_bytes;
        }
        return grouped;
    }

    // The different pairs of keys and a column's values, beside others that hold so many bytes.
    Grouped pairs_of(DistinctColumn const& distinct, u64 held) const {
        std::vector<std::string> both = keys;
        both.push_back(input.schema()[distinct.input].name);
        return group(GroupByPlan(input, both, {}, false), {}, held);
    }

private:
    void add_report(Run const& run) const {
        OperatorReport one;
        run.report(&one);
        report->seconds += one.seconds;
        report->rows += one.rows;
        report->bytes += one.bytes;
        report->channels.insert(report->channels.end(), one.channels.begin(), one.channels.end());
        report->plans.insert(report->plans.end(), one.plans.begin(), one.plans.end());
    }
};

// Groups of the input's rows at the endpoints that own the first `routed` of their keys.
std::vector<Table> group_input(Runtime& runtime, Conversation& talk,
                               std::vector<Endpoint> const& endpoints, Input const& input,
                               std::vector<std::string> const& keys, std::size_t routed,
                               std::vector<Aggregate> const& aggregates,
                               OperatorOptions const& options, OperatorReport* report) {
    if (report != nullptr) *report = {};
    Job const job{runtime, talk, endpoints, input, keys, routed, options, report};
    GroupByPlan const plan(input, keys, aggregates, false);
    std::vector<Grouped> pairs;
    u64 held = 0;
    for (DistinctColumn const& distinct : plan.distinct()) {
        pairs.push_back(job.pairs_of(distinct, held));
        held += pairs.back().bytes;
    }
    try {
        return job.group(plan, pairs, held).tables;
    } catch (NarrowOverflow const&) {
        return job.group(GroupByPlan(input, keys, aggregates, true), pairs, held).tables;
    }
}

// The keys that no aggregate looks at, each by itself.
std::vector<std::vector<InputColumn>> keys_alone(Input const& input,
                                                 std::vector<std::string> const& keys,
                                                 std::vector<Aggregate> const& aggregates) {
    std::vector<std::vector<InputColumn>> alone;
    for (std::string const& key : keys) {
        bool const looked_at = std::any_of(aggregates.begin(), aggregates.end(),
                                           [&](Aggregate const& one) { return one.column == key; });
        if (!looked_at) alone.push_back({{0, input.column(key)}});
    }
    return alone;
}

}  // namespace

std::vector<Table> group_by_among(Processes& processes, Runtime& runtime,
                                  std::vector<Endpoint> const& endpoints,
                                  std::vector<Table> const& parts,
                                  std::vector<std::string> const& keys,
                                  std::vector<Aggregate> const& aggregates,
                                  OperatorOptions const& options, OperatorReport* report) {
    Conversation talk(
        processes, "group_by",
        call_of(endpoints, options, TableMemory::Host, arguments_of(keys, aggregates)), options);
    return converse(talk, [&] {
        refuse_two_levels(talk.what(), options);
        std::vector<std::string> used = keys;
        for (Aggregate const& aggregate : aggregates) used.push_back(aggregate.column);
        Input const input("group_by", endpoints, parts, talk, used);
        check_keys(input, input.columns(keys), options.hash);
        CodedColumns coded(talk, runtime, options, {&input}, keys_alone(input, keys, aggregates));
        if (coded.empty()) {
            return group_input(runtime, talk, endpoints, input, keys, keys.size(), aggregates,
                               options, report);
        }
        std::vector<std::string> numbered = keys;
        OperatorOptions how = options;
        bool const by_owner = endpoints.size() > 1;
        if (by_owner) {
            // Groups come where those of texts do.
            std::vector<std::string> of_result;
            for (Aggregate const& one : aggregates) of_result.push_back(one.name);
            numbered.insert(numbered.begin(),
                            free_name("owner of " + names_text(keys), {&input}, of_result));
            used.push_back(numbered[0]);
            how.hash = Hash::Modulo;
            coded.add_owners(0, input.columns(keys), numbered[0], u32(endpoints.size()));
        }
        Input const numbers("group_by", endpoints, coded.parts(0), talk, used);
        std::vector<Table> results =
            group_input(runtime, talk, endpoints, numbers, numbered, by_owner ? 1 : keys.size(),
                        aggregates, how, report);
        if (by_owner) drop_column(results, 0);
        std::vector<InputColumn> from;
        for (u32 const key : input.columns(keys)) from.push_back({0, key});
        from.resize(keys.size() + aggregates.size());
        coded.restore(results, from);
        return results;
    });
}

}  // namespace operators

std::vector<Table> group_by(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                            std::vector<Table> const& parts, std::vector<std::string> const& keys,
                            std::vector<Aggregate> const& aggregates,
                            OperatorOptions const& options, OperatorReport* report) {
    auto const processes = operators::processes_of(runtime, endpoints);
    return operators::group_by_among(*processes, runtime, endpoints, parts, keys, aggregates,
                                     options, report);
}

}  // namespace mgi
