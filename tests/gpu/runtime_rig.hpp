/// \file
/// What the tests of the runtime on GPUs share: memory on devices, rows and how they are recognized, one kernel
/// that sends and receives them, and a list of tests. Needs CUDA and libmgi, nothing else.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include <mgi/device.hpp>
#include <mgi/runtime.hpp>

namespace mgi::test::gpu {

using device::Group;
using device::i64;
using device::RoutingKind;
using device::Shared;
using device::Status;
using device::u32;
using device::u64;
using device::u8;

/// What the command line says.
struct Settings {
    bool small = false;  ///< for compute-sanitizer
    bool cpu = false;    ///< "cpu:0" in place of every GPU: tests the tests where there is none
    std::string program;
    [[nodiscard]] std::chrono::milliseconds limit() const {
        return std::chrono::seconds(small ? 90 : 20);
    }
};
extern Settings settings;

/// Throws std::runtime_error.
void expect(bool holds, std::string const& what);
/// As Driver::check, of CUDA's runtime.
inline void cuda_check(cudaError_t error, char const* what) {
    if (error != cudaSuccess) expect(false, std::string(what) + ": " + cudaGetErrorString(error));
}

inline bool is_gpu(std::string const& device) {
    return !settings.cpu && device.starts_with("cuda:");
}
/// GPUs that tests may use.
inline int gpus_of_tests() {
    int count = 2;
    if (!settings.cpu) cuda_check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    return count;
}
inline std::string named(std::string const& device) {
    return is_gpu(device) ? device : "cpu:0";
}

/// Zeroed memory of a device's.
template <class T>
class Room {
public:
    Room(std::string const& device, std::size_t count) : on_gpu_(is_gpu(device)), count_(count) {
        std::size_t const bytes = (count + 1) * sizeof(T);
        if (on_gpu_) {
            GpuOfThread const there(std::atoi(device.c_str() + std::strlen("cuda:")));
            cuda_check(cudaMalloc(&at_, bytes), "cudaMalloc");
            cuda_check(cudaMemset(at_, 0, bytes), "cudaMemset");
            // Neither other GPUs' streams nor the runtime's wait for it.
            cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        } else {
            at_ = std::calloc(bytes, 1);
        }
    }
    Room(std::string const& device, std::vector<T> const& values) : Room(device, values.size()) {
        std::size_t const bytes = values.size() * sizeof(T);
        if (on_gpu_) {
            cuda_check(cudaMemcpy(at_, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
        } else if (bytes != 0) {
            std::memcpy(at_, values.data(), bytes);
        }
    }
    ~Room() {
        if (on_gpu_) {
            cudaFree(at_);
        } else {
            std::free(at_);
        }
    }
    Room(Room&& other) noexcept : on_gpu_(other.on_gpu_), count_(other.count_), at_(other.at_) {
        other.at_ = nullptr;
    }
    Room(Room const&) = delete;
    Room& operator=(Room const&) = delete;
    Room& operator=(Room&&) = delete;

    [[nodiscard]] T* get() const { return static_cast<T*>(at_); }
    [[nodiscard]] std::vector<T> values() const {
        std::vector<T> out(count_);
        cuda_check(on_gpu_ ? cudaMemcpy(out.data(), at_, count_ * sizeof(T), cudaMemcpyDeviceToHost)
                           : cudaSuccess,
                   "cudaMemcpy");
        if (!on_gpu_ && count_ != 0) std::memcpy(out.data(), at_, count_ * sizeof(T));
        return out;
    }

private:
    bool on_gpu_;
    std::size_t count_;
    void* at_ = nullptr;
};

/// Rows as structs. Everything about a row follows from its id.
struct Row {
    i64 key;
    i64 id;
};
MGI_HD inline i64 key_of(u64 id) {
    return i64(device::murmur3_mix(id + 1) >> 1);
}

/// The columns that wide rows have as well.
struct WideRow {
    static MGI_HD bool has_name(u64 id) { return id % 7 != 3; }
    static MGI_HD u32 name_size(u64 id) { return u32(id % 23); }  // up to 12 are inside a view
    static MGI_HD char letter(u64 id, u32 at) { return char('a' + (id + at) % 26); }
    static MGI_HD bool has_value(u64 id) { return id % 5 != 2; }
    static MGI_HD double value(u64 id) { return double(id) * 0.5; }
    static MGI_HD bool flag(u64 id) { return id % 3 == 0; }
};
constexpr u32 kWideColumns = 5;  // key, id, name, value, flag

/// A wide row as a struct: no value is null.
struct TextRow {
    i64 key;
    i64 id;
    device::RowBytes name;
    double value;
    bool flag;
};

constexpr u32 kGroups = 4;  // of each endpoint

/// What a kernel has to do at its endpoint.
struct Task {
    RoutingKind routing = RoutingKind::Partition;
    bool modulo = false;
    bool ordered = false;
    bool one_by_one = false;  ///< send_row, by each thread for itself
    bool has_nulls = true;    ///< wide rows
    u64 rows = 0;             ///< of each source
    u32 source = 0;           ///< mine
    u32 sources = 0;
    u32 destination = 0;  ///< mine
    u32 destinations = 0;
    u64 stop_after = ~u64(0);                     ///< receive no more after so many rows, and go
    bool flush = true;                            ///< else go without
    Row const* data = nullptr;                    ///< mine, ids source * rows and so on
    device::ColumnView const* columns = nullptr;  ///< in place of that
    TextRow const* texts = nullptr;               ///< in place of both, one by one
    u32 const* ids = nullptr;                     ///< of destinations, for Direct
    u32* seen = nullptr;                          ///< by id, how often
    i64* last = nullptr;                          ///< by source and group, for order
    u32* order = nullptr;                         ///< ids as they came, if wanted
    struct Tally {
        u32 failure = 0;  ///< ErrorCode, the first
        u32 wrong = 0;    ///< rows that are not what their ids say
        u32 astray = 0;   ///< rows that are somebody else's
        u32 disorder = 0;
        u32 received = 0;
    };
    Tally* tally = nullptr;

    /// Whether a row may come to my destination.
    [[nodiscard]] MGI_HD bool is_mine(u64 id) const {
        u32 to = destination;
        u64 const key = u64(key_of(id));
        if (routing == RoutingKind::Partition) {
            to = modulo ? u32(key % destinations)
                        : device::destination_of_hash(device::murmur3_mix(key), destinations);
        } else if (routing == RoutingKind::Direct) {
            to = u32(id % rows / 64 % destinations);
        }
        return to == destination;
    }
};

MGI_HD inline u32 add(u32& to, u32 value) {
    return cuda::atomic_ref<u32, cuda::thread_scope_device>(to).fetch_add(
        value, cuda::std::memory_order_relaxed);
}

/// The paper's Figure 3, for all these tests.
struct Kernel {
    MGI_HD void operator()(Group const& group, Shared& shared, device::Channel channel,
                           Task task) const;

private:
    static MGI_HD device::SendResult send(Group const& group, Shared& shared,
                                          device::Channel const& channel, Task const& task,
                                          device::ColumnView* columns, u64 from, u64 end);
    static MGI_HD void look(Group const& group, Task const& task,
                            device::ReceivedBatch const& batch, u32 width);
    static MGI_HD void look_at_order(Task const& task, device::ReceivedBatch const& batch);
    static MGI_HD bool is_right(device::ReceivedBatch const& batch, u32 i, u64 id, u32 width,
                                bool has_nulls);
};

/// Launches it at an endpoint.
Launch launch(Runtime& runtime, Endpoint endpoint, LaunchOptions const& shape,
              device::Channel const& channel, Task const& task);

/// The same kernel, started without the runtime.
struct OwnLaunch {
    device::KernelGroups groups;
    dim3 grid;
    dim3 block;
    cudaStream_t stream = nullptr;
    bool cooperative = false;
};
void start(OwnLaunch const& of, device::Channel channel, Task task);

/// Groups and threads of a kernel on a device.
inline LaunchOptions shape_on(std::string const& device) {
    LaunchOptions shape;
    shape.groups = kGroups;
    shape.threads = is_gpu(device) ? 256 : 1;
    shape.shared_bytes = kWideColumns * sizeof(device::ColumnView);
    return shape;
}

/// A runtime for a test.
inline RuntimeOptions options_of_tests() {
    RuntimeOptions options;
    options.cpu_devices = 1;
    options.gpus = !settings.cpu;
    return options;
}
inline Runtime runtime_of_tests() {
    return Runtime::local(options_of_tests());
}

struct Test {
    std::string name;
    std::function<void()> run;  ///< throws what went wrong
    bool in_small = true;
    bool on_cpu = true;  ///< has a meaning with Settings::cpu
};
void add_flows(std::vector<Test>& tests);
void add_own_kernels(std::vector<Test>& tests);
void add_faults(std::vector<Test>& tests);
/// What a child process does for add_faults; its exit status.
int run_child_fault(std::string const& what);
/// Processes that share a GPU; each is this program again, as a member of a meeting (support/meeting.hpp).
void add_processes(std::vector<Test>& tests);
/// What such a one does; its exit status.
int run_member(std::string const& what, u32 rank, u32 size);
/// Latency and throughput between a GPU and the host; a JSON object a line.
std::vector<std::string> measure_movers();

/// The error that a call throws; fails unless it has that code and names all the words.
void expect_error(ErrorCode code, std::vector<std::string> const& words,
                  std::function<void()> const& call);

}  // namespace mgi::test::gpu
