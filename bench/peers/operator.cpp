#include "peers/operator.hpp"

#include <mgi/operators.hpp>

namespace mgi::peers {
namespace {

perf::Checksum checksum_of(Table const& table) {
    perf::Checksum sum;
    for (RecordBatch const& batch : table.batches) {
        sum.rows += std::uint64_t(batch.rows);
        for (std::size_t c = 0; c < batch.columns.size(); ++c) {
            auto const* const values = batch.values<std::uint64_t>(c);
            std::uint64_t& word = c == 0 ? sum.key_sum : sum.payload_parity;
            for (std::int64_t i = 0; i < batch.rows; ++i) {
                word = c == 0 ? word + values[i] : word ^ values[i];
            }
        }
    }
    return sum;
}

class Operator : public Member {
public:
    Operator(Options const& options, OwnRows const& rows) : runtime_(Runtime::connect()) {
        if (options.rows.layout != Layout::Columns) {
            throw Error(ErrorCode::InvalidArgument, "operators take columns, not row structs");
        }
        std::vector<Endpoint> mine;
        for (std::size_t e = 0; e < rows.size(); ++e)
            mine.push_back(runtime_.create_endpoint("cpu"));
        endpoints_ = runtime_.gather_endpoints(mine);
        parts_.resize(endpoints_.size());
        for (std::size_t e = 0; e < rows.size(); ++e) {
            parts_[options.rank * rows.size() + e] = table_of(*rows[e]);
        }
        options_.groups = std::max(1u, options.rows.groups);
        options_.by_reference = options.rows.by_reference;
    }

    Ran run(std::string_view variant) override {
        OperatorOptions mine = options_;
        mine.two_level = variant == "two" ? TwoLevel::On : TwoLevel::Off;
        Ran ran;
        ran.start = perf::Clock::now();
        auto const tables = exchange(runtime_, endpoints_, parts_, {"key"}, mine);
        ran.end = perf::Clock::now();
        for (Table const& table : tables) ran.received.add(checksum_of(table));
        return ran;
    }

private:
    // The rows where they lie.
    static Table table_of(perf::Rows const& rows) {
        std::vector<Field> fields{{"key", int64()}};
        for (std::uint32_t c = 1; c < rows.columns(); ++c) {
            fields.push_back({"payload" + std::to_string(c), int64()});
        }
        RecordBatch batch;
        batch.schema = Schema(std::move(fields));
        batch.rows = std::int64_t(rows.size());
        for (std::uint32_t c = 0; c < rows.columns(); ++c) {
            Column column;
            column.values = rows.words() + c * rows.size();
            batch.columns.push_back(std::move(column));
        }
        Table table;
        table.schema = batch.schema;
        table.batches.push_back(std::move(batch));
        return table;
    }

    Runtime runtime_;
    std::vector<Endpoint> endpoints_;
    std::vector<Table> parts_;
    OperatorOptions options_;
};

}  // namespace

std::unique_ptr<Member> make_operator(Options const& options, OwnRows const& rows,
                                      Driver& /*driver*/) {
    return std::make_unique<Operator>(options, rows);
}

}  // namespace mgi::peers
