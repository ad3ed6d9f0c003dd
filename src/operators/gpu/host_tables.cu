// The operators over tables in the host's memory, at endpoints on GPUs. It has no kernel, and is compiled as the others are:
// nvcc lays out what a lambda captures in another order than g++, so inline functions of both may not meet.
#include <mgi/gpu_operators.hpp>

#include "operators/callers_memory.hpp"
#include "operators/gpu/group_by_parts.hpp"
#include "operators/gpu/place.hpp"
#include "operators/gpu/sort_parts.hpp"
#include "operators/host_operators.hpp"

namespace mgi {

namespace {

using namespace operators;

// GPUs of endpoints, each of which has a share of its GPU's memory.
class GpuRoundPlaces final : public RoundPlaces {
public:
    GpuRoundPlaces(std::string const& what, Processes const& processes, Runtime const& runtime,
                   std::vector<Endpoint> const& endpoints, OperatorOptions const& options)
        : limit_(options.receive_limit), shares_(endpoints.size()) {
        auto const& devices = runtime.devices();
        std::map<int, u64> shares;  // of each GPU
        std::vector<std::size_t> own;
        for (std::size_t e = 0; e < endpoints.size(); ++e) {
            if (!processes.mine(endpoints[e])) continue;
            if (endpoints[e].device >= devices.size()) {
                refuse(what, "endpoint " + std::to_string(endpoints[e].id) +
                                 " is on no device of this runtime");
            }
            Device const& device = devices[endpoints[e].device];
            if (device.kind != VertexKind::Gpu) {
                refuse(what, "an endpoint is on " + device.name +
                                 "; all are on GPUs here: create_endpoint(\"cuda:0\")");
            }
            own.push_back(e);
            ++shares[device.ordinal];
        }
        on_gpu::PlaceOptions wanted;
        wanted.limit = limit_of_rows(options);
        wanted.allocator = callers_allocator(options.gpu_allocator, runtime.gpu_allocator());
        for (std::size_t const e : own) {
            int const gpu = devices[endpoints[e].device].ordinal;
            // What a caller's allocator has left nobody knows.
            auto const [free, total] = on_gpu::memory_of_gpu(gpu);
            shares_[e].room = (wanted.allocator ? total / 2 : free) / shares[gpu];
            shares_[e].place = on_gpu::gpu_place(gpu, wanted);
            prepare_gpu_copies(gpu);  // rounds are copied beside kernels
        }
    }

    [[nodiscard]] u64 room(std::size_t endpoint) const override {
        return limit_ != 0 ? std::min(limit_, shares_[endpoint].room) : shares_[endpoint].room;
    }
    [[nodiscard]] int gpu(std::size_t endpoint) const override {
        return shares_[endpoint].place->gpu();
    }
    std::shared_ptr<void> allocate(std::size_t endpoint, u64 bytes) override {
        on_gpu::Place& place = *shares_[endpoint].place;
        auto memory = place.allocate(bytes, "rows of a round");
        place.wait();  // for who had it before
        return memory;
    }
    [[nodiscard]] RecordBatch to_host(GpuTable const& table) const override {
        return copy_to_host(table);
    }

private:
    struct Share {
        u64 room = 0;
        std::unique_ptr<on_gpu::Place> place;
    };
    u64 const limit_;
    std::vector<Share> shares_;
};

// Calls `work(call, of_round)` with what all of these operators need.
template <class Work>
std::vector<Table> call_from_host(std::string const& what, Runtime& runtime,
                                  std::vector<Endpoint> const& endpoints,
                                  OperatorOptions const& options, OperatorReport* report,
                                  Work const& work) {
    auto const processes = processes_of(runtime, endpoints);
    HostCall const call{*processes, endpoints, options, runtime.memory_left(), report, [&] {
                            return std::make_unique<GpuRoundPlaces>(what, *processes, runtime,
                                                                    endpoints, options);
                        }};
    return work(call, options_of_round(options));
}

}  // namespace

std::vector<Table> exchange_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                    std::vector<Table> const& parts,
                                    std::vector<std::string> const& keys,
                                    OperatorOptions const& options, OperatorReport* report) {
    auto const work = [&](HostCall const& call, OperatorOptions const& of_round) {
        return exchange_from_host(
            call, parts, keys, [&](GpuTables const& rows, OperatorReport* of_one) {
                return exchange(runtime, endpoints, rows, keys, of_round, of_one);
            });
    };
    return call_from_host("exchange", runtime, endpoints, options, report, work);
}

std::vector<Table> group_by_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                    std::vector<Table> const& parts,
                                    std::vector<std::string> const& keys,
                                    std::vector<Aggregate> const& aggregates,
                                    OperatorOptions const& options, OperatorReport* report) {
    auto const work = [&](HostCall const& call, OperatorOptions const& of_round) {
        GroupByOnGpus group;
        group.whole = [&](GpuTables const& rows, OperatorReport* of_one) {
            return group_by(runtime, endpoints, rows, keys, aggregates, of_round, of_one);
        };
        group.round = [&](GpuTables const& rows, OperatorReport* of_one) {
            return on_gpu::group_round(runtime, endpoints, rows, keys, aggregates, of_round,
                                       of_one);
        };
        group.merge = [&](GpuTables const& groups, Schema const& rows, OperatorReport* of_one) {
            return on_gpu::merge_rounds(runtime, endpoints, groups, rows, keys, aggregates,
                                        of_round, of_one);
        };
        return group_by_from_host(call, parts, keys, aggregates, group);
    };
    return call_from_host("group_by", runtime, endpoints, options, report, work);
}

std::vector<Table> join_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                std::vector<Table> const& left, std::vector<Table> const& right,
                                JoinSpec const& spec, OperatorOptions const& options,
                                OperatorReport* report) {
    auto const work = [&](HostCall const& call, OperatorOptions const& of_round) {
        return join_from_host(
            call, left, right, spec,
            [&](GpuTables const& of_left, GpuTables const& of_right, OperatorReport* of_one) {
                return join(runtime, endpoints, of_left, of_right, spec, of_round, of_one);
            });
    };
    return call_from_host("join", runtime, endpoints, options, report, work);
}

std::vector<Table> sort_on_gpus(Runtime& runtime, std::vector<Endpoint> const& endpoints,
                                std::vector<Table> const& parts, std::vector<SortKey> const& keys,
                                OperatorOptions const& options, OperatorReport* report) {
    auto const work = [&](HostCall const& call, OperatorOptions const& of_round) {
        SortOnGpus on_gpus;
        on_gpus.whole = [&](GpuTables const& rows, OperatorReport* of_one) {
            return sort(runtime, endpoints, rows, keys, of_round, of_one);
        };
        on_gpus.round = [&](GpuTables const& rows, Splitters const& splitters,
                            OperatorReport* of_one) {
            return on_gpu::sort_round(runtime, endpoints, rows, keys, splitters, of_round, of_one);
        };
        return sort_from_host(call, parts, keys, on_gpus);
    };
    return call_from_host("sort", runtime, endpoints, options, report, work);
}

}  // namespace mgi
