// Exchange: every row to the endpoint that owns its key, received batches kept where they lie.
#include "operators/coded_columns.hpp"
#include "operators/exchanger.hpp"

namespace mgi {

namespace operators {
namespace {

// By endpoint; empty ones for others' endpoints.
std::vector<Channels> open_channels(Run& run, Processes const& processes, TwoLevel two_level,
                                    Schema const& schema, std::vector<std::string> const& keys,
                                    TextNeeds const& texts) {
    std::vector<u32> const servers = processes.servers();
    std::vector<Channels> all(servers.size());
    if (!goes_in_two_levels(two_level, servers, processes.count())) {
        Passage const passage = run.open("exchange", schema, keys, texts, true);
        for (Channels& channels : all) channels = {passage, {}, passage};
        return all;
    }
    Levels const levels = levels_of(servers, "exchange");
    std::vector<Passage> const opened = run.open(levels.flows, schema, keys, texts);
    for (std::size_t e = 0; e < all.size(); ++e) {
        Levels::Way const& way = levels.ways[e];
        all[e].out = opened[way.across];
        for (u32 const flow : way.arriving) all[e].arriving.push_back(opened[flow]);
        all[e].in = opened[way.within];
    }
    return all;
}

// Every row of the input to the endpoint that owns its key.
std::vector<Table> exchange_rows(Processes& processes, Runtime& runtime, Conversation& talk,
                                 std::vector<Endpoint> const& endpoints, Input const& input,
                                 std::vector<std::string> const& keys,
                                 OperatorOptions const& options, OperatorReport* report) {
    // A column without a null travels without validity, whatever its schema allows.
    std::vector<Field> fields = input.schema().fields();
    std::vector<bool> has_nulls;
    for (u32 c = 0; c < fields.size(); ++c) {
        has_nulls.push_back(input.has_nulls(c));
        fields[c].nullable = has_nulls[c];
    }
    Run run(runtime, talk, endpoints, options);
    std::vector<Channels> const channels =
        open_channels(run, processes, options.two_level, Schema(fields), keys,
                      measure_texts(input, input.columns_or_all({})));

    std::vector<std::unique_ptr<Morsels>> morsels;
    std::vector<std::vector<std::vector<RecordBatch>>> kept;
    for (std::size_t e = 0; e < endpoints.size(); ++e) {
        morsels.push_back(std::make_unique<Morsels>(input.part(e)));
        kept.emplace_back(run.groups(e));
    }
    run.run([&](std::size_t e, device::Group const& group, device::Shared& shared) {
        Exchanger one(channels[e], endpoints[e], has_nulls, input.schema(), *morsels[e]);
        kept[e][group.block] = one.run(group, shared);
    });
    run.report(report);

    std::vector<Table> results(endpoints.size());
    for (std::size_t e = 0; e < endpoints.size(); ++e) {
        results[e] = table_of(input.schema(), kept[e]);
    }
    return results;
}

}  // namespace

std::vector<Table> exchange_among(Processes& processes, Runtime& runtime,
                                  std::vector<Endpoint> const& endpoints,
                                  std::vector<Table> const& parts,
                                  std::vector<std::string> const& keys,
                                  OperatorOptions const& options, OperatorReport* report) {
    Conversation talk(
        processes, "exchange",
        call_of(endpoints, options, TableMemory::Host,
                {{"keys", names_text(keys)}, {"two_level", name_of(options.two_level)}}),
        options);
    return converse(talk, [&] {
        Input const input("exchange", endpoints, parts, talk);
        std::vector<u32> const owning = input.columns(keys);
        check_keys(input, owning, options.hash);
        CodedColumns coded(talk, runtime, options, {&input}, other_columns(input, {}));
        if (coded.empty()) {
            return exchange_rows(processes, runtime, talk, endpoints, input, keys, options, report);
        }
        std::vector<std::string> routing = keys;
        OperatorOptions how = options;
        bool const by_owner = endpoints.size() > 1 && coded.has_any(0, owning);
        if (by_owner) {
            routing = {free_name("owner of " + names_text(keys), {&input})};
            how.hash = Hash::Modulo;
            coded.add_owners(0, owning, routing[0], u32(endpoints.size()));
        }
        Input const numbers("exchange", endpoints, coded.parts(0), talk);
        std::vector<Table> results =
            exchange_rows(processes, runtime, talk, endpoints, numbers, routing, how, report);
        if (by_owner) drop_column(results, input.schema().size());
        coded.restore(results, all_columns(input));
        return results;
    });
}

}  // namespace operators

std::vector<Table> exchange(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                            std::vector<Table> const& parts, std::vector<std::string> const& keys,
                            OperatorOptions const& options, OperatorReport* report) {
    auto const processes = operators::processes_of(runtime, endpoints);
    return operators::exchange_among(*processes, runtime, endpoints, parts, keys, options, report);
}

}  // namespace mgi
