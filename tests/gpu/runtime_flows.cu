// Rows between devices: every routing, by reference and by copy, and every row is looked at.
#include <memory>
#include <numeric>

#include "gpu/runtime_pool.hpp"
#include "gpu/runtime_rig.hpp"
#include "support/shared_channel.hpp"

namespace mgi::test::gpu {

namespace {

struct Flow {
    std::string name;
    std::vector<std::string> from;
    std::vector<std::string> to;  ///< empty: every endpoint sends and receives
    Routing routing;
    ChannelOptions options = {};
    bool wide = false;
    bool processes =
        false;  ///< a runtime for each endpoint, as if it were another process': links join them
    std::shared_ptr<CallersPool> pool = nullptr;  ///< whose memory the channel has
    bool named = false;  ///< each send names its destination, whatever the routing

    [[nodiscard]] RuntimeOptions runtime_options() const {
        RuntimeOptions options = options_of_tests();
        if (pool != nullptr) options.gpu_allocator = pool->allocator();
        return options;
    }
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

std::string name_of(u64 id) {
    std::string name;
    for (u32 at = 0; at < WideRow::name_size(id); ++at) name += WideRow::letter(id, at);
    return name;
}

/// What an endpoint's kernel works with, and leaves behind.
struct Station {
    Station(std::string const& at, Flow const& flow, Task const& shape, bool sends)
        : device(at),
          seen(at, shape.rows * shape.sources),
          last(at, u64(shape.sources) * kGroups),
          order(at, flow.options.ordered ? shape.rows * shape.sources : 0),
          tally(at, 1),
          task(shape) {
        if (sends && flow.wide && shape.one_by_one) {
            std::string all;
            for (u64 i = 0; i < shape.rows; ++i) all += name_of(shape.source * shape.rows + i);
            letters = std::make_unique<Room<char>>(at, std::vector<char>(all.begin(), all.end()));
            std::vector<TextRow> rows;
            char const* next = letters->get();
            for (u64 i = 0; i < shape.rows; ++i) {
                u64 const id = shape.source * shape.rows + i;
                rows.push_back({key_of(id),
                                i64(id),
                                {next, WideRow::name_size(id)},
                                WideRow::value(id),
                                WideRow::flag(id)});
                next += WideRow::name_size(id);
            }
            texts = std::make_unique<Room<TextRow>>(at, rows);
            task.texts = texts->get();
        } else if (sends && flow.wide) {
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
    std::unique_ptr<Room<char>> letters;
    std::unique_ptr<Room<TextRow>> texts;
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
    bool const all_get_all = flow.routing.kind == RoutingKind::Broadcast && !flow.named;
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

/// A flow's endpoints, and its channel as each of them has it.
class Stage {
public:
    explicit Stage(Flow const& flow)
        : devices(flow.from),
          members_(flow.processes ? u32(flow.from.size() + flow.to.size()) : 1,
                   flow.runtime_options(), UINT32_MAX) {
        devices.insert(devices.end(), flow.to.begin(), flow.to.end());
        for (u32 e = 0; e < devices.size(); ++e) {
            ends.push_back(members_.create_endpoint(flow.processes ? e : 0, named(devices[e])));
        }
        auto const behind = ends.begin() + std::ptrdiff_t(flow.from.size());
        std::vector<Owned> const sources(ends.begin(), behind);
        destinations = flow.to.empty() ? sources : std::vector<Owned>(behind, ends.end());
        ChannelSpec spec;
        spec.schema = schema_of(flow);
        spec.routing = flow.routing;
        spec.options = flow.options;
        spec.options.name = flow.name;
        spec.options.stall_limit = settings.limit() / 2;
        // A process does not import its own memory.
        members_.share_gpus(false);
        if (flow.processes) {
            channels_ = members_.open(spec, sources, destinations);
        } else {
            channels_ = {runtime(0).create_channel(
                Members::seen_from(0, std::move(spec), sources, destinations))};
        }
    }
    [[nodiscard]] Runtime& runtime(std::size_t e) { return members_.runtime(ends[e].member); }
    [[nodiscard]] Channel const& channel(std::size_t e) const { return channels_[ends[e].member]; }

    std::vector<std::string> devices;  ///< of each endpoint
    std::vector<Owned> ends;
    std::vector<Owned> destinations;

private:
    Members members_;
    std::vector<Channel> channels_;
};

void run(Flow const& flow) {
    Stage stage(flow);
    auto const& devices = stage.devices;

    std::vector<u32> ids;
    for (Owned const& end : stage.destinations) ids.push_back(end.endpoint.id);
    std::vector<std::unique_ptr<Station>> stations;
    std::vector<bool> receives;
    for (std::size_t e = 0; e < devices.size(); ++e) {
        bool const sends = e < flow.from.size();
        receives.push_back(flow.to.empty() || !sends);
        Task task;
        task.routing = flow.named ? RoutingKind::Direct : flow.routing.kind;
        task.modulo = flow.routing.hash == Hash::Modulo;
        task.ordered = flow.options.ordered;
        task.one_by_one = flow.options.sorters != 0;
        task.has_nulls = !task.one_by_one;
        task.rows = rows_of(flow);
        task.source = u32(e);
        task.sources = u32(flow.from.size());
        task.destination = u32(flow.to.empty() ? e : e - flow.from.size());
        task.destinations = u32(stage.destinations.size());
        auto& station =
            *stations.emplace_back(std::make_unique<Station>(devices[e], flow, task, sends));
        station.ids = std::make_unique<Room<u32>>(devices[e], ids);
        station.task.ids = station.ids->get();
    }
    std::vector<Launch> launches;
    for (std::size_t e = 0; e < devices.size(); ++e) {
        Endpoint const endpoint = stage.ends[e].endpoint;
        launches.push_back(launch(stage.runtime(e), endpoint, shape_on(devices[e]),
                                  stage.channel(e).on(endpoint), stations[e]->task));
    }
    std::string problem;
    for (Launch& one : launches) {
        try {
            one.wait(settings.limit());
        } catch (Error const& error) {
            if (problem.empty()) problem = error.what();
            // So that no kernel stays behind.
            stage.channel(0).fail(ErrorCode::Timeout, "given up");
        }
    }
    expect(problem.empty(), problem);
    stage.channel(0).check();
    check_counts(flow, stations, receives);
    u64 const counted = rows_of(flow) * (flow.processes ? 1 : flow.from.size());
    expect(stage.channel(0).stats().rows == counted, "the statistics miss rows");
    for (std::size_t e = 0; e < (flow.processes ? devices.size() : 1); ++e) {
        stage.runtime(e).delete_channel(stage.channel(e));
    }
}

ChannelOptions small_pools() {
    ChannelOptions options;
    options.segment_rows = 512;
    options.tile_rows = 256;
    options.chunk_rows = 256;
    return options;
}

Flow named_flow(std::string const& where, std::vector<std::string> const& from,
                std::vector<std::string> const& to) {
    Flow flow{where + ", broadcast to one", from, to, Routing::broadcast(), small_pools()};
    flow.named = true;
    return flow;
}

u64 free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    if (!settings.cpu) cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
}

/// The GPU's memory comes back. The driver keeps some of it for what comes next, which is soon enough.
void come_and_go() {
    Flow const flow{
        "comes and goes", {"cuda:0", "cpu:0"}, {}, Routing::partition("key"), small_pools()};
    constexpr int kRounds = 12;
    std::vector<u64> free;
    for (int i = 0; i < kRounds; ++i) {
        run(flow);
        free.push_back(free_bytes());
    }
    std::string all;
    for (u64 const bytes : free) all.append(1, ' ').append(std::to_string(bytes >> 20));
    expect(free[kRounds - 1] + (8u << 20) >= free[kRounds / 2],
           "the GPU's free memory becomes less, in MiB:" + all);
}

/// Segments go straight, or by other GPUs and the host, as planned; and with no relay.
void add_between_gpus(std::vector<Flow>& flows) {
    std::vector<std::string> const gpus{"cuda:0", "cuda:1"};
    std::string const where = "between GPUs";
    ChannelOptions plain;
    plain.relay_gpus = false;
    plain.relay_host = false;
    flows.push_back({where + ", partition", gpus, {}, Routing::partition("key")});
    flows.push_back({where + ", no relays", gpus, {}, Routing::partition("key"), plain});
    flows.push_back({where + ", small pools", gpus, {}, Routing::partition("key"), small_pools()});
    flows.push_back({where + ", broadcast", gpus, {}, Routing::broadcast()});
    flows.push_back(named_flow(where, gpus, {}));
    flows.push_back({where + ", balance", gpus, {}, Routing::balance()});
    flows.push_back(
        {where + ", strings and nulls", gpus, {}, Routing::partition("key"), small_pools(), true});
}

/// Channels whose memory a caller's allocator provides: by reference, copied, and as tests of their own since there is
/// nothing of it where there is no GPU.
void add_of_callers_memory(std::vector<Test>& tests) {
    std::vector<std::string> gpus;
    for (int gpu = 0; gpu < std::min(gpus_of_tests(), 2); ++gpu) {
        gpus.push_back("cuda:" + std::to_string(gpu));
    }
    gpus.resize(2, gpus.front());
    for (From const from : {From::Malloc, From::StreamOrderedPool}) {
        std::string const where =
            from == From::Malloc ? "memory of cudaMalloc" : "memory of a stream-ordered pool";
        for (Routing const& routing : {Routing::partition("key"), Routing::broadcast()}) {
            bool const all = routing.kind == RoutingKind::Broadcast;
            tests.push_back({where + (all ? ", broadcast" : ", partition"),
                             [=] {
                                 auto const pool = std::make_shared<CallersPool>(from);
                                 Flow flow{where, gpus, {}, routing};
                                 flow.pool = pool;
                                 run(flow);
                                 pool->check();
                             },
                             true, false});
        }
    }
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
        flows.push_back(named_flow(where, of.from, of.to));
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
        ChannelOptions sorted;
        sorted.sorters = 4;
        flows.push_back(
            {where + ", one by one", of.from, of.to, Routing::partition("key"), sorted});
        flows.push_back({where + ", strings one by one", of.from, of.to, Routing::partition("key"),
                         sorted, true});
        sorted.layout = Layout::Rows;
        sorted.by_reference = false;
        flows.push_back({where + ", one by one, structs by copy", of.from, of.to,
                         Routing::partition("key", Hash::Modulo), sorted});
        flows.push_back({where + ", strings and nulls by copy", of.from, of.to,
                         Routing::partition("key"), wide_copied, true});
    }
    for (Case const& of : {Case{"processes of a GPU", {"cuda:0", "cuda:0"}, {}},
                           Case{"processes with and without", {"cpu:0", "cuda:0"}, {}}}) {
        std::string const where = of.name;
        flows.push_back(
            {where + ", partition", of.from, {}, Routing::partition("key"), {}, false, true});
        flows.push_back({where + ", small pools",
                         of.from,
                         {},
                         Routing::partition("key"),
                         small_pools(),
                         false,
                         true});
        flows.push_back(
            {where + ", broadcast", of.from, {}, Routing::broadcast(), {}, false, true});
        flows.push_back({where + ", balance", of.from, {}, Routing::balance(), {}, false, true});
        flows.push_back({where + ", strings and nulls",
                         of.from,
                         {},
                         Routing::partition("key"),
                         {},
                         true,
                         true});
    }
    if (gpus_of_tests() > 1) add_between_gpus(flows);
    add_of_callers_memory(tests);
    for (Flow const& flow : flows) {
        // Under memcheck a look at a stream that is done waits for all other kernels, with a lock that movers need:
        // of two kernels that only receive one may end long before the other.
        bool const one_ends_first = flow.to.size() > 2;
        bool const few = flow.from.size() < 3 && !one_ends_first &&
                         flow.name.find("within") == std::string::npos;
        tests.push_back({flow.name, [flow] { run(flow); }, few, true});
    }
    tests.push_back({"channels come and go", come_and_go, false, true});
}

}  // namespace mgi::test::gpu
