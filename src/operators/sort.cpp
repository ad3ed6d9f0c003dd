// Sort: rows go to the endpoint whose range of the keys they fall into; there its groups cut that into a range for
// each of them, and sort these.
#include <memory>

#include "core/ordering.hpp"
#include "operators/coded_columns.hpp"
#include "operators/exchanger.hpp"
#include "operators/sort_gather.hpp"
#include "operators/sort_splitters.hpp"

namespace mgi {

namespace operators {
namespace {

// Rows of each group that its endpoint's ranges follow from.
constexpr u64 kSamplesOfGroup = 64;

// Rows between two looks at whether to go on.
constexpr u64 kRowsBetweenChecks = u64{1} << 16;

// What is the same at all endpoints.
struct SortPlan {
    Schema schema;                // of the result
    std::vector<bool> has_nulls;  // by column
    std::vector<device::KeyOrder> keys;
};

// What the groups of one endpoint share. They go through it together; none goes on where one of them has failed.
class EndpointSort {
public:
    EndpointSort(SortPlan const& plan, Table const& part, u32 groups, Run& run)
        : morsels(part),
          plan_(plan),
          groups_(groups),
          run_(run),
          rows_(plan.schema, plan.keys, plan.has_nulls),
          charge_(run.budget()),
          received_(groups),
          counts_(u64{groups} * groups),
          begins_(groups + 1),
          results_(groups),
          all_received_(groups),
          filled_(groups),
          counted_(groups),
          dealt_out_(groups) {}

    // A group's part, once it has received `batches`.
    void sort(u32 group, std::vector<RecordBatch> batches) {
        received_[group] = std::move(batches);
        meet(all_received_, [&] { take_rows(); });
        for (u64 first = share(group); first != share(group + 1);) {
            u64 const last = std::min(first + kRowsBetweenChecks, share(group + 1));
            rows_.fill(first, last, entries_ + first);
            first = last;
            run_.check();
        }
        meet(filled_, [&] { choose_pivots(); });
        SortEntry* sorted = entries_;
        SortEntry* scratch = other_;
        if (groups_ != 1) {
            std::vector<u16> const ranges = count_ranges(group);
            meet(counted_, [&] { place_ranges(); });
            deal_out(group, ranges);
            meet(dealt_out_, [] {});
            std::swap(sorted, scratch);
        }
        u64 const begin = begins_[group];
        u64 const count = begins_[group + 1] - begin;
        RowSorter(rows_, [&] { run_.check(); }).sort(sorted + begin, scratch + begin, count);
        results_[group] =
            gather_rows(plan_.schema, plan_.has_nulls, rows_, sorted + begin, count, run_);
    }

    // By group, in their order.
    [[nodiscard]] std::vector<std::vector<RecordBatch>>& results() { return results_; }

    Morsels morsels;

private:
    // A point that all groups come to, and what the last one does there before any goes on.
    struct Gate {
        explicit Gate(u32 groups) : came(groups), open(1) {}
        Meeting came;
        Meeting open;
    };

    // Throws where another group has failed, or another process.
    template <class Last>
    void meet(Gate& gate, Last const& last) {
        if (gate.came.arrive()) {
            last();
            gate.open.arrive();
        }
        for (u32 idle = 0; !gate.open.complete();) {
            run_.check();
            device::backoff(idle++);
        }
    }

    void take_rows() {
        rows_.take(std::move(received_));
        u64 const bytes = rows_.rows() * sizeof(SortEntry);
        charge_.hold(2 * bytes + rows_.rows() * sizeof(u16));
        memory_ = Buffer(2 * bytes, false);
        entries_ = memory_.as<SortEntry>();
        other_ = entries_ + rows_.rows();
        begins_.back() = rows_.rows();
    }

    // Where a group's rows begin, of those that are dealt out evenly.
    [[nodiscard]] u64 share(u32 group) const { return rows_.rows() * group / groups_; }

    // An order without equal rows, so that groups share those of one key.
    [[nodiscard]] bool before(SortEntry const& a, SortEntry const& b) const {
        if (a.word != b.word) return a.word < b.word;
        int const order = rows_.compare(a, b, 0);
        return order != 0 ? order < 0 : a.place() < b.place();
    }

    void choose_pivots() {
        u64 const rows = rows_.rows();
        u64 const samples = std::min(rows, kSamplesOfGroup * groups_);
        if (groups_ == 1 || samples == 0) return;
        std::vector<SortEntry> sampled;
        for (u64 s = 0; s < samples; ++s) sampled.push_back(entries_[rows * s / samples]);
        std::sort(sampled.begin(), sampled.end(),
                  [&](SortEntry const& a, SortEntry const& b) { return before(a, b); });
        for (u32 g = 1; g < groups_; ++g) pivots_.push_back(sampled[samples * g / groups_]);
    }

