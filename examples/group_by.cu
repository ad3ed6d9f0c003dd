// The paper's Figure 3: a group-by over many devices, `sum(amount)` by customer.
//
// One source: g++ compiles it as C++ for CPU devices, nvcc compiles the same kernel for GPUs as well. Every
// endpoint owns a part of the table. Its groups send the part's rows to the endpoints that own their
// keys, and add up what arrives from all the others while they still send.
//
//   group_by [DEVICE...]     of the endpoints, in turn: cpu:0, cuda:0, cuda:1 ... Default: the CPU devices
#include <climits>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <mgi/device.hpp>
#include <mgi/runtime.hpp>

namespace {

using mgi::device::Group;
using mgi::device::ReceivedBatch;
using mgi::device::SendResult;
using mgi::device::Shared;
using mgi::device::Status;
using mgi::device::u32;
using mgi::device::u64;

/// A row of the table. The members lie as the channel's schema says: {int, long} in the paper.
struct Sale {
    int customer;
    long long amount;
};

/// Sums by key, in an endpoint's memory: open addressing, at most half full, shared by all groups.
struct SumTable {
    static constexpr int kEmpty = INT_MIN;
    struct Entry {
        cuda::atomic<int, cuda::thread_scope_device> key{kEmpty};
        cuda::atomic<long long, cuda::thread_scope_device> sum{0};
    };
    Entry* entries = nullptr;
    u32 mask = 0;  ///< number of entries (a power of two) - 1

    MGI_HD void add(int key, long long value) const {
        // The low half of the hash: the high half has chosen the endpoint.
        u32 at = u32(mgi::device::murmur3_mix(u64(key))) & mask;
        for (;; at = (at + 1) & mask) {
            int found = entries[at].key.load(cuda::std::memory_order_relaxed);
            if (found == kEmpty && entries[at].key.compare_exchange_strong(
                                       found, key, cuda::std::memory_order_relaxed)) {
                found = key;
            }
            if (found == key) break;
        }
        entries[at].sum.fetch_add(value, cuda::std::memory_order_relaxed);
    }
};

/// The kernel. Groups share out the endpoint's part; each runs the loop of Figure 3.
struct GroupBy {
    MGI_HD void operator()(Group const& group, Shared& shared, mgi::device::Channel channel,
                           Sale const* part, u64 part_rows, SumTable table) const {
        u64 const first = part_rows * group.block / group.blocks;
        u64 const count = part_rows * (group.block + 1) / group.blocks - first;
        u64 sent = 0;
        bool flushed = false;
        for (u32 idle = 0;;) {
            if (sent != count) {
                SendResult const result =
                    channel.send_rows(group, shared, part + first + sent, count - sent);
                sent += result.rows;
                if (result.status == Status::Error) return;
            }
            if (sent == count && !flushed) {
                flushed = channel.flush(group, shared) != Status::Pending;
            }
            ReceivedBatch batch;
            Status const status = channel.recv(group, shared, batch);
            if (status == Status::Ok) {
                int const* customers = batch.column<int>(0);
                long long const* amounts = batch.column<long long>(1);
                for (u32 i = group.thread; i < batch.rows; i += group.threads) {
                    table.add(customers[i], amounts[i]);
                }
                channel.release(group, shared, batch);
                idle = 0;
            } else if (status == Status::Pending) {
                mgi::device::backoff(idle++);
            } else {
                return;  // the end; or an error, which the host sees on the channel
            }
        }
    }
};

/// Memory that host code and kernels have at the same addresses, whatever the device.
template <class T>
struct Everywhere {
    using value_type = T;
    Everywhere() = default;
    template <class U>
    Everywhere(Everywhere<U> const&) {}
    T* allocate(std::size_t count) {
#if defined(__CUDACC__)
        void* at = nullptr;
        if (cudaMallocManaged(&at, count * sizeof(T)) == cudaSuccess) return static_cast<T*>(at);
        cudaGetLastError();  // no GPU: the host's memory will do
#endif
        return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(64)));
    }
    // The program has ended before it could use it again.
    void deallocate(T*, std::size_t) {}
    template <class U>
    bool operator==(Everywhere<U> const&) const {
        return true;
    }
};
template <class T>
using Array = std::vector<T, Everywhere<T>>;

