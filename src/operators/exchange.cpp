// Exchange: every row to the endpoint that owns its key, received batches kept where they lie.
#include "operators/run.hpp"

namespace mgi {

namespace operators {
namespace {

// Rows offered at once: the caches still hold what is sent when it is received next.
constexpr u32 kSliceRows = 1u << 13;
constexpr u32 kBatchesARound = 16;

// One group: sends while there is room, keeps what has come in between (the paper's Figure 3).
class Exchanger {
public:
    Exchanger(Channel const& channel, Endpoint endpoint, std::vector<bool> const& has_nulls,
              Schema const& schema, Morsels& morsels)
        : outbox_(channel, endpoint),
          inbox_(channel, endpoint),
          has_nulls_(has_nulls),
          schema_(schema),
          slices_(morsels, kSliceRows) {}

    std::vector<RecordBatch> run(device::Group const& group, device::Shared& shared) {
        for (u32 idle = 0; !inbox_.ended() || !outbox_.flushed();) {
            bool const sent = send(group, shared);
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
    Inbox inbox_;
    std::vector<bool> const& has_nulls_;
    Schema const& schema_;
    Slices slices_;
    std::vector<RecordBatch> kept_;
};

}  // namespace

std::vector<Table> exchange_among(Processes& processes, Runtime& runtime,
                                  std::vector<Endpoint> const& endpoints,
                                  std::vector<Table> const& parts,
                                  std::vector<std::string> const& keys,
                                  OperatorOptions const& options, OperatorReport* report) {
    Conversation talk(processes, "exchange",
                      call_of(endpoints, options, {{"keys", names_text(keys)}}), options);
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
        Channel const channel =
            run.open("exchange", Schema(fields), keys, measure_texts(input, all), true);

        std::vector<std::unique_ptr<Morsels>> morsels;
        std::vector<std::vector<std::vector<RecordBatch>>> kept;
        for (std::size_t e = 0; e < endpoints.size(); ++e) {
            morsels.push_back(std::make_unique<Morsels>(input.part(e)));
            kept.emplace_back(run.groups(e));
        }
        run.run([&](std::size_t e, device::Group const& group, device::Shared& shared) {
            Exchanger one(channel, endpoints[e], has_nulls, input.schema(), *morsels[e]);
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
