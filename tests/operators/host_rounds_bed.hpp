/// \file
/// Operators of GPUs over tables in the host's memory, with the host in the GPUs' place too: what runs in rounds.
#pragma once

#include <gtest/gtest.h>

#include "operators/gpu/group_by_rounds.hpp"
#include "operators/gpu/join.hpp"
#include "operators/gpu/sort.hpp"
#include "operators/host_operators.hpp"
#include "operators/host_tables.hpp"
#include "operators/job.hpp"
#include "operators/through_host.hpp"

namespace mgi::operators::on_gpu {

/// Places with so much memory for rows, of which `room` is told.
class HostRoundPlaces final : public RoundPlaces {
public:
    HostRoundPlaces(std::size_t endpoints, OperatorOptions const& options, u64 limit)
        : options_(options) {
        PlaceOptions place;
        place.limit = limit;
        for (std::size_t e = 0; e < endpoints; ++e) {
            places_.push_back(std::make_unique<HostPlace>(1, 1, place));
        }
    }
    [[nodiscard]] u64 room(std::size_t) const override {
        return options_.receive_limit != 0 ? options_.receive_limit : ~u64{0};
    }
    [[nodiscard]] int gpu(std::size_t) const override { return -1; }
    std::shared_ptr<void> allocate(std::size_t endpoint, u64 bytes,
                                   std::string const& what) override {
        return places_[endpoint]->allocate(bytes, what);
    }
    [[nodiscard]] RecordBatch to_host(GpuTable const& table) const override {
        return batch_of_result(table);
    }

private:
    OperatorOptions options_;
    std::vector<std::unique_ptr<HostPlace>> places_;
};

/// A call by one of the processes, which may be alone.
class HostOperators {
public:
    HostOperators(Processes& processes, Runtime& runtime, std::vector<Endpoint> const& endpoints,
                  OperatorOptions const& options, OperatorReport* report = nullptr)
        : processes_(processes),
          runtime_(runtime),
          endpoints_(endpoints),
          options_(options),
          call_{processes, endpoints, options_, u64{1} << 40, report, [this](u64 limit) {
                    return std::make_unique<HostRoundPlaces>(endpoints_.size(), options_, limit);
                }} {}

    std::vector<Table> exchange(std::vector<Table> const& parts,
                                std::vector<std::string> const& keys) {
        return exchange_from_host(call_, parts, keys, [&](GpuTables const& of, auto* report) {
            return run("exchange", report,
                       [&](Operation& operation) { return exchange_on(operation, of, keys); });
        });
    }
    std::vector<Table> join(std::vector<Table> const& left, std::vector<Table> const& right,
                            JoinSpec const& spec) {
        return join_from_host(
            call_, left, right, spec, [&](GpuTables const& l, GpuTables const& r, auto* report) {
                return run("join", report,
                           [&](Operation& operation) { return join_on(operation, l, r, spec); });
            });
    }
    std::vector<Table> sort(std::vector<Table> const& parts, std::vector<SortKey> const& keys) {
        SortOnGpus on_gpus;
        on_gpus.whole = [&](GpuTables const& of, OperatorReport* report) {
            return run("sort", report,
                       [&](Operation& operation) { return sort_on(operation, of, keys); });
        };
        on_gpus.round = [&](GpuTables const& of, Splitters const& splitters,
                            OperatorReport* report) {
            return run("sort", report, [&](Operation& operation) {
                return sort_on(operation, of, keys, &splitters);
            });
        };
        return sort_from_host(call_, parts, keys, on_gpus);
    }
    std::vector<Table> group_by(std::vector<Table> const& parts,
                                std::vector<std::string> const& keys,
                                std::vector<Aggregate> const& wanted) {
        GroupByOnGpus on_gpus;
        on_gpus.whole = [&](GpuTables const& of, OperatorReport* report) {
            return run("group_by", report, [&](Operation& operation) {
                return group_by_on(operation, of, keys, wanted);
            });
        };
        on_gpus.round = [&](GpuTables const& of, OperatorReport* report) {
            return run("group_by", report, [&](Operation& operation) {
                return group_round_on(operation, of, keys, wanted);
            });
        };
        on_gpus.merge = [&](GpuTables const& of, Schema const& rows, OperatorReport* report) {
            return run("group_by", report, [&](Operation& operation) {
                return merge_rounds_on(operation, of, rows, keys, wanted);
            });
        };
        return group_by_from_host(call_, parts, keys, wanted, on_gpus);
    }

    /// The same over tables on GPUs, through the host's memory.
    GpuTables spilled_join(GpuTables const& left, GpuTables const& right, JoinSpec const& spec) {
        return through_host(
            call_, "join", {&left, &right},
            [&](std::vector<Schema> const& sides) {
                JoinColumns const columns = columns_of(InputColumns("join", sides[0]),
                                                       InputColumns("join", sides[1]), spec);
                return std::vector{columns.left, columns.right};
            },
            "there was no room",
            [&](auto const& sides, auto const& options, OperatorReport* report) {
                return of_rounds(options, report).join(sides[0], sides[1], spec);
            });
    }
    GpuTables spilled_group_by(GpuTables const& parts, std::vector<std::string> const& keys,
                               std::vector<Aggregate> const& wanted) {
        return through_host(
            call_, "group_by", {&parts},
            [&](auto const&) { return std::vector{columns_of(keys, wanted)}; }, "there was no room",
            [&](auto const& sides, auto const& options, OperatorReport* report) {
                return of_rounds(options, report).group_by(sides[0], keys, wanted);
            });
    }
    GpuTables spilled_sort(GpuTables const& parts, std::vector<SortKey> const& keys) {
        return through_host(
            call_, "sort", {&parts},
            [](auto const&) { return std::vector<std::set<std::string>>(1); }, "there was no room",
            [&](auto const& sides, auto const& options, OperatorReport* report) {
                return of_rounds(options, report).sort(sides[0], keys);
            });
    }

private:
    template <class Work>
    GpuTables run(std::string const& what, OperatorReport* report, Work const& work) {
        Operation operation(processes_, what, runtime_, endpoints_, options_of_round(options_),
                            places_on_host(1), report);
        return operation.perform([&] { return work(operation); });
    }
    HostOperators of_rounds(OperatorOptions const& options, OperatorReport* report) {
        return {processes_, runtime_, endpoints_, options, report};
    }

    Processes& processes_;
    Runtime& runtime_;
    std::vector<Endpoint> const& endpoints_;
    OperatorOptions options_;
    HostCall call_;
};

/// Parts of several batches each; some have none.
inline std::vector<Table> host_parts(PlainTable const& table, std::size_t endpoints,
                                     test::Random& random) {
    std::vector<std::size_t> cuts{0, table.rows.size()};
    while (cuts.size() <= 3 * endpoints) cuts.push_back(random.below(table.rows.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<Table> parts(endpoints);
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
        std::size_t const rows = cuts[c + 1] - cuts[c];
        Table& part = parts[random.below(endpoints)];
        part.schema = table.schema;
        part.batches.push_back(batch_of(table, cuts[c], rows));
    }
    return parts;
}

inline Rows rows_of_all(std::vector<Table> const& tables) {
    Rows rows;
    for (Table const& table : tables) {
        for (RecordBatch const& batch : table.batches) {
            for (Row& row : rows_of(batch)) rows.push_back(std::move(row));
        }
    }
    return sorted(rows);
}

}  // namespace mgi::operators::on_gpu
