// Exchange: every row to the endpoint that owns its key, received batches kept where they lie.
#include <optional>

#include "operators/two_level.hpp"

namespace mgi {

namespace operators {
namespace {

// Rows offered at once: the caches still hold what is sent when it is received next.
constexpr u32 kSliceRows = 1u << 13;
constexpr u32 kBatchesARound = 16;

// The channels of an endpoint: what it sends in, what it receives from, and in two levels those
// whose rows it sends on.
struct Channels {
    Channel out;
    std::vector<Channel> arriving;
    Channel in;
};

// One group: sends while there is room, keeps what has come in between (the paper's Figure 3), and
// sends on what came for others of its server.
class Exchanger {
public:
    Exchanger(Channels const& channels, Endpoint endpoint, std::vector<bool> const& has_nulls,
              Schema const& schema, Morsels& morsels)
        : outbox_(channels.out, endpoint),
          inbox_(channels.in, endpoint),
          has_nulls_(has_nulls),
          schema_(schema),
          slices_(morsels, kSliceRows) {
        if (channels.out.impl() != channels.in.impl()) {
            second_.emplace(channels.arriving, channels.in, endpoint);
        }
    }

    std::vector<RecordBatch> run(device::Group const& group, device::Shared& shared) {
        for (u32 idle = 0; !inbox_.ended() || !flushed();) {
            bool sent = send(group, shared);
            if (second_) sent |= second_->pass(group, shared);
            u32 const received =
                inbox_.receive(group, shared, kBatchesARound,
                               [&](device::ReceivedBatch const& batch) { keep(batch); });
            if (sent || received != 0) {
                idle = 0;
            } else {
                device::backoff(idle++);
            }
        }
        return std::move(kept_);
    }

private:
    [[nodiscard]] bool flushed() const {
        return outbox_.flushed() && (!second_ || second_->flushed());
    }

    // True when rows went.
    bool send(device::Group const& group, device::Shared& shared) {
        if (outbox_.empty() && !next_slice()) {
            outbox_.flush(group, shared);
            return false;
        }
        return outbox_.send(group, shared) != 0;
    }

    bool next_slice() {
        Morsel slice;
        if (!slices_.next(slice)) return false;
        std::vector<ColumnView> columns = outbox_.take_columns();
        columns.clear();
        for (std::size_t c = 0; c < slice.batch->columns.size(); ++c) {
            columns.push_back(view_of(slice.batch->columns[c], slice.first));
            if (!has_nulls_[c]) columns.back().validity = nullptr;
        }
        outbox_.put(std::move(columns), slice.rows);
        return true;
    }

    void keep(device::ReceivedBatch const& received) {
        RecordBatch batch = inbox_.keep(received);
        batch.schema = schema_;
        kept_.push_back(std::move(batch));
    }

    Outbox outbox_;
    std::optional<SecondLevel> second_;
    Inbox inbox_;
    std::vector<bool> const& has_nulls_;
    Schema const& schema_;
    Slices slices_;
    std::vector<RecordBatch> kept_;
};

// By endpoint; empty ones for others' endpoints.
std::vector<Channels> open_channels(Run& run, Processes const& processes, TwoLevel two_level,
                                    Schema const& schema, std::vector<std::string> const& keys,
                                    TextNeeds const& texts) {
    std::vector<u32> const servers = processes.servers();
    std::vector<Channels> all(servers.size());
    if (!goes_in_two_levels(two_level, servers, processes.count())) {
        Channel const channel = run.open("exchange", schema, keys, texts, true);
        for (Channels& channels : all) channels = {channel, {}, channel};
        return all;
    }
    Levels const levels = levels_of(servers, "exchange");
    std::vector<Channel> const opened = run.open(levels.flows, schema, keys, texts);
    for (std::size_t e = 0; e < all.size(); ++e) {
        Levels::Way const& way = levels.ways[e];
        all[e].out = opened[way.across];
        for (u32 const flow : way.arriving) all[e].arriving.push_back(opened[flow]);
        all[e].in = opened[way.within];
    }
    return all;
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
        check_keys(input, input.columns(keys), options.hash);
        // A column without a null travels without validity, whatever its schema allows.
        std::vector<Field> fields = input.schema().fields();
        std::vector<bool> has_nulls;
        std::vector<u32> all;
        for (u32 c = 0; c < fields.size(); ++c) {
            has_nulls.push_back(input.has_nulls(c));
            fields[c].nullable = has_nulls[c];
            all.push_back(c);
        }
        Run run(runtime, talk, endpoints, options);
        std::vector<Channels> const channels = open_channels(
            run, processes, options.two_level, Schema(fields), keys, measure_texts(input, all));

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
