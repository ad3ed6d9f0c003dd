/// \file
/// Tests of operators on a GPU: endpoints there, and what is checked of results. Needs CUDA and libmgi, no test framework.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <mgi/gpu_operators.hpp>

#include "operators/plain.hpp"

namespace mgi::test::on_gpu {

using namespace mgi::test::plain;

struct Wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// `rounded`: columns that may differ by that.
inline void expect_same(Rows const& got, Rows const& expected,
                        std::vector<bool> const& rounded = {}) {
    if (got.size() != expected.size()) {
        throw Wrong(std::to_string(got.size()) + " rows in place of " +
                    std::to_string(expected.size()));
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
        bool same = true;
        for (std::size_t c = 0; c < expected[i].size(); ++c) {
            bool const near = c < rounded.size() && rounded[c];
            same = same &&
                   (near ? nearly_same(got[i][c], expected[i][c]) : got[i][c] == expected[i][c]);
        }
        if (same) continue;
        std::string text = "row ";
        text += std::to_string(i);
        for (std::size_t c = 0; c < expected[i].size(); ++c) {
            for (Cell const& cell : {got[i][c], expected[i][c]}) {
                text += cell.valid ? ' ' : '!';
                text += std::to_string(cell.word);
            }
        }
        throw Wrong(text);
    }
}

inline void expect_error(ErrorCode code, std::string const& text,
                         std::function<void()> const& call) {
    try {
        call();
    } catch (Error const& error) {
        bool const right =
            error.code() == code && std::string(error.what()).find(text) != std::string::npos;
        if (!right) throw Wrong(std::string("threw: ") + error.what());
        return;
    }
    throw Wrong("threw nothing: " + text);
}

// Endpoints on the GPUs, in turn.
class Bed {
public:
    Bed(Runtime& runtime, std::uint32_t count) : runtime_(runtime) {
        std::vector<std::string> gpus;
        for (Device const& device : runtime.devices()) {
            if (device.kind == VertexKind::Gpu) gpus.push_back(device.name);
        }
        if (gpus.empty()) throw Wrong("there is no GPU");
        for (std::uint32_t e = 0; e < count; ++e) {
            endpoints_.push_back(runtime.create_endpoint(gpus[e % gpus.size()]));
            ordinals_.push_back(int(e % gpus.size()));
        }
    }
    ~Bed() {
        for (Endpoint const& endpoint : endpoints_) runtime_.delete_endpoint(endpoint);
    }
    Bed(Bed const&) = delete;
    Bed& operator=(Bed const&) = delete;

    // Parts of unequal sizes; the last one is empty where there are several.
    [[nodiscard]] std::vector<GpuTable> parts_of(PlainTable const& table) const {
        std::vector<GpuTable> parts;
        std::size_t first = 0;
        std::size_t const endpoints = endpoints_.size();
        for (std::size_t e = 0; e < endpoints; ++e) {
            std::size_t const left = table.rows.size() - first;
            std::size_t const share = 3 * left / (2 * (endpoints - e) + 1);
            std::size_t const count = endpoints == 1       ? left
                                      : e + 1 == endpoints ? 0
                                      : e + 2 == endpoints ? left
                                                           : share;
            parts.push_back(copy_to_gpu(batch_of(table, first, count), ordinals_[e]));
            first += count;
        }
        return parts;
    }
    static Rows all_rows(std::vector<GpuTable> const& tables) {
        Rows rows;
        for (GpuTable const& table : tables) {
            for (Row& row : rows_of(copy_to_host(table))) rows.push_back(std::move(row));
        }
        return sorted(rows);
    }

