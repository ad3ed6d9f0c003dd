// Rows from one device to another: how fast, and whether all of them arrive. One source: g++ compiles it for
// CPU devices, nvcc for GPUs as well.
//
//   transfer [FROM TO [MILLION_ROWS]]        default: cpu:0 cpu:0 4
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include <mgi/device.hpp>
#include <mgi/runtime.hpp>

namespace {

using mgi::device::Group;
using mgi::device::Shared;
using mgi::device::Status;
using mgi::device::u32;
using mgi::device::u64;

struct Row {
    long long key;
    long long value;
};

// Both kernels are used at their own ends only: rows are made where they are sent from.
constexpr u32 kAtOnce = 4096;

/// Makes rows with values 1, 2, ... and sends them. `room`: kAtOnce rows for each group.
struct Send {
    MGI_HD void operator()(Group const& group, Shared& shared, mgi::device::Channel channel,
                           Row* room, u64 rows) const {
        Row* const mine = room + u64(group.block) * kAtOnce;
        u64 const end = rows * (group.block + 1) / group.blocks;
        for (u64 first = rows * group.block / group.blocks; first < end;) {
            u32 const count = u32(mgi::device::min_of<u64>(kAtOnce, end - first));
            for (u32 i = group.thread; i < count; i += group.threads) {
                mine[i] = {static_cast<long long>(i), static_cast<long long>(first + i + 1)};
            }
            group.sync();
            u64 sent = 0;
            for (u32 idle = 0; sent < count;) {
                auto const result = channel.send_rows(group, shared, mine + sent, count - sent);
                sent += result.rows;
                if (result.status == Status::Error) return;
                idle = result.rows != 0 ? 0 : idle + 1;
                if (idle != 0) mgi::device::backoff(idle);
            }
            group.sync();
            first += count;
        }
        (void)channel.flush_wait(group, shared);
    }
};

using Sum = cuda::atomic<unsigned long long, cuda::thread_scope_system>;

/// Adds up the values of all rows.
struct Receive {
    MGI_HD void operator()(Group const& group, Shared& shared, mgi::device::Channel channel,
                           Sum* sum) const {
        unsigned long long mine = 0;
        for (u32 idle = 0;;) {
            mgi::device::ReceivedBatch batch;
            Status const status = channel.recv(group, shared, batch);
            if (status == Status::Pending) {
                mgi::device::backoff(idle++);
                continue;
            }
            if (status != Status::Ok) break;
            auto const* const values = batch.column<long long>(1);
            for (u32 i = group.thread; i < batch.rows; i += group.threads) {
                mine += static_cast<unsigned long long>(values[i]);
            }
            channel.release(group, shared, batch);
            idle = 0;
        }
        sum->fetch_add(mine, cuda::std::memory_order_relaxed);
    }
};

bool is_gpu(std::string const& device) {
    return device.starts_with("cuda:");
}

mgi::LaunchOptions shape_on(std::string const& device) {
    mgi::LaunchOptions shape;
    shape.groups = is_gpu(device) ? 64 : 1;
    shape.threads = is_gpu(device) ? 256 : 1;
    return shape;
}

/// Zeroed, for kernels on `device` and the host; the program ends before it would be given back.
template <class T>
T* make_room(std::string const& device, std::size_t count) {
    void* at = nullptr;
#if defined(__CUDACC__)
    if (is_gpu(device) && cudaMallocManaged(&at, count * sizeof(T)) != cudaSuccess) {
        throw std::bad_alloc();
    }
#endif
    (void)device;
    if (at == nullptr) at = std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64);
    if (at == nullptr) throw std::bad_alloc();
    std::memset(at, 0, count * sizeof(T));
    return static_cast<T*>(at);
}

int run(std::string const& from, std::string const& to, u64 rows) {
    mgi::Runtime runtime = mgi::Runtime::local();
    mgi::ChannelSpec spec;
    spec.sources = {runtime.create_endpoint(from)};
    spec.destinations = {runtime.create_endpoint(to)};
    spec.schema = mgi::Schema{{"key", mgi::int64()}, {"value", mgi::int64()}};
    spec.routing = mgi::Routing::partition("key");
    spec.options.name = "transfer";
    spec.options.slots = 8;
    mgi::Channel const channel = runtime.create_channel(spec);
    Row* const room = make_room<Row>(from, shape_on(from).groups * std::size_t{kAtOnce});
    Sum* const sum = make_room<Sum>(to, 1);

    auto const start = std::chrono::steady_clock::now();
    mgi::Launch receiving = runtime.launch(spec.destinations[0], shape_on(to), Receive{},
                                           channel.on(spec.destinations[0]), sum);
    mgi::Launch sending = runtime.launch(spec.sources[0], shape_on(from), Send{},
                                         channel.on(spec.sources[0]), room, rows);
    sending.wait();
    receiving.wait();
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - start;
    channel.check();
    bool const right = sum->load() == rows * (rows + 1) / 2;
    std::printf("%s to %s, %s: %llu rows in %.3f s, %.2f GB/s, %s\n", from.c_str(), to.c_str(),
                mgi::to_string(channel.plan().transfer), static_cast<unsigned long long>(rows),
                seconds.count(), double(rows) * sizeof(Row) / seconds.count() / 1e9,
                right ? "all arrived" : "WRONG SUM");
    return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 2) throw std::invalid_argument("say where from and where to: transfer FROM TO");
        std::string const from = argc > 2 ? argv[1] : "cpu:0";
        std::string const to = argc > 2 ? argv[2] : "cpu:0";
        return run(from, to, (argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 4) * 1'000'000);
    } catch (std::exception const& error) {
        std::fprintf(stderr, "transfer: %s\n", error.what());
        return 1;
    }
}
