// Exchanges through channels of a Runtime, between all GPUs of this process. Launches and their ends count, creating and
// deleting are told apart.
#include "runtime_exchange.hpp"

namespace mgi::bench {
namespace exchanges {

namespace {

constexpr auto kPatience = std::chrono::seconds(20);

ChannelSpec spec_of(std::vector<Endpoint> const& endpoints, Table const& table) {
    ChannelSpec spec;
    spec.sources = spec.destinations = endpoints;
    std::vector<Field> fields;
    for (u32 w = 0; w < table.words; ++w) fields.push_back({"w" + std::to_string(w), int64()});
    spec.schema = Schema(fields);
    spec.routing = Routing::partition("w0");
    spec.options.layout = table.stride != 1 ? mgi::Layout::Rows : mgi::Layout::Columns;
    spec.options.expected_bytes = table.bytes() * endpoints.size();
    return spec;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

Exchanges::Exchanges(Runtime& runtime, std::vector<Endpoint> endpoints,
                     std::vector<OwnGpu> const& gpus, std::function<void()> meet)
    : runtime_(runtime),
      endpoints_(std::move(endpoints)),
      gpus_(gpus),
      meet_(std::move(meet)),
      spec_(spec_of(endpoints_, gpus.front().gpu->input.table())) {
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
                  std::max<u64>(1, kBatchTiles * kTileBytes / (input.words * 8)),
                  groups.first_number,
                  check_rows,
                  tallies_[own].get(),
                  here.number,
                  1};
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

void report(Context& context, Result result, Load const& load, u32 blocks, Series series) {
    result.with("layout", name_of(load.layout)).with("row_bytes", load.words * 8);
    result.with("rows", load.rows).with("blocks", blocks);
    result.figure("create_us", median(std::move(series.create_us)))
        .figure("delete_us", median(std::move(series.delete_us)))
        .figure("launch_us", median(std::move(series.launch_us)));
    Timing timing{std::move(series.ms)};
    peers::report(context, std::move(result), timing, load.rows * load.words * 8 * load.gpus);
}

}  // namespace exchanges

namespace {

using namespace exchanges;

void exchange(Context& context, Runtime& runtime, std::vector<Endpoint> const& endpoints,
              Layout layout, u32 words, u64 bytes) {
    auto const count = u32(endpoints.size());
    u64 const rows = bytes / (words * 8);
    std::vector<std::unique_ptr<peers::Gpu>> inputs;
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on{int(gpu)};
        inputs.push_back(std::make_unique<peers::Gpu>(gpu, layout, rows, words, count));
    }
    std::vector<Sums> const wanted = peers::wanted_by(inputs);
    std::vector<OwnGpu> gpus;
    for (u32 gpu = 0; gpu < count; ++gpu) {
        gpus.push_back({gpu, std::move(inputs[gpu]), wanted[gpu]});
    }
    Exchanges exchanges(runtime, endpoints, gpus);
    exchanges.run(true);
    Series series;
    for (int i = 0; i < 3 * peers::repeats(context); ++i) {
        Took const took = exchanges.run(false);
        series.add(std::chrono::duration<double, std::milli>(took.end - took.start).count(),
                   took.create_us, took.launch_us, took.delete_us);
    }
    Result result;
    result.with("gpus", count);
    result.exact = exchanges.exact();
    report(context, std::move(result), {count, layout, rows, words}, exchanges.blocks(), series);
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
            exchange(context, runtime, some, Layout::Rows, 4, bytes / part);
        }
        exchange(context, runtime, some, Layout::Columns, 4, bytes);
    }
}

Registration const by_runtime{"mgi_runtime",
                              "exchange between GPUs through channels of a Runtime, which are "
                              "created and deleted each time",
                              exchange_by_runtime};

}  // namespace
}  // namespace mgi::bench
