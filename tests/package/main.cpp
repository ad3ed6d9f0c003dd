// A user's program against an installed MGI: two endpoints exchange a table by key, and every row
// must stand at the endpoint that owns its key.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include <mgi/device.hpp>
#include <mgi/operators.hpp>
#include <mgi/runtime.hpp>

namespace {

/// One batch with one int64 column "key" that counts from `first`.
mgi::Table counting(mgi::Schema const& schema, std::int64_t first, std::size_t rows) {
    auto values = std::make_shared<std::vector<std::int64_t>>(rows);
    std::iota(values->begin(), values->end(), first);
    mgi::Column column;
    column.values = values->data();
    mgi::RecordBatch batch;
    batch.schema = schema;
    batch.rows = static_cast<std::int64_t>(rows);
    batch.columns.push_back(column);
    batch.owner = values;
    return {schema, {batch}};
}

}  // namespace

int main() {
    mgi::Runtime runtime = mgi::Runtime::local();
    std::vector<mgi::Endpoint> const endpoints{runtime.create_endpoint("cpu"),
                                               runtime.create_endpoint("cpu")};
    mgi::Schema const schema{{"key", mgi::int64(), false}};
    std::vector<mgi::Table> const parts{counting(schema, 0, 50'000),
                                        counting(schema, 50'000, 50'000)};

    mgi::OperatorOptions options;
    options.hash = mgi::Hash::Modulo;
    auto const results = mgi::exchange(runtime, endpoints, parts, {"key"}, options);

    std::int64_t rows = 0;
    std::int64_t sum = 0;
    for (std::size_t part = 0; part < results.size(); ++part) {
        for (mgi::RecordBatch const& batch : results[part].batches) {
            std::int64_t const* keys = batch.values<std::int64_t>(0);
            for (std::int64_t row = 0; row < batch.rows; ++row) {
                if (keys[row] % 2 != static_cast<std::int64_t>(part)) {
                    std::printf("key %lld stands at endpoint %zu\n", (long long)keys[row], part);
                    return 1;
                }
                sum += keys[row];
            }
            rows += batch.rows;
        }
    }
    std::printf("%lld rows exchanged, keys sum to %lld\n", (long long)rows, (long long)sum);
    return rows == 100'000 && sum == 100'000LL * 99'999 / 2 ? 0 : 1;
}
