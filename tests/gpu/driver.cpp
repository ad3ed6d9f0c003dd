// The driver and discovery on a machine that has a GPU: says what there is, and calls every function that
// needs no kernel, on each GPU. Also runs on the driver that is made up. Exit status 1: something failed.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <mgi/error.hpp>

#include "gpu/driver.hpp"
#include "topology/gpu_graph.hpp"
#include "topology/gpus.hpp"

namespace {

using namespace mgi;

constexpr std::size_t kBytes = std::size_t(1) << 20;

void expect(bool holds, std::string const& what) {
    if (!holds) throw Error(ErrorCode::Internal, what);
}

/// Copies to a GPU, inside it and back, by memory of its own and pinned memory, behind an event.
void copy_on(gpu::Driver const& driver, int number) {
    auto const check = [&](gpu::Result result, char const* what) {
        driver.check(result, what, number);
    };
    gpu::Ordinal device = 0;
    gpu::Context context = nullptr;
    check(driver.cuDeviceGet(&device, number), "cuDeviceGet");
    check(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    gpu::Context current = nullptr;
    check(driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    expect(current == context, "another context is current");

    gpu::Stream stream = nullptr;
    gpu::Stream second = nullptr;
    gpu::Event event = nullptr;
    check(driver.cuStreamCreate(&stream, gpu::kStreamNonBlocking), "cuStreamCreate");
    check(driver.cuStreamCreateWithPriority(&second, gpu::kStreamNonBlocking, -1),
          "cuStreamCreateWithPriority");
    check(driver.cuEventCreate(&event, gpu::kEventDisableTiming), "cuEventCreate");
    std::size_t free = 0;
    std::size_t total = 0;
    check(driver.cuMemGetInfo(&free, &total), "cuMemGetInfo");
    std::printf("cuda:%d: %zu of %zu MiB are free\n", number, free >> 20, total >> 20);

    gpu::Address memory = 0;
    void* pinned = nullptr;
    gpu::Address mapped = 0;
    check(driver.cuMemAlloc(&memory, 2 * kBytes), "cuMemAlloc");
    check(driver.cuMemHostAlloc(&pinned, kBytes, gpu::kHostPortable | gpu::kHostMapped),
          "cuMemHostAlloc");
    check(driver.cuMemHostGetDevicePointer(&mapped, pinned, 0), "cuMemHostGetDevicePointer");
    std::vector<unsigned char> registered(kBytes + 8192);
    void* const page =
        registered.data() + 4096 - reinterpret_cast<std::uintptr_t>(registered.data()) % 4096;
    check(driver.cuMemHostRegister(page, kBytes, gpu::kHostPortable), "cuMemHostRegister");

    std::memset(pinned, 0x5a, kBytes);
    check(driver.cuMemsetD8Async(memory, 1, 2 * kBytes, stream), "cuMemsetD8Async");
    check(driver.cuMemcpyHtoDAsync(memory, pinned, kBytes, stream), "cuMemcpyHtoDAsync");
    check(driver.cuEventRecord(event, stream), "cuEventRecord");
    check(driver.cuStreamWaitEvent(second, event, 0), "cuStreamWaitEvent");
    check(driver.cuMemcpyDtoDAsync(memory + kBytes, memory, kBytes, second), "cuMemcpyDtoDAsync");
    check(driver.cuStreamWriteValue64(second, memory + kBytes, 42, 0), "cuStreamWriteValue64");
    check(driver.cuMemcpyDtoHAsync(page, memory + kBytes, kBytes, second), "cuMemcpyDtoHAsync");
    bool called = false;
    check(driver.cuLaunchHostFunc(
              second, [](void* at) { *static_cast<bool*>(at) = true; }, &called),
          "cuLaunchHostFunc");
    check(driver.cuStreamSynchronize(second), "cuStreamSynchronize");
    check(driver.cuEventQuery(event), "cuEventQuery");
    check(driver.cuStreamQuery(stream), "cuStreamQuery");
    std::uint64_t first = 0;
    std::memcpy(&first, page, sizeof(first));
    auto const* const bytes = static_cast<unsigned char const*>(page);
    expect(first == 42 && bytes[8] == 0x5a && bytes[kBytes - 1] == 0x5a && called,
           "what came back is not what went out");

    unsigned type = 0;
    int ordinal = -1;
    check(driver.cuPointerGetAttribute(&type, gpu::kPointerMemoryType, memory),
          "its memory's type");
    check(driver.cuPointerGetAttribute(&ordinal, gpu::kPointerOrdinal, memory), "its memory's GPU");
    expect(type == gpu::kMemoryOfDevice && ordinal == number, "its memory is another GPU's");
    gpu::IpcHandle handle{};
    check(driver.cuIpcGetMemHandle(&handle, memory), "cuIpcGetMemHandle");

    check(driver.cuMemHostUnregister(page), "cuMemHostUnregister");
    check(driver.cuMemFreeHost(pinned), "cuMemFreeHost");
    check(driver.cuMemFree(memory), "cuMemFree");
    check(driver.cuEventDestroy(event), "cuEventDestroy");
    check(driver.cuStreamDestroy(second), "cuStreamDestroy");
    check(driver.cuStreamDestroy(stream), "cuStreamDestroy");
    gpu::Result const huge = driver.cuMemAlloc(&memory, total + total);
    expect(huge == gpu::kOutOfMemory, "more memory than there is: " + driver.text_of(huge));
    check(driver.cuCtxSetCurrent(nullptr), "cuCtxSetCurrent");
    check(driver.cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
}

void print(topology::GpuReport const& report) {
    std::vector<Device> devices(1);
    devices.front().name = "cpu:0";
    for (topology::Gpu const& gpu : report.gpus) {
        std::printf(
            "cuda:%d: %s, %s, %s, node %d, sm %d, %d multiprocessors, %.1f GiB, %.0f GB/s, "
            "PCIe %.1f GB/s, NVML %s\n",
            gpu.ordinal, gpu.model.c_str(), gpu.uuid.c_str(), gpu.bus_id.c_str(), gpu.numa_node,
            int(gpu.sm), gpu.multiprocessors, double(gpu.memory_bytes) / double(1 << 30),
            gpu.memory_gbps, gpu.pcie_gbps, gpu.nvml ? "knows it" : "does not know it");
        devices.push_back(topology::device_of(gpu, std::uint32_t(devices.size())));
    }
    for (std::string const& problem : report.problems) std::printf("%s\n", problem.c_str());
    Graph graph;
    for (Device const& device : devices) {
        graph.vertices.push_back({device.index, device.name, device.kind, true});
    }
    topology::connect_gpus(devices, report.gpus, graph);
    for (Edge const& edge : graph.edges) {
        std::printf("%s -> %s: %.1f GB/s, %s\n", graph.vertices[edge.from].name.c_str(),
                    graph.vertices[edge.to].name.c_str(), edge.gbps, edge.kind.c_str());
    }
}

}  // namespace

int main() {
    try {
        gpu::Driver const& driver = gpu::Driver::get();
        gpu::LoadingMode mode = 0;
        driver.check(driver.cuModuleGetLoadingMode(&mode), "cuModuleGetLoadingMode");
        std::printf("driver %s, %s loading, %d GPUs\n", gpu::version_text(driver.version()).c_str(),
                    mode == gpu::kEagerLoading ? "eager" : "lazy", driver.gpus());
        topology::GpuReport const report = topology::discover_gpus();
        expect(int(report.gpus.size()) == driver.gpus(), "not all GPUs answer");
        print(report);
        for (int gpu = 0; gpu < driver.gpus(); ++gpu) copy_on(driver, gpu);
    } catch (std::exception const& error) {
        std::printf("failed: %s\n", error.what());
        return 1;
    }
    std::printf("all calls work\n");
    return 0;
}
