// Exchanges as a program makes them: a channel that a Runtime creates and deletes for each, one endpoint on each GPU, kernels
// that are attached. Launches and their ends count, creating and deleting are told apart. Every row is read where it
// arrived, and checked in a first run.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mgi/runtime.hpp>

#include "exchange_kernels.hpp"
#include "kernels.hpp"
#include "peer_run.hpp"

namespace mgi::bench {
namespace {

using namespace exchanges;
using Clock = std::chrono::steady_clock;
using Gpus = std::vector<std::unique_ptr<peers::Gpu>>;

constexpr auto kPatience = std::chrono::seconds(20);

double us_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

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

class Exchanges {
public:
    Exchanges(Runtime& runtime, std::vector<Endpoint> endpoints, Gpus const& gpus)
        : runtime_(runtime),
          endpoints_(std::move(endpoints)),
          gpus_(gpus),
          spec_(spec_of(endpoints_, gpus[0]->input.table())) {
        // Any channel says what scratch blocks need, and so how many fit.
        Channel const channel = runtime_.create_channel(spec_);
        for (u32 gpu = 0; gpu < gpus_.size(); ++gpu) {
            On const on{int(gpu)};
            Attachment probe = attach(channel, gpu, 1);
            blocks_ = std::min(blocks_,
                               resident_blocks(exchange_kernel(), kThreads, probe.shared_bytes()));
            probe.abandon();
            tallies_.emplace_back(1024);
        }
        runtime_.delete_channel(channel);
    }

    void run(bool check_rows, std::vector<Sums> const& wanted) {
        for (u32 gpu = 0; gpu < gpus_.size(); ++gpu) {
            On const on{int(gpu)};
            cudaStream_t const stream = gpus_[gpu]->stream.get();
            check(cudaMemsetAsync(tallies_[gpu].get(), 0, tallies_[gpu].bytes(), stream),
                  "clear tallies");
            check(cudaStreamSynchronize(stream), "clear tallies");
        }
        auto const before = Clock::now();
        std::optional<Channel> channel = runtime_.create_channel(spec_);
        create_us.push_back(us_since(before));
        auto const start = Clock::now();
        std::vector<Attachment> attached;
        for (u32 gpu = 0; gpu < gpus_.size(); ++gpu) {
            On const on{int(gpu)};
            attached.push_back(launch(*channel, gpu, check_rows));
        }
        launch_us.push_back(us_since(start));
        for (Attachment& groups : attached) groups.wait(kPatience);
        ms.push_back(us_since(start) / 1e3);
        auto const end = Clock::now();
        runtime_.delete_channel(*channel);
        channel.reset();
        attached.clear();
        delete_us.push_back(us_since(end));
        look(check_rows, wanted);
    }
    [[nodiscard]] u32 blocks() const { return blocks_; }
    [[nodiscard]] bool exact() const { return exact_; }

    std::vector<double> ms;
    std::vector<double> create_us;
    std::vector<double> delete_us;
    std::vector<double> launch_us;

private:
    Attachment attach(Channel const& channel, u32 gpu, u32 groups) {
        AttachOptions options;
        options.groups = groups;
        options.threads = kThreads;
        options.channels = {channel.on(endpoints_[gpu])};
        return runtime_.attach(endpoints_[gpu], options);
    }

    Attachment launch(Channel const& channel, u32 gpu, bool check_rows) {
        Attachment attached = attach(channel, gpu, blocks_);
        Table const& input = gpus_[gpu]->input.table();
        device::KernelGroups const groups = attached.groups();
        Run const run{channel.on(endpoints_[gpu]),
                      input,
                      1,
                      blocks_,
                      groups.shared_bytes,
                      std::max<u64>(1, kBatchTiles * kTileBytes / (input.words * 8)),
                      groups.first_number,
                      check_rows,
                      tallies_[gpu].get(),
                      gpu,
                      1};
        exchange_kernel()<<<blocks_, kThreads, groups.shared_bytes, gpus_[gpu]->stream.get()>>>(
            run);
        check_launch("exchange");
        attached.launched(gpus_[gpu]->stream.get());
        return attached;
    }

    void look(bool at_rows, std::vector<Sums> const& wanted) {
        for (u32 gpu = 0; gpu < gpus_.size(); ++gpu) {
            On const on{int(gpu)};
            auto const got = read(tallies_[gpu], gpus_[gpu]->stream.get());
            exact_ = exact_ && (at_rows ? is_exact(got, blocks_, {wanted[gpu]})
                                        : rows_of(got) == wanted[gpu].rows);
        }
    }

    Runtime& runtime_;
    std::vector<Endpoint> const endpoints_;
    Gpus const& gpus_;
    ChannelSpec const spec_;
    u32 blocks_ = ~0u;
    std::vector<DeviceArray<Tally>> tallies_;
    bool exact_ = true;
};

void exchange(Context& context, Runtime& runtime, std::vector<Endpoint> const& endpoints,
              Layout layout, u32 words, u64 bytes) {
    auto const count = u32(endpoints.size());
    u64 const rows = bytes / (words * 8);
    Gpus gpus;
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on{int(gpu)};
        gpus.push_back(std::make_unique<peers::Gpu>(gpu, layout, rows, words, count));
    }
    Exchanges exchanges(runtime, endpoints, gpus);
    std::vector<Sums> const wanted = peers::wanted_by(gpus);
    exchanges.run(true, wanted);
    exchanges.ms.clear();
    for (int i = 0; i < 3 * peers::repeats(context); ++i) exchanges.run(false, wanted);
    Result result;
    result.with("gpus", count).with("layout", name_of(layout)).with("row_bytes", words * 8);
    result.with("rows", rows).with("blocks", exchanges.blocks());
    result.exact = exchanges.exact();
    result.figure("create_us", median(exchanges.create_us))
        .figure("delete_us", median(exchanges.delete_us))
        .figure("launch_us", median(exchanges.launch_us));
    Timing timing{exchanges.ms};
    peers::report(context, std::move(result), timing, rows * words * 8 * count);
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
