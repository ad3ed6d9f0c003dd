// The GPUs of endpoints where operators work in rounds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operators/callers_memory.hpp"
#include "operators/gpu/place.hpp"
#include "operators/host_operators.hpp"

namespace mgi::operators::on_gpu {

// Each of the endpoints has a share of its GPU's memory.
class GpuRoundPlaces final : public RoundPlaces {
public:
    GpuRoundPlaces(std::string const& what, Processes const& processes, Runtime const& runtime,
                   std::vector<Endpoint> const& endpoints, OperatorOptions const& options,
                   u64 limit)
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
            auto const stream = options.gpu_streams.find(device.ordinal);
            if (stream != options.gpu_streams.end()) streams_.insert(*stream);
        }
        PlaceOptions wanted;
        wanted.limit = limit;
        wanted.allocator = callers_allocator(options.gpu_allocator, runtime.gpu_allocator());
        wanted.streams = streams_;
        for (std::size_t const e : own) {
            int const gpu = devices[endpoints[e].device].ordinal;
            // What a caller's allocator has left nobody knows.
            auto const [free, total] = memory_of_gpu(gpu);
            shares_[e].room = (wanted.allocator ? total / 2 : free) / shares[gpu];
            // Results that outlive the call give their memory back in the caller's stream.
            auto const stream = streams_.find(gpu);
            wanted.stream.reset();
            if (stream != streams_.end()) wanted.stream = stream->second;
            shares_[e].place = gpu_place(gpu, wanted);
            prepare_gpu_copies(gpu);  // rounds are copied beside kernels
        }
    }

    [[nodiscard]] u64 room(std::size_t endpoint) const override {
        return limit_ != 0 ? std::min(limit_, shares_[endpoint].room) : shares_[endpoint].room;
    }
    [[nodiscard]] int gpu(std::size_t endpoint) const override {
        return shares_[endpoint].place->gpu();
    }
    std::shared_ptr<void> allocate(std::size_t endpoint, u64 bytes,
                                   std::string const& what) override {
        Place& place = *shares_[endpoint].place;
        auto memory = place.allocate(bytes, what);
        place.wait();  // for who had it before
        return memory;
    }
    void wait_for_callers_work() override {
        for (auto const& [gpu, stream] : streams_) wait_for_gpu_stream(gpu, stream);
    }
    [[nodiscard]] RecordBatch to_host(GpuTable const& table) const override {
        return copy_to_host(table);
    }

private:
    struct Share {
        u64 room = 0;
        std::unique_ptr<Place> place;
    };
    u64 const limit_;
    std::vector<Share> shares_;     // by endpoint
    std::map<int, void*> streams_;  // of the caller, by GPU
};

// A call of an operator as its caller made it, for rounds. All that is given must outlive it.
inline HostCall host_call(std::string const& what, Processes& processes, Runtime& runtime,
                          std::vector<Endpoint> const& endpoints, OperatorOptions const& options,
                          OperatorReport* report) {
    return {processes,
            endpoints,
            options,
            runtime.memory_left(),
            report,
            [&processes, &runtime, &endpoints, &options, what](u64 limit) {
                return std::make_unique<GpuRoundPlaces>(what, processes, runtime, endpoints,
                                                        options, limit);
            }};
}

}  // namespace mgi::operators::on_gpu
