// The driver found, not found, and failing; and the fake driver, which stands for it in other tests.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "gpu/driver.hpp"
#include "support/expect_error.hpp"
#include "support/fake_driver.hpp"

namespace mgi::gpu {
namespace {

using test::expect_error;
using test::FakeDriver;

/// A GPU with a context that is current in this thread, and a stream.
class OneGpu {
public:
    explicit OneGpu(int number = 0) : driver_(Driver::get()), number_(number) {
        Ordinal gpu = 0;
        driver_.check(driver_.cuDeviceGet(&gpu, number), "its handle", number);
        driver_.check(driver_.cuDevicePrimaryCtxRetain(&context, gpu), "its context", number);
        driver_.check(driver_.cuCtxSetCurrent(context), "its context", number);
        driver_.check(driver_.cuStreamCreate(&stream, kStreamNonBlocking), "a stream", number);
    }
    ~OneGpu() {
        driver_.cuStreamDestroy(stream);
        driver_.cuDevicePrimaryCtxRelease(number_);
        driver_.cuCtxSetCurrent(nullptr);
    }
    OneGpu(OneGpu const&) = delete;
    OneGpu& operator=(OneGpu const&) = delete;

    Context context = nullptr;
    Stream stream = nullptr;

private:
    Driver const& driver_;
    int number_;
};

TEST(GpuDriver, IsNotThere) {
    setenv("MGI_CUDA_LIBRARY", "libno-such-driver.so.1", 1);
    Driver::look_again();
    EXPECT_EQ(Driver::find(), nullptr);
    EXPECT_EQ(Driver::absence(), "no NVIDIA driver (libno-such-driver.so.1 not found)");
    expect_error(ErrorCode::NotFound, {"no NVIDIA driver", "CPU devices"}, [] { Driver::get(); });
    unsetenv("MGI_CUDA_LIBRARY");
    Driver::look_again();
}

TEST(GpuDriver, AnotherLibraryIsNone) {
    setenv("MGI_CUDA_LIBRARY", "libc.so.6", 1);
    Driver::look_again();
    EXPECT_EQ(Driver::find(), nullptr);
    EXPECT_EQ(Driver::absence(),
              "libc.so.6 has no cuInit: it is no NVIDIA driver of version 12.8 or later");
    unsetenv("MGI_CUDA_LIBRARY");
    Driver::look_again();
}

TEST(GpuDriver, IsTooOld) {
    FakeDriver const fake({{"VERSION", "12040"}});
    EXPECT_EQ(Driver::find(), nullptr);
    EXPECT_EQ(Driver::absence(), "driver too old: 12.4, MGI needs 12.8; update NVIDIA's driver");
}

TEST(GpuDriver, HasNoGpu) {
    FakeDriver const fake({{"DEVICES", "0"}});
    EXPECT_EQ(Driver::find(), nullptr);
    EXPECT_EQ(Driver::absence().rfind("no GPU (CUDA_ERROR_NO_DEVICE (no CUDA-capable device", 0),
              0U)
        << Driver::absence();
}

TEST(GpuDriver, DoesNotStart) {
    FakeDriver const fake({{"FAIL", "cuInit:1:802"}});
    EXPECT_EQ(Driver::find(), nullptr);
    EXPECT_NE(Driver::absence().find("fabric manager"), std::string::npos) << Driver::absence();
}

TEST(GpuDriver, IsFoundOnce) {
    FakeDriver const fake({{"DEVICES", "3"}, {"VERSION", "13010"}});
    Driver const* const driver = Driver::find();
    ASSERT_NE(driver, nullptr);
    EXPECT_EQ(Driver::find(), driver);
    EXPECT_EQ(Driver::absence(), "");
    EXPECT_EQ(driver->gpus(), 3);
    EXPECT_EQ(version_text(driver->version()), "13.1");
}

TEST(GpuDriver, SeesWhatItMay) {
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    FakeDriver const fake({{"DEVICES", "3"}});
    EXPECT_EQ(Driver::get().gpus(), 2);
    std::array<char, 32> bus{};
    Driver::get().cuDeviceGetPCIBusId(bus.data(), int(bus.size()), 0);
    EXPECT_STREQ(bus.data(), "0000:03:00.0");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(GpuDriver, ErrorsSayWhatWhereAndWhatToDo) {
    FakeDriver const fake;
    Driver const& driver = Driver::get();
    driver.check(kSuccess, "nothing");
    expect_error(ErrorCode::OutOfMemory,
                 {"cuda:3: a pool of 4096 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory): make "},
                 [&] { driver.check(kOutOfMemory, "a pool of 4096 bytes", 3); });
    expect_error(ErrorCode::NotFound, {"CUDA_VISIBLE_DEVICES"},
                 [&] { driver.check(kInvalidDevice, "its handle", 9); });
    for (Result const lost : {kIllegalAddress, kLaunchFailed, kEccUncorrectable}) {
        EXPECT_TRUE(Driver::loses_context(lost));
        expect_error(ErrorCode::GroupFailed, {"context is lost", "CPU endpoints go on"},
                     [&] { driver.check(lost, "a copy", 0); });
    }
    expect_error(ErrorCode::Internal, {"a copy: the driver's error 998"},
                 [&] { driver.check(998, "a copy"); });
}

TEST(FakeGpu, AllocatesCopiesAndLaunches) {
    FakeDriver const fake;
    Driver const& driver = Driver::get();
    // By tests before: a GPU whose context is lost frees nothing.
    std::map<std::string, std::size_t> left;
    for (char const* const what : {"memory", "streams", "contexts"}) left[what] = fake.alive(what);
    {
        OneGpu const gpu;
        Address memory = 0;
        ASSERT_EQ(driver.cuMemAlloc(&memory, 64), kSuccess);
        std::array<int, 4> const from{1, 2, 3, 4};
        std::array<int, 4> to{};
        auto const kernel = [](void** parameters) { ++**static_cast<int**>(parameters[0]); };
        void* argument = reinterpret_cast<void*>(memory);
        std::array<void*, 1> parameters{&argument};
        EXPECT_EQ(driver.cuMemcpyHtoDAsync(memory, from.data(), sizeof(from), gpu.stream),
                  kSuccess);
        EXPECT_EQ(
            driver.cuLaunchKernel(reinterpret_cast<Function>(static_cast<void (*)(void**)>(kernel)),
                                  1, 1, 1, 1, 1, 1, 0, gpu.stream, parameters.data(), nullptr),
            kSuccess);
        EXPECT_EQ(driver.cuMemcpyDtoHAsync(to.data(), memory, sizeof(to), gpu.stream), kSuccess);
        EXPECT_EQ(to, (std::array<int, 4>{2, 2, 3, 4}));
        EXPECT_NE(driver.cuMemcpyHtoDAsync(memory, from.data(), 65, gpu.stream), kSuccess);
        EXPECT_NE(driver.cuMemcpyHtoDAsync(memory, from.data(), 4, nullptr), kSuccess);
        int where = 7;
        EXPECT_EQ(driver.cuPointerGetAttribute(&where, kPointerOrdinal, memory + 8), kSuccess);
        EXPECT_EQ(where, 0);
        EXPECT_LE(fake.alive("memory"), left.at("memory") + 1);
        EXPECT_EQ(driver.cuMemFree(memory), kSuccess);
    }
    for (auto const& [what, count] : left) EXPECT_LE(fake.alive(what), count) << what;
}

TEST(FakeGpu, LateWorkIsDoneAtALaterPoll) {
    FakeDriver const fake({{"STREAMS", "late:3"}});
    Driver const& driver = Driver::get();
    OneGpu const gpu;
    Event event = nullptr;
    ASSERT_EQ(driver.cuEventCreate(&event, kEventDisableTiming), kSuccess);
    EXPECT_EQ(driver.cuEventQuery(event), kSuccess);  // never recorded
    int value = 1;
    driver.cuLaunchHostFunc(gpu.stream, [](void* at) { ++*static_cast<int*>(at); }, &value);
    driver.cuEventRecord(event, gpu.stream);
    EXPECT_EQ(driver.cuEventQuery(event), kNotReady);
    EXPECT_EQ(driver.cuEventQuery(event), kNotReady);
    EXPECT_EQ(value, 1);
    EXPECT_EQ(driver.cuEventQuery(event), kSuccess);
    EXPECT_EQ(value, 2);
    driver.cuEventDestroy(event);
}

TEST(FakeGpu, ThreadsOfStreamsRunBesideTheHost) {
    FakeDriver const fake({{"STREAMS", "threads"}});
    Driver const& driver = Driver::get();
    OneGpu const gpu;
    std::atomic<int> word = 0;
    driver.cuLaunchHostFunc(
        gpu.stream,
        [](void* at) {
            auto& it = *static_cast<std::atomic<int>*>(at);
            while (it != 1) std::this_thread::yield();
            it = 2;
        },
        &word);
    EXPECT_EQ(driver.cuStreamQuery(gpu.stream), kNotReady);
    word = 1;
    EXPECT_EQ(driver.cuStreamSynchronize(gpu.stream), kSuccess);
    EXPECT_EQ(word, 2);
}

TEST(FakeGpu, FailsAsTold) {
    FakeDriver const fake({{"MEMORY", "4096"}, {"FAIL", "cuMemAlloc:2:2"}});
    Driver const& driver = Driver::get();
    OneGpu const gpu;
    std::array<Address, 3> memory{};
    EXPECT_EQ(driver.cuMemAlloc(&memory[0], 1024), kSuccess);
    EXPECT_EQ(driver.cuMemAlloc(&memory[1], 1024), kOutOfMemory);
    EXPECT_EQ(driver.cuMemAlloc(&memory[1], 3073), kOutOfMemory);
    EXPECT_EQ(driver.cuMemAlloc(&memory[1], 3072), kSuccess);
    driver.cuMemFree(memory[0]);
    driver.cuMemFree(memory[1]);
    fake.fail("cuStreamQuery:1:700");
    EXPECT_EQ(driver.cuStreamQuery(gpu.stream), kIllegalAddress);
    EXPECT_EQ(driver.cuMemAlloc(&memory[2], 8), kIllegalAddress);  // the context is lost
}

}  // namespace
}  // namespace mgi::gpu
