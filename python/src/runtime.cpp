#include "runtime.hpp"

#include <algorithm>

#include "bindings.hpp"
#include "channel.hpp"
#include "core/process_limits.hpp"
#include "errors.hpp"
#include "gpu_allocator.hpp"
#include "interpreter.hpp"
#include "options.hpp"
#include "report.hpp"
#include "runtime/runtime_impl.hpp"

namespace mgi::python {
namespace {

// What these functions make with new is Python's to delete.

RuntimeOptions runtime_options(std::uint32_t cpu_devices, std::uint64_t memory_limit, bool pin,
                               nb::object const& gpu_allocator) {
    RuntimeOptions options;
    options.cpu_devices = cpu_devices;
    options.memory_limit = memory_limit;
    options.pin = pin;
    options.gpu_allocator = gpu_allocator_of(gpu_allocator);
    return options;
}

RuntimeHolder* local(std::uint32_t cpu_devices, std::uint64_t memory_limit, bool pin,
                     nb::object const& gpu_allocator) {
    RuntimeOptions const options = runtime_options(cpu_devices, memory_limit, pin, gpu_allocator);
    Unlocked const unlocked;
    return new RuntimeHolder(Runtime::local(options));
}

RuntimeHolder* connect(std::string const& agent, std::string const& name, std::int64_t timeout_ms,
                       std::uint32_t cpu_devices, std::uint64_t memory_limit, bool pin,
                       nb::object const& gpu_allocator) {
    ClusterOptions cluster;
    cluster.agent = agent;
    cluster.name = name;
    cluster.timeout = std::chrono::milliseconds(timeout_ms);
    RuntimeOptions const options = runtime_options(cpu_devices, memory_limit, pin, gpu_allocator);
    return new RuntimeHolder(run_beside<Runtime>(
        [=](std::atomic<bool> const&) { return Runtime::connect(cluster, options); }));
}

/// Runs `call(runtime)` without the GIL, on a copy that keeps the runtime for the time of the call.
template <class Call>
auto unlocked_with(RuntimeHolder& holder, Call&& call) {
    Runtime copy = holder.get();
    Unlocked const unlocked;
    Runtime runtime = std::move(copy);  // if it is the last one it ends here, without the GIL
    return call(runtime);
}

/// The same for what may wait for a cluster's agent: sees Ctrl-C meanwhile.
template <class Result>
Result beside_with(RuntimeHolder& holder, std::function<Result(Runtime&)> call) {
    if (!holder.get().impl()->coordinator().may_wait()) return unlocked_with(holder, call);
    auto const runtime = std::make_shared<Runtime>(holder.get());
    return run_beside<Result>([runtime, call](std::atomic<bool> const&) { return call(*runtime); },
                              [runtime] { runtime->impl()->coordinator().interrupt(); });
}

EndpointPair create_endpoint(RuntimeHolder& holder, std::string const& device) {
    Endpoint const endpoint = beside_with<Endpoint>(
        holder, [device](Runtime& runtime) { return runtime.create_endpoint(device); });
    return {endpoint.id, endpoint.device};
}

void delete_endpoint(RuntimeHolder& holder, EndpointPair endpoint) {
    beside_with<bool>(holder, [endpoint](Runtime& runtime) {
        runtime.delete_endpoint(endpoint_of(endpoint));
        return true;
    });
}

std::vector<EndpointPair> gather_endpoints(RuntimeHolder& holder,
                                           std::vector<EndpointPair> const& mine) {
    auto const all = beside_with<std::vector<Endpoint>>(
        holder,
        [own = endpoints_of(mine)](Runtime& runtime) { return runtime.gather_endpoints(own); });
    std::vector<EndpointPair> pairs;
    pairs.reserve(all.size());
    for (Endpoint const endpoint : all) pairs.emplace_back(endpoint.id, endpoint.device);
    return pairs;
}

/// Whether host code receives at some of the endpoints. None is kept on a GPU.
bool any_on_host(std::vector<Device> const& devices, std::vector<Endpoint> const& endpoints) {
    return std::any_of(endpoints.begin(), endpoints.end(), [&](Endpoint endpoint) {
        return endpoint.device >= devices.size() ||
               devices[endpoint.device].kind != VertexKind::Gpu;
    });
}

ChannelSpec channel_spec(RuntimeHolder& holder, std::vector<EndpointPair> const& sources,
                         std::vector<EndpointPair> const& destinations, Schema const* schema,
                         std::string const& routing, std::vector<std::string> const& keys,
                         std::string const& hash, std::vector<std::uint32_t> const& owners,
                         std::vector<SortKeyTuple> const& order, Table const* splitters,
                         nb::dict const& options) {
    ChannelSpec spec;
    spec.sources = endpoints_of(sources);
    spec.destinations = endpoints_of(destinations);
    if (schema != nullptr) spec.schema = *schema;
    if (routing == "range" && splitters != nullptr) {
        spec.routing = Routing::range(sort_keys_of(order), *splitters);
    } else {
        spec.routing = routing_named(routing, keys, hash);
    }
    spec.routing.owners = owners;
    spec.options = channel_options(options);
    // Python keeps what it receives: without a growing pool a list of batches would stop the senders.
    bool const limited =
        options.contains("receive_limit") && !nb::object(options["receive_limit"]).is_none();
    if (!limited && any_on_host(holder.get().devices(), spec.destinations)) {
        spec.options.receive_limit = UINT64_MAX;  // as much as the runtime has left
    }
    return spec;
}

ChannelHolder* create_channel(RuntimeHolder& holder, ChannelSpec const& spec) {
    Channel channel = beside_with<Channel>(
        holder, [spec](Runtime& runtime) { return runtime.create_channel(spec); });
    return new ChannelHolder(std::move(channel));
}

/// What failed here before the call that several processes make is told to the others.
void decline_endpoints(RuntimeHolder& holder, std::string const& code, std::string const& why) {
    beside_with<bool>(holder, [error = Error(code_named(code), why)](Runtime& runtime) {
        runtime.decline_endpoints(error);
        return true;
    });
}

void decline_channel(RuntimeHolder& holder, std::vector<EndpointPair> const& endpoints,
                     std::string const& code, std::string const& why) {
    beside_with<bool>(holder, [ends = endpoints_of(endpoints),
                               error = Error(code_named(code), why)](Runtime& runtime) {
        runtime.decline_channel(ends, error);
        return true;
    });
}

void delete_channel(RuntimeHolder& holder, ChannelHolder const& channel) {
    unlocked_with(holder, [&](Runtime& runtime) { runtime.delete_channel(channel.channel()); });
}

}  // namespace

void bind_runtime(nb::module_& module) {
    nb::class_<ChannelSpec>(module, "ChannelSpec");
    nb::class_<RuntimeHolder>(module, "Runtime")
        .def_static("local", local, nb::arg("cpu_devices"), nb::arg("memory_limit"), nb::arg("pin"),
                    nb::arg("gpu_allocator").none())
        .def_static("connect", connect, nb::arg("agent"), nb::arg("name"), nb::arg("timeout_ms"),
                    nb::arg("cpu_devices"), nb::arg("memory_limit"), nb::arg("pin"),
                    nb::arg("gpu_allocator").none())
        .def("devices", [](RuntimeHolder& holder) { return as_list(holder.get().devices()); })
        .def("graph", [](RuntimeHolder& holder) { return as_dict(holder.get().graph()); })
        .def("create_endpoint", create_endpoint, nb::arg("device"))
        .def("delete_endpoint", delete_endpoint, nb::arg("endpoint"))
        .def("gather_endpoints", gather_endpoints, nb::arg("mine"))
        .def("decline_endpoints", decline_endpoints, nb::arg("code"), nb::arg("why"))
        .def("channel_spec", channel_spec, nb::arg("sources"), nb::arg("destinations"),
             nb::arg("schema").none(), nb::arg("routing"), nb::arg("keys"), nb::arg("hash"),
             nb::arg("owners"), nb::arg("order"), nb::arg("splitters").none(), nb::arg("options"))
        .def("create_channel", create_channel, nb::arg("spec"))
        .def("decline_channel", decline_channel, nb::arg("endpoints"), nb::arg("code"),
             nb::arg("why"))
        .def("delete_channel", delete_channel, nb::arg("channel"))
        .def("close", &RuntimeHolder::close);
    module.def("usable_cores", usable_cores);
    module.def("set_log_level", set_log_level, nb::arg("level"));
}

}  // namespace mgi::python
