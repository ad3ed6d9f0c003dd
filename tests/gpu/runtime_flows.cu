// Rows between devices: every routing, by reference and by copy, and every row is looked at.
#include <memory>
#include <numeric>

#include "gpu/runtime_kernel.inl"

namespace mgi::test::gpu {

namespace {

struct Flow {
    std::string name;
    std::vector<std::string> from;
    std::vector<std::string> to;  ///< empty: every endpoint sends and receives
    Routing routing;
    ChannelOptions options = {};
    bool wide = false;
    bool in_small = true;
};

u64 rows_of(Flow const& flow) {
    if (settings.small) return 3000;
    return flow.wide || flow.options.ordered ? 20'000 : 200'000;
}

/// The wide columns of a source's rows, on its device.
class WideData {
public:
    WideData(std::string const& device, u64 first, u64 rows)
        : WideData(device, Lists(first, rows)) {}
    [[nodiscard]] device::ColumnView const* columns() const { return views_.get(); }

private:
    struct Lists {
        Lists(u64 first, u64 rows)
            : has_name(bytes(rows)), has_value(bytes(rows)), flag(bytes(rows)) {
            offsets.push_back(0);
            for (u64 i = 0; i < rows; ++i) {
                u64 const of = first + i;
                key.push_back(key_of(of));
                id.push_back(i64(of));
                value.push_back(WideRow::value(of));
                auto const set = [i](std::vector<u8>& bits, bool on) {
                    if (on) bits[i / 8] = u8(bits[i / 8] | 1u << i % 8);
                };
                set(has_name, WideRow::has_name(of));
                set(has_value, WideRow::has_value(of));
                set(flag, WideRow::flag(of));
                for (u32 at = 0; WideRow::has_name(of) && at < WideRow::name_size(of); ++at) {
                    letters.push_back(WideRow::letter(of, at));
                }
                offsets.push_back(std::int32_t(letters.size()));
            }
        }
        static std::vector<u8> bytes(u64 rows) { return std::vector<u8>(rows / 8 + 1); }
        std::vector<i64> key, id;
        std::vector<double> value;
        std::vector<u8> has_name, has_value, flag;
        std::vector<std::int32_t> offsets;
        std::vector<char> letters;
    };
    WideData(std::string const& device, Lists const& lists)
        : key_(device, lists.key),
          id_(device, lists.id),
          value_(device, lists.value),
          has_name_(device, lists.has_name),
          has_value_(device, lists.has_value),
          flag_(device, lists.flag),
          offsets_(device, lists.offsets),
          letters_(device, lists.letters),
          views_(device, views()) {}
    [[nodiscard]] std::vector<device::ColumnView> views() const {
        std::vector<device::ColumnView> all(kWideColumns);
        all[0].values = key_.get();
        all[1].values = id_.get();
        all[2].values = offsets_.get();
        all[2].bytes = letters_.get();
        all[2].validity = has_name_.get();
        all[2].encoding = device::InputEncoding::Offsets32;
        all[3].values = value_.get();
        all[3].validity = has_value_.get();
        all[4].values = flag_.get();
        return all;
    }