    // Each row's range, of a group's share.
    std::vector<u16> count_ranges(u32 group) {
        std::vector<u16> ranges;
        ranges.reserve(share(group + 1) - share(group));
        for (u64 i = share(group); i < share(group + 1); ++i) {
            auto const at = std::upper_bound(
                pivots_.begin(), pivots_.end(), entries_[i],
                [&](SortEntry const& a, SortEntry const& b) { return before(a, b); });
            ranges.push_back(u16(at - pivots_.begin()));
            ++counts_[u64{group} * groups_ + ranges.back()];
            if (ranges.size() % kRowsBetweenChecks == 0) run_.check();
        }
        return ranges;
    }

    // Turns counts into where each group's rows of each range go.
    void place_ranges() {
        u64 sum = 0;
        for (u32 range = 0; range < groups_; ++range) {
            begins_[range] = sum;
            for (u32 group = 0; group < groups_; ++group) {
                u64& count = counts_[u64{group} * groups_ + range];
                sum += std::exchange(count, sum);
            }
        }
    }

    void deal_out(u32 group, std::vector<u16> const& ranges) {
        u64* const next = counts_.data() + u64{group} * groups_;
        u64 const first = share(group);
        for (u64 i = 0; i < ranges.size(); ++i) other_[next[ranges[i]]++] = entries_[first + i];
    }

    SortPlan const& plan_;
    u32 const groups_;
    Run& run_;
    SortRows rows_;
    Charge charge_;
    std::vector<std::vector<RecordBatch>> received_;
    Buffer memory_;
    SortEntry* entries_ = nullptr;
    SortEntry* other_ = nullptr;
    std::vector<SortEntry> pivots_;
    std::vector<u64> counts_;  // by group and range
    std::vector<u64> begins_;  // by range; behind all, how many rows there are
    std::vector<std::vector<RecordBatch>> results_;
    Gate all_received_;
    Gate filled_;
    Gate counted_;
    Gate dealt_out_;
};

// The input's rows in order, at each endpoint those of a range.
std::vector<Table> sort_rows(Runtime& runtime, Conversation& talk,
                             std::vector<Endpoint> const& endpoints, Input const& input,
                             std::vector<SortKey> const& keys, OperatorOptions const& options,
                             OperatorReport* report) {
    SortPlan plan;
    plan.keys = key_orders("sort", keys, input.schema());
    plan.schema = input.schema();
    std::vector<Field> fields = input.schema().fields();
    for (u32 c = 0; c < fields.size(); ++c) {
        plan.has_nulls.push_back(input.has_nulls(c));
        // A column without a null travels without validity, whatever its schema allows.
        fields[c].nullable = plan.has_nulls[c];
    }
    Routing routing;
    routing.kind = device::RoutingKind::Range;
    routing.order = keys;
    routing.splitters = choose_splitters(talk, input, keys, endpoints.size());
    Run run(runtime, talk, endpoints, options);
    Passage const passage = run.open("sort", Schema(fields), routing,
                                     measure_texts(input, input.columns_or_all({})), true);
    Channels const channels{passage, {}, passage};

    std::vector<std::unique_ptr<EndpointSort>> at;
    for (std::size_t e = 0; e < endpoints.size(); ++e) {
        at.push_back(std::make_unique<EndpointSort>(plan, input.part(e), run.groups(e), run));
    }
    run.run([&](std::size_t e, device::Group const& group, device::Shared& shared) {
        Exchanger one(channels, endpoints[e], plan.has_nulls, plan.schema, at[e]->morsels);
        at[e]->sort(group.block, one.run(group, shared));
    });
    run.report(report);

    std::vector<Table> results(endpoints.size());
    for (std::size_t e = 0; e < endpoints.size(); ++e) {
        results[e] = table_of(plan.schema, at[e]->results());
    }
    return results;
}

}  // namespace

std::vector<Table> sort_among(Processes& processes, Runtime& runtime,
                              std::vector<Endpoint> const& endpoints,
                              std::vector<Table> const& parts, std::vector<SortKey> const& keys,
                              OperatorOptions const& options, OperatorReport* report) {
    Conversation talk(processes, "sort",
                      call_of(endpoints, options, TableMemory::Host, arguments_of(keys)), options);
    return converse(talk, [&] {
        refuse_two_levels(talk.what(), options);
        Input const input("sort", endpoints, parts, talk);
        std::vector<u32> compared;
        for (device::KeyOrder const& key : key_orders("sort", keys, input.schema())) {
            compared.push_back(key.column);
        }
        CodedColumns coded(talk, runtime, options, {&input}, other_columns(input, compared));
        if (coded.empty()) {
            return sort_rows(runtime, talk, endpoints, input, keys, options, report);
        }
        Input const numbers("sort", endpoints, coded.parts(0), talk);
        std::vector<Table> results =
            sort_rows(runtime, talk, endpoints, numbers, keys, options, report);
        coded.restore(results, all_columns(input));
        return results;
    });
}

}  // namespace operators

std::vector<Table> sort(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                        std::vector<Table> const& parts, std::vector<SortKey> const& keys,
                        OperatorOptions const& options, OperatorReport* report) {
    auto const processes = operators::processes_of(runtime, endpoints);
    return operators::sort_among(*processes, runtime, endpoints, parts, keys, options, report);
}

}  // namespace mgi
