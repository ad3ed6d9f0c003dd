// Exchanges through channels of a Runtime, between all GPUs of this process. Launches and their ends count, creating and
// deleting are told apart.
#include "runtime_exchange.hpp"

namespace mgi::bench {
namespace exchanges {

namespace {

constexpr auto kPatience = std::chrono::seconds(20);

ChannelSpec spec_of(Load const& load, std::vector<Endpoint> const& endpoints) {
    ChannelSpec spec;
    for (u32 gpu = 0; gpu < load.gpus; ++gpu) {
        if (load.sends(gpu)) spec.sources.push_back(endpoints[gpu]);
        if (load.receives(gpu)) spec.destinations.push_back(endpoints[gpu]);
    }
    std::vector<Field> fields;
    for (u32 w = 0; w < load.words; ++w) fields.push_back({"w" + std::to_string(w), int64()});
    spec.schema = Schema(fields);
    spec.routing = load.to_all() ? Routing::broadcast() : Routing::partition("w0");
    spec.options.layout = load.layout == Layout::Rows ? mgi::Layout::Rows : mgi::Layout::Columns;
    spec.options.by_reference = load.by_reference;
    spec.options.segment_bytes = load.segment_bytes;
    spec.options.slots = load.slots;
    spec.options.chunk_rows = load.chunk_rows;
    spec.options.expected_bytes = load.rows * load.row_bytes() * load.sources();
    return spec;
}

}  // namespace

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::vector<OwnGpu> all_of(Load const& load, peers::Gpus const& gpus) {
    std::vector<Sums> const wanted = peers::wanted_by(load, gpus);
    std::vector<OwnGpu> all;
    for (u32 gpu = 0; gpu < load.gpus; ++gpu) all.push_back({gpu, gpus[gpu].get(), wanted[gpu]});
    return all;
}

Exchanges::Exchanges(Runtime& runtime, Load const& load, std::vector<Endpoint> endpoints,
                     std::vector<OwnGpu> gpus, std::function<void()> meet)
    : runtime_(runtime),
      endpoints_(std::move(endpoints)),
      gpus_(std::move(gpus)),
      meet_(std::move(meet)),
      spec_(spec_of(load, endpoints_)),
      row_bytes_(load.row_bytes()) {
    // Any channel says what scratch blocks need, and so how many fit.
    Channel const channel = runtime_.create_channel(spec_);
    for (OwnGpu const& own : gpus_) {
        On const on{int(own.number)};
        Attachment probe = attach(channel, own, 1);
        blocks_ =
            std::min(blocks_, resident_blocks(exchange_kernel(), kThreads, probe.shared_bytes()));
        probe.abandon();
        tallies_.emplace_back(1024);
    }
    meet_();  // a process that deletes it unused fails it for the others
    runtime_.delete_channel(channel);
}

Took Exchanges::run(bool check_rows) {
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
        On const on{int(gpus_[i].number)};
        cudaStream_t const stream = gpus_[i].gpu->stream.get();
        check(cudaMemsetAsync(tallies_[i].get(), 0, tallies_[i].bytes(), stream), "clear tallies");
        check(cudaStreamSynchronize(stream), "clear tallies");
    }
    Took took;
    auto const before = Clock::now();
    std::optional<Channel> channel = runtime_.create_channel(spec_);
    took.create_us = us_since(before);
    meet_();
    took.start = Clock::now();
    std::vector<Attachment> attached;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
        On const on{int(gpus_[i].number)};
        attached.push_back(launch(*channel, i, check_rows));
    }
    took.launch_us = us_since(took.start);
    for (Attachment& groups : attached) groups.wait(kPatience);
    took.end = Clock::now();
    runtime_.delete_channel(*channel);
    channel.reset();
    attached.clear();
    took.delete_us = us_since(took.end);
    look(check_rows);
    return took;
}

Attachment Exchanges::attach(Channel const& channel, OwnGpu const& own, u32 groups) {
    AttachOptions options;
    options.groups = groups;
    options.threads = kThreads;
    options.channels = {channel.on(endpoints_[own.number])};
    return runtime_.attach(endpoints_[own.number], options);
}

Attachment Exchanges::launch(Channel const& channel, std::size_t own, bool check_rows) {
    OwnGpu const& here = gpus_[own];
    Attachment attached = attach(channel, here, blocks_);
    Table const& input = here.gpu->input.table();
    device::KernelGroups const groups = attached.groups();
    Run const run{channel.on(endpoints_[here.number]),
                  input,
                  1,
                  blocks_,
                  groups.shared_bytes,
                  std::max<u64>(1, kBatchTiles * kTileBytes / row_bytes_),
                  groups.first_number,
                  check_rows,
                  tallies_[own].get(),
                  0,
                  1,
                  true};
    cudaStream_t const stream = here.gpu->stream.get();
    exchange_kernel()<<<blocks_, kThreads, groups.shared_bytes, stream>>>(run);
    check_launch("exchange");
    attached.launched(stream);
    return attached;
}

void Exchanges::look(bool at_rows) {
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
        On const on{int(gpus_[i].number)};
        auto const got = read(tallies_[i], gpus_[i].gpu->stream.get());
        exact_ = exact_ && (at_rows ? is_exact(got, blocks_, {gpus_[i].wanted})
                                    : rows_of(got) == gpus_[i].wanted.rows);
    }
}

void measure(Context& context, Result result, Load const& load, ChannelRuns& runs) {
    runs.run(true);
    Series series;
    for (int i = 0; i < 3 * peers::repeats(context); ++i) series.add(runs.run(false));
    result.exact = runs.exact();
    result.with("layout", name_of(load.layout)).with("row_bytes", load.row_bytes());
    result.with("rows", load.rows).with("blocks", runs.blocks());
    series.fill(result);
    Timing timing{series.ms};
    peers::report(context, std::move(result), timing, load.bytes());
}

}  // namespace exchanges

namespace {

using namespace exchanges;

void exchange(Context& context, Runtime& runtime, std::vector<Endpoint> const& endpoints,
              Load const& load) {
    peers::Gpus const gpus = peers::gpus_of(load);
    Exchanges exchanges(runtime, load, endpoints, all_of(load, gpus));
    Result result;
    result.with("gpus", load.gpus);
    measure(context, std::move(result), load, exchanges);
}

void exchange_by_runtime(Context& context) {
    auto const all = u32(connected_gpus(8));
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    RuntimeOptions options;
    options.cpu_devices = 1;
    Runtime runtime = Runtime::local(options);
    std::vector<Endpoint> endpoints;
    for (u32 gpu = 0; gpu < all; ++gpu) {
        endpoints.push_back(runtime.create_endpoint("cuda:" + std::to_string(gpu)));
    }
    for (u32 count = 1; count <= all; count *= 2) {
        std::vector<Endpoint> const some(endpoints.begin(), endpoints.begin() + count);
        for (u64 const part : {1, 10, 100}) {
            exchange(context, runtime, some, {count, Layout::Rows, bytes / part / 32});
        }
        exchange(context, runtime, some, {count, Layout::Columns, bytes / 32});
    }
}

Registration const by_runtime{"mgi_runtime",
                              "exchange between GPUs through channels of a Runtime, which are "
                              "created and deleted each time",
                              exchange_by_runtime};

}  // namespace
}  // namespace mgi::bench