    Room<i64> key_, id_;
    Room<double> value_;
    Room<u8> has_name_, has_value_, flag_;
    Room<std::int32_t> offsets_;
    Room<char> letters_;
    Room<device::ColumnView> views_;
};

/// What an endpoint's kernel works with, and leaves behind.
struct Station {
    Station(std::string const& at, Flow const& flow, Task const& shape, bool sends)
        : device(at),
          seen(at, shape.rows * shape.sources),
          last(at, u64(shape.sources) * kGroups),
          order(at, flow.options.ordered ? shape.rows * shape.sources : 0),
          tally(at, 1),
          task(shape) {
        if (sends && flow.wide) {
            wide = std::make_unique<WideData>(at, shape.source * shape.rows, shape.rows);
            task.columns = wide->columns();
        } else if (sends) {
            std::vector<Row> rows;
            for (u64 i = 0; i < shape.rows; ++i) {
                u64 const id = shape.source * shape.rows + i;
                rows.push_back({key_of(id), i64(id)});
            }
            data = std::make_unique<Room<Row>>(at, rows);
            task.data = data->get();
        }
        task.seen = seen.get();
        task.last = last.get();
        task.order = flow.options.ordered ? order.get() : nullptr;
        task.tally = tally.get();
    }
    std::string device;
    Room<u32> seen;
    Room<i64> last;
    Room<u32> order;
    Room<Task::Tally> tally;
    std::unique_ptr<Room<Row>> data;
    std::unique_ptr<WideData> wide;
    std::unique_ptr<Room<u32>> ids;
    Task task;
};

Schema schema_of(Flow const& flow) {
    if (!flow.wide) return Schema{{"key", int64()}, {"id", int64()}};
    return Schema{{"key", int64()},
                  {"id", int64()},
                  {"name", string(), true},
                  {"value", float64(), true},
                  {"flag", boolean()}};
}

void check_counts(Flow const& flow, std::vector<std::unique_ptr<Station>> const& stations,
                  std::vector<bool> const& receives) {
    bool const all_get_all = flow.routing.kind == RoutingKind::Broadcast;
    std::vector<u32> together(stations[0]->task.rows * stations[0]->task.sources);
    std::vector<u32> order;
    for (std::size_t e = 0; e < stations.size(); ++e) {
        auto const tally = stations[e]->tally.values()[0];
        std::string const who = "endpoint " + std::to_string(e) + " on " + stations[e]->device;
        expect(tally.failure == 0, who + " got error " + std::to_string(tally.failure));
        expect(tally.wrong == 0, who + ": wrong rows: " + std::to_string(tally.wrong));
        expect(tally.astray == 0, who + ": rows astray: " + std::to_string(tally.astray));
        expect(tally.disorder == 0, who + ": out of order: " + std::to_string(tally.disorder));
        if (!receives[e]) continue;
        auto const seen = stations[e]->seen.values();
        for (std::size_t id = 0; id < seen.size(); ++id) {
            together[id] += seen[id];
            expect(!all_get_all || seen[id] == 1, who + ": row " + std::to_string(id) + " came " +
                                                      std::to_string(seen[id]) + " times");
        }
        if (!all_get_all || !flow.options.ordered) continue;
        auto const mine = stations[e]->order.values();
        expect(order.empty() || order == mine, who + " saw another order");
        order = mine;
    }
    for (std::size_t id = 0; id < together.size() && !all_get_all; ++id) {
        expect(together[id] == 1,
               "row " + std::to_string(id) + " came " + std::to_string(together[id]) + " times");
    }
}

void run(Flow const& flow) {
    Runtime runtime = runtime_of_tests();
    ChannelSpec spec;
    std::vector<std::string> devices;
    std::vector<Endpoint> endpoints;
    auto const add_all = [&](std::vector<std::string> const& on, std::vector<Endpoint>& to) {
        for (std::string const& device : on) {
            devices.push_back(device);
            endpoints.push_back(runtime.create_endpoint(named(device)));
            to.push_back(endpoints.back());
        }
    };
    add_all(flow.from, spec.sources);
    if (flow.to.empty()) {
        spec.destinations = spec.sources;
    } else {
        add_all(flow.to, spec.destinations);
    }
    spec.schema = schema_of(flow);
    spec.routing = flow.routing;
    spec.options = flow.options;
    spec.options.name = flow.name;
    spec.options.stall_limit = settings.limit() / 2;
    Channel const channel = runtime.create_channel(spec);

    std::vector<u32> ids;
    for (Endpoint const endpoint : spec.destinations) ids.push_back(endpoint.id);
    std::vector<std::unique_ptr<Station>> stations;
    std::vector<bool> receives;
    for (std::size_t e = 0; e < endpoints.size(); ++e) {
        bool const sends = e < flow.from.size();
        receives.push_back(flow.to.empty() || !sends);
        Task task;
        task.routing = flow.routing.kind;
        task.modulo = flow.routing.hash == Hash::Modulo;
        task.ordered = flow.options.ordered;
        task.one_by_one = flow.options.sorters != 0;
        task.rows = rows_of(flow);
        task.source = u32(e);
        task.sources = u32(flow.from.size());
        task.destination = u32(flow.to.empty() ? e : e - flow.from.size());
        task.destinations = u32(spec.destinations.size());
        auto& station =
            *stations.emplace_back(std::make_unique<Station>(devices[e], flow, task, sends));
        station.ids = std::make_unique<Room<u32>>(devices[e], ids);
        station.task.ids = station.ids->get();
    }
    std::vector<Launch> launches;
    for (std::size_t e = 0; e < endpoints.size(); ++e) {
        launches.push_back(runtime.launch(endpoints[e], shape_on(devices[e]), Kernel{},
                                          channel.on(endpoints[e]), stations[e]->task));
    }
    std::string problem;
    for (Launch& launch : launches) {
        try {
            launch.wait(settings.limit());
        } catch (Error const& error) {
            if (problem.empty()) problem = error.what();
            // So that no kernel stays behind.
            channel.fail(ErrorCode::Timeout, "given up");
        }
    }
    expect(problem.empty(), problem);
    channel.check();
    check_counts(flow, stations, receives);
    expect(channel.stats().rows == rows_of(flow) * flow.from.size(), "the statistics miss rows");
    runtime.delete_channel(channel);
}

ChannelOptions small_pools() {
    ChannelOptions options;
    options.segment_rows = 512;
    options.tile_rows = 256;
    options.chunk_rows = 256;
    return options;
}

}  // namespace

void add_flows(std::vector<Test>& tests) {
    using Devices = std::vector<std::string>;
    struct Case {
        char const* name;
        Devices from;
        Devices to;
    };
    std::vector<Case> const cases{
        {"within", {"cuda:0"}, {}},
        {"between two of one GPU", {"cuda:0", "cuda:0"}, {}},
        {"from the CPU", {"cpu:0"}, {"cuda:0"}},
        {"to the CPU", {"cuda:0"}, {"cpu:0"}},
        {"mixed", {"cuda:0", "cpu:0", "cuda:0", "cpu:0"}, {}},
        {"CPU to two and a CPU", {"cpu:0"}, {"cuda:0", "cpu:0", "cuda:0"}},
    };
    std::vector<Flow> flows;
    for (Case const& of : cases) {
        std::string const where = of.name;
        flows.push_back({where + ", partition", of.from, of.to, Routing::partition("key")});
        ChannelOptions copied;
        copied.by_reference = false;
        flows.push_back(
            {where + ", by copy", of.from, of.to, Routing::partition("key", Hash::Modulo), copied});
        flows.push_back(
            {where + ", small pools", of.from, of.to, Routing::partition("key"), small_pools()});
        flows.push_back({where + ", broadcast", of.from, of.to, Routing::broadcast()});
        flows.push_back({where + ", direct", of.from, of.to, Routing::direct()});
        flows.push_back({where + ", balance", of.from, of.to, Routing::balance()});
        ChannelOptions ordered = small_pools();
        ordered.ordered = true;
        flows.push_back({where + ", ordered", of.from, of.to, Routing::partition("key"), ordered});
        flows.push_back({where + ", one order", of.from, of.to, Routing::broadcast(), ordered});
        flows.push_back(
            {where + ", strings and nulls", of.from, of.to, Routing::partition("key"), {}, true});
        ChannelOptions wide_copied = small_pools();
        wide_copied.by_reference = false;
        flows.push_back({where + ", strings and nulls by copy", of.from, of.to,
                         Routing::partition("key"), wide_copied, true});
    }
    for (Flow const& flow : flows) {
        bool const few = flow.from.size() < 3 && flow.name.find("within") == std::string::npos;
        tests.push_back({flow.name, [flow] { run(flow); }, few, true});
    }
    tests.push_back({"channels come and go",
                     [] {
                         Flow const flow{"comes and goes",
                                         {"cuda:0", "cpu:0"},
                                         {},
                                         Routing::partition("key"),
                                         small_pools()};
                         run(flow);
                         std::size_t before = 0;
                         std::size_t after = 0;
                         std::size_t total = 0;
                         if (!settings.cpu) cuda_check(cudaMemGetInfo(&before, &total), "memory");
                         for (int i = 0; i < (settings.small ? 2 : 10); ++i) run(flow);
                         if (!settings.cpu) cuda_check(cudaMemGetInfo(&after, &total), "memory");
                         expect(after + (64u << 20) >= before,
                                std::to_string(before - after) + " bytes of the GPU are gone");
                     },
                     false, true});
}

}  // namespace mgi::test::gpu
