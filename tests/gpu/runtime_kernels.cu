// Kernels that the user starts: cooperative ones, several on an endpoint, on streams of their own; and host code
// at the other end.
#include <memory>
#include <thread>
#include <utility>

#include "gpu/runtime_kernel.inl"

namespace mgi::test::gpu {

namespace {

__global__ void __launch_bounds__(256)
    own_kernel(device::KernelGroups groups, device::Channel channel, Task task) {
    extern __shared__ __align__(16) std::byte scratch[];
    Shared shared = groups.shared(scratch);
    Kernel()(groups.group(), shared, channel, task);
}

/// A stream of ours.
class OurStream {
public:
    OurStream() {
        cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    }
    ~OurStream() { cudaStreamDestroy(stream_); }
    OurStream(OurStream const&) = delete;
    OurStream& operator=(OurStream const&) = delete;
    [[nodiscard]] cudaStream_t get() const { return stream_; }

private:
    cudaStream_t stream_ = nullptr;
};

/// An endpoint of cuda:0 that exchanges rows with itself.
struct Ring {
    explicit Ring(char const* name) : rows(settings.small ? 3000 : 100'000) {
        endpoint = runtime.create_endpoint("cuda:0");
        ChannelSpec spec;
        spec.sources = spec.destinations = {endpoint};
        spec.schema = Schema{{"key", int64()}, {"id", int64()}};
        spec.routing = Routing::partition("key");
        spec.options.name = name;
        spec.options.stall_limit = settings.limit() / 2;
        channel = runtime.create_channel(spec);
        std::vector<Row> values;
        for (u64 i = 0; i < rows; ++i) values.push_back({key_of(i), i64(i)});
        data = std::make_unique<Room<Row>>("cuda:0", values);
        seen = std::make_unique<Room<u32>>("cuda:0", rows);
        tally = std::make_unique<Room<Task::Tally>>("cuda:0", 1);
        task.rows = rows;
        task.sources = task.destinations = 1;
        task.data = data->get();
        task.seen = seen->get();
        task.tally = tally->get();
        cuda_check(cudaFuncSetAttribute(own_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        160 << 10),
                   "shared memory");
    }
    [[nodiscard]] Attachment attach(u32 groups) {
        AttachOptions options;
        options.groups = groups;
        options.shared_bytes = kWideColumns * sizeof(device::ColumnView);
        options.channels = {channel.on(endpoint)};
        return runtime.attach(endpoint, options);
    }
    void check() const {
        channel.check();
        auto const found = tally->values()[0];
        expect(found.failure == 0 && found.wrong == 0 && found.astray == 0,
               "error " + std::to_string(found.failure) + ", wrong " + std::to_string(found.wrong));
        u64 id = 0;
        for (u32 const count : seen->values()) {
            expect(count == 1,
                   "row " + std::to_string(id) + " came " + std::to_string(count) + " times");
            ++id;
        }
    }
    Runtime runtime = runtime_of_tests();
    u64 rows;
    Endpoint endpoint;
    Channel channel;
    std::unique_ptr<Room<Row>> data;
    std::unique_ptr<Room<u32>> seen;
    std::unique_ptr<Room<Task::Tally>> tally;
    Task task;
};

void cooperative() {
    Ring ring("cooperative");
    OurStream const stream;
    Attachment attached = ring.attach(8);
    device::KernelGroups groups = attached.groups();
    device::Channel on = ring.channel.on(ring.endpoint);
    void* arguments[] = {&groups, &on, &ring.task};
    cuda_check(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(own_kernel), dim3(8), dim3(256),
                                           arguments, attached.shared_bytes(), stream.get()),
               "a cooperative launch");
    attached.launched(stream.get());
    attached.wait(settings.limit());
    ring.check();
}

void two_kernels() {
    Ring ring("two kernels");
    OurStream const one;
    OurStream const other;
    Attachment attached = ring.attach(6);
    device::Channel const on = ring.channel.on(ring.endpoint);
    // A grid of two dimensions: its blocks are numbered row by row.
    own_kernel<<<dim3(2, 1), dim3(64, 4), attached.shared_bytes(), one.get()>>>(
        attached.groups().part(0, 2), on, ring.task);
    cuda_check(cudaGetLastError(), "launch");
    attached.launched(one.get(), 0, 2);
    own_kernel<<<dim3(2, 2), 256, attached.shared_bytes(), other.get()>>>(
        attached.groups().part(2, 4), on, ring.task);
    cuda_check(cudaGetLastError(), "launch");
    attached.launched(other.get(), 2, 4);
    attached.wait(settings.limit());
    ring.check();
}

void never_launched() {
    Ring ring("never launched");
    {
        Attachment const attached = ring.attach(2);
    }
    expect_error(ErrorCode::GroupFailed, {"launched"}, [&] { ring.channel.check(); });
}

/// A kernel that sends on what it receives.
struct Echo {
    MGI_HD void operator()(Group const& group, Shared& shared, device::Channel in,
                           device::Channel out) const {
        for (u32 idle = 0;;) {
            device::ReceivedBatch batch;
            Status const status = in.recv(group, shared, batch);
            if (status == Status::Pending) {
                device::backoff(idle++);
                continue;
            }
            if (status != Status::Ok) break;
            Row const* const rows = batch.structs<Row>();
            for (u64 sent = 0; sent < batch.rows;) {
                auto const result = out.send_rows(group, shared, rows + sent, batch.rows - sent);
                if (result.status == Status::Error) return;
                sent += result.rows;
            }
            in.release(group, shared, batch);
            idle = 0;
        }
        (void)out.flush_wait(group, shared);
    }
};

void host_and_kernel() {
    Runtime runtime = runtime_of_tests();
    Endpoint const host = runtime.create_endpoint("cpu:0");
    Endpoint const gpu = runtime.create_endpoint(named("cuda:0"));
    ChannelSpec spec;
    spec.sources = {host};
    spec.destinations = {gpu};
    spec.schema = Schema{{"key", int64()}, {"id", int64()}};
    spec.routing = Routing::partition("key");
    spec.options.layout = Layout::Rows;
    spec.options.stall_limit = settings.limit() / 2;
    Channel const there = runtime.create_channel(spec);
    std::swap(spec.sources, spec.destinations);
    Channel const back = runtime.create_channel(spec);
    u64 const rows = settings.small ? 2000 : 200'000;
    std::vector<Row> values;
    for (u64 i = 0; i < rows; ++i) values.push_back({key_of(i), i64(i)});
    Launch echo = runtime.launch(gpu, shape_on("cuda:0"), Echo{}, there.on(gpu), back.on(gpu));
    std::string problem;
    std::thread sending([&] {
        try {
            Sender sender = there.sender(host);
            for (u64 sent = 0; sent < rows;) {
                sent +=
                    u64(sender.try_send_rows(values.data() + sent, sizeof(Row), i64(rows - sent)));
            }
            sender.flush(settings.limit());
        } catch (Error const& error) {
            problem = error.what();
        }
    });
    std::vector<u32> seen(rows);
    std::string wrong;
    try {
        Receiver receiver = back.receiver(host);
        while (auto const batch = receiver.recv(settings.limit())) {
            i64 const* const ids = batch->values<i64>(1);
            for (std::int64_t i = 0; i < batch->rows; ++i) {
                if (u64(ids[i]) < rows) ++seen[u64(ids[i])];
            }
        }
    } catch (Error const& error) {
        wrong = error.what();
        there.fail(ErrorCode::Timeout, "given up");
        back.fail(ErrorCode::Timeout, "given up");
    }
    sending.join();
    try {
        echo.wait(settings.limit());
    } catch (Error const& error) {
        if (wrong.empty()) wrong = error.what();
    }
    expect(problem.empty() && wrong.empty(), problem + " " + wrong);
    for (u64 id = 0; id < rows; ++id) {
        expect(seen[id] == 1,
               "row " + std::to_string(id) + " came " + std::to_string(seen[id]) + " times");
    }
}

}  // namespace

void add_own_kernels(std::vector<Test>& tests) {
    tests.push_back({"attached, cooperative", cooperative, true, false});
    tests.push_back({"attached, two kernels of an endpoint", two_kernels, true, false});
    tests.push_back({"attached, never launched", never_launched, true, false});
    tests.push_back({"host code and a kernel", host_and_kernel, true, true});
}

}  // namespace mgi::test::gpu