/// What an endpoint works on.
struct Part {
    Array<Sale> sales;
    Array<SumTable::Entry> entries;
    SumTable table;

    Part(u32 endpoint, u32 rows, int customers) : sales(rows), entries(capacity_for(customers)) {
        u64 state = endpoint + 1;
        for (Sale& sale : sales) {
            state = mgi::device::murmur3_mix(state + 1);
            sale = {int(state % u64(customers)), static_cast<long long>(state >> 40)};
        }
        table = {entries.data(), u32(entries.size() - 1)};
    }
    static std::size_t capacity_for(int keys) {
        std::size_t entries = 16;
        while (entries < 2 * std::size_t(keys)) entries *= 2;
        return entries;
    }
};

/// Every customer at one endpoint only, with the right sum.
bool is_right(std::vector<std::unique_ptr<Part>> const& parts) {
    std::map<int, long long> expected;
    for (auto const& part : parts) {
        for (Sale const& sale : part->sales) expected[sale.customer] += sale.amount;
    }
    std::map<int, long long> got;
    for (auto const& part : parts) {
        for (SumTable::Entry const& entry : part->entries) {
            int const key = entry.key.load();
            if (key == SumTable::kEmpty) continue;
            if (!got.emplace(key, entry.sum.load()).second) return false;
        }
    }
    return got == expected;
}

/// Endpoints take turns with the devices.
int run(std::vector<std::string> const& devices) {
    constexpr u32 kEndpoints = 4;
    constexpr u32 kRows = 250'000;
    constexpr int kCustomers = 10'000;

    mgi::Runtime runtime = mgi::Runtime::local();
    std::vector<mgi::Endpoint> endpoints;
    std::vector<std::unique_ptr<Part>> parts;
    for (u32 e = 0; e < kEndpoints; ++e) {
        endpoints.push_back(runtime.create_endpoint(devices[e % devices.size()]));
        parts.push_back(std::make_unique<Part>(e, kRows, kCustomers));
    }
    mgi::ChannelSpec spec;
    spec.sources = endpoints;
    spec.destinations = endpoints;
    spec.schema = mgi::Schema{{"customer", mgi::int32()}, {"amount", mgi::int64()}};
    spec.routing = mgi::Routing::partition("customer");
    spec.options.name = "sales";
    mgi::Channel const channel = runtime.create_channel(spec);

    std::vector<mgi::Launch> launches;
    for (u32 e = 0; e < kEndpoints; ++e) {
        bool const on_gpu = devices[e % devices.size()].starts_with("cuda:");
        mgi::LaunchOptions shape;
        shape.groups = on_gpu ? 8 : 2;
        shape.threads = on_gpu ? 256 : 1;
        Part const& part = *parts[e];
        launches.push_back(runtime.launch(endpoints[e], shape, GroupBy{}, channel.on(endpoints[e]),
                                          part.sales.data(), u64{part.sales.size()}, part.table));
    }
    for (mgi::Launch& launch : launches) launch.wait();
    channel.check();

    mgi::ChannelStats const stats = channel.stats();
    std::printf("%llu rows, %llu bytes through %zu lanes\n",
                static_cast<unsigned long long>(stats.rows),
                static_cast<unsigned long long>(stats.bytes), stats.lanes.size());
    for (mgi::QueueStats const& queue : stats.queues) {
        std::printf("endpoint %u summed up %llu rows\n", queue.destination,
                    static_cast<unsigned long long>(queue.rows));
    }
    bool const right = is_right(parts);
    std::printf("%d customers: %s\n", kCustomers, right ? "every sum is right" : "WRONG SUMS");
    return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 1) return run({"cpu"});
        return run({argv + 1, argv + argc});
    } catch (std::exception const& error) {
        std::fprintf(stderr, "group_by: %s\n", error.what());
        return 1;
    }
}
