// Every allocation of a launch on a GPU fails once, the GPU being made up: no kernel starts that nobody
// watches, and no launch runs for ever.
#include <gtest/gtest.h>

#include <algorithm>

#include <mgi/runtime.hpp>

#include "faults/failing_allocations.hpp"
#include "runtime/runtime_impl.hpp"
#include "support/fake_driver.hpp"
#include "support/one_device.hpp"

namespace mgi::faults {
namespace {

using namespace std::chrono_literals;

TEST(GpuLaunchAllocations, StartNothingOrAreWaitedFor) {
    test::FakeDriver const gpus;
    Runtime runtime = Runtime::local(test::one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    LaunchOptions options;
    options.threads = 32;
    int kernels = 0;
    GpuStart const start = [&](GpuLaunch const&) { ++kernels; };
    auto const body = [](device::Group const&, device::Shared&) {};
    auto const runs = [&] {
        Spared const mine;
        std::lock_guard const lock(runtime.impl()->registry()->mutex);
        auto const& launches = runtime.impl()->registry()->launches;
        return std::any_of(launches.begin(), launches.end(),
                           [](auto const& launch) { return launch->runs(); });
    };
    fail_each_allocation([&] {
        int const before = kernels;
        bool is_started = false;
        try {
            Launch launch = runtime.impl()->start(endpoint, options, {}, body, start);
            is_started = true;
            launch.wait(20s);
        } catch (std::exception const&) {
            EXPECT_EQ(kernels, is_started ? before + 1 : before);
            EXPECT_FALSE(runs());
            throw;
        }
        EXPECT_FALSE(runs());
    });
}

}  // namespace
}  // namespace mgi::faults
