/// \file
/// The operators of GPUs on threads of the host, groups of one and of two threads.
#pragma once

#include <gtest/gtest.h>

#include "operators/gpu/group_by.hpp"
#include "operators/gpu/join.hpp"
#include "operators/host_tables.hpp"

namespace mgi::operators::on_gpu {

/// Endpoints on CPU devices, and what is run there.
class GpuOperators : public ::testing::TestWithParam<std::tuple<u32, u32>> {
protected:
    [[nodiscard]] static u32 endpoint_count() { return std::get<0>(GetParam()); }
    [[nodiscard]] static u32 threads() { return std::get<1>(GetParam()); }

    GpuOperators() {
        runtime_ = runtime_of_cpus(2);
        for (u32 e = 0; e < endpoint_count(); ++e) {
            endpoints_.push_back(runtime_->create_endpoint("cpu:" + std::to_string(e % 2)));
        }
    }

    std::unique_ptr<Operation> operation(std::string const& what) {
        if (!processes_) processes_ = processes_of(*runtime_, endpoints_);
        return std::make_unique<Operation>(*processes_, what, *runtime_, endpoints_, options_,
                                           places_on_host(threads()), &report_);
    }
    // Parts of unequal sizes; the last one is empty where there are several.
    [[nodiscard]] std::vector<GpuTable> parts_of(PlainTable const& table) const {
        std::vector<GpuTable> parts;
        std::size_t first = 0;
        for (u32 e = 0; e < endpoint_count(); ++e) {
            std::size_t const left = table.rows.size() - first;
            std::size_t const count = e + 1 == endpoint_count()   ? (e == 0 ? left : 0)
                                      : e + 2 == endpoint_count() ? left
                                                                  : left / 3;
            parts.push_back(on_host(batch_of(table, first, count)));
            first += count;
        }
        return parts;
    }
    static Rows all_rows(std::vector<GpuTable> const& tables) {
        Rows rows;
        for (GpuTable const& table : tables) {
            for (Row& row : rows_of(batch_of_result(table))) rows.push_back(std::move(row));
        }
        return sorted(rows);
    }

    void expect_groups(PlainTable const& table, std::vector<std::string> const& keys,
                       std::vector<Aggregate> const& aggregates) {
        auto const operation = this->operation("group_by");
        auto const results = group_by_on(*operation, parts_of(table), keys, aggregates);
        ASSERT_EQ(results.size(), endpoint_count());
        expect_same(all_rows(results), sorted(group_by(table, keys, aggregates)));
    }
    // Of all kinds.
    void expect_joined(PlainTable const& left, PlainTable const& right, JoinSpec spec) {
        std::vector<std::string> const right_columns = spec.right_columns;
        for (JoinKind const kind : test::kKinds) {
            SCOPED_TRACE(name_of(kind));
            spec.kind = kind;
            bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
            spec.right_columns = pairs ? right_columns : std::vector<std::string>();
            auto const expected = sorted(join(left, right, spec.left_keys, spec.right_keys,
                                              spec.left_columns, spec.right_columns, kind));
            for (Broadcast const broadcast : test::broadcasts_of(kind, endpoint_count())) {
                SCOPED_TRACE(name_of(broadcast));
                spec.broadcast = broadcast;
                auto const operation = this->operation("join");
                auto const results = join_on(*operation, parts_of(left), parts_of(right), spec);
                expect_same(all_rows(results), expected);
                EXPECT_EQ(report_.built, test::built_by(spec, endpoint_count(), left.rows.size(),
                                                        right.rows.size()));
                if (broadcast != Broadcast::Auto) {
                    EXPECT_EQ(report_.broadcast, broadcast == Broadcast::On);
                }
            }
        }
    }

    std::optional<Runtime> runtime_;
    std::vector<Endpoint> endpoints_;
    std::unique_ptr<Processes> processes_;
    OperatorOptions options_;
    OperatorReport report_;
};

using F = AggregateFunction;

inline std::vector<Aggregate> every_aggregate(std::string const& column) {
    return {{F::Count, "", "rows"},  {F::Count, column, "count"}, {F::Sum, column, "sum"},
            {F::Avg, column, "avg"}, {F::Min, column, "min"},     {F::Max, column, "max"}};
}

}  // namespace mgi::operators::on_gpu