    void groups(PlainTable const& table, std::vector<std::string> const& keys,
                std::vector<Aggregate> const& wanted) {
        auto const expected = sorted(test::plain::group_by(table, keys, wanted));
        spread_and_at_one([&](OperatorReport* report) {
            expect_same(all_rows(group_by(runtime_, endpoints_, parts_of(table), keys, wanted,
                                          options, report)),
                        expected, rounded(keys.size(), wanted));
        });
    }
    // Of all kinds.
    void joins(PlainTable const& left, PlainTable const& right, JoinSpec spec) {
        std::vector<std::string> const right_columns = spec.right_columns;
        for (JoinKind const kind : kKinds) {
            spec.kind = kind;
            bool const pairs = kind != JoinKind::Semi && kind != JoinKind::Anti;
            spec.right_columns = pairs ? right_columns : std::vector<std::string>();
            auto const expected =
                sorted(test::plain::join(left, right, spec.left_keys, spec.right_keys,
                                         spec.left_columns, spec.right_columns, kind));
            for (Broadcast const broadcast : test::broadcasts_of(kind, endpoints_.size())) {
                spec.broadcast = broadcast;
                auto const call = [&](OperatorReport* report) {
                    expect_same(all_rows(join(runtime_, endpoints_, parts_of(left), parts_of(right),
                                              spec, options, report)),
                                expected);
                };
                if (broadcast == Broadcast::Auto) {
                    spread_and_at_one(call);
                } else {
                    call(nullptr);
                }
            }
        }
    }
    void exchanges(PlainTable const& table, std::string const& key) {
        OperatorReport report;
        auto const results =
            exchange(runtime_, endpoints_, parts_of(table), {key}, options, &report);
        expect_same(all_rows(results), sorted(table.rows));
        std::size_t const c = table.schema.index_of(key);
        std::map<Cell, std::size_t> owners;
        for (std::size_t e = 0; e < results.size(); ++e) {
            for (Row const& row : rows_of(copy_to_host(results[e]))) {
                if (owners.emplace(row[c], e).first->second != e) throw Wrong("two own a key");
            }
        }
        if (endpoints_.size() > 1 && report.rows != table.rows.size()) {
            throw Wrong("reports " + std::to_string(report.rows) + " rows");
        }
    }

    // Calls `call(report)` for rows that are worked on at all endpoints, and for rows that come to one, where there are several that
    // may write into each other's memory.
    void spread_and_at_one(std::function<void(OperatorReport*)> const& call) {
        OperatorReport report;
        call(&report);
        if (report.at_one) throw Wrong("worked at one endpoint");
        bool const can = endpoints_.size() > 1 && options.by_reference &&
                         options.receive_limit == 0 && options.one_endpoint_bytes == 0;
        if (!can) return;
        options.one_endpoint_bytes = OperatorOptions().one_endpoint_bytes;
        call(&report);
        options.one_endpoint_bytes = 0;
        if (!report.at_one) throw Wrong("not worked at one endpoint");
    }

    // Rows are worked on where they are owned, unless a test wants it otherwise.
    OperatorOptions options = [] {
        OperatorOptions options;
        options.one_endpoint_bytes = 0;
        return options;
    }();
    [[nodiscard]] Runtime& runtime() const { return runtime_; }
    [[nodiscard]] std::vector<Endpoint> const& endpoints() const { return endpoints_; }
    // Of an endpoint's GPU.
    [[nodiscard]] int ordinal(std::size_t e) const { return ordinals_[e]; }

private:
    Runtime& runtime_;
    std::vector<Endpoint> endpoints_;
    std::vector<int> ordinals_;
};

/// A test of its own source: name and body.
struct GpuTest {
    char const* name;
    std::function<void(Bed&)> body;
};
/// Of streams and allocators of the caller's.
std::vector<GpuTest> caller_tests(bool small);
/// Of tables of so many rows in the host's memory.
std::vector<GpuTest> host_tests(std::size_t rows);
/// Of sorts of so many rows.
std::vector<GpuTest> sort_tests(std::size_t rows);
/// Of extremes of values longer than a word, among so many rows.
std::vector<GpuTest> long_value_tests(std::size_t rows);

}  // namespace mgi::test::on_gpu
