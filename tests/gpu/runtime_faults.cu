// What goes wrong on a GPU ends with an error that says so, in time, and the GPU can be used afterwards; where it
// cannot (its context is lost) a child process shows what is left.
#include <memory>
#include <thread>

#include "../bench/gpu/child.hpp"
#include "gpu/runtime_rig.hpp"

namespace mgi::test::gpu {

namespace {

/// A channel between two endpoints, and a kernel's task at each.
struct Pair {
    explicit Pair(std::string const& from, std::string const& to, ChannelOptions options = {})
        : devices{from, to} {
        ChannelSpec spec;
        source = runtime.create_endpoint(named(from));
        destination = runtime.create_endpoint(named(to));
        spec.sources = {source};
        spec.destinations = {destination};
        spec.schema = Schema{{"key", int64()}, {"id", int64()}};
        spec.routing = Routing::partition("key");
        spec.options = options;
        spec.options.name = "faulty";
        channel = runtime.create_channel(spec);
        std::vector<Row> values;
        for (u64 i = 0; i < kRows; ++i) values.push_back({key_of(i), i64(i)});
        data = std::make_unique<Room<Row>>(from, values);
        for (std::string const& device : devices) {
            seen.push_back(std::make_unique<Room<u32>>(device, kRows));
            tallies.push_back(std::make_unique<Room<Task::Tally>>(device, 1));
        }
    }
    [[nodiscard]] Task task(u32 which) const {
        Task task;
        task.rows = kRows;
        task.sources = task.destinations = 1;
        task.data = data->get();
        task.seen = seen[which]->get();
        task.tally = tallies[which]->get();
        return task;
    }
    Launch launch(u32 which, Task const& task) {
        Endpoint const at = which == 0 ? source : destination;
        return gpu::launch(runtime, at, shape_on(devices[which]), channel.on(at), task);
    }
    static void wait(std::vector<Launch> launches) {
        for (Launch& launch : launches) {
            try {
                launch.wait(settings.limit());
            } catch (Error const& error) {
                expect(error.code() != ErrorCode::Timeout, error.what());
            }
        }
    }
    static constexpr u64 kRows = 400'000;
    std::vector<std::string> devices;
    Runtime runtime = runtime_of_tests();
    Endpoint source;
    Endpoint destination;
    Channel channel;
    std::unique_ptr<Room<Row>> data;
    std::vector<std::unique_ptr<Room<u32>>> seen;
    std::vector<std::unique_ptr<Room<Task::Tally>>> tallies;
};

ChannelOptions impatient() {
    ChannelOptions options;
    options.gone_limit = std::chrono::milliseconds(500);
    options.segment_rows = 1024;
    return options;
}

void never_flushes(std::string const& from, std::string const& to) {
    Pair pair(from, to);
    Task task = pair.task(0);
    task.flush = false;
    Launch receiving = pair.launch(1, pair.task(1));
    Launch sending = pair.launch(0, task);
    expect_error(ErrorCode::GroupFailed, {"without having flushed", "must flush"},
                 [&] { sending.wait(settings.limit()); });
    Pair::wait({receiving});
    expect_error(ErrorCode::GroupFailed, {"faulty"}, [&] { pair.channel.check(); });
    pair.runtime.delete_channel(pair.channel);
}

void consumer_stops(std::string const& from, std::string const& to) {
    Pair pair(from, to, impatient());
    Task task = pair.task(1);
    task.stop_after = 5000;
    Launch receiving = pair.launch(1, task);
    Launch sending = pair.launch(0, pair.task(0));
    Pair::wait({receiving, sending});
    expect_error(ErrorCode::Stalled, {"nobody receives at endpoint", "gone_limit"},
                 [&] { pair.channel.check(); });
    pair.runtime.delete_channel(pair.channel);
}

/// The receiver comes only when the channel is over.
void ends_in_the_middle(std::string const& from, std::string const& to, bool by_delete) {
    Pair pair(from, to, impatient());
    Launch sending = pair.launch(0, pair.task(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    expect(!sending.done(), "it has not waited for its receiver");
    if (by_delete) {
        pair.runtime.delete_channel(pair.channel);
    } else {
        pair.channel.fail(ErrorCode::Interrupted, "the test wants it so");
    }
    Pair::wait({sending});
    expect_error(by_delete ? ErrorCode::Deleted : ErrorCode::Interrupted,
                 {by_delete ? "deleted" : "wants it so"}, [&] { pair.channel.check(); });
    if (!by_delete) pair.runtime.delete_channel(pair.channel);
}

void no_such_gpu() {
    Runtime runtime = runtime_of_tests();
    expect_error(ErrorCode::NotFound, {"cuda:99", "this runtime has", "cpu:0"},
                 [&] { runtime.create_endpoint("cuda:99"); });
}

void too_much_memory() {
    RuntimeOptions options;
    options.cpu_devices = 1;
    options.memory_limit = std::uint64_t(1) << 50;
    Runtime runtime = Runtime::local(options);
    ChannelSpec spec;
    for (int i = 0; i < 4; ++i) spec.sources.push_back(runtime.create_endpoint("cuda:0"));
    spec.destinations = spec.sources;
    spec.schema = Schema{{"key", int64()}, {"rest", fixed_size_binary(4000)}};
    spec.routing = Routing::partition("key");
    spec.options.segment_bytes = 1u << 30;
    spec.options.tile_rows = 64;
    spec.options.slots = 64;
    spec.options.max_groups = 1;
    expect_error(ErrorCode::OutOfMemory, {"cuda:0", "bytes for a channel's pool"},
                 [&] { runtime.create_channel(spec); });
    spec.options = {};
    runtime.delete_channel(runtime.create_channel(spec));
}

void too_many_groups() {
    Pair pair("cuda:0", "cuda:0");
    LaunchOptions shape = shape_on("cuda:0");
    shape.groups = 1000;
    expect_error(ErrorCode::InvalidArgument, {"resident", "1000"}, [&] {
        gpu::launch(pair.runtime, pair.source, shape, pair.channel.on(pair.source), pair.task(0));
    });
    shape = shape_on("cuda:0");
    shape.shared_bytes = 400 << 10;
    expect_error(ErrorCode::InvalidArgument, {"shared memory"}, [&] {
        gpu::launch(pair.runtime, pair.source, shape, pair.channel.on(pair.source), pair.task(0));
    });
    // Nothing has happened: both can be launched as they should be.
    std::vector<Launch> launches{pair.launch(1, pair.task(1)), pair.launch(0, pair.task(0))};
    Pair::wait(launches);
    pair.channel.check();
}

/// Writes where nobody may.
struct Faulty {
    MGI_HD void operator()(Group const& group, Shared&, device::Channel, u64 address) const {
        if (group.block == 1 && group.leads()) *reinterpret_cast<u32*>(address) = 1;
    }
};

void in_child(std::string const& what,
              std::vector<std::pair<char const*, char const*>> const& set) {
    std::vector<std::string> command{"env"};
    for (auto const& [name, value] : set) command.push_back(std::string(name) + "=" + value);
    command.insert(command.end(), {settings.program, "--child", what});
    std::string said;
    std::string const ended =
        bench::run_child(command, 60, [&](std::string const& line) { said += "\n  " + line; });
    expect(ended.empty(), "the child: " + ended + said);
}

int faulting_kernel() {
    Pair pair("cuda:0", "cpu:0");
    Launch receiving = pair.launch(1, pair.task(1));
    Launch sending = pair.runtime.launch(pair.source, shape_on("cuda:0"), Faulty{},
                                         pair.channel.on(pair.source), u64(0x10));
    expect_error(ErrorCode::GroupFailed,
                 {"cuda:0", "context is lost", "CPU endpoints go on", "restart the process"},
                 [&] { sending.wait(settings.limit()); });
    Pair::wait({receiving});
    expect_error(ErrorCode::GroupFailed, {"faulty", "cuda:0"}, [&] { pair.channel.check(); });
    pair.runtime.delete_channel(pair.channel);
    // The same runtime's CPU endpoints go on.
    ChannelSpec spec;
    Endpoint const here = pair.runtime.create_endpoint("cpu:0");
    spec.sources = spec.destinations = {here};
    spec.schema = Schema{{"key", int64()}, {"id", int64()}};
    spec.routing = Routing::partition("key");
    Channel const channel = pair.runtime.create_channel(spec);
    std::vector<Row> rows(1000, Row{1, 1});
    Sender sender = channel.sender(here);
    expect(sender.try_send_rows(rows.data(), sizeof(Row), 1000) == 1000, "a CPU channel sends");
    sender.flush(std::chrono::seconds(10));
    std::int64_t received = 0;
    Receiver receiver = channel.receiver(here);
    while (auto const batch = receiver.recv(std::chrono::seconds(10))) received += batch->rows;
    expect(received == 1000, "a CPU channel receives");
    // And its GPU's are refused in words.
    spec.sources = spec.destinations = {pair.source};
    expect_error(ErrorCode::GroupFailed, {"context is lost"},
                 [&] { pair.runtime.create_channel(spec); });
    return 0;
}

/// Nothing of this process has run before: what a kernel at the one end is loaded for must not wait for the other.
int lazy_loading() {
    Pair pair("cuda:0", "cuda:0");
    Launch sending = pair.launch(0, pair.task(0));
    Launch receiving = pair.launch(1, pair.task(1));
    sending.wait(settings.limit());
    receiving.wait(settings.limit());
    expect(pair.channel.stats().rows == Pair::kRows, "all rows have moved");
    pair.runtime.delete_channel(pair.channel);
    return 0;
}

}  // namespace

int run_child_fault(std::string const& what) {
    try {
        if (what == "kernel") return faulting_kernel();
        if (what == "lazy") return lazy_loading();
    } catch (std::exception const& error) {
        std::printf("%s\n", error.what());
        return 1;
    }
    return 2;
}

void add_faults(std::vector<Test>& tests) {
    struct Where {
        char const* name;
        char const* from;
        char const* to;
    };
    for (Where const where :
         {Where{"within", "cuda:0", "cuda:0"}, Where{"from the CPU", "cpu:0", "cuda:0"},
          Where{"to the CPU", "cuda:0", "cpu:0"}}) {
        std::string const from = where.from;
        std::string const to = where.to;
        std::string const in = std::string(", ") + where.name;
        tests.push_back(
            {"a kernel never flushes" + in, [=] { never_flushes(from, to); }, false, true});
        tests.push_back({"a consumer stops" + in, [=] { consumer_stops(from, to); }, false, true});
        tests.push_back({"a channel fails in the middle" + in,
                         [=] { ends_in_the_middle(from, to, false); }, false, true});
        tests.push_back({"a channel is deleted in the middle" + in,
                         [=] { ends_in_the_middle(from, to, true); }, false, true});
    }
    tests.push_back({"there is no cuda:99", no_such_gpu, true, true});
    tests.push_back({"a GPU has no memory left", too_much_memory, false, false});
    // Not there: a call that CUDA refuses is an error to compute-sanitizer.
    tests.push_back({"more groups than fit", too_many_groups, false, false});
    tests.push_back({"a kernel faults", [] { in_child("kernel", {}); }, false, false});
    tests.push_back({"kernels are loaded lazily",
                     [] { in_child("lazy", {{"CUDA_MODULE_LOADING", "LAZY"}}); }, false, false});
}

}  // namespace mgi::test::gpu
